"""The .safetensors files of tensordict: written, read, refused; and those of other programs."""

import json
from typing import Any

import numpy as np
import safetensors
from helpers.cases import each_case, raises
from helpers.saved_samples import Pair
from safetensors.numpy import save_file

import lite
from lite import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    UnbatchedTensor,
    from_safetensors,
    lazy_stack,
    nn,
    to_safetensors,
)
from lite._tree.names import check_names


def rows() -> Any:
    row = TensorDict(a=np.arange(3), batch_size=[3], names=["t"])
    return lazy_stack([row, row.clone()], stack_dim_name="k")


def named_node() -> TensorDict:
    return TensorDict({"b": np.ones((3, 2))}, [3, 2], names=["t", "c"])


# TensorDicts with the metadata that tensordict 0.15.3 writes for the same, but for its classes.
SAMPLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "nested": (
        lambda: TensorDict({"a": np.arange(3), "n": {"b": np.ones((3, 2))}}, [3]),
        {"batch_size": [3], "names": None, "keys": {
            "a": {"tensor": "a"},
            "n": {"td": {"batch_size": [3], "names": None, "keys": {"b": {"tensor": "n.b"}}}},
        }},
    ),
    "named": (
        lambda: TensorDict({"n": named_node()}, [3], names=["t"]),
        {"batch_size": [3], "names": ["t"], "keys": {
            "n": {"td": {"batch_size": [3, 2], "names": ["t", "c"], "keys": {"b": {"tensor": "n.b"}}}},
        }},
    ),
    "stacked": (
        rows,
        {"batch_size": [2, 3], "names": ["k", "t"], "stack_dim": 0, "keys": {"a": {"tensor": "a"}}},
    ),
    "others": (
        lambda: TensorDict(u=UnbatchedTensor(np.arange(5)), s="text", l=NonTensorData([1, {"x": None}])),
        {"batch_size": [], "names": None, "keys": {
            "u": {"tensor": "u", "unbatched": True}, "s": {"non_tensor": "text"},
            "l": {"non_tensor": [1, {"x": None}]},
        }},
    ),
    "class": (
        lambda: Pair(x=np.arange(3), y="z", batch_size=[3]),
        {"batch_size": [3], "names": None, "class": str(Pair), "keys": {
            "x": {"tensor": "x"}, "y": {"non_tensor": "z"},
        }},
    ),
}  # fmt: skip


def contents(td: Any) -> Any:
    """Classes, batch sizes, names, keys, values and dtypes, at any depth."""
    if isinstance(td, np.ndarray):
        return type(td).__name__, td.dtype, td.tolist()
    if isinstance(td, NonTensorData):
        return td.data
    node = getattr(td, "_tensordict", td)
    entries = {key: contents(node._get_entry((key,))) for key in node._keys()}
    return type(td).__name__, node.batch_size, check_names(node.names, node.ndim), entries


@each_case("name", SAMPLES)
def test_there_and_back(name: str, tmp_path: Any) -> None:
    make, structure = SAMPLES[name]
    td, path = make(), tmp_path / "td"
    to_safetensors(td, path)
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    assert json.loads(metadata["tensordict"]) == {"version": 1, "root": structure}
    assert list(metadata) == ["tensordict"]
    save_file(
        arrays, tmp_path / "td.safetensors", {"tensordict": json.dumps({"version": 1, "root": structure})}
    )
    for found in (from_safetensors(path), lite.load(tmp_path / "td.safetensors")):
        assert contents(found) == contents(td)
    assert from_safetensors(path, device="cpu").device == "cpu"


