"""Hooks of results in the backward pass."""

from typing import Any

import numpy as np
from helpers.cases import raises

import lite
from lite import nn


def test_the_whole_derivative_is_seen_and_replaced() -> None:
    parameter, seen = nn.Parameter(np.array([1.0, 2.0])), []
    with lite.enable_grad():
        y = parameter * 3
        before = y * y  # computed before the hooks are there
        y.register_hook(lambda g: seen.append(g.copy()))
        handle = y.register_hook(lambda g: g * 2)
        y.register_hook(lambda g: seen.append(g.copy()))
        (before + y).sum().backward(retain_graph=True)
        handle.remove()
        (before + y).sum().backward()
    np.testing.assert_array_equal(seen, [[7, 13], [14, 26], [7, 13], [7, 13]])
    np.testing.assert_array_equal(parameter.grad, [3 * (14 + 7), 3 * (26 + 13)])


def test_a_layer_of_several_arguments() -> None:
    layer, count = nn.GRU(2, 3, rng=0), []
    with lite.enable_grad():
        out, _ = layer(np.ones((4, 1, 2), np.float32))
        out.register_hook(lambda g: count.append(g.shape))
        out.register_hook(lambda g: g * 0)
        out.sum().backward()
    assert count == [(4, 1, 3)]
    assert not layer.weight_hh_l0.grad.any()


def test_arrays_without_a_way_back() -> None:
    def loss(x: Any) -> Any:
        raises(RuntimeError, "computed from one that a gradient is taken by", x.register_hook, lambda g: g)
        return x.sum()

    lite.grad(loss)(np.ones(2))
    parameter = nn.Parameter(np.ones(2))
    with lite.enable_grad():
        y = (parameter * 2).sum()
    y.backward()
    raises(RuntimeError, "computed from one that a gradient is taken by", y.register_hook, lambda g: g)
