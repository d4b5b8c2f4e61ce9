"""Parameter: computes like its array, keeps its identity."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import LazyStackedTensorDict, TensorDict, enable_grad, nn, optim


@pytest.fixture
def p():
    return nn.Parameter(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_shares_the_array(p):
    array = np.zeros(2, dtype=np.float32)
    assert nn.Parameter(array).data is array
    assert nn.Parameter(p).data is p.data
    assert np.asarray(p) is p.data or np.shares_memory(np.asarray(p), p.data)
    assert p.numpy() is p.data


def test_python_numbers_take_the_default_dtype():
    assert nn.Parameter([1.0, 2.0]).dtype == np.float32
    assert nn.Parameter(np.float64(2)).dtype == np.float64


def test_arithmetic_gives_plain_arrays(p):
    for value in (
        p + 1,
        1 + p,
        p @ np.ones(3, dtype=np.float32),
        np.ones(2) @ p,
        np.exp(p),
        p[0],
        p.T,
        p.sum(0),
    ):
        assert type(value) is np.ndarray
    np.testing.assert_array_equal(np.ones((2, 3)) - p, 1 - p.data)
    assert np.stack([p, p]).shape == (2, 2, 3)
    assert np.concatenate((p, p), axis=0).shape == (4, 3)
    assert (p == p.data).all()


def test_in_place_operators_keep_the_parameter(p):
    array = p.data
    same = p
    p += 1
    assert p is same
    assert p.data is array
    assert array[0, 0] == 1
    p[0] = nn.Parameter(np.zeros(3, dtype=np.float32))
    np.testing.assert_array_equal(array[0], np.zeros(3))
    np.copyto(p, 2)
    np.add(p, 1, out=p)
    np.testing.assert_array_equal(array, np.full((2, 3), 3))


def test_scalars_and_sequences(p):
    one = nn.Parameter(np.array(2.5, dtype=np.float32))
    assert float(one) == 2.5
    assert int(one) == 2
    assert bool(one)
    assert len(p) == 2
    assert [row.shape for row in p] == [(3,), (3,)]


@each_case("wrap", [lite.jit, lambda step: step])
def test_data_without_dimensions_that_a_step_replaces(wrap: Any) -> None:
    """`np.clip` gives a number of them, as where the weight of an entropy is kept in bounds."""
    alpha = nn.Parameter(np.zeros(()))
    sgd = optim.SGD([alpha], lr=0.1)

    @wrap
    @enable_grad()
    def step() -> None:
        (alpha * 4).backward()
        sgd.step()
        sgd.zero_grad()
        alpha.data = np.clip(alpha.data, -1, 1)
        data = alpha.data
        data += 0.25

    for wanted in (-0.15, -0.3, -0.45):
        step()
        np.testing.assert_allclose(alpha.data, wanted)
    alpha.data = alpha.data * 2
    np.testing.assert_array_equal(alpha.zero_().data, 0.0)


def test_requires_grad():
    raises(RuntimeError, "int64", lambda: nn.Parameter(np.zeros(2, dtype=np.int64)))
    integers = nn.Parameter(np.zeros(2, dtype=np.int64), requires_grad=False)
    raises(RuntimeError, "int64", lambda: integers.requires_grad_())
    assert integers.requires_grad_(False) is integers


def test_copies(p):
    assert copy.copy(p).data is p.data
    deep = copy.deepcopy(p)
    assert not np.shares_memory(deep.data, p.data)
    loaded = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(loaded, p)
    assert loaded.requires_grad


def test_missing_attribute_and_repr(p):
    with pytest.raises(AttributeError, match="nope"):
        _ = p.nope
    assert not hasattr(p, "__cuda_array_interface__")
    assert repr(nn.Parameter(np.zeros(1))) == "Parameter containing:\narray([0.])"


def test_gradients_are_added_in_place():
    p = nn.Parameter(np.ones(2))
    with enable_grad():
        (2 * p).sum().backward()
        held = p.grad
        (3 * p).sum().backward()
    assert p.grad is held
    np.testing.assert_array_equal(held, [5, 5])
    held.flags.writeable = False
    with enable_grad():
        (2 * p).sum().backward()
    np.testing.assert_array_equal(p.grad, [7, 7])
    np.testing.assert_array_equal(held, [5, 5])


def test_what_training_asks_for():
    p = nn.Parameter(np.ones(2, dtype=np.float32))
    assert (p.grad, p.grad_fn, p.is_leaf, p.retains_grad, p.retain_grad()) == (None, None, True, False, None)
    assert p.detach() is p.data


def test_initialisers_write_in_place() -> None:
    weight = nn.Parameter(np.zeros((2, 3), np.float32))
    array = weight.data
    assert weight.fill_(2) is weight
    np.testing.assert_array_equal(array, np.full((2, 3), 2))
    weight.copy_(nn.Parameter(np.arange(3.0)))
    np.testing.assert_array_equal(array, [[0, 1, 2]] * 2)
    raises(ValueError, "broadcast", lambda: weight.copy_(np.zeros(4)))
    np.testing.assert_array_equal(weight.zero_().data, np.zeros((2, 3)))
    first = weight.normal_(5, 0.1, generator=0).data.copy()
    np.testing.assert_array_equal(first, np.random.default_rng(0).normal(5, 0.1, (2, 3)).astype(np.float32))
    assert (weight.uniform_(-1, -0.5, generator=np.random.default_rng(1)).data < -0.4).all()
    assert not np.array_equal(weight.normal_().data, nn.Parameter(np.zeros((2, 3))).normal_().data)
    raises(ValueError, "std must not be negative, got -1", lambda: weight.normal_(0, -1))
    assert weight.data is array
    meta = nn.Linear(2, 3, device="meta").weight
    assert meta.fill_(1).is_meta
    assert meta.normal_().is_meta


def test_hooks_after_a_gradient_was_added():
    parameter, seen = nn.Parameter(np.ones(2)), []
    handle = parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.copy()))
    for _ in range(2):
        with enable_grad():
            (parameter * 3).sum().backward()
    np.testing.assert_array_equal(seen, [[3, 3], [6, 6]])
    handle.remove()
    parameter.grad = np.broadcast_to(1.0, 2)  # not to be written to
    parameter.clear_grad(False)
    np.testing.assert_array_equal(parameter.grad, [0, 0])
    with pytest.raises(RuntimeError, match="a hook needs a parameter with requires_grad"):
        nn.Parameter(np.ones(2), requires_grad=False).register_post_accumulate_grad_hook(print)


def test_backward_of_a_parameter_itself() -> None:
    p = nn.Parameter(np.array(3.0))
    with enable_grad():
        p.backward()
    assert p.grad == 1
    raises(RuntimeError, "backward", lambda: p.backward())


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
