"""Hooks of modules in the backward pass."""

from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict, nn

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
