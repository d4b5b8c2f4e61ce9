"""Attention and its derivatives in blocks of queries, compiled for the CPU: scores exist for one block only.

Queries, keys and values are rows of flat arrays. A row r of queries holds its heads side by side, from
`r * row + at` on; so do keys and values, whose heads serve several heads of queries each. Query t of a
sequence sees the keys from `first[t]` to before `last[t]`.
"""

import numpy as np

from lite.kernels._types import Float, Floats, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_attention
from lite.kernels.cpu.vectors.blocks import exp, maximum
from lite.kernels.cpu.vectors.products import product
from lite.kernels.cpu.vectors.width import full_width

BLOCK = 64  # queries whose scores are held at once
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


def pitch_of(length: int) -> int:
    """Numbers of a row of transposed keys or of scores: an odd multiple of 32.

    Rows a power of two apart share a few lines of a cache, which took 1.1 times as long.
    """
    return (length + 31) // 32 * 32 | 32


_pitch = jit(pitch_of)


@jit
def _transpose(source: Floats, at: int, row: int, rows: int, width: int, out: Floats, pitch: int) -> None:
    """The transpose of a matrix of `rows` and `width`, with zeros behind each of its rows of `pitch`."""
    for d in range(width):
        for s in range(rows):
            out[d * pitch + s] = source[at + s * row + d]
        for s in range(rows, pitch):
            out[d * pitch + s] = _ZERO


@jit(reassociate=True)
def _powers(scores: Floats, scale: Float, shift: Float) -> Float:
    """exp(scale * score - shift) in place, and their sum."""
    full_width()
    total = _ZERO
    for j in range(scores.size):
        _, e = exp(scores[j] * scale - shift)
        scores[j] = e
        total += e
    return total


@jit
def _scaled(x: Floats, factor: Float) -> None:
    for j in range(x.size):
        x[j] *= factor


@jit(reassociate=True)
def _dot(a: Floats, b: Floats) -> Float:
    total = _ZERO
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@jit
def _score_gradients(powers: Floats, shares: Floats, mean: Float, scale: Float) -> None:
    """powers * (shares - mean) * scale, in `shares`."""
    full_width()
    for j in range(powers.size):
        shares[j] = powers[j] * (shares[j] - mean) * scale


