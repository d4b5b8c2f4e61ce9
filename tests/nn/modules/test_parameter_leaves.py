"""A TensorDict of Parameters does what one of arrays does, and its results are arrays."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case

import lite
from lite import LazyStackedTensorDict, TensorDict, nn

MASK = np.array([True, False])

NEW: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda td: 1 - (td + td) ** 2 / 3,
    "comparison": lambda td: td > 0,
    "ufunc": np.exp,
    "index": lambda td: td[0],
    "mask": lambda td: td[MASK],
    "reshape": lambda td: td.reshape(1, 2),
    "expand": lambda td: td.expand(3, 2),
    "permute": lambda td: td.unsqueeze(0).permute(1, 0),
    "unbind": lambda td: td.unbind(0),
    "split": lambda td: td.split(1),
    "stack": lambda td: lite.stack([td, td]),
    "cat": lambda td: lite.cat([td, td]),
    "lazy stack": lambda td: lite.lazy_stack([td, td]).contiguous(),
    "pad": lambda td: lite.pad(td, [0, 1]),
    "where": lambda td: lite.where(MASK, td, td + 1),
    "reductions": lambda td: [td.sum(0), td.mean(), td.std(0), td.cumsum(0)],
    "clamp": lambda td: td.clamp(0, 1),
    "lerp": lambda td: td.lerp(td + 1, 0.5),
    "masked_fill": lambda td: td.masked_fill(MASK, 0.0),
    "gather": lambda td: td.gather(0, np.array([0, 0])),
    "apply": lambda td: td.apply(lambda x: x * 2),
    "cast": lambda td: td.to(np.float64),
    "clone": lambda td: td.clone(),
    "data": lambda td: td.data,
    "zeros_like": lite.zeros_like,
}

IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "add_": lambda td: td.add_(td),
    "exp_": lambda td: td.exp_(),
    "zero_": lambda td: td.zero_(),
    "fill_": lambda td: td.fill_("a", 3),
    "set_": lambda td: td.set_("a", np.zeros((2, 3))),
    "set inplace": lambda td: td.set("a", np.ones((2, 3)), inplace=True),
    "set_at_": lambda td: td.set_at_("a", 5, 0),
    "update_": lambda td: td.update_(td + 1),
    "update inplace": lambda td: td.update({"n": {"b": np.ones(2)}}, inplace=True),
    "apply_": lambda td: td.apply_(lambda x: x * 2),
    "masked_fill_": lambda td: td.masked_fill_(MASK, 0.0),
    "assign a row": lambda td: td.__setitem__(0, td[1].clone()),
    "assign a number": lambda td: td.__setitem__(0, 7.0),
    "load_state_dict": lambda td: td.load_state_dict({"a": np.ones((2, 3)), "n": {"b": np.ones(2)}}),
}


def trees() -> tuple[TensorDict, TensorDict]:
    """The same values as arrays and as Parameters."""
    a = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    arrays = TensorDict({"a": a, "n": {"b": a[:, 0].copy()}}, batch_size=[2])
    return arrays, arrays.clone().apply(nn.Parameter)


def plain(value: Any) -> Any:
    if isinstance(value, TensorDict | LazyStackedTensorDict):
        return tuple(value.batch_size), {str(key): plain(leaf) for key, leaf in value.items(True, True)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    array = np.asarray(value)
    return str(array.dtype), array.shape, array.tolist()


def leaves(value: Any) -> list[Any]:
    trees = value if isinstance(value, tuple | list) else [value]
    return [leaf for tree in trees for leaf in tree.values(True, True)]


@each_case("name", NEW)
def test_results(name: str) -> None:
    arrays, parameters = trees()
    assert all(isinstance(leaf, nn.Parameter) for leaf in leaves(parameters))
    result = NEW[name](parameters)
    assert plain(result) == plain(NEW[name](arrays))
    assert {type(leaf) for leaf in leaves(result)} == {np.ndarray}
    assert plain(parameters) == plain(arrays)


@each_case("name", IN_PLACE)
def test_writes_go_into_the_parameters(name: str) -> None:
    arrays, parameters = trees()
    before = leaves(parameters)
    memory = [leaf.data for leaf in before]
    IN_PLACE[name](arrays)
    IN_PLACE[name](parameters)
    assert plain(parameters) == plain(arrays)
    assert all(mine is old for mine, old in zip(leaves(parameters), before, strict=True))
    assert all(leaf.data is array for leaf, array in zip(before, memory, strict=True))


@each_case(
    "name",
    ["select", "exclude", "flatten_keys", "copy", "pickle", "copy.copy", "lazy stack", "rename", "lock"],
)
def test_arrangements_keep_the_kind(name: str) -> None:
    arrangements: dict[str, Callable[[Any], Any]] = {
        "select": lambda td: td.select("a"),
        "exclude": lambda td: td.exclude("a"),
        "flatten_keys": lambda td: td.flatten_keys("."),
        "copy": lambda td: td.copy(),
        "pickle": lambda td: pickle.loads(pickle.dumps(td)),
        "copy.copy": lambda td: copy.copy(td),
        "lazy stack": lambda td: lite.lazy_stack([td])[0],
        "rename": lambda td: td.rename_key_("a", "z"),
        "lock": lambda td: td.lock_(),
    }
    arrays, parameters = trees()
    result = arrangements[name](parameters)
    assert plain(result) == plain(arrangements[name](arrays))
    assert {type(leaf) for leaf in leaves(result)} == {nn.Parameter}


def test_memory() -> None:
    arrays, parameters = trees()
    assert parameters.bytes() == arrays.bytes()
    assert parameters.data_ptr()["a"] == parameters["a"].data.ctypes.data
    leaf = parameters["a"]
    parameters.share_memory_()
    assert parameters.is_shared()
    assert parameters["a"] is leaf  # the module whose Parameter it is shares it, too
    assert plain(parameters) == plain(arrays)


def test_repr_tells_parameters_apart() -> None:
    arrays, parameters = trees()
    assert repr(parameters).replace("Parameter(", "Array(") == repr(arrays)
    assert repr(parameters).count("Parameter(") == 2


@each_case("act", [lambda td, v: td * v, lambda td, v: v + td, lambda td, v: td.where(v > 0, v)])
def test_parameters_as_operands_meet_the_batch(act: Any) -> None:
    td = TensorDict({"a": np.arange(6.0).reshape(2, 3), "n": {"b": np.ones((2, 1, 2))}}, [2])
    rows = np.array([2.0, -1.0])
    got, expected = act(td, nn.Parameter(rows)), act(td, rows)
    for key in td.keys(True, True):
        assert type(got[key]) is np.ndarray
        np.testing.assert_array_equal(got[key], expected[key])
