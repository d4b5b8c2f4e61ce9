"""The state of lazy stacks: what results get from it, and the pieces of entries."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, lazy_stack
from lite._containers.lazy_entries import pieces_along


def test_parts_that_differ_are_minus_one_and_without_names() -> None:
    rows = [TensorDict(batch_size=[n, 2], names=[name, "time"]) for n, name in ((1, "a"), (3, "b"))]
    stack = lazy_stack(rows, 1)
    assert (stack._part_size(), stack._names) == ((-1, 2), [None, None, "time"])
    stack._names = ["x", "rows", "y"]  # only the stack dimension is its own
    assert stack._names == [None, "rows", "time"]
    rows[0].names = ["a", "rows"]
    rows[1].names = ["a", "rows"]
    assert stack._names == ["a", "rows", None]
    rows[0].batch_size = [1]
    with pytest.raises(RuntimeError, match="changed after they had been stacked"):
        _ = stack.batch_size


def test_pieces_are_views_and_entries_without_the_dimension_have_none() -> None:
    array = np.arange(6).reshape(2, 3)
    pieces = pieces_along(array, 1)
    np.testing.assert_array_equal(np.stack(pieces, 1), array)
    assert all(np.shares_memory(piece, array) for piece in pieces)
    assert pieces_along(array, 2) == []
    assert [td.batch_size for td in pieces_along(TensorDict(batch_size=[2, 3]), 0)] == [(3,), (3,)]


def test_properties_that_are_set() -> None:
    td = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
    for locked in (True, False):
        td.is_locked = locked
        assert (td.is_locked, td.tensordicts[0].is_locked) == (locked, locked)
    assert td.auto_batch_size_() is td
    raises(RuntimeError, "batch size of a lazy stack follows from its parts", td.auto_batch_size_, 0)