@jit(entry=True, plain=plain_attention.attention)
def attention(
    q: Floats, at_q: int, row_q: int, k: Floats, at_k: int, row_k: int, v: Floats, at_v: int, row_v: int,
    first: Ints, last: Ints, scale: float, sizes: Ints, out: Floats, logs: Floats, k_t: Floats,
    scores: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """Means of values by the softmax of `scale` times the scores, for units `start` to `stop`.

    Args:
        q, at_q, row_q: queries, and likewise keys and values.
        first: for each query of each sequence.
        last: likewise; no key is seen where it is not above `first`.
        scale: a factor of scores.
        sizes: queries and keys of a sequence, heads of queries and of keys, their width (a multiple of 16).
        out: (sequences, queries, heads, width).
        logs: (sequences, heads, queries): logs of the sums of exponentials.
        k_t: memory for the transposed keys: the width times `pitch_of` their number.
        scores: memory for BLOCK times as many.
        start: a unit is a head of keys of a sequence.
        stop: see `start`.
    """
    full_width()
    times, length, heads, groups, width = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    pitch = _pitch(length)
    share = heads // groups
    factor = np.float32(scale)
    for unit in range(start, stop):
        n, group = unit // groups, unit % groups
        keys, values = n * length * row_k + at_k + group * width, n * length * row_v + at_v + group * width
        _transpose(k, keys, row_k, length, width, k_t, pitch)
        for head in range(group * share, (group + 1) * share):
            for begin in range(0, times, BLOCK):
                rows = min(BLOCK, times - begin)
                low, high = pitch, np.int64(0)
                for i in range(n * times + begin, n * times + begin + rows):
                    low, high = min(low, first[i]), max(high, last[i])
                low = low // 32 * 32
                wide = (high - low + 31) // 32 * 32
                apart = _pitch(wide)
                result = ((n * times + begin) * heads + head) * width
                if wide <= 0:
                    for i in range(rows):
                        out[result + i * heads * width : result + i * heads * width + width] = _ZERO
                        logs[(n * heads + head) * times + begin + i] = _ZERO
                    continue
                query = (n * times + begin) * row_q + at_q + head * width
                product(q, query, row_q, 1, k_t, low, pitch, scores, 0, apart, rows, wide, width, False)
                for i in range(rows):
                    a, z = first[n * times + begin + i] - low, last[n * times + begin + i] - low
                    row = scores[i * apart : i * apart + wide]
                    log = _ZERO
                    if z > a:
                        seen = row[a:z]
                        top = maximum(seen) * factor
                        total = _powers(seen, factor, top)
                        _scaled(seen, _ONE / total)
                        log = np.float32(top + np.log(np.float64(total)))
                    else:
                        z = a
                    row[:a] = _ZERO
                    row[z:] = _ZERO
                    logs[(n * heads + head) * times + begin + i] = log
                product(
                    scores, 0, apart, 1, v, values + low * row_v, row_v, out, result, heads * width, rows,
                    width, high - low, False,
                )  # fmt: skip


@jit(entry=True, plain=plain_attention.gradients)
def gradients(
    q: Floats, at_q: int, row_q: int, k: Floats, at_k: int, row_k: int, v: Floats, at_v: int, row_v: int,
    first: Ints, last: Ints, scale: float, sizes: Ints, out: Floats, logs: Floats, g: Floats, dq: Floats,
    dk: Floats, dv: Floats, k_t: Floats, v_t: Floats, scores: Floats, shares: Floats, start: int,
    stop: int,
) -> None:  # fmt: skip
    """Derivatives by queries, keys and values, in arrays laid out as these are.

    Those by queries are written, those by keys and values added. `g` is the derivative by `out`; `v_t`
    is memory as `k_t` is, and `shares` as `scores`. All else is as in `attention`, which gave `out` and
    `logs`.
    """
    full_width()
    times, length, heads, groups, width = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    pitch = _pitch(length)
    share = heads // groups
    factor = np.float32(scale)
    for unit in range(start, stop):
        n, group = unit // groups, unit % groups
        keys, values = n * length * row_k + at_k + group * width, n * length * row_v + at_v + group * width
        _transpose(k, keys, row_k, length, width, k_t, pitch)
        _transpose(v, values, row_v, length, width, v_t, pitch)
        for head in range(group * share, (group + 1) * share):
            for begin in range(0, times, BLOCK):
                rows = min(BLOCK, times - begin)
                low, high = pitch, np.int64(0)
                for i in range(n * times + begin, n * times + begin + rows):
                    low, high = min(low, first[i]), max(high, last[i])
                low = low // 32 * 32
                wide = (high - low + 31) // 32 * 32
                apart = _pitch(wide)
                query = (n * times + begin) * row_q + at_q + head * width
                if wide <= 0:
                    for i in range(rows):
                        dq[query + i * row_q : query + i * row_q + width] = _ZERO
                    continue
                result, step = ((n * times + begin) * heads + head) * width, heads * width
                product(q, query, row_q, 1, k_t, low, pitch, scores, 0, apart, rows, wide, width, False)
                product(g, result, step, 1, v_t, low, pitch, shares, 0, apart, rows, wide, width, False)
                for i in range(rows):
                    a, z = first[n * times + begin + i] - low, last[n * times + begin + i] - low
                    row, other = scores[i * apart : i * apart + wide], shares[i * apart : i * apart + wide]
                    if z > a:
                        _powers(row[a:z], factor, logs[(n * heads + head) * times + begin + i])
                        at = result + i * step
                        mean = _dot(out[at : at + width], g[at : at + width])
                        _score_gradients(row[a:z], other[a:z], mean, factor)
                    else:
                        z = a
                    row[:a] = _ZERO
                    row[z:] = _ZERO
                    other[:a] = _ZERO
                    other[z:] = _ZERO
                seen = high - low
                product(
                    shares, 0, apart, 1, k, keys + low * row_k, row_k, dq, query, row_q, rows, width, seen,
                    False,
                )  # fmt: skip
                product(
                    shares, 0, 1, apart, q, query, row_q, dk, keys + low * row_k, row_k, seen, width, rows,
                    True,
                )  # fmt: skip
                product(
                    scores, 0, 1, apart, g, result, step, dv, values + low * row_v, row_v, seen, width, rows,
                    True,
                )  # fmt: skip
