"""Recurrent layers: one operator per layer, states in and out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.graphs import flat, numbers, open_graph, operators_of, run_graph

from lite import nn


@pytest.mark.parametrize(
    ("kind", "bias", "bidirectional"),
    [(nn.RNN, True, True), (nn.GRU, False, True), (nn.LSTM, True, False), (nn.LSTM, False, True)],
)
def test_states_go_in_and_out(kind: Any, bias: bool, bidirectional: bool, tmp_path: Path) -> None:
    layer = kind(3, 4, num_layers=2, bias=bias, bidirectional=bidirectional)
    count = 2 * (1 + bidirectional)
    state = numbers(count, 5, 4, seed=1)
    hx = (state, numbers(count, 5, 4, seed=2)) if kind is nn.LSTM else state
    x = numbers(6, 5, 3)
    axes = {"input": {0: "time", 1: "batch"}}
    axes |= {name: {1: "batch"} for name in (("hx_0", "hx_1") if kind is nn.LSTM else ("hx",))}
    path = layer.to_onnx(tmp_path / "net.onnx", x, hx, dynamic_axes=axes)
    np.testing.assert_equal(operators_of(path).count(kind.__name__), 2)
    session = open_graph(path)
    for time, rows in ((1, 1), (9, 3)):
        x = numbers(time, rows, 3)
        hx = tuple(numbers(count, rows, 4, seed=i) for i in (1, 2))
        want = flat(layer(x, hx if kind is nn.LSTM else hx[0]))
        given = [x, *hx] if kind is nn.LSTM else [x, hx[0]]
        assert_same(run_graph(session, given), want, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("layer", [nn.LSTM(3, 4, proj_size=2), nn.GRU(3, 4, dtype=np.float64)], ids=repr)
def test_what_has_no_operator_is_a_loop(layer: Any, tmp_path: Path) -> None:
    x = numbers(6, 5, 3, dtype=layer.weight_ih_l0.dtype)
    path = layer.to_onnx(tmp_path / "net.onnx", x, dynamic_axes={"input": {0: "time", 1: "batch"}})
    np.testing.assert_equal({"LSTM", "GRU"}.isdisjoint(operators_of(path)), True)
    session = open_graph(path)
    for time, rows in ((1, 1), (9, 8)):
        x = numbers(time, rows, 3, dtype=x.dtype)
        assert_same(run_graph(session, [x]), flat(layer(x)), rtol=1e-5, atol=1e-5, strict=True)


def test_errors_are_those_of_the_layer(tmp_path: Path) -> None:
    layer = nn.LSTM(3, 4)
    with pytest.raises(RuntimeError, match="must be input_size=3"):
        layer.to_onnx(tmp_path / "net.onnx", numbers(6, 5, 2))
    with pytest.raises(RuntimeError, match=r"hx\[0\] must have shape"):
        layer.to_onnx(tmp_path / "net.onnx", numbers(6, 5, 3), (numbers(1, 5, 3),) * 2, dynamic_axes={})
