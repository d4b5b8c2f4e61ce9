"""Activations: the operators that are written, also at the ends of the range."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from helpers.cases import each_case, noting
from helpers.graphs import numbers, open_graph, operators_of, run_graph

from lite import nn

LAYERS = [
    (nn.ReLU(), ["Relu"]), (nn.Tanh(), ["Tanh"]), (nn.Sigmoid(), ["Sigmoid"]),
    (nn.SiLU(), ["Sigmoid", "Mul"]), (nn.LeakyReLU(0.2), ["LeakyRelu"]), (nn.ELU(0.5), ["Elu"]),
    (nn.GELU(), ["Gelu"]), (nn.GELU("tanh"), ["Gelu"]), (nn.Softplus(), ["Softplus"]),
    (nn.Softplus(2.0), ["Mul", "Softplus", "Div"]), (nn.Softmax(-1), ["Softmax"]),
    (nn.LogSoftmax(0), ["LogSoftmax"]),
]  # fmt: skip


@each_case(("layer", "wanted"), LAYERS, ids=[repr(layer) for layer, _ in LAYERS])
def test_the_operators(layer: Any, wanted: list[str], tmp_path: Path) -> None:
    path = layer.to_onnx(tmp_path / "net.onnx", numbers(5, 4))
    np.testing.assert_equal(operators_of(path), wanted)
    x = np.float32([[0, -0.0, 1e-6, -1e-6], [30, -30, 100, -100], [5, 6, -7, 3]])
    np.testing.assert_allclose(
        run_graph(open_graph(path), [x])[0], layer(x), rtol=1e-5, atol=1e-6, strict=True
    )


def test_other_dtypes(tmp_path: Path) -> None:
    layers = [nn.ReLU(), nn.Softplus(2.0), nn.GELU("tanh"), nn.LogSoftmax(0)]
    for layer, dtype in itertools.product(layers, [np.float64, np.int64, np.float16]):
        with noting(layer, dtype):
            x = numbers(5, 4, dtype=dtype)
            got = run_graph(open_graph(layer.to_onnx(tmp_path / "net.onnx", x)), [x])[0]
            tolerance = 2e-3 if dtype is np.float16 else 1e-5
            np.testing.assert_allclose(got, layer(x), rtol=tolerance, atol=tolerance, strict=True)


@each_case("kind", [nn.ReLU, nn.SiLU, nn.LeakyReLU, nn.ELU])
def test_in_place(kind: Any, tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(4, 4), kind(inplace=True)), numbers(5, 4)
    got = run_graph(open_graph(net.to_onnx(tmp_path / "net.onnx", x)), [x])[0]
    np.testing.assert_allclose(got, net(x), rtol=1e-5, atol=1e-6, strict=True)
