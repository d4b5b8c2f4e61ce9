"""Attention of arrays with a dimension of heads, with masks that show each query one range of keys.

Heads that share keys are folded into the time dimension of their queries, which copies nothing; then
`row_attention` computes the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of
from lite.nn.layers.large_arrays import layers_for
from lite.nn.layers.row_attention import Seen, row_attention

HIDDEN = -1e4  # a bias of this or less masks a key: exp of it is 0 beside any key that is not masked


def masked_attention(
    q: Array, k: Array, v: Array, scale: float, masks: Sequence[Any], *, empty_is_zero: bool
) -> Array | None:
    """Scaled dot-product attention, or None if only the general formula covers the arguments.

    Args:
        q: (*B, T, width), with at least one leading dimension.
        k: (*C, S, width), where C is B, or B with trailing ones: heads of queries that share keys.
        v: as `k`.
        scale: a factor of scores.
        masks: arrays that broadcast to the scores (*B, T, S): bools, true where a key is seen, or floats that
            are added, which are 0 there and at most `HIDDEN` elsewhere.
        empty_is_zero: whether a query that sees no key gets zeros; if False, such a query gives None.

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
    seen = seen_keys(masks, (*queries[:-1], keys[-2]), empty_is_zero)
    if seen is None:
        return None
    sequences = math.prod(batch)
    parts = [x.reshape(sequences, -1, queries[-1]) for x in (q, k, v)]
    out = row_attention(parts, Seen(*(x.reshape(sequences, -1) for x in seen)), scale, 1, 1)
    return None if out is None else out.reshape(queries)


def seen_keys(masks: Sequence[Any], shape: tuple[int, ...], empty_is_zero: bool) -> Seen | None:
    """The first key that each query sees, and the one after its last; None if a query sees no single range.

    Args:
        masks: see `masked_attention`.
        shape: shape of the scores.
        empty_is_zero: see `masked_attention`.
    """
    shown: Any = None
    for mask in masks:
        bools = _shown(mask)
        if bools is None or bools.ndim > len(shape):
            return None
        bools = bools.reshape((1,) * (len(shape) - bools.ndim) + bools.shape)
        if any(size not in (1, whole) for size, whole in zip(bools.shape, shape, strict=True)):
            return None
        shown = bools if shown is None else shown & bools
    length = shape[-1]
    if shown is None:
        return Seen(np.zeros(shape[:-1], np.int64), np.full(shape[:-1], length))
    if shown.shape[-1] != length:
        shown = np.broadcast_to(shown, (*shown.shape[:-1], length))
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
    return Seen(*(np.broadcast_to(x, shape[:-1]) for x in (first, last)))


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
