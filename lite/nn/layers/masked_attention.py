"""Attention of arrays with a dimension of heads, with masks that show each query one range of keys.

Heads that share keys are folded into the time dimension of their queries, which copies nothing; then
`row_attention` computes the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of, with_vjp
from lite.nn.layers.large_arrays import layers_for
from lite.nn.layers.recorded import is_recorded

_LANES = 16  # what a head's width is a multiple of


class Seen(NamedTuple):
    """The range of keys that each query sees.

    Attributes:
        first: (sequences, queries), int64: its first key.
        last: (sequences, queries), int64: the one after its last.
    """

    first: Array
    last: Array


class Turn(NamedTuple):
    """Rotations of queries and keys.

    Attributes:
        cos: (sequences, queries, half), float32.
        sin: likewise.
    """

    cos: Array
    sin: Array


def row_attention(
    parts: Sequence[Array], seen: Seen, scale: float, heads: int, groups: int, turn: Turn | None = None
) -> Array | None:
    """Means of values by the softmax of scores, or None where the general formula is to compute.

    Args:
        parts: queries, keys and values side by side, (N, T, (heads + 2 * groups) * width); or the three,
            (N, T, heads * width) and (N, S, groups * width).
        seen: which keys each query sees.
        scale: a factor of scores.
        heads: number of heads of queries.
        groups: heads of keys, each for several of queries.
        turn: by which queries and keys are turned first, where there are as many of one as of the other.

    Returns:
        (N, T, heads * width).
    """
    values = [value_of(x) for x in parts]
    kernels = layers_for(*values, *(turn or ()), few=False)
    if kernels is None or any(type(x) is not np.ndarray for x in seen):
        return None
    width = values[0].shape[2] // (heads + 2 * groups if len(parts) == 1 else heads)
    if width % _LANES:
        return None
    sizes = (values[0].shape[1], values[-1].shape[1], heads, groups, width)
    counts = (heads, groups, groups) if len(parts) == 3 else (heads + 2 * groups,)
    rows = [x.reshape(-1, x.shape[-1]) for x in values]
    if turn is not None:
        turn = Turn(*(np.ascontiguousarray(x.reshape(-1, x.shape[-1])) for x in turn))
        rows = [x.copy() if i < 2 else x for i, x in enumerate(rows)]
        _turn(kernels, rows, turn, heads, groups, width, False)
    flat = [np.ascontiguousarray(x).reshape(-1) for x in rows]
    q, k, v = _places(kernels, flat, counts, heads, groups, width)
    out, logs = kernels.attention(q, k, v, *seen, scale, sizes)
    if not is_recorded(*parts):
        return out

    def back(g: Array) -> tuple[Any, ...]:
        found = [np.zeros(x.shape, np.float32) for x in values]
        into = [x.reshape(-1) for x in found]
        targets = tuple(into) if len(into) == 3 else (into[0],) * 3
        kernels.attention_gradients(q, k, v, *seen, scale, sizes, out, logs, g, targets)
        if turn is not None:
            _turn(kernels, [x.reshape(-1, x.shape[-1]) for x in found], turn, heads, groups, width, True)
        return tuple(found)

    return with_vjp(out, parts, back)


def _turn(
    kernels: Any, rows: list[Array], turn: Turn, heads: int, groups: int, width: int, back: bool
) -> None:
    """Turn queries and keys in place."""
    counts = (heads + groups,) if len(rows) == 1 else (heads, groups)
    for x, count in zip(rows, counts, strict=False):
        kernels.rotate(x, *turn, count, width, back)


def _places(
    kernels: Any, flat: list[Array], counts: tuple[int, ...], heads: int, groups: int, width: int
) -> list[Any]:
    """Where queries, keys and values stand."""
    if len(flat) == 3:
        return [kernels.Rows(x, 0, count * width) for x, count in zip(flat, counts, strict=True)]
    row = counts[0] * width
    return [kernels.Rows(flat[0], at * width, row) for at in (0, heads, heads + groups)]


HIDDEN = -1e4  # a bias of this or less masks a key: exp of it is 0 beside any key that is not masked


class KeyRanges(NamedTuple):
    """The range of keys that masks show each query.

    Attributes:
        seen: arrays that broadcast to the scores without their last dimension.
        length: the number of keys.
    """

    seen: Seen
    length: int


def masked_attention(q: Array, k: Array, v: Array, scale: float, ranges: KeyRanges | None) -> Array | None:
    """Scaled dot-product attention, or None if only the general formula covers the arguments.

    Args:
        q: (*B, T, width), with at least one leading dimension.
        k: (*C, S, width), where C is B, or B with trailing ones: heads of queries that share keys.
        v: as `k`.
        scale: a factor of scores.
        ranges: which keys are seen, see `key_ranges`; None for all.

    Returns:
        (*B, T, width).
    """
    values = [value_of(x) for x in (q, k, v)]
    if any(type(x) is not np.ndarray or x.ndim != q.ndim or x.ndim < 3 for x in values):
        return None
    if layers_for(*values, few=False) is None:
        return None
    queries, keys = values[0].shape, values[1].shape
    if keys != values[2].shape or queries[-1] != keys[-1]:
        return None
    batch = queries[:-2]
    while batch and batch != keys[: len(batch)]:
        batch = batch[:-1]
    if any(size != 1 for size in keys[len(batch) : -2]):
        return None
    seen = _seen_of(ranges, queries[:-1], keys[-2])
    if seen is None:
        return None
    sequences = math.prod(batch)
    parts = [x.reshape(sequences, -1, queries[-1]) for x in (q, k, v)]
    out = row_attention(parts, Seen(*(x.reshape(sequences, -1) for x in seen)), scale, 1, 1)
    return None if out is None else out.reshape(queries)


def key_ranges(masks: Sequence[Any], empty_is_zero: bool) -> KeyRanges | None:
    """The first key that masks show each query, and the one after its last; None for what is no single range.

    Args:
        masks: arrays that broadcast to the scores (*B, T, S), at least one: bools, true where a key is seen,
            or floats that are added, which are 0 there and at most `HIDDEN` elsewhere.
        empty_is_zero: whether a query that sees no key gets zeros; if False, such a query gives None.
    """
    shown: Any = None
    for mask in masks:
        bools = _shown(mask)
        if bools is None or not bools.ndim:
            return None
        try:
            shown = bools if shown is None else shown & bools
        except ValueError:  # the nodes tell it better
            return None
    length = shown.shape[-1]
    count = np.count_nonzero(shown, axis=-1)
    first = shown.argmax(-1)
    last = length - shown[..., ::-1].argmax(-1)
    empty = count == 0
    if empty.any():
        if not empty_is_zero:
            return None
        first, last = np.where(empty, 0, first), np.where(empty, 0, last)
    if (last - first != count).any():
        return None
    return KeyRanges(Seen(first, last), length)


def _seen_of(ranges: KeyRanges | None, shape: tuple[int, ...], length: int) -> Seen | None:
    """The ranges of queries of a shape; None if they are not of these and of so many keys."""
    if ranges is None:
        return Seen(np.zeros(shape, np.int64), np.full(shape, length))
    found = ranges.seen.first.shape
    missing = len(shape) - len(found)
    fits = missing >= 0 and all(
        size in (1, whole) for size, whole in zip(found, shape[missing:], strict=True)
    )
    if not fits or ranges.length != length:
        return None
    return Seen(*(np.broadcast_to(x, shape) for x in ranges.seen))


def _shown(mask: Any) -> NDArray[np.bool_] | None:
    """A mask as bools; None for floats other than 0 and `HIDDEN`, and for what is no NumPy array."""
    if type(mask) is not np.ndarray:
        return None
    if mask.dtype.kind == "b":
        return mask
    if mask.dtype.kind != "f":
        return None
    shown: NDArray[np.bool_] = mask == 0
    return shown if np.logical_or(shown, mask <= HIDDEN).all() else None
