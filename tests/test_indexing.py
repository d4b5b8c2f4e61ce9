"""Batch indices: shapes, views or copies, assignment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from trees import read_only, tree, unchanged

from lite import NonTensorStack, TensorDict

INDICES = [
    0,
    -1,
    np.int64(2),
    np.array(1),
    slice(1, 3),
    slice(None, None, -1),
    slice(3, None, -2),
    None,
    (slice(None), 1),
    (1, 2),
    (..., 0),
    (0, ...),
    (None, 1, None),
    [0, 2],
    [],
    range(1, 3),
    np.array([[0, 1], [2, 3]]),
    [True, False, True, False],
    np.arange(12).reshape(4, 3) % 2 == 0,
    (slice(None), [True, False, True]),
    ([0, 1], [2, 0]),
    ([0, 1], None, [2, 0]),
    (slice(1, 3), [0, 2]),
    True,
    False,
    np.True_,
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
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
    for index in (slice(None), ..., (), (slice(None), slice(None))):
        assert td[index] is td


@pytest.mark.parametrize(
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
    with pytest.raises(RuntimeError, match="batch_dims==0"):
        td[0]
    with pytest.raises(TypeError, match="0-d"):
        iter(td)


def test_names() -> None:
    td = TensorDict({"a": np.zeros((4, 3))}, batch_size=[4, 3], names=["x", "y"])
    assert td[0].names == ["y"]
    assert td[:, 1].names == ["x"]
    assert td[1:].names == ["x", "y"]
    assert td[:, None].names == ["x", None, "y"]
    assert td[np.ones(4, bool)].names == ["x", "y"]
    assert td[np.ones((4, 3), bool)].names == [None]
    assert td[[0, 1], [0, 1]].names == [None]


def test_iteration_and_batched_fetch() -> None:
    td = tree()
    np.testing.assert_array_equal(np.stack([row["a"] for row in td]), td["a"])
    assert td.__getitems__([0, 2]).batch_size == (2, 3)


def test_indexing_is_unlocked_and_slicing_off_pieces_keeps_the_lock() -> None:
    td = tree(lock=True)
    assert not td[0].is_locked
    assert not td[:2].is_locked
    assert all(piece.is_locked for piece in td.split(2))


def writable() -> TensorDict:
    return TensorDict(
        {"a": np.zeros((3, 2)), "n": {"b": np.zeros(3, int)}, "s": "old", "r": ["p", "q", "r"]},
        batch_size=[3],
    )


@pytest.mark.parametrize("index", [1, slice(1, 2), [1], [False, True, False], np.array([1])], ids=repr)
def test_assignment_writes_every_entry_there(index: Any) -> None:
    td = writable()
    a = td["a"]
    shape = np.zeros(3)[index].shape
    source = TensorDict(
        {"a": np.ones((*shape, 2)), "n": {"b": np.full(shape, 7)}, "s": "new"}, batch_size=shape
    )
    with unchanged(source):
        td[index] = source
    assert td["a"] is a
    np.testing.assert_array_equal(a, [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(td["n", "b"], [0, 7, 0])
    assert td["s"] == ["old", "new", "old"]
    assert td["r"] == ["p", "q", "r"]


def test_assignment_of_a_mapping_a_number_and_an_expanded_source() -> None:
    td = writable()
    td[0] = {"a": [1.0, 2.0]}
    td[1:] = TensorDict({"a": np.full(2, 5.0)})
    np.testing.assert_array_equal(td["a"], [[1, 2], [5, 5], [5, 5]])
    numbers = TensorDict({"a": np.zeros(3), "b": np.zeros(3, int)}, batch_size=[3])
    numbers[::2] = 4
    np.testing.assert_array_equal(numbers["b"], [4, 0, 4])


def test_new_keys_are_allocated_for_the_whole_batch() -> None:
    td = TensorDict({}, batch_size=[3])
    td[1] = TensorDict({"a": np.ones(2), "n": {"b": 7}, "s": "x"})
    np.testing.assert_array_equal(td["a"], [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(td["n", "b"], [0, 7, 0])
    assert td["s"] == [None, "x", None]


@pytest.mark.parametrize(
    ("index", "source", "message"),
    [
        (
            slice(0, 2),
            TensorDict({"a": np.ones((3, 2))}, batch_size=[3]),
            "differs from the source batch size",
        ),
        (0, TensorDict({"n": {"b": 1}, "a": np.ones(5)}), "shape mismatch at key 'a'"),
        (0, TensorDict({"a": {"x": 1}}), "cannot write"),
        (0, TensorDict({"n": 1}), "cannot write"),
    ],
)
def test_a_failed_assignment_writes_nothing(index: Any, source: TensorDict, message: str) -> None:
    td = writable()
    with unchanged(td), pytest.raises(RuntimeError, match=message):
        td[index] = source


def test_assignment_to_read_only_or_locked() -> None:
    td = TensorDict({"a": read_only(np.zeros(3))}, batch_size=[3])
    with unchanged(td), pytest.raises(ValueError, match="read-only"):
        td[0] = 1
    locked = writable().lock_()
    with unchanged(locked), pytest.raises(RuntimeError, match="locked"):
        locked[0] = {"a": [9.0, 9.0], "new": 1}
    locked[0] = {"a": [9.0, 9.0]}
    np.testing.assert_array_equal(locked["a"][0], [9, 9])


def test_equal_payload_stays_shared() -> None:
    td = writable()
    td[0] = TensorDict({"s": "old"})
    assert not isinstance(td.get("s"), NonTensorStack)


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (([0, 1],), ["x", "y", "z"]),
        (([0, 1], slice(None), 0), ["x", "y"]),
        ((0, slice(None), [0, 1]), ["z", "y"]),
        (([0, 1], [0, 1]), [None, "z"]),
        (([0, 1], slice(None), [0, 1]), [None, "y"]),
        ((slice(None), np.array([[0, 1]])), ["x", None, None, "z"]),
        (np.ones((2, 3), bool), [None, "z"]),
    ],
)
def test_names_follow_the_place_of_index_arrays(index: Any, names: list[str | None]) -> None:
    sizes = {"x": 2, "y": 3, "z": 4}
    td = TensorDict({"a": np.zeros((2, 3, 4))}, batch_size=[2, 3, 4], names=list(sizes))
    got = td[index]
    assert got.names == names
    assert all(name is None or n in (2, sizes[name]) for n, name in zip(got.batch_size, names, strict=True))
