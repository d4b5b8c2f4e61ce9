"""Adapters: values, gradients and a step of training as torch has them by the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.lora_nets import PATHS, X, adapted, weights

from lite import value_and_grad

torch = pytest.importorskip("torch")


def test_values_and_gradients() -> None:
    net = adapted(targets="*")
    params = net.adapter_params().data.clone()

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return (net(X) ** 2).mean()

    value, grads = value_and_grad(loss)(params)
    own = {
        f"{path}.lora_{x}": torch.tensor(
            net.get_parameter(f"{path}.lora_{x}.weight").data, requires_grad=True
        )
        for path in PATHS
        for x in "AB"
    }
    x = torch.tensor(X)
    for name, path in (("q", PATHS[0]), ("o", PATHS[1]), ("up", PATHS[2])):
        layer = torch.nn.functional.linear
        added = layer(layer(x, own[f"{path}.lora_A"]), own[f"{path}.lora_B"])
        y = x @ torch.tensor(weights()[name]) + 8 / 2 * added
        x = y if name == "up" else torch.tanh(y)
    expected = (x**2).mean()
    expected.backward()
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-5)
    for key, tensor in own.items():
        got = grads[(*key.split("."), "weight")]
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-4, atol=1e-4 * np.abs(got).max())
