"""Convolutions and pooling: one operator, on images of any size too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.graphs import numbers, open_graph, operators_of, run_graph

from lite import nn

LAYERS = [
    nn.Conv2d(3, 4, 3, padding=1),
    nn.Conv2d(3, 6, (3, 2), stride=2, groups=3, dilation=2),
    nn.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"),
    nn.MaxPool2d(3, 2, 1),
    nn.AvgPool2d(2, padding=1),
    nn.AvgPool2d(3, 2, 1, count_include_pad=False),
]


@each_case("layer", LAYERS, ids=repr)
def test_batches_of_any_size(layer: Any, tmp_path: Path) -> None:
    path = layer.to_onnx(tmp_path / "net.onnx", numbers(5, 3, 9, 8))
    np.testing.assert_equal(set(operators_of(path)) <= {"Conv", "MaxPool", "AveragePool", "Pad"}, True)
    session = open_graph(path)
    for rows in (1, 5):
        x = numbers(rows, 3, 9, 8)
        np.testing.assert_allclose(run_graph(session, [x])[0], layer(x), rtol=1e-5, atol=1e-5, strict=True)


@each_case("layer", [LAYERS[0], LAYERS[1], LAYERS[3]], ids=repr)
def test_images_of_any_size(layer: Any, tmp_path: Path) -> None:
    axes = {"input": {0: "batch", 2: "height", 3: "width"}}
    session = open_graph(layer.to_onnx(tmp_path / "net.onnx", numbers(5, 3, 9, 8), dynamic_axes=axes))
    for shape in ((1, 3, 9, 8), (2, 3, 12, 7)):
        x = numbers(*shape)
        np.testing.assert_allclose(run_graph(session, [x])[0], layer(x), rtol=1e-5, atol=1e-5, strict=True)


def test_errors_are_those_of_the_layer(tmp_path: Path) -> None:
    for layer, x in ((nn.Conv2d(3, 4, 3), numbers(5, 2, 8, 8)), (nn.MaxPool2d(9), numbers(5, 3, 4, 4))):
        with pytest.raises(RuntimeError, match=r"in_channels=3|exceeds the input"):
            layer.to_onnx(tmp_path / "net.onnx", x)
