"""Normalisations: one operator, in evaluation mode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.graphs import numbers, open_graph, operators_of, run_graph

from lite import nn


@each_case(
    ("layer", "shape", "wanted"),
    [
        (nn.LayerNorm(4), (5, 4), ["LayerNormalization"]),
        (nn.LayerNorm((3, 4), elementwise_affine=False), (5, 3, 4), ["LayerNormalization"]),
        (nn.BatchNorm1d(4), (5, 4), ["BatchNormalization"]),
        (nn.BatchNorm1d(4, affine=False), (5, 4, 3), ["BatchNormalization"]),
    ],
    ids=repr,
)
def test_one_operator(layer: Any, shape: tuple[int, ...], wanted: list[str], tmp_path: Path) -> None:
    for name in ("running_mean", "running_var"):
        if getattr(layer, name, None) is not None:
            getattr(layer, name)[...] = np.abs(numbers(4, seed=3)) + 0.5
    x = numbers(*shape)
    path = layer.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(operators_of(path), wanted)
    got = run_graph(open_graph(path), [x])[0]
    np.testing.assert_allclose(got, layer.eval()(x), rtol=1e-5, atol=1e-5, strict=True)


def test_a_module_in_training_mode_is_exported_as_for_evaluation(tmp_path: Path) -> None:
    layer = nn.BatchNorm1d(4).train()
    x = numbers(5, 4)
    path = layer.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal((layer.training, int(layer.num_batches_tracked)), (True, 0))
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], layer.eval()(x), rtol=1e-5, atol=1e-6)


def test_errors_are_those_of_the_layer(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="must end in the dimensions"):
        nn.LayerNorm(4).to_onnx(tmp_path / "net.onnx", numbers(5, 3))
    with pytest.raises(RuntimeError, match="must be num_features=4"):
        nn.BatchNorm1d(4).to_onnx(tmp_path / "net.onnx", numbers(5, 3))
