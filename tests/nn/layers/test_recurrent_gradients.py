"""The backward pass through recurrent layers: parts, kernels, maps. `test_recorded.py` has its numbers."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

import lite
from lite import TensorDict, from_modules, nn, vmap
from lite.kernels import backend
from lite.kernels.networks import recurrent
from lite.nn.layers import large_arrays, recurrent_gradients


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
def test_large_arrays_run_compiled(kind, kernel, rng, monkeypatch):
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


def ensemble_loss(layer: Any, params: Any, x: Any, first: Any) -> Any:
    with params.to_module(layer):
        out, ends = layer(x, first)
    h, *cells = ends if isinstance(ends, tuple) else (ends,)
    return (out**3).sum() + h.sum() + sum((c * c).sum() for c in cells)


# 16 states are what kernels take; those that are "alone" walk one after the other, as large ones do.
ENSEMBLES: dict[str, Any] = {
    "RNN": lambda rng: nn.RNN(3, 4, bias=False, rng=rng),
    "GRU": lambda rng: nn.GRU(3, 4, num_layers=2, bidirectional=True, rng=rng),
    "GRU, kernels": lambda rng: nn.GRU(3, 16, bidirectional=True, rng=rng),
    "GRU, alone": lambda rng: nn.GRU(3, 4, rng=rng),
    "LSTM": lambda rng: nn.LSTM(3, 4, batch_first=True, proj_size=2, rng=rng),
    "LSTM, kernels": lambda rng: nn.LSTM(3, 16, bidirectional=True, bias=False, rng=rng),
}


@pytest.mark.compiled
@each_case("name", ENSEMBLES)
def test_maps_are_loops(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "LARGE", 0)
    if name.endswith("alone"):
        monkeypatch.setattr(recurrent_gradients, "_MUCH", 0)
    make, steps = ENSEMBLES[name], 5
    layers = [make(seed) for seed in range(3)]
    shape = (2, steps, 3) if layers[0].batch_first else (steps, 2, 3)
    params, x = from_modules(*layers), rng.normal(size=(3, *shape)).astype(np.float32)
    sides = layers[0].num_layers * (1 + layers[0].bidirectional)
    widths = (layers[0].proj_size or layers[0].hidden_size, layers[0].hidden_size)
    given = [rng.normal(size=(3, sides, 2, width)).astype(np.float32) for width in widths]
    first: Any = tuple(given) if isinstance(layers[0], nn.LSTM) else given[0]

    def loss(params: Any, x: Any, first: Any) -> Any:
        return ensemble_loss(layers[0], params, x, first)

    def element(i: int, mapped: bool, value: Any) -> Any:
        at = i if mapped else 0
        return tuple(h[at] for h in value) if isinstance(value, tuple) else value[at]

    for which in ((True, False, False), (False, True, False), (True, True, True), (False, False, True)):
        dims = tuple(0 if mapped else None for mapped in which)
        shared = [element(0, mapped, value) for mapped, value in zip(which, (params, x, first), strict=True)]
        args = [v if mapped else s for v, mapped, s in zip((params, x, first), which, shared, strict=True)]
        each = [
            [element(i, mapped, v) for mapped, v in zip(which, (params, x, first), strict=True)]
            for i in range(3)
        ]
        values = vmap(loss, dims)(*args)
        np.testing.assert_allclose(values, [loss(*row) for row in each], rtol=1e-4, atol=1e-4)
        by_each = vmap(lite.grad(loss, argnums=(0, 1)), dims)(*args)
        wanted = [lite.grad(loss, argnums=(0, 1))(*row) for row in each]
        whole = lite.grad(lambda *given: vmap(loss, dims)(*given).sum(), argnums=(0, 1))(*args)  # noqa: B023
        for key, _ in wanted[0][0].items():
            same = np.stack([found[0][key] for found in wanted])
            np.testing.assert_allclose(by_each[0][key], same, rtol=2e-3, atol=1e-3)
            np.testing.assert_allclose(whole[0][key], same if which[0] else same.sum(0), rtol=2e-3, atol=1e-3)
        of_x = np.stack([found[1] for found in wanted])
        np.testing.assert_allclose(by_each[1], of_x, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(whole[1], of_x if which[1] else of_x.sum(0), rtol=1e-3, atol=1e-4)


@pytest.mark.compiled
def test_maps_over_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "LARGE", 0)
    layer = nn.LSTM(3, 16, rng=0)
    for shape in ((0, 5, 2, 3), (0, 5, 600, 3), (2, 5, 0, 3)):
        out, (h, c) = vmap(lambda x: layer(x), out_dims=0)(np.zeros(shape, np.float32))
        assert out.shape == (*shape[:3], 16)
        assert h.shape == c.shape == (shape[0], 1, shape[2], 16)


def test_maps_in_maps_are_loops(rng: np.random.Generator) -> None:
    layers = [nn.GRU(3, 4, rng=seed) for seed in range(2)]
    params, x = from_modules(*layers), rng.normal(size=(3, 5, 2, 3)).astype(np.float32)

    def run(params: Any, x: Any) -> Any:
        with params.to_module(layers[0]):
            return layers[0](x)[0]

    expected = np.stack([np.stack([layer(row)[0] for row in x]) for layer in layers])
    inner = vmap(vmap(run, (None, 0)), (0, None))(params, x)
    np.testing.assert_allclose(inner, expected, rtol=1e-5, atol=1e-6)
    outer = vmap(vmap(run, (0, None)), (None, 0))(params, x)
    np.testing.assert_allclose(outer, expected.swapaxes(0, 1), rtol=1e-5, atol=1e-6)
    both = lite.stack([params, params], 1)
    twice = vmap(vmap(run, (0, None)), (0, None))(both, x[0])
    np.testing.assert_allclose(twice, np.stack([expected[:, 0]] * 2, 1), rtol=1e-5, atol=1e-6)
    jacobian = lite.jacrev(lambda x: run(params[0], x))(x[0])
    rows = [
        lite.grad(lambda x, at=at: run(params[0], x).reshape(-1)[at])(x[0])
        for at in range(expected[0, 0].size)
    ]
    np.testing.assert_allclose(jacobian.reshape(-1, *x[0].shape), np.stack(rows), rtol=1e-4, atol=1e-6)
