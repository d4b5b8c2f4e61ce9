"""One step of RNN, GRU and LSTM against their formulas."""

import itertools

import numpy as np
import pytest
from helpers.cases import noting

from lite import nn


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def projected(cell: nn.Module, x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ours = x @ cell.weight_ih.data.T + cell.bias_ih.data
    return ours, h @ cell.weight_hh.data.T + cell.bias_hh.data


def inputs(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.normal(size=(4, size)).astype(np.float32) for size in (2, 3, 3)]


def test_rnn(rng: np.random.Generator) -> None:
    x, h, _ = inputs(rng)
    cell = nn.RNNCell(2, 3, rng=0)
    np.testing.assert_allclose(cell(x, h), np.tanh(sum(projected(cell, x, h))), rtol=1e-4, atol=1e-6)
    relu = nn.RNNCell(2, 3, nonlinearity="relu", rng=0)
    np.testing.assert_allclose(relu(x, h), np.maximum(sum(projected(relu, x, h)), 0), rtol=1e-4, atol=1e-6)


def test_gru(rng: np.random.Generator) -> None:
    x, h, _ = inputs(rng)
    cell = nn.GRUCell(2, 3, rng=0)
    (xr, xz, xn), (hr, hz, hn) = (np.split(part, 3, -1) for part in projected(cell, x, h))
    z = sigmoid(xz + hz)
    n = np.tanh(xn + sigmoid(xr + hr) * hn)
    np.testing.assert_allclose(cell(x, h), (1 - z) * n + z * h, rtol=1e-4, atol=1e-6)


def test_lstm(rng: np.random.Generator) -> None:
    x, h, c = inputs(rng)
    cell = nn.LSTMCell(2, 3, rng=0)
    i, f, g, o = np.split(sum(projected(cell, x, h)), 4, -1)
    after = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h, new_c = cell(x, (h, c))
    np.testing.assert_allclose(new_c, after, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(new_h, sigmoid(o) * np.tanh(after), rtol=1e-4, atol=1e-6)


def test_errors_of_shapes() -> None:
    for (input, state, error, match), kind in itertools.product(
        [
            ((4, 1, 2), None, ValueError, r"the input must be .* got \(4, 1, 2\)"),
            ((), None, ValueError, r"the input must be .* got \(\)"),
            ((4, 2), (4, 1, 3), ValueError, r"hx must be .* got shape \(4, 1, 3\)"),
            ((4, 2), (3,), RuntimeError, r"hx must have shape \(4, 3\), got \(3,\)"),
            ((2,), (2,), RuntimeError, r"hx must have shape \(3,\), got \(2,\)"),
        ],
        [nn.RNNCell, nn.GRUCell, nn.LSTMCell],
    ):
        with noting(input, state, error, match, kind):
            h = None if state is None else np.zeros(state)
            good = None if state is None else np.zeros((*input[:-1], 3))
            with pytest.raises(error, match=match):
                kind(2, 3)(np.zeros(input), (good, h) if kind is nn.LSTMCell and state is not None else h)


def test_unknown_nonlinearities_are_refused() -> None:
    with pytest.raises(ValueError, match="nonlinearity must be 'tanh' or 'relu', got 'elu'"):
        nn.RNNCell(2, 3, nonlinearity="elu")


def test_options_are_shown() -> None:
    for cell, text in (
        (nn.RNNCell(2, 3), "RNNCell(2, 3)"),
        (nn.RNNCell(2, 3, False, "relu"), "RNNCell(2, 3, bias=False, nonlinearity=relu)"),
        (nn.LSTMCell(2, 3), "LSTMCell(2, 3)"),
    ):
        assert repr(cell) == text
