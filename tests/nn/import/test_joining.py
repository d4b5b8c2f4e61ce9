"""Steps that are joined into one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.onnx_nodes import model_of

from lite import nn, value_and_grad
from lite._files.onnx import writer
from lite.kernels.backends.choice import backend
from lite.nn.layers.large_arrays import LARGE

X, Y = (np.random.default_rng(i).normal(size=(3, LARGE)).astype(np.float32) for i in range(2))


def gate(product: str, last: str, outputs: str = "z") -> Any:
    nodes = [("Sigmoid", "x", "s"), ("Mul", product, "t"), ("Mul", last, "z")]
    written = [writer.node(op, op, a.split(), [b], {}) for op, a, b in nodes]
    return nn.from_onnx(model_of(written, {"x": X, "y": Y}, outputs.split()))


@pytest.mark.parametrize(("product", "last"), [("x s", "t y"), ("s x", "y t")])
def test_gates_are_one_step(product: str, last: str) -> None:
    net = gate(product, last)
    assert len(net._source.program.steps) == 1
    share = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(net(X, Y), X * share * Y, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(net(X[:, :9], Y[:, :9]), (X * share * Y)[:, :9], rtol=1e-4, atol=1e-6)
    by_x, by_y = value_and_grad(lambda pair: (net(*pair) * X).sum())([X, Y])[1]
    np.testing.assert_allclose(by_y, X * X * share, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(by_x, X * Y * share * (1 + X * (1 - share)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("product", "last", "outputs"), [("x s", "t y", "z s"), ("x s", "t y", "z t"), ("y s", "t y", "z")]
)
def test_what_somebody_else_reads_stays(product: str, last: str, outputs: str) -> None:
    net = gate(product, last, outputs)
    assert len(net._source.program.steps) == 3


@pytest.mark.skipif(backend() == "numpy", reason="nothing is compiled")
def test_a_gate_is_one_node() -> None:
    net, seen = gate("x s", "t y"), []

    def loss(x: Any) -> Any:
        z = net(x, Y)
        seen.append([node is x.node for node in z.node.vjp.nodes])
        return z.sum()

    value_and_grad(loss)(X)
    assert seen == [[True, False]]
