"""One step of RNN, GRU and LSTM against their formulas."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting

import lite
from lite import from_modules, nn, vmap


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


@each_case("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_gradients_of_maps(kind: Any, rng: np.random.Generator) -> None:
    cells = [kind(3, 16, rng=seed) for seed in range(2)]
    params, x = from_modules(*cells), rng.normal(size=(2, 5, 3)).astype(np.float32)

    def loss(params: Any, x: Any) -> Any:
        with params.to_module(cells[0]):
            out = cells[0](x)
        return sum((h**2).sum() for h in (out if isinstance(out, tuple) else (out,)))

    for dims, given in (((0, 0), x), ((0, None), x[0]), ((0, None), x[0, 0])):
        rows = [(params[i], given[i] if dims[1] == 0 else given) for i in range(2)]
        expected = [lite.grad(loss)(*row) for row in rows]
        of_each = vmap(lite.grad(loss), dims)(params, given)
        of_sum = lite.grad(lambda params, dims=dims, given=given: vmap(loss, dims)(params, given).sum())(
            params
        )
        for key, _ in expected[0].items():
            wanted = np.stack([found[key] for found in expected])
            np.testing.assert_allclose(of_each[key], wanted, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(of_sum[key], wanted, rtol=1e-4, atol=1e-5)


def test_options_are_shown() -> None:
    for cell, text in (
        (nn.RNNCell(2, 3), "RNNCell(2, 3)"),
        (nn.RNNCell(2, 3, False, "relu"), "RNNCell(2, 3, bias=False, nonlinearity=relu)"),
        (nn.LSTMCell(2, 3), "LSTMCell(2, 3)"),
    ):
        assert repr(cell) == text
