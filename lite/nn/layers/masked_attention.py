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
from lite._transforms.grad.tape import value_of
from lite.nn.layers.large_arrays import layers_for
from lite.nn.layers.row_attention import Seen, row_attention

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
