"""Linear layers and embeddings: the operators that are written."""

from pathlib import Path

import numpy as np
import pytest
from helpers.graphs import numbers, open_graph, operators_of, run_graph

from lite import nn


def test_the_operators(tmp_path: Path) -> None:
    for shape, wanted in (
        ((5, 4), ["Gemm"]),
        ((5, 2, 4), ["Transpose", "MatMul", "Add"]),
        ((4,), ["Transpose", "MatMul", "Add"]),
    ):
        path = nn.Linear(4, 3).to_onnx(tmp_path / "net.onnx", numbers(*shape), dynamic_axes={})
        np.testing.assert_equal(operators_of(path), wanted)
    path = nn.Linear(4, 3, bias=False).to_onnx(tmp_path / "net.onnx", numbers(5, 4))
    np.testing.assert_equal(operators_of(path), ["Gemm"])


def test_integers_and_halves(tmp_path: Path) -> None:
    for net, x in ((nn.Linear(4, 3), numbers(5, 4, dtype=np.int64)), (nn.Linear(4, 3).half(), numbers(5, 4))):
        got = run_graph(open_graph(net.to_onnx(tmp_path / "net.onnx", x)), [x])[0]
        np.testing.assert_allclose(got, net(x), rtol=1e-5, atol=1e-6, strict=True)


def test_errors_are_those_of_the_layer(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="must be in_features=4"):
        nn.Linear(4, 3).to_onnx(tmp_path / "net.onnx", numbers(5, 3))
    with pytest.raises(TypeError, match="looked up by integers"):
        nn.Embedding(4, 3).to_onnx(tmp_path / "net.onnx", numbers(5))


def test_long_rows_of_embeddings_are_scaled_without_writing(tmp_path: Path) -> None:
    net, ids = nn.Embedding(6, 3, max_norm=0.5), np.array([1, 2, 5])
    before = net.weight.data.copy()
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", ids))
    np.testing.assert_array_equal(net.weight.data, before)
    for numbers_ in (ids, np.array([0])):
        np.testing.assert_allclose(run_graph(session, [numbers_])[0], net(numbers_), rtol=1e-5, atol=1e-6)
