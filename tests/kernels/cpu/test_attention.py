"""Attention in blocks of queries, and its derivatives: what the formula gives, in any layout."""

from typing import Any

import numpy as np
import pytest

from lite.kernels import _layers
from lite.kernels._layers import Rows

# sequences, queries, keys, heads, heads of keys, width, window
SIZES = [(2, 70, 70, 4, 2, 16, 0), (1, 9, 130, 2, 1, 48, 0), (2, 130, 130, 3, 3, 32, 33)]


def formula(q: Any, k: Any, v: Any, first: Any, last: Any, g: Any) -> list[Any]:
    """The result and the derivatives by q, k and v, in float64."""
    share, width, scale = q.shape[2] // k.shape[2], q.shape[3], 0.3
    a, b, c, g = (np.moveaxis(x.astype(float), 2, 1) for x in (q, k, v, g))
    b, c = np.repeat(b, share, 1), np.repeat(c, share, 1)
    keys = np.arange(k.shape[1])
    seen = (keys >= first[..., None]) & (keys < last[..., None])
    powers = np.exp(a @ b.swapaxes(2, 3) * scale) * seen[:, None]
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300)
    by_weights = g @ c.swapaxes(2, 3)
    shares = weights * (by_weights - (weights * by_weights).sum(-1, keepdims=True)) * scale

    def of_groups(x: Any) -> Any:
        return x.reshape(len(q), k.shape[2], share, -1, width).sum(2)

    found = [weights @ c, shares @ b, of_groups(shares.swapaxes(2, 3) @ a)]
    found.append(of_groups(weights.swapaxes(2, 3) @ g))
    return [np.moveaxis(x, 1, 2) for x in found]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_equal_the_formula(rng: Any, size: tuple[int, ...]) -> None:
    n, times, length, heads, groups, width, window = size
    row = (heads + 2 * groups) * width
    q, k, v, g = (
        rng.normal(size=(n, t, h, width)).astype(np.float32)
        for t, h in ((times, heads), (length, groups), (length, groups), (times, heads))
    )
    last = np.arange(times)[None] + np.ones((n, 1), np.int64) + length - times
    first = np.maximum(last - window, 0) if window else np.zeros_like(last)
    last[0, 3] = first[0, 3]  # which sees nothing
    wanted = formula(q, k, v, first, last, g)
    if times == length:  # in one array, side by side
        flat = np.concatenate([x.reshape(n, times, -1) for x in (q, k, v)], -1).reshape(-1)
        places = [Rows(flat, at * width, row) for at in (0, heads, heads + groups)]
        into = (np.zeros_like(flat),) * 3
    else:
        places = [Rows(x.reshape(-1), 0, x.shape[2] * width) for x in (q, k, v)]
        into = tuple(np.zeros_like(x.flat) for x in places)
    given = (*places, first, last, 0.3, (times, length, heads, groups, width))
    out, logs = _layers.attention(*given)
    _layers.attention_gradients(*given, out, logs, g, into)
    if times == length:
        ends = [heads * width, (heads + groups) * width]
        parts = np.split(into[0].reshape(n, times, row), ends, -1)
    else:
        parts = list(into)
    for found, value in zip((out, *parts), wanted, strict=True):
        np.testing.assert_allclose(found.reshape(value.shape), value, rtol=1e-3, atol=2e-5)
