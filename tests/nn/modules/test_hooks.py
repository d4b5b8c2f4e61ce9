"""Hooks: order, what they may return, failures, handles."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import raises

import lite
from lite import TensorDict, nn


class Add(nn.Module):
    def forward(self, x, y=0):
        return x + y


def test_order_is_pre_hooks_forward_hooks():
    calls = []
    m = Add()
    m.register_forward_pre_hook(lambda module, args: calls.append(("pre", args)))
    m.register_forward_hook(lambda module, args, out: calls.append(("post", args, out)))
    assert m(1, y=2) == 3
    assert calls == [("pre", (1,)), ("post", (1,), 3)]


def test_pre_hook_replaces_arguments():
    m = Add()
    m.register_forward_pre_hook(lambda module, args: args[0] * 10)
    m.register_forward_pre_hook(lambda module, args: (args[0], 5))
    assert m(1) == 15


def test_pre_hook_with_kwargs():
    m = Add()
    m.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True)
    handle = m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"y": 7}), with_kwargs=True)
    assert m(1, y=2) == 8
    handle.remove()
    m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    raises(RuntimeError, r"\(args, kwargs\)", lambda: m(1))


def test_forward_hook_replaces_output_and_prepend_goes_first():
    m = Add()
    m.register_forward_hook(lambda module, args, out: out + 1)
    m.register_forward_hook(lambda module, args, out: out * 10, prepend=True)
    m.register_forward_hook(lambda module, args, kwargs, out: out + kwargs["y"], with_kwargs=True)
    assert m(1, y=2) == (1 + 2) * 10 + 1 + 2


def test_prepended_pre_hook_goes_first():
    m = Add()
    m.register_forward_pre_hook(lambda module, args: args[0] + 1)
    m.register_forward_pre_hook(lambda module, args: args[0] * 10, prepend=True)
    assert m(1) == 11


def test_always_call_runs_when_forward_raises():
    seen = []
    m = nn.Module()
    m.register_forward_hook(lambda module, args, out: seen.append(("plain", out)))
    m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
    raises(NotImplementedError, "", lambda: m(1))
    assert seen == [("always", None)]


def test_always_call_runs_once_when_another_hook_raises():
    seen = []

    def fail(module, args, out):
        raise KeyError("hook")

    m = Add()
    m.register_forward_hook(lambda module, args, out: seen.append("first"), always_call=True)
    m.register_forward_hook(fail)
    m.register_forward_hook(lambda module, args, out: seen.append("last"), always_call=True)
    raises(KeyError, "hook", lambda: m(1))
    assert seen == ["first", "last"]


def test_failing_always_call_hook_warns_and_the_first_error_goes_on():
    def fail(module, args, out):
        raise KeyError("cleanup")

    m = nn.Module()
    m.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="cleanup"), pytest.raises(NotImplementedError):
        m(1)


def test_a_hook_may_remove_itself():
    m = Add()
    handle = m.register_forward_hook(lambda module, args, out: handle.remove())
    m.register_forward_hook(lambda module, args, out: out + 1)
    assert m(1) == 2
    assert len(m._forward_hooks) == 1


def test_backward_hooks_of_one_name() -> None:
    m = Add()
    handle = m.register_full_backward_hook(lambda *args: None)
    m.register_full_backward_pre_hook(lambda *args: None)
    assert m(1) == 1
    raises(RuntimeError, "exclude each other", lambda: m.register_backward_hook(lambda *args: None))
    handle.remove()
    m.register_backward_hook(lambda *args: None).remove()
    m.register_full_backward_hook(lambda *args: None, prepend=True)


X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4, rng=0), nn.Tanh(), nn.Linear(4, 2, rng=1))


def test_gradients_seen_are_those_of_differences() -> None:
    module, seen = net().double(), []
    module[1].register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs[0], outputs[0])))
    with lite.enable_grad():
        (module(X.astype(np.float64)) ** 2).sum().backward()
    [(of_input, of_output)] = seen
    hidden = module[0](X.astype(np.float64))

    def loss(hidden: Any) -> Any:
        return (module[2](np.tanh(hidden)) ** 2).sum()

    step = np.zeros_like(hidden)
    step[1, 2] = 1e-6
    slope = (loss(hidden + step) - loss(hidden - step)) / 2e-6
    np.testing.assert_allclose(of_input[1, 2], slope, rtol=1e-7)
    np.testing.assert_allclose(of_input, of_output * (1 - np.tanh(hidden) ** 2), rtol=1e-12)


def test_they_run_in_functions_that_are_differentiated() -> None:
    module, count = net(), []
    module[1].register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 0,))
    module[1].register_full_backward_pre_hook(lambda m, outputs: count.append(1))
    params = TensorDict.from_module(module).data

    def loss(params: Any) -> Any:
        with params.to_module(module):
            return module(X).sum()

    grads = lite.grad(loss)(params)
    assert count == [1]
    np.testing.assert_array_equal(grads["0", "weight"], 0)
    assert np.abs(grads["2", "weight"]).min() > 0


def test_outputs_in_a_tuple_have_a_gradient_each() -> None:
    class Pair(NamedTuple):
        y: Any
        count: int
        z: Any

    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return kind((x * 2, 7, x * 3))

    seen: list[Any] = []
    for kind, weight in ((tuple, 5), (Pair._make, 5), (tuple, 0)):
        module, first = Two(), nn.Linear(3, 3)
        module.register_full_backward_hook(lambda m, inputs, outputs: seen.append((*inputs, *outputs)))
        with lite.enable_grad():
            out = module(first(X))
            assert type(out) is (tuple if kind is tuple else Pair)
            (out[0].sum() + ((out[2] * 5).sum() if weight else 0)).backward()
        of_input, of_y, of_count, of_z = seen.pop()
        np.testing.assert_array_equal(of_input, np.full((5, 3), 2 + 3 * weight))
        np.testing.assert_array_equal(of_y, np.ones((5, 3)))
        assert of_count is None
        np.testing.assert_array_equal(of_z, np.full((5, 3), weight) if weight else None)


def test_outputs_of_another_kind_have_no_hooks() -> None:
    class AsDict(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"y": x * 2}

    module, first = AsDict(), nn.Linear(3, 3)
    module.register_full_backward_hook(lambda *args: None)
    with lite.enable_grad():
        out = module(first(X))["y"].sum()
        with pytest.raises(RuntimeError, match="inputs of AsDict did not come through its outputs"):
            out.backward()


def test_a_hook_gives_as_many_gradients_as_it_gets() -> None:
    for register, words in (
        ("register_full_backward_hook", "hook must give as many gradients as grad_input has, 1, got 2"),
        ("register_full_backward_pre_hook", "pre-hook must give as many gradients as grad_output has, 1"),
    ):
        module = net()
        getattr(module[1], register)(lambda m, *gradients: gradients[0] * 2)
        with lite.enable_grad(), pytest.raises(RuntimeError, match=words):
            module(X).sum().backward()


def test_a_module_whose_inputs_have_no_gradient() -> None:
    module, seen = net(), []
    module.register_full_backward_hook(lambda m, inputs, outputs: seen.append((inputs, outputs[0].shape)))
    with lite.enable_grad(), pytest.warns(UserWarning, match="no gradient goes to its inputs"):
        module(X).sum().backward()
    assert seen == [((None,), (5, 2))]
    module.register_full_backward_hook(lambda m, inputs, outputs: outputs)
    with (
        lite.enable_grad(),
        pytest.warns(UserWarning, match="no gradient goes"),
        pytest.raises(RuntimeError, match="must return None, got tuple"),
    ):
        module(X).sum().backward()
