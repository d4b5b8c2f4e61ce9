"""Layers that have an operator: of which classes, and when `forward` is traced instead."""

from pathlib import Path
from typing import Any

import numpy as np
from helpers.graphs import numbers, open_graph, operators_of, run_graph

import lite.nn._export.to_onnx  # noqa: F401 - all are registered
from lite import nn
from lite.nn._export.native import NATIVE, native, plain


def test_they_are_layers_of_lite() -> None:
    np.testing.assert_equal({cls.__module__.startswith("lite.nn") for cls in NATIVE}, {True})
    np.testing.assert_equal({nn.Linear, nn.GRU, nn.MaxPool2d, nn.LayerNorm, nn.Softmax} <= set(NATIVE), True)


def test_subclasses_are_traced(tmp_path: Path) -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Any) -> Any:
            return 2 * super().forward(input)

    net, x = Doubled(4, 3), numbers(5, 4)
    path = net.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(operators_of(path), ["Transpose", "MatMul", "Add", "Mul"])
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-5, atol=1e-6)


def test_registering() -> None:
    class Layer(nn.Module):
        pass

    @native(Layer)
    def write(graph: Any, layer: Any) -> Any:
        return NotImplemented

    np.testing.assert_equal(NATIVE.pop(Layer) is write, True)


def test_mapped_parameters_are_not_plain() -> None:
    from lite import vmap

    layer = nn.Linear(4, 3)
    np.testing.assert_equal(plain(layer), True)
    found = []

    def call(weight: Any) -> Any:
        layer.weight.data = weight
        found.append(plain(layer))
        return weight

    vmap(call)(np.zeros((2, 3, 4), np.float32))
    np.testing.assert_equal(found, [False])


def test_hooks_run(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), numbers(5, 4)
    net[0].register_forward_hook(lambda module, args, out: out * 3)
    net[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    path = net.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(operators_of(path), ["Gemm", "Mul", "Add", "Tanh"])
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-5, atol=1e-6)
