"""Construction of a TensorDict, its batch size, device and names."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import read_only

import lite
from lite import NonTensorData, TensorDict


def test_kwargs_and_mapping_build_the_same() -> None:
    lite.assert_close(TensorDict(a=1, b=2.0), TensorDict({"a": 1, "b": 2.0}))
    raises(ValueError, "not both", lambda: TensorDict({"a": 1}, b=2))


@each_case("source", [3, "text", [("a", 1)], np.zeros(3)])
def test_source_of_another_type_is_refused(source: Any) -> None:
    raises(ValueError, r"type\(source\)", lambda: TensorDict(source))


@each_case(
    ("given", "expected"),
    [(None, ()), (3, (3,)), ([3], (3,)), ((3,), (3,)), (np.int64(3), (3,)), (np.array([3]), (3,))],
)
def test_batch_size_is_read_from_any_integers(given: Any, expected: tuple[int, ...]) -> None:
    assert TensorDict({"a": np.zeros((3, 2))}, batch_size=given).batch_size == expected


def test_arrays_are_aliased_and_never_written() -> None:
    array = read_only(np.arange(3))
    td = TensorDict({"a": array, ("n", "b"): array}, batch_size=[3])
    assert td["a"] is array
    assert td["n", "b"] is array
    assert td.get("n").batch_size == (3,)


def test_nested_nodes_are_aliased_when_their_batch_size_fits() -> None:
    node = TensorDict({"a": np.zeros((3, 2))}, batch_size=[3])
    assert TensorDict({"n": node}, batch_size=[3])["n"] is node
    deeper = TensorDict({"a": np.zeros((3, 2))}, batch_size=[3, 2])
    assert TensorDict({"n": deeper}, batch_size=[3])["n"].batch_size == (3, 2)
    short = TensorDict({"a": np.zeros((3, 2))})
    stored = TensorDict({"n": short}, batch_size=[3])["n"]
    assert stored is not short
    assert (stored.batch_size, short.batch_size) == ((3,), ())


def test_batch_size_setter_refuses_and_changes_nothing() -> None:
    td = TensorDict({"n": {"b": np.zeros((2, 3))}, "a": np.zeros(2)})
    with pytest.raises(RuntimeError, match=r"ndarray 'a' has shape \(2,\)"):
        td.batch_size = [2, 3]
    assert (td.batch_size, td["n"].batch_size) == ((), ())
    td["n"].batch_size = [2]
    with pytest.raises(RuntimeError, match=r"TensorDict 'n' has shape \(2,\)"):
        td.batch_size = [3]


def test_auto_batch_size() -> None:
    td = TensorDict({"a": np.zeros((2, 3, 4)), "n": {"b": np.zeros((2, 3))}, "s": "x"})
    assert td.auto_batch_size_().batch_size == (2, 3)
    assert td.auto_batch_size_(1).batch_size == (2,)
    assert td["n"].batch_size == (2,)
    assert TensorDict({}, batch_size=[3]).auto_batch_size_().batch_size == (3,)


def test_devices() -> None:
    td = TensorDict({"n": {"a": 1}}, device="cpu")
    assert (td.device, td["n"].device, TensorDict().device) == ("cpu", "cpu", None)
    node = TensorDict(a=1)
    td["m"] = node
    assert (td["m"].device, node.device) == ("cpu", None)
    assert td.to("cpu") is td
    raises(ValueError, "device must be", lambda: TensorDict(device="tpu"))
    with pytest.raises(RuntimeError, match="to\\(new_device\\)"):
        td.device = "cpu"


def test_names() -> None:
    td = TensorDict({"n": {"a": np.zeros((2, 3))}}, batch_size=[2, 3], names=["x", None])
    assert (td.names, td["n"].names) == (["x", None], ["x", None])
    td.names = ["u", "v"]
    assert td["n"].names == ["u", "v"]
    with pytest.raises(ValueError, match="the length of the dimension names"):
        td.names = ["u"]
    with pytest.raises(ValueError, match="non-unique"):
        td.names = ["u", "u"]
    assert td.names == ["u", "v"]
    fresh = TensorDict({}, batch_size=[2, 3])
    fresh["n"] = td["n"]
    assert fresh.names == ["u", "v"]
    raises(RuntimeError, "refine_names", lambda: fresh.refine_names("other", ...))
    assert fresh.names == ["u", "v"]


def test_a_tensordict_cannot_hold_itself() -> None:
    td = TensorDict(a=1)
    with pytest.raises(ValueError, match="inside itself"):
        td["self"] = td
    assert list(td.keys()) == ["a"]


@each_case(("given", "error"), [(3.0, TypeError), ("3", ValueError), ([-1], ValueError), ([2.5], TypeError)])
def test_other_batch_sizes_are_refused(given: Any, error: type[Exception]) -> None:
    raises(error, "", lambda: TensorDict({}, batch_size=given))


def test_shape_is_the_batch_size_and_batch_dims_follow_from_it() -> None:
    td = TensorDict({"a": np.zeros((2, 3))}, [2, 3])
    td.shape = [2]
    assert (td.batch_size, td.batch_dims) == ((2,), 1)
    with pytest.raises(RuntimeError, match="Setting batch dims"):
        td.batch_dims = 2


def test_objects_are_stored_as_they_are_on_a_device() -> None:
    td, data = TensorDict({}, [2], device="cpu"), NonTensorData("a", [2])
    td["o"] = data
    assert td._get_entry("o") is data
