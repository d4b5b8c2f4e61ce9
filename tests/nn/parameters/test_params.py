"""TensorDictParams: a TensorDict and a Module at once."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import NonTensorData, TensorDict, enable_grad, is_tensor_collection, lazy_stack, nn, optim
from lite._tensordict import TensorDictBase
from lite.nn import Parameter, TensorDictParams
from lite.nn.losses import DQNLoss


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def tree() -> TensorDict:
    return TensorDict({"a": ones(2), "n": {"b": np.zeros(3, np.float32), "i": np.arange(3)}})


def names(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_parameters()]


def test_it_is_both() -> None:
    params = TensorDictParams(tree())
    assert isinstance(params, TensorDictBase)
    assert isinstance(params, nn.Module)
    assert is_tensor_collection(params)
    assert names(params) == ["a", "n.b"]
    assert [n for n, _ in params.named_buffers()] == ["n.i"]
    assert list(params.state_dict()) == ["a", "n.b", "n.i"]
    assert repr(params).startswith("TensorDictParams(params=TensorDict(\n    fields={\n        a: Parameter(")
    raises(NotImplementedError, "cannot be called", lambda: params(1))


@each_case("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_floats_become_parameters(dtype: str) -> None:
    params = TensorDictParams(TensorDict(a=ones(2)).type(dtype))
    assert isinstance(params["a"], Parameter)


def test_which_leaves_are_converted() -> None:
    kept = Parameter(ones(2))
    mixed = TensorDict({"p": kept, "f": ones(2), "i": np.arange(2), "b": np.array([True])})
    assert names(TensorDictParams(mixed, no_convert=True)) == ["p"]
    assert names(TensorDictParams(mixed, no_convert="skip")) == ["p"]
    params = TensorDictParams(mixed)
    assert names(params) == ["p", "f"]
    assert params["p"] is kept
    assert isinstance(mixed["f"], Parameter)  # the TensorDict is wrapped, not copied
    assert names(TensorDictParams({"x": 1.0, "y": 2})) == ["x"]
    assert names(TensorDictParams(x=ones(1), y=ones(2))) == ["x", "y"]
    assert names(TensorDictParams()) == []
    raises(TypeError, r"entries as keywords, got \['x'\]", lambda: TensorDictParams(mixed, x=1))
    raises(TypeError, "TensorDict or a mapping, got NonTensorData", TensorDictParams, NonTensorData("a"))
    with pytest.raises(RuntimeError, match="LazyStackedTensorDict"):
        TensorDictParams(TensorDict(a=lazy_stack([TensorDict(), TensorDict()])))


def test_wrapping_again_shares_the_leaves() -> None:
    params = TensorDictParams(tree())
    again = TensorDictParams(params)
    assert again["n", "b"] is params["n", "b"]
    parent = nn.Module()
    parent.one, parent.two = params, again
    assert names(parent) == ["one.a", "one.n.b"]
    assert list(parent.state_dict()) == [
        f"{name}.{key}" for name in ("one", "two") for key in ("a", "n.b", "n.i")
    ]


def test_writes_become_parameters_at_any_depth() -> None:
    parent = nn.Module()
    parent.params = params = TensorDictParams(tree())
    params["x"] = ones(1)
    params["n", "y"] = ones(1)
    params["new", "z"] = 3.0
    params.set(("n", "k"), np.arange(2))
    params.update({"u": ones(1), "n": {"v": ones(1)}})
    params["sub"] = {"w": ones(1)}
    assert names(parent) == [
        f"params.{name}" for name in ("a", "n.b", "n.y", "n.v", "x", "new.z", "u", "sub.w")
    ]
    del params["new"]
    assert params.del_(("n", "y")) is params
    assert params.pop("x").shape == (1,)
    params.rename_key_("u", "moved")
    assert names(parent) == [f"params.{name}" for name in ("a", "n.b", "n.v", "sub.w", "moved")]
    outer = TensorDict({"p": params})
    outer["p", "late"] = ones(1)
    outer.update({"p": {"n": {"later": ones(1)}}})
    assert isinstance(params["late"], Parameter)
    assert isinstance(params["n", "later"], Parameter)


def test_a_node_that_is_stored_is_not_changed() -> None:
    node = TensorDict(w=ones(1))
    params = TensorDictParams(tree())
    params["sub"] = node
    assert type(node["w"]) is np.ndarray
    assert isinstance(params["sub", "w"], Parameter)
    assert type(params["sub"]) is TensorDict


def test_without_conversion_what_is_set_is_a_buffer() -> None:
    params = TensorDictParams(tree(), no_convert=True)
    params["x"] = ones(1)
    params["p"] = Parameter(ones(1))
    assert names(params) == ["p"]
    assert [n for n, _ in params.named_buffers()] == ["a", "n.b", "n.i", "x"]


def test_two_locks() -> None:
    inner = tree()
    params = TensorDictParams(inner, lock=True)
    assert inner.is_locked
    assert not params.is_locked
    with pytest.raises(RuntimeError, match="locked"):
        inner["x"] = ones(1)
    params["x"] = ones(1)
    params["n", "x"] = ones(1)
    assert inner.is_locked
    assert inner["n"].is_locked
    params.lock_()
    for write in (
        lambda: params.set("y", ones(1)),
        lambda: params.set(("n", "y"), ones(1)),
        lambda: params.__setitem__("y", ones(1)),
        lambda: params.del_("x"),
        lambda: params.update({"y": ones(1)}),
        lambda: params.update({"x": ones(1)}, inplace=True),
        lambda: params.update({"y": ones(1)}, ignore_lock=True),
        lambda: params.rename_key_("x", "y"),
    ):
        raises(RuntimeError, "locked", write)
    params.zero_()
    assert names(params) == ["a", "n.b", "n.x", "x"]
    params.unlock_()
    params["y"] = ones(1)


def test_values_are_written_into_the_parameters() -> None:
    params = TensorDictParams(tree())
    a = params["a"]
    assert params.zero_() is params
    assert params.fill_("a", 2) is params
    np.testing.assert_array_equal(a, [2, 2])
    assert params.set_("a", ones(2)) is params
    assert params.update_({"a": ones(2) * 3}) is params
    np.testing.assert_array_equal(a, [3, 3])
    assert params.copy_(tree()) is params
    np.testing.assert_array_equal(a, [1, 1])
    params.apply_(lambda x: x + 1)
    params.set_at_("a", 9, 0)
    np.testing.assert_array_equal(a, [9, 2])
    params.set("a", [5, 5], inplace=True)
    params.mul_(2)
    np.testing.assert_array_equal(a, [10, 10])
    assert params["a"] is a
    batched = TensorDictParams(TensorDict(a=ones(2, 3), batch_size=[2]))
    batched[0] = TensorDict(a=np.zeros(3, np.float32))
    np.testing.assert_array_equal(batched["a"], [[0, 0, 0], [1, 1, 1]])


def test_copies_keep_kinds_ties_and_mode() -> None:
    tied = Parameter(ones(2), requires_grad=False)
    params = TensorDictParams(TensorDict({"a": tied, "n": {"b": tied}, "i": np.arange(2)}))
    params.eval()
    for deep in (params.clone(), copy.deepcopy(params)):
        assert type(deep) is TensorDictParams
        assert not deep.training
        assert deep["a"] is deep["n", "b"]
        assert deep["a"] is not tied
        assert not deep["a"].requires_grad
        assert not np.shares_memory(deep["a"].data, tied.data)
        assert type(deep["i"]) is np.ndarray
        assert not np.shares_memory(deep["i"], params["i"])
        deep["x"] = ones(1)
        assert isinstance(deep["x"], Parameter)
        assert "x" not in params
    shallow = params.copy()
    assert type(shallow) is TensorDictParams
    assert shallow["a"] is tied
    assert names(params) == ["a"]  # tied leaves appear once


def test_gradients_are_asked_for_and_removed() -> None:
    params = TensorDictParams(TensorDict(a=np.ones(2), n=TensorDict(b=np.ones(1))))
    assert params.to("cpu").to("cpu").device == "cpu"
    assert params.requires_grad_(False) is params
    assert [p.requires_grad for p in params.parameters()] == [False, False]
    params.requires_grad_()
    with enable_grad():
        (params["a"].sum() * 3 + params["n", "b"].sum()).backward()
    np.testing.assert_array_equal(params["a"].grad, [3, 3])
    assert params.zero_grad(set_to_none=False) is params
    np.testing.assert_array_equal(params["a"].grad, [0, 0])
    params.zero_grad()
    assert params["a"].grad is None


def test_casts() -> None:
    params = TensorDictParams(tree())
    double = params.to(np.float64)
    assert type(double) is TensorDictParams
    assert names(double) == ["a", "n.b"]
    assert double["a"].dtype == np.float64
    assert params["a"].dtype == np.float32
    assert params.to("cpu").device == "cpu"
    assert params.cpu()["a"].shape == (2,)
    parent = nn.Module()
    parent.params = params
    a = params["a"]
    parent.half()
    assert params["a"] is a
    assert a.dtype == np.float16
    assert params["n", "i"].dtype == np.int64
    parent.type(np.float64)
    assert params["n", "i"].dtype == np.float64
    parent.requires_grad_(False)
    assert not a.requires_grad
    parent.to("meta")
    assert params["n", "i"].is_meta
    assert params["a"].is_meta
    parent.to_empty(device="cpu")
    assert type(params["n", "i"]) is np.ndarray
    assert params["a"] is a
    parent.zero_grad()


def test_get_hooks_see_leaves_only() -> None:
    inner = tree()
    params = TensorDictParams(inner)
    with pytest.raises(ValueError, match="hook must be callable, got int"):
        params.register_get_post_hook(3)  # type: ignore[arg-type]
    seen = []

    def plus(self: Any, leaf: Any) -> Any:
        seen.append(self is params)
        return leaf + 1

    params.register_get_post_hook(plus)
    params.register_get_post_hook(lambda self, leaf: None)
    np.testing.assert_array_equal(params["a"], [2, 2])
    np.testing.assert_array_equal(params.get("a"), [2, 2])
    np.testing.assert_array_equal(params["n", "b"], [1, 1, 1])
    np.testing.assert_array_equal(dict(params.items())["a"], [2, 2])
    np.testing.assert_array_equal(next(iter(params.values())), [2, 2])
    assert params.get("missing") is None
    assert params.get("missing", 3) == 3
    np.testing.assert_array_equal(inner["a"], [1, 1])
    assert type(params["n"]) is TensorDict
    assert all(seen)


def test_state_dicts_load_in_place() -> None:
    parent = nn.Module()
    parent.params = params = TensorDictParams(tree())
    a, i = params["a"], params["n", "i"]
    state = {name: np.zeros_like(value) for name, value in parent.state_dict().items()}
    parent.load_state_dict(state)
    np.testing.assert_array_equal(a, [0, 0])
    assert params["a"] is a
    assert params["n", "i"] is i
    assert i.max() == 0
    nested = {"a": ones(2) * 4, "n": {"b": ones(3), "i": np.ones(3)}}
    assert params.load_state_dict(nested) is params
    np.testing.assert_array_equal(a, [4, 4])
    params.load_state_dict(params.state_dict(flatten=False))
    del state["params.a"]
    result = parent.load_state_dict(state, strict=False)
    assert result.missing_keys == ["params.a"]
    raises(RuntimeError, r"Missing key.*params\.a", lambda: parent.load_state_dict(state))
    with pytest.raises(RuntimeError, match=r"Unexpected key.*n\.q"):
        params.load_state_dict({**params.state_dict(), "n.q": ones(1)})
    new = ones(2) * 7
    params.load_state_dict({"a": new, "n.b": ones(3), "n.i": np.arange(3)}, assign=True)
    assert params["a"].data is new
    assert isinstance(params["n", "b"], Parameter)
    frozen = TensorDictParams({"i": np.broadcast_to(np.int64(0), (2,))})
    frozen.load_state_dict({"i": np.arange(2)})
    np.testing.assert_array_equal(frozen["i"], [0, 1])


def test_pickle() -> None:
    params = TensorDictParams(tree(), lock=True)
    params.lock_()
    back = pickle.loads(pickle.dumps(params))
    assert type(back) is TensorDictParams
    assert back.is_locked
    assert names(back) == ["a", "n.b"]
    np.testing.assert_array_equal(back["a"].data, params["a"].data)


def test_what_it_refuses() -> None:
    params = TensorDictParams(tree())
    for name in ("map", "memmap_"):
        raises(RuntimeError, r"params\.data", getattr(params, name), None)
    with pytest.raises(RuntimeError, match=r"params\[name\] = value"):
        params.weight = Parameter(ones(1))
    with pytest.raises(AttributeError):
        _ = params.nothing
    raises(RuntimeError, "enable_grad", lambda: params.backward())


def test_failed_writes_leave_it_as_it_was() -> None:
    params = TensorDictParams(TensorDict(a=ones(2, 3), batch_size=[2]))
    for write in (
        lambda: params.set("b", ones(3)),
        lambda: params.set(("a", "b"), ones(2)),
        lambda: params.update({"ok": ones(2), "bad": ones(3)}),
        lambda: params.del_("missing"),
    ):
        raises((RuntimeError, KeyError), "", write)
    assert list(params.keys()) == ["a"]
    assert not params.is_locked


def test_a_tensordict_is_a_buffer() -> None:
    module = nn.Module()
    module.register_buffer("td", tree())
    module.double()
    assert module.td["a"].dtype == np.float64
    assert module.td["n", "i"].dtype == np.int64
    assert [name for name, _ in module.named_buffers()] == ["td"]
    state = module.state_dict()
    module.td = tree().zero_()
    assert module.td["a"].dtype == np.float32
    module.load_state_dict(state)
    assert module.td["a"].dtype == np.float32
    assert module.td["a"].sum() == 2
    raises(RuntimeError, '"td": expected a TensorDict, got an array', module.load_state_dict, {"td": ones(2)})
    raises(RuntimeError, '"td": size mismatch', lambda: module.load_state_dict({"td": TensorDict(a=ones(3))}))
    with pytest.raises(TypeError, match="expected an array"):
        module.td = 3
    params = TensorDict.from_module(module)
    assert params["td"] is module.td
    with params.apply(np.zeros_like).to_module(module):
        assert module.td["a"].sum() == 0
    assert module.td["a"].sum() == 2


def test_entries_are_attributes() -> None:
    params = TensorDictParams(tree())
    assert params.a is params["a"]
    assert params.get_parameter("n.b") is params["n", "b"]
    assert isinstance(params.n, TensorDictParams)
    params.n["late"] = ones(1)
    assert isinstance(params["n", "late"], Parameter)
    assert {"a", "n"} <= set(dir(params))
    assert not hasattr(params, "missing")
    copied = pickle.loads(pickle.dumps(copy.deepcopy(params)))
    np.testing.assert_array_equal(copied.n.b, np.zeros(3))
    params.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        params.n["later"] = ones(1)


def test_objects_beside_parameters() -> None:
    params = TensorDictParams(TensorDict({"s": "x", "n": {"o": "y", "a": ones(2)}}))
    assert (params.s, params.n.o) == (params["s"], params["n", "o"])
    params.load_state_dict(TensorDict({"s": "z", "n": {"o": "z", "a": ones(2) * 3}}))
    np.testing.assert_array_equal(params.n.a, [3, 3])
    assert params["n", "o"] == "y"


def test_entries_are_no_answer_to_protocols() -> None:
    params = TensorDictParams({"_source": ones(1), "keys": ones(1), "training": ones(1)})
    assert getattr(params, "_source", None) is None
    assert list(params.keys()) == ["_source", "keys", "training"]
    assert params.eval().training is False


def test_entries_are_not_assigned_as_attributes() -> None:
    """They would hide the entries, which stay what they are."""
    params = TensorDictParams(tree())
    for name, value in (("a", ones(2)), ("a", None), ("n", tree()), ("a", Parameter(ones(2)))):
        with pytest.raises(TypeError, match=rf"as entry '{name}' .*use params\['{name}'\] = value"):
            setattr(params, name, value)
    params.note = "kept"
    assert params.note == "kept"
    np.testing.assert_array_equal(params.a, [1, 1])


def test_copies_of_a_loss_and_its_optimiser_belong_together() -> None:
    actor = nn.QValueActor(nn.Linear(3, 2, rng=0), action_space="categorical")
    loss = DQNLoss(actor, delay_value=True)
    parts = {"actor": actor, "loss": loss, "adam": optim.Adam(loss.parameters(), lr=0.1)}
    for copies in (copy.deepcopy(parts), copy.deepcopy(dict(reversed(parts.items())))):
        found = [list(copies["actor"].parameters()), list(copies["loss"].parameters())]
        found.append(copies["adam"].param_groups[0]["params"])
        assert all(a is b is c for a, b, c in zip(*found, strict=True))
        assert all(a is not b for a, b in zip(found[0], actor.parameters(), strict=True))
        for parameter in found[0]:
            parameter.grad = np.ones_like(parameter.data)
        copies["adam"].step()
        step = TensorDict(observation=np.ones((1, 3), np.float32), batch_size=[1])
        assert not np.array_equal(copies["actor"](step)["action_value"], actor(step.copy())["action_value"])
