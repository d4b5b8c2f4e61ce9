"""Between rows in order and lists nested to a batch shape."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models import Tokens
from lite.models.text.nesting import flatten, list_shape, nest, objects, ragged, rows_of


@settings(max_examples=20)
@given(st.lists(st.integers(1, 4), max_size=3).map(tuple))
def test_nest_and_flatten_are_inverse(shape: tuple[int, ...]) -> None:
    items = list(range(math.prod(shape)))
    nested = nest(items, shape)
    np.testing.assert_array_equal(np.asarray(nested), np.arange(len(items)).reshape(shape))
    assert list_shape(nested) == shape
    assert flatten(nested, len(shape)) == items


def test_objects_are_one_per_element_whatever_they_are() -> None:
    stack = objects([[1], [2, 3], "x", None], (2, 2))
    assert stack.batch_size == (2, 2)
    assert stack.tolist() == [[[1], [2, 3]], ["x", None]]
    assert objects([[1, 2]], ()) == [1, 2]


def test_ragged_rows_keep_their_lengths() -> None:
    rows = [np.arange(n) for n in (1, 3, 0, 2)]
    tokens = ragged(Tokens, {"full": rows}, (2, 2))
    assert tokens.batch_size == (2, 2)
    got = rows_of(tokens.get("full", as_list=True), 2)
    np.testing.assert_equal(got, rows)
    empty = ragged(Tokens, {"full": rows[:0]}, (0, 3))
    assert empty.batch_size == (0, 3)
    assert (empty.full.shape, empty.padded) == ((0, 3, 0), False)


def test_rows_of_an_array() -> None:
    cases: list[tuple[int, list[tuple[int, ...]]]] = [(0, [(2, 3)]), (1, [(3,)] * 2), (2, [()] * 6)]
    for ndim, shapes in cases:
        rows = rows_of(np.zeros((2, 3)), ndim)
        assert [row.shape for row in rows] == shapes, ndim
