"""The way back through recurrent layers, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting

import lite
from lite import TensorDict, nn, vmap
from lite.kernels import backend
from lite.kernels.networks import recurrent
from lite.nn.layers import large_arrays

LAYERS = {
    "tanh": lambda: nn.RNN(3, 4, rng=0),
    "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", rng=0),
    "gru": lambda: nn.GRU(3, 4, rng=0),
    "gru without bias": lambda: nn.GRU(3, 4, bias=False, rng=0),
    "gru, both ways": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True, rng=0),
    "lstm": lambda: nn.LSTM(3, 4, rng=0),
    "lstm with a projection": lambda: nn.LSTM(3, 4, proj_size=2, batch_first=True, rng=0),
}


def total(out: Any) -> Any:
    """A number of outputs and last states, in which each has another weight."""
    rng = np.random.default_rng(2)
    first, last = out
    arrays = (first, *last) if isinstance(last, tuple) else (first, last)
    return sum((x * rng.standard_normal(x.shape)).sum() for x in arrays)


def gradients_are_those_of_differences(name: str) -> None:
    layer = LAYERS[name]().double()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 2, 3))
    params = TensorDict.from_module(layer).data.clone()

    def loss(given: Any) -> Any:
        with given["params"].to_module(layer):
            return total(layer(given["x"]))

    given = {"params": params, "x": x}
    grads = lite.grad(loss)(given)
    for key in (*params.keys(), "x"):
        array = x if key == "x" else params[key]
        direction = rng.standard_normal(array.shape)
        got = ((grads["x"] if key == "x" else grads["params"][key]) * direction).sum()
        ends = []
        for step in (1e-6, -1e-6):
            moved = array + step * direction
            changed = {"x": moved} if key == "x" else {"params": params.clone().set(key, moved)}
            ends.append(loss({**given, **changed}))
        np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7, err_msg=key)


def test_gradients_are_those_of_differences() -> None:
    for name in LAYERS:
        with noting(name):
            gradients_are_those_of_differences(name)


@each_case("name", LAYERS)
def test_values_are_those_without_gradients(name: str) -> None:
    layer, x = LAYERS[name](), np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    plain = layer(x)
    with lite.enable_grad():
        noted = layer(x)
    np.testing.assert_allclose(noted[0].detach(), plain[0], rtol=1e-6, atol=1e-7)


def test_no_part_of_the_result_need_be_used() -> None:
    layer, x = nn.LSTM(3, 4, rng=0), np.ones((5, 2, 3), np.float32)
    for use in (lambda out, h, c: out, lambda out, h, c: h, lambda out, h, c: c):
        with lite.enable_grad():
            out, (h, c) = layer(x)
            use(out, h, c).sum().backward()
        assert np.isfinite(layer.weight_hh_l0.grad).all()
        assert np.abs(layer.weight_ih_l0.grad).max() > 0
        layer.zero_grad()


@pytest.mark.compiled
@pytest.mark.parametrize(("kind", "kernel"), [(nn.LSTM, "lstm"), (nn.GRU, "gru")])
def test_large_arrays_run_compiled(
    kind: Any, kernel: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = kind(3, 16, bidirectional=True, rng=0), rng.normal(size=(5, 2, 3)).astype(np.float32)
    params = TensorDict.from_module(layer).data.clone()

    def loss(params: Any, x: Any) -> Any:
        with params.to_module(layer):
            out, ends = layer(x)
        h, *cells = ends if kernel == "lstm" else (ends,)
        return (out**3).sum() + h.sum() + sum((c * c).sum() for c in cells)

    def found() -> list[Any]:
        gradients, of_x = lite.grad(loss, argnums=(0, 1))(params, x)
        return [*layer(x)[1], of_x, *gradients.values()]

    expected = found()
    monkeypatch.setattr(large_arrays, "LARGE", 0)
    calls: list[int] = []
    compiled = getattr(recurrent, kernel)
    monkeypatch.setattr(recurrent, kernel, lambda *given: calls.append(1) or compiled(*given))
    for a, b in zip(found(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    # Of both directions; nothing where there is no compiler and no library.
    assert len(calls) == (0 if backend() == "numpy" else 4)
    mapped = vmap(lite.grad(loss, argnums=1), (None, 1), 1)(params, x[:, :, None])
    each = [lite.grad(loss, argnums=1)(params, x[:, i : i + 1]) for i in range(2)]
    np.testing.assert_allclose(mapped, np.stack(each, 1), rtol=1e-4, atol=1e-5)
