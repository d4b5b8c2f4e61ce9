"""The engine of pointwise operations: keys, payloads, lazy stacks, and what is written in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.trees import read_only, tree, unchanged

from lite import TensorDict, lazy_stack


def test_key_sets_must_agree_unless_there_is_a_default() -> None:
    first = TensorDict({"a": 1, "n": {"x": 1, "y": 2}, "s": "x"})
    second = TensorDict({"b": 5, "n": {"y": 10, "z": 20}})
    with unchanged(first, second), pytest.raises(KeyError, match="mismatch"):
        first + second
    assert set((TensorDict({"a": 1, "s": "x"}) + TensorDict({"a": 1, "t": "y"})).keys()) == {"a", "s"}
    for one, other in ((first, TensorDict(a=1)), (TensorDict(a=1), first)):
        with pytest.raises(KeyError, match="mismatch"):
            one + other
    common = first.add(second, default="intersection")
    assert common.to_dict(convert_tensors=True) == {"n": {"y": 12}, "s": "x"}
    union = first.add(second, default=100)
    nested = {"x": 101, "y": 12, "z": 120}
    assert union.to_dict(convert_tensors=True) == {"a": 101, "n": nested, "s": "x", "b": 105}
    with pytest.raises(KeyError, match="array on one side"):
        TensorDict(a=1) + TensorDict({"a": {"b": 1}})


def test_in_place_is_checked_before_anything_is_written() -> None:
    mixed = TensorDict({"a": np.zeros(3), "b": np.zeros(3), "c": np.zeros(3, int)}, batch_size=[3])
    with unchanged(mixed), pytest.raises(TypeError, match="float64 result into a int64"):
        mixed.div_(2)
    with unchanged(mixed), pytest.raises(TypeError, match="float64 result into a int64"):
        mixed += 0.5
    with unchanged(mixed), pytest.raises(TypeError, match="float64 result into a int64"):
        mixed += np.float64(0.5)  # one operand of both leaves
    with unchanged(mixed), pytest.raises(TypeError, match="in place"):
        mixed.sigmoid_()
    with unchanged(mixed), pytest.raises(RuntimeError, match="batch size"):
        mixed += np.zeros((2, 3))
    with unchanged(mixed), pytest.raises(RuntimeError, match="leaf's shape"):
        mixed += mixed.clone().update({"c": np.zeros((3, 2), int)})
    frozen = TensorDict({"a": np.zeros(3), "b": read_only(np.zeros(3))})
    with unchanged(frozen), pytest.raises(ValueError, match="read-only"):
        frozen += 1


def test_equality_of_trees() -> None:
    td = tree()
    assert (td == td.clone()).all()
    assert (td == td.to_dict()).all()
    other = td.clone()
    other.set("s", "other")
    assert not (td == other).all()
    assert (td != other)["s"].all()
    other = td.clone()
    other.get("r")._array[0, 0] = "changed"
    assert (td == other)["r"].sum() == 11
    with pytest.raises(KeyError, match="mismatch"):
        td == td.exclude("s")  # noqa: B015


@each_case("operation", [lambda td: td + 1, lambda td: td - td, lambda td: td.exp(), lambda td: td**2])
def test_nothing_to_compute_gives_a_copy(operation: Callable[[Any], Any]) -> None:
    td = TensorDict({"n": {}, "s": "x"}, batch_size=[2])
    got = operation(td)
    assert got is not td
    assert (got.batch_size, list(got.keys()), got["s"]) == ((2,), ["n", "s"], "x")


def test_results_without_dimensions_are_arrays() -> None:
    td = TensorDict({"a": 1.0, "n": {"b": 2}})
    for got in (td + 1, td + td, td.exp(), -td, td == 1, td.sigmoid()):
        assert isinstance(got["a"], np.ndarray)
        assert isinstance(got["n", "b"], np.ndarray)


def test_lazy_stacks() -> None:
    parts = [TensorDict({"x": np.ones(2), "only": 1}), TensorDict({"x": np.ones(3)})]
    stack = lazy_stack(parts)
    assert (stack + 1)[1]["x"].tolist() == [2, 2, 2]
    assert (stack * stack)[0]["only"] == 1
    assert (stack + np.array([10, 20]))[1]["x"].tolist() == [21, 21, 21]
    assert (stack == stack).all()
    stack += 1
    assert parts[0]["x"].tolist() == [2, 2]
    even = lazy_stack([TensorDict(x=np.ones(2)), TensorDict(x=np.ones(2))])
    dense = even.to_tensordict()
    for got in (even + dense, dense + even):
        np.testing.assert_array_equal(got["x"], np.full((2, 2), 2))


def test_nodes_that_only_one_side_has() -> None:
    first = TensorDict({"a": 1, "n": {"b": 2}})
    second = TensorDict({"a": 10, "s": "x", "m": {"c": 20, "d": {"e": 30}}, "z": 40})
    union = first.add(second, default=100).to_dict(convert_tensors=True)
    assert union == {"a": 11, "n": {"b": 102}, "m": {"c": 120, "d": {"e": 130}}, "z": 140}
    assert first.add(second, default="intersection").to_dict(convert_tensors=True) == {"a": 11}
