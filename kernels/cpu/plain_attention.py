"""The kernels of `attention` in NumPy, used if nothing is compiled."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lite.kernels._types import Floats, Ints


def attention(*arguments: Any) -> None:
    """As `attention.attention`, with the same arguments."""
    *given, scale, sizes, out, logs, _, _, start, stop = arguments
    times, _, heads, _, width = map(int, sizes)
    result, sums = out.reshape(-1, times, heads, width), logs.reshape(-1, heads, times)
    for n, own, q, k, v, seen in _units(given, sizes, start, stop):
        scores = np.where(seen, np.matmul(q, k.T) * np.float32(scale), -np.inf)
        top = scores.max(-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0)
        powers = np.exp(scores - top)
        total = powers.sum(-1, keepdims=True)
        total = np.where(total == 0, 1, total)
        result[n, :, own] = np.matmul(powers / total, v).swapaxes(0, 1)
        sums[n, own] = (top + np.log(total))[..., 0]


def gradients(*arguments: Any) -> None:
    """As `attention.gradients`, with the same arguments."""
    *given, scale, sizes, out, logs, g, dq, dk, dv, _, _, _, _, start, stop = arguments
    times, _, heads, _, width = map(int, sizes)
    shape = (-1, times, heads, width)
    result, back, sums = out.reshape(shape), g.reshape(shape), logs.reshape(-1, heads, times)
    places = [dq, *given[1:3], dk, *given[4:6], dv, *given[7:]]
    units = _units(places, sizes, start, stop)
    for (n, own, q, k, v, seen), (*_, by_q, by_k, by_v, _) in zip(
        _units(given, sizes, start, stop), units, strict=True
    ):
        scores = np.matmul(q, k.T) * np.float32(scale)
        weights = np.where(seen, np.exp(scores - sums[n, own][..., None]), 0)
        by_out = back[n, :, own].swapaxes(0, 1)
        mean = (by_out * result[n, :, own].swapaxes(0, 1)).sum(-1, keepdims=True)
        shares = weights * (np.matmul(by_out, v.T) - mean) * np.float32(scale)
        by_q[...] = np.matmul(shares, k)
        by_k += np.matmul(shares.swapaxes(-1, -2), q).sum(0)
        by_v += np.matmul(weights.swapaxes(-1, -2), by_out).sum(0)


def _units(given: list[Any], sizes: Ints, start: int, stop: int) -> Iterator[tuple[Any, ...]]:
    """For each unit, a sequence and the heads of queries that share keys and values.

    Gives the number of the sequence, a slice of heads, queries (heads, times, width), keys and values
    (length, width), and the mask of the keys that each query sees, (times, length).
    """
    q, at_q, row_q, k, at_k, row_k, v, at_v, row_v, first, last = given
    times, length, heads, groups, width = map(int, sizes)
    share = heads // groups
    keys = np.arange(length)
    for unit in range(start, stop):
        n, group = divmod(unit, groups)
        at = slice(n * times, (n + 1) * times)
        yield (
            n,
            slice(group * share, (group + 1) * share),
            _heads(q, n * times * row_q + at_q + group * share * width, row_q, times, share, width),
            _heads(k, n * length * row_k + at_k + group * width, row_k, length, 1, width)[0],
            _heads(v, n * length * row_v + at_v + group * width, row_v, length, 1, width)[0],
            (keys >= first[at, None]) & (keys < last[at, None]),
        )


def _heads(flat: Floats, at: int, row: int, rows: int, heads: int, width: int) -> Floats:
    """(heads, rows, width) of the rows of a flat array, a view."""
    item = flat.itemsize
    return as_strided(flat[at:], (heads, rows, width), (width * item, row * item, item))
