"""Elements chosen by a mask."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import tree, unchanged

import lite
from lite import TensorDict, lazy_stack


def test_where() -> None:
    td = TensorDict({"a": np.arange(6.0).reshape(3, 2), "s": ["x", "y", "z"]}, batch_size=[3])
    other = TensorDict({"a": -np.ones((3, 2)), "s": ["p", "q", "z"]}, batch_size=[3])
    mask = np.array([True, False, True])
    with unchanged(td, other):
        got = td.where(mask, other)
    np.testing.assert_array_equal(got["a"], [[0, 1], [-1, -1], [4, 5]])
    assert got["s"] == ["x", "q", "z"]
    np.testing.assert_array_equal(np.where(mask, td, 0)["a"], [[0, 1], [0, 0], [4, 5]])
    np.testing.assert_array_equal(lite.where(mask, 0, td)["a"], [[0, 0], [2, 3], [0, 0]])
    out = td.clone()
    assert td.where(mask, other, out=out) is out
    with pytest.raises(RuntimeError, match="more dims"):
        td.where(np.ones((3, 2), bool), 0)
    with pytest.raises(TypeError, match="where"):
        td.where(mask, object())


def test_where_with_missing_keys() -> None:
    first, second = TensorDict({"a": [1, 2]}, batch_size=[2]), TensorDict({"b": [3, 4]}, batch_size=[2])
    with pytest.raises(KeyError):
        first.where(np.array([True, False]), second)
    got = first.where(np.array([True, False]), second, pad=9)
    assert (got["a"].tolist(), got["b"].tolist()) == ([1, 9], [9, 4])


def test_masks() -> None:
    td = tree()
    mask = td["i"] % 2 == 0
    with unchanged(td):
        filled = td.masked_fill(mask, 9)
        selected = td.masked_select(mask[..., None])
    np.testing.assert_array_equal(filled["i"], np.where(mask, 9, td["i"]))
    np.testing.assert_array_equal(filled["n", "b"][mask], 9.0)
    np.testing.assert_array_equal(selected["i"], td["i"][mask])
    assert selected.get("r").tolist() == ["00", "02", "11", "20", "22", "31"]
    with unchanged(td), pytest.raises(TypeError, match="array of bools"):
        td.masked_select([1, 2])
    with unchanged(td), pytest.raises(IndexError, match="mask has shape"):
        td.masked_fill_(np.ones(3, bool), 1)


def test_where_adds_the_entries_that_out_lacks() -> None:
    mask = np.array([True, False])
    td = TensorDict({"a": np.array([1, 2]), "n": {"b": np.array([3, 4])}}, [2])
    other = TensorDict({"a": np.array([5, 6]), "n": {"c": np.array([7, 8])}, "s": "text"}, [2])
    held = np.zeros(2, int)
    for out in (
        TensorDict(batch_size=[2]),
        lazy_stack([TensorDict(), TensorDict()]),
        TensorDict({"a": held, "z": np.ones(2)}, [2]),
    ):
        assert td.where(mask, other.exclude("s"), pad=-1, out=out) is out
        assert out["a"].tolist() == [1, 6]
        assert out["n", "b"].tolist() == [3, -1]
        assert out["n", "c"].tolist() == [-1, 8]
    assert out["a"] is held
    assert out["z"].tolist() == [1, 1]
    locked = TensorDict({"a": held}, [2], lock=True)
    with pytest.raises(RuntimeError, match="locked"):
        td.where(mask, other.exclude("s"), pad=-1, out=locked)
    assert td.select("a").where(mask, 0, out=locked)["a"].tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="batch size"):
        td.where(mask, 0, out=TensorDict(batch_size=[3]))
