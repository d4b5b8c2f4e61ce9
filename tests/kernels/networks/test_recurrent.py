"""Recurrent layers against their formulas, and their derivatives against differences."""

from typing import Any

import numpy as np
import pytest

from lite.kernels.networks import recurrent


def formula(x: Any, h: Any, c: Any, weight: Any) -> tuple[Any, Any]:
    """All states but the first."""
    found = []
    for step in x:
        i, f, g, o = np.split(step + h @ weight, 4, -1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        found.append((h, c))
    all_h, all_c = zip(*found, strict=True)
    return np.array(all_h), np.array(all_c)


@pytest.mark.parametrize(("rows", "size"), [(11, 16), (2, 48)])
def test_states_and_derivatives(rng: Any, rows: int, size: int) -> None:
    x, h, c, weight = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((5, rows, 4 * size), (rows, size), (rows, size), (size, 4 * size))
    )
    x[0, 0, :3] = 100, -100, 1e-3
    expected = formula(*(a.astype(float) for a in (x, h, c, weight)))
    given = x.copy()
    all_h, all_c, gates = recurrent.lstm(given, h, c, weight)
    assert gates is given
    np.testing.assert_array_equal(recurrent.lstm(x[::-1].copy()[::-1], h, c, weight)[0], all_h)
    for found, first, wanted in zip((all_h, all_c), (h, c), expected, strict=True):
        np.testing.assert_array_equal(found[0], first)
        np.testing.assert_allclose(found[1:], wanted, rtol=1e-4, atol=1e-5)
    g, dh, dc = (rng.normal(size=shape).astype(np.float32) for shape in (all_h[1:].shape, h.shape, c.shape))
    by = recurrent.lstm_gradients(gates, all_c, weight, g, dh, dc)

    def total(*parts: Any) -> float:
        states, cells = formula(*parts, weight.astype(float))
        return float((states * g).sum() + (states[-1] * dh).sum() + (cells[-1] * dc).sum())

    for k, share in enumerate(by):
        step = rng.normal(size=share.shape)
        ends = [
            total(*(a + s * step if i == k else a for i, a in enumerate((x, h, c)))) for s in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose((share * step).sum(), (ends[0] - ends[1]) / 2e-5, rtol=1e-3)
    assert recurrent.lstm(x[:, :0], h[:0], c[:0], weight)[0].shape == (6, 0, size)


def gru_formula(x: Any, h: Any, weight: Any, bias: Any, more: Any = 0) -> Any:
    """All states but the first; `more` is added to the products with the weight."""
    found = []
    for step, change in zip(x, np.zeros_like(x) + more, strict=True):
        of_r, of_z, inner = np.split(h @ weight + change, 3, -1)
        x_r, x_z, x_n = np.split(step, 3, -1)
        r, z = (1 / (1 + np.exp(-gate)) for gate in (x_r + of_r, x_z + of_z))
        n = np.tanh(x_n + r * (inner + bias))
        h = (1 - z) * n + z * h
        found.append(h)
    return np.array(found)


@pytest.mark.parametrize(("rows", "size", "biased"), [(11, 16, True), (2, 48, False)])
def test_states_and_derivatives_of_gated_units(rng: Any, rows: int, size: int, biased: bool) -> None:
    x, h, weight, bias = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((5, rows, 3 * size), (rows, size), (size, 3 * size), (size,))
    )
    bias *= biased
    x[0, 0, :3] = 100, -100, 1e-3
    all_h, gates = recurrent.gru(x, h, weight, bias if biased else None)
    np.testing.assert_array_equal(all_h[0], h)
    wide = [a.astype(float) for a in (x, h, weight, bias)]
    np.testing.assert_allclose(all_h[1:], gru_formula(*wide), rtol=1e-4, atol=1e-5)
    g, dh = (rng.normal(size=shape).astype(np.float32) for shape in (all_h[1:].shape, h.shape))
    by_x, by_product, by_h = recurrent.gru_gradients(gates, all_h, weight, g, dh)

    def total(x: Any, h: Any, more: Any) -> float:
        states = gru_formula(x, h, *wide[2:], more)
        return float((states * g).sum() + (states[-1] * dh).sum())

    for k, share in enumerate((by_x, by_h, by_product)):
        step = rng.normal(size=share.shape)
        ends = [
            total(*(a + s * step if i == k else a for i, a in enumerate((*wide[:2], np.zeros_like(x)))))
            for s in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose((share * step).sum(), (ends[0] - ends[1]) / 2e-5, rtol=1e-3)
    assert recurrent.gru(x[:, :0], h[:0], weight, None)[0].shape == (6, 0, size)
