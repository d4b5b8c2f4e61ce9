"""Indexing and assignment of a LazyStackedTensorDict are those of the dense stack; ragged ones stay lazy."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lazy_stacks import assert_same, ragged, regular

from lite import TensorDict, lazy_stack

INDICES: list[Any] = [
    0, -1, slice(1, None), slice(None, None, -1), None, True, False, [1, 0, 1], np.array([[0, 1], [1, 0]]),
    np.array([True, False]), np.array([], dtype=np.int64), (slice(None), 1), (0, slice(1, 3)), (Ellipsis, -1),
    (slice(None), [2, 0]), (slice(None), np.array([[0], [2]])), ([1, 0], slice(0, 2)), ([0, 1, 1], [2, 1, 0]),
    (None, slice(None), 1), (slice(None), np.array([True, False, True])), (1, np.array([True, False, True])),
    (slice(None), None, [0, 0]), ([1], None, 0), np.array([[True, False, True], [False, False, True]]),
    (slice(None), slice(None), [1, 0]), ([1, 0], slice(None), 1), (0, slice(None), np.array([[1], [0]])),
    (0, slice(None), [1, 0]), (slice(None), np.ones((3, 2), dtype=bool)), np.zeros((2, 3), dtype=bool),
    np.arange(12).reshape(2, 3, 2) % 3 == 0,
]  # fmt: skip


@each_case("dim", [0, 1, 2])
@each_case("index", INDICES, ids=str)
def test_index_is_that_of_the_dense_stack(index, dim):
    ls = regular((2, 3, 2), dim, None if isinstance(index, bool) else ["x", None, "z"])
    expected = ls.contiguous()[index]
    got = ls[index]
    assert got.batch_size == expected.batch_size
    if 0 not in got.batch_size:  # an empty stack has no part that knows the keys
        assert_same(got, expected)


@each_case("dim", [0, 1, 2])
@each_case("index", INDICES, ids=str)
def test_assignment_is_that_of_the_dense_stack(index, dim):
    ls = regular((2, 3, 2), dim).exclude("s")
    dense = ls.contiguous().clone()
    shape = dense[index].batch_size
    value = TensorDict({"a": -np.arange(np.prod(shape) * 2).reshape(*shape, 2)}, batch_size=shape)
    dense[index] = value
    ls[index] = value
    assert_same(ls, dense)
    dense[index] = 5
    ls[index] = 5
    assert_same(ls, dense)


def test_parts_without_elements_are_no_ragged_ones():
    ls = regular((2, 3, 0), 0)
    dense = ls.contiguous().clone()
    assert_same(ls.densify(), dense)
    assert_same(ls.reshape(3, 2, 0), dense.reshape(3, 2, 0))
    for index in (0, slice(1, None), [1, 0], (slice(None), 1), None, (slice(None), [2, 0]), ([0, 1], [2, 1])):
        assert_same(ls[index], dense[index])
        ls[index] = value = dense[index].clone()
        with pytest.raises(RuntimeError):
            ls[index] = value.expand(5, *value.batch_size)
    assert_same(ls, dense)


@each_case(
    ("index", "error"),
    [
        (2, IndexError),
        ((0, 0, 0, 0), IndexError),
        ([5], IndexError),
        (np.ones(3, bool), IndexError),
        ("q", KeyError),
    ],
)
def test_bad_index(index, error):
    raises(error, "", lambda: regular((2, 3, 2), 0)[index])


def test_index_of_ragged_stacks():
    ls = ragged(1, 2, 3)
    assert [len(row) for row in ls[[2, 0]].get("a", as_list=True)] == [3, 1]
    assert [len(row) for row in ls[np.array([True, False, True])].get("a", as_list=True)] == [1, 3]
    assert [len(row) for row in ls[::2].get("a", as_list=True)] == [1, 3]
    assert ls[...] is ls
    assert ls[:] is ls
    nested = lazy_stack([ls, ls])
    picked = nested[np.array([[True, False, True], [False, True, False]])]
    assert [len(row) for row in picked.get("a", as_list=True)] == [1, 3, 2]
    batch = lazy_stack([TensorDict(a=np.arange(n), batch_size=[n]) for n in (2, 3)])
    np.testing.assert_array_equal(batch[:, 1]["a"], [1, 1])
    assert batch[1, 2]["a"] == 2
    raises(IndexError, "out of bounds", lambda: batch[:, 2])
    raises(IndexError, "ragged batch", lambda: batch[[0, 1], [0, 1]])


def test_assignment_to_ragged_stacks():
    ls = ragged(1, 2, 3)
    ls[1] = {"a": np.array([7, 8])}
    assert ls[1]["a"].tolist() == [7, 8]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        ls[1] = {"a": np.zeros(4)}
    ls[[0, 2]] = {"new": np.array([4, 5])}
    assert "new" not in ls[1]
    assert ls[2]["new"] == 5
    ls[:2] = {"a": [np.array([1]), np.array([2, 3])]}
    assert ls[1]["a"].tolist() == [2, 3]
    ls.select("a")[1:] = 0
    assert [row.tolist() for row in ls.get("a", as_list=True)] == [[1], [0, 0], [0, 0, 0]]