def test_files_of_other_programs(tmp_path: Any) -> None:
    net = nn.Sequential(nn.Linear(2, 1))
    save_file(net.state_dict(), tmp_path / "net")
    found = from_safetensors(tmp_path / "net")
    np.testing.assert_array_equal(found["0", "weight"], net[0].weight.data)
    assert isinstance(rows(), LazyStackedTensorDict)
    for td in (rows(), TensorDict({"__metadata__": 1})):  # a name that the format keeps for itself
        td.save(tmp_path / "lite.safetensors")
        assert contents(from_safetensors(tmp_path / "lite.safetensors")) == contents(td)
    save_file({"a": np.ones(1), "a.b": np.ones(1)}, tmp_path / "both")
    raises(FileNotFoundError, "none", from_safetensors, tmp_path / "none")
    raises(ValueError, "both is damaged or foreign", from_safetensors, tmp_path / "both")


@each_case(
    ("td", "error", "message"),
    [
        (NonTensorData("x"), TypeError, "got NonTensorData"),
        ({"a": np.ones(2)}, TypeError, "got dict"),
        (TensorDict({"n": {"r": NonTensorStack("a", "b")}}), TypeError, "one object per row"),
        (TensorDict(s=NonTensorData((1, 2))), TypeError, "tuples"),
        (TensorDict(s=NonTensorData(object())), TypeError, "no form for object"),
        (lazy_stack([TensorDict(a=1), TensorDict(b=1)]), TypeError, "different keys"),
        (lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)]), RuntimeError, "shapes"),
        (lazy_stack([TensorDict(batch_size=[n]) for n in (1, 2)]), RuntimeError, "ragged"),
        (TensorDict({"a.b": 1, "a": {"b": 1}}), ValueError, "the name 'a.b'"),
        (TensorDict({"\ud800": 1}), ValueError, "the key .* UTF-8"),
        (TensorDict({"__metadata__": 1}), ValueError, "the name '__metadata__'"),
    ],
)
def test_what_has_no_place(td: Any, error: type[Exception], message: str, tmp_path: Any) -> None:
    raises(error, message, to_safetensors, td, tmp_path / "td")
    assert list(tmp_path.iterdir()) == []


A = {"keys": {"a": {"tensor": "a"}}, "names": None}


@each_case(
    "structure",
    [
        [], {}, {"version": 1}, {"version": 2, "root": {**A, "batch_size": []}},
        {"version": 1, "root": {**A, "batch_size": [2]}}, {"version": 1, "root": {**A, "batch_size": [-1]}},
        {"version": 1, "root": {**A, "batch_size": [], "names": ["x"]}},
        {"version": 1, "root": {**A, "batch_size": [3], "names": [3]}},
        {"version": 1, "root": {"batch_size": [], "names": None, "keys": {}}},
        {"version": 1, "root": {"batch_size": [], "names": None, "keys": {"a": {"tensor": "zz"}}}},
        {"version": 1, "root": {"batch_size": [], "names": None, "keys": {"a": {}}}},
        {"version": 1, "root": {**A, "batch_size": [3], "stack_dim": 1}},
        {"version": 1, "root": {**A, "batch_size": [3], "stack_dim": "0"}},
        {"version": 1, "root": {"batch_size": [3, 2000], "names": None, "stack_dim": 0, "keys": {
            "n": {"td": {"batch_size": [3, 2000], "names": None, "stack_dim": 1, "keys": {}}},
            "a": {"tensor": "a", "unbatched": True},
        }}},
        {"version": 1, "root": {"batch_size": [], "names": None, "keys": {
            "n": {"td": {"batch_size": [1 << 40], "names": None, "keys": {}, "stack_dim": 0}},
            "a": {"tensor": "a"},
        }}},
    ],
)  # fmt: skip
def test_structures_that_are_damaged(structure: Any, tmp_path: Any) -> None:
    save_file({"a": np.ones(3)}, tmp_path / "td", {"tensordict": json.dumps(structure)})
    raises(ValueError, "td is damaged or foreign", from_safetensors, tmp_path / "td")


def test_a_class_that_is_not_known_is_a_tensordict(tmp_path: Any) -> None:
    structure = {"version": 1, "root": {**A, "batch_size": [3], "class": "<class 'no.Such'>"}}
    save_file({"a": np.ones(3)}, tmp_path / "td", {"tensordict": json.dumps(structure)})
    assert type(from_safetensors(tmp_path / "td")) is TensorDict
