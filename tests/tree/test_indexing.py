"""Batch indices: shapes, views or copies."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import TensorDict


class Place:
    """An index by its protocol."""

    def __index__(self) -> int:
        return 1


class Places:
    """Indices by NumPy's protocol, with the other for one element alone, as torch's tensors."""

    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array([0, 2])


INDICES = [
    0, -1, np.int64(2), np.array(1), slice(1, 3), slice(None, None, -1), slice(3, None, -2), None,
    (slice(None), 1), (1, 2), (..., 0), (0, ...), (None, 1, None), [0, 2], [], range(1, 3), range(0),
    np.array([[0, 1], [2, 3]]), [True, False, True, False], np.arange(12).reshape(4, 3) % 2 == 0,
    (slice(None), [True, False, True]), ([0, 1], [2, 0]), ([0, 1], None, [2, 0]), (slice(1, 3), [0, 2]), True,
    (slice(None), range(2, -1, -2)), Place(), (Place(), 0), (slice(None), Places()),
    False, np.True_,
]  # fmt: skip


@each_case("index", INDICES, ids=repr)
def test_every_entry_is_indexed_as_numpy_does(index: Any) -> None:
    td = tree()
    with unchanged(td):
        got = td[index]
    batch = np.zeros(td.batch_size)[index].shape
    assert got.batch_size == batch
    # One array of row numbers shows which rows each entry must have.
    rows = np.arange(12).reshape(4, 3)[index]
    for key in ("a", ("n", "b"), ("n", "m", "c")):
        leaf = td[key]
        np.testing.assert_array_equal(got[key], leaf.reshape(12, *leaf.shape[2:])[rows])
        assert isinstance(got[key], np.ndarray)
    assert got["n"].batch_size == (*batch, 5)
    assert got["s"] == "text"
    objects = np.array([f"{i}{j}" for i in range(4) for j in range(3)], object)[rows]
    assert got.get("r").tolist() == (objects.tolist() if batch else objects)


def test_basic_indices_are_views_and_others_copies() -> None:
    td = TensorDict({"a": np.zeros((4, 3, 2))}, batch_size=[4, 3])
    for index in (0, slice(1, 3), (..., 0), None, (1, 2)):
        assert np.shares_memory(td[index]["a"], td["a"])
    for index in ([0, 1], np.ones(4, bool), ([0], [1])):
        assert not np.shares_memory(td[index]["a"], td["a"])
    rows = np.array([[2, 0], [1, 1]])
    for source in (td, td[:, ::2]):
        for index in (
            (slice(None), [0, 1]),
            (..., np.array([True, False, True][: source.shape[1]])),
            (slice(1, 3), rows % 2),
        ):
            picked = source[index]  # torch's index has views, too, whatever is picked from
            assert np.shares_memory(picked.view(-1)["a"], picked["a"])
    for index in (slice(None), ..., (), (slice(None), slice(None))):
        assert td[index] is td


@each_case(
    ("index", "error", "message"),
    [
        (4, IndexError, "out of bounds"),
        (-5, IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many indices"),
        ((..., 0, 0, 0), RuntimeError, "Not enough dimensions"),
        ((..., 0, ...), RuntimeError, "one ellipsis"),
        ([True, False], IndexError, "mask has shape"),
        (np.ones((3, 4), bool), IndexError, "mask has shape"),
        ([5], IndexError, None),
        (1.5, TypeError, "batch index"),
        (np.zeros(2), IndexError, "integer or bool"),
        (("a", 0), TypeError, "mixed string"),
    ],
)
def test_bad_indices(index: Any, error: type[Exception], message: str | None) -> None:
    td = tree()
    with unchanged(td), pytest.raises(error, match=message):
        td[index]
    with unchanged(td), pytest.raises(error, match=message):
        td[index] = td


def test_zero_dimensional_batch() -> None:
    td = TensorDict({"a": np.arange(3)})
    assert td[None].batch_size == (1,)
    assert td[...] is td
    raises(RuntimeError, "batch_dims==0", lambda: td[0])
    raises(TypeError, "0-d", lambda: iter(td))


def test_iteration_and_batched_fetch() -> None:
    td = tree()
    np.testing.assert_array_equal(np.stack([row["a"] for row in td]), td["a"])
    assert td.__getitems__([0, 2]).batch_size == (2, 3)
