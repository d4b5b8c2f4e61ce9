"""A long short-term memory against its formula, and its derivatives against differences."""

from __future__ import annotations

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
    all_h, all_c, gates = recurrent.lstm(x, h, c, weight)
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
