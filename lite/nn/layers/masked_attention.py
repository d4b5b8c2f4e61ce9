"""Attention of arrays with a dimension of heads, whose scores exist for a block of queries only.

Where masks show each query one range of keys, heads that share keys are folded into the time dimension of
their queries, which copies nothing; then `row_attention` computes the result. All else that plain arrays may
be asked for, `attention_in_blocks` computes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Array
from lite._transforms.grad.tape import unbroadcast, value_of, with_vjp
from lite.nn.layers.large_arrays import layers_for, softmax_shares
from lite.nn.layers.recorded import is_recorded
from lite.nn.layers.row_attention import Seen, row_attention

BLOCK = 1 << 17  # scores in memory at once, which a second-level cache holds
Block = tuple[slice, ...]
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
    """The range of keys that masks show each query, [first, last + 1); None if the keys are not one range.

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
    """A mask as bools; None for floats other than 0 and `HIDDEN`, and for what is not a NumPy array."""
    if type(mask) is not np.ndarray:
        return None
    if mask.dtype.kind == "b":
        return mask
    if mask.dtype.kind != "f":
        return None
    shown: NDArray[np.bool_] = mask == 0
    return shown if np.logical_or(shown, mask <= HIDDEN).all() else None


# -- any scores ----------------------------------------------------------------------------------------------


class ScoreRule(NamedTuple):
    """What happens to scores before the softmax.

    Attributes:
        softcap: if not zero, they become softcap * tanh(score / softcap).
        seen: the range of keys that each query sees, arrays that broadcast to the scores without their last
            dimension; None for all.
        low: what is added to the scores of all other keys.
        empty: the sum of exponentials of a query whose scores are all -inf.
    """

    softcap: float = 0.0
    seen: Seen | None = None
    low: float = -np.inf
    empty: float = np.nan


def attention_in_blocks(
    q: Array, k: Array, v: Array, bias: Array | None = None, rule: ScoreRule | None = None
) -> Array | None:
    """softmax(rule(q kᵀ) + bias) v of plain arrays, traced or not; None for others, or other shapes.

    The backward pass computes the weights again, block by block, unless there is one block.

    Args:
        q: (*B, T, width), which has the scale of scores.
        k: (*C, S, width), where C is B, or B with a last 1: heads of queries that share keys.
        v: (*C, S, width of values).
        bias: broadcasts to (*B, T, S).
        rule: what happens to scores before `bias` is added; nothing, unless given.

    Returns:
        (*B, T, width of values).
    """
    rule = ScoreRule() if rule is None else rule
    parents = (q, k, v) if bias is None else (q, k, v, bias)
    values = [value_of(x) for x in parents]
    if any(type(x) is not np.ndarray for x in (*values, *(rule.seen or ()))):
        return None
    traced = is_recorded(*parents)
    shape = (*values[0].shape[:-1], values[1].shape[-2])
    if not all(shape) or (not traced and any(x is not y for x, y in zip(parents, values, strict=True))):
        return None
    batch, keys = shape[:-2], values[1].shape[:-2]
    if keys != values[2].shape[:-2] or keys not in (batch, (*batch[:-1], 1)):
        return None
    if bias is not None and np.broadcast_shapes(bias.shape, shape) != shape:
        return None
    blocks = list(_blocks(shape))

    def parts_of(block: Block) -> tuple[list[Array], Array, Any]:
        """The parts of the arguments that a block reads, its weights, and its tanh with a soft cap."""
        parts = [_part(x, block, i in (1, 2)) for i, x in enumerate(values)]
        return parts, *_weights(parts, rule, shape[:-1], block)

    out = np.empty((*shape[:-1], values[2].shape[-1]), values[0].dtype)
    for block in blocks:
        found = parts_of(block)
        out[block] = _product(found[1], found[0][2])
    if not traced:
        return out
    kept = found if len(blocks) == 1 else None

    def back(g: Array) -> Sequence[Array]:
        if kept is not None or type(g) is not np.ndarray:  # of an outer `vmap`, which is not cut
            return _shares(g, *(kept or parts_of((slice(None),) * len(shape[:-1]))), rule)
        sums = [np.zeros(x.shape, x.dtype) for x in values]
        for block in blocks:
            for i, share in enumerate(_shares(g[block], *parts_of(block), rule)):
                into = _part(sums[i], block, i in (1, 2))
                into += share
        return sums

    return with_vjp(out, parents, back)


def powers_of(scores: Array, masked: bool, empty: float) -> tuple[Any, Any]:
    """exp(score - largest score), and the sums over keys; `empty` for the sum of no key.

    Compiled code gives the quotients instead, and None. Plain scores are written over.
    """
    if scores.shape[-1] == 0:
        return scores, np.full((*scores.shape[:-1], 1), empty, scores.dtype)
    kernels = layers_for(scores)
    if kernels is not None:
        return kernels.softmax(scores, empty, scores), None
    largest = scores.max(-1, keepdims=True)
    if masked:
        largest = np.where(np.isfinite(largest), largest, scores.dtype.type(0))
    scores -= largest
    powers = np.exp(scores, out=scores if isinstance(scores, np.ndarray) else None)
    total = powers.sum(-1, keepdims=True)
    return powers, (np.where(total == 0, scores.dtype.type(empty), total) if masked else total)


def divided(fresh: Array, total: Array | None) -> Array:
    """The quotient; in place in `fresh`, an array without other references, if both are plain arrays."""
    if total is None:
        return fresh
    if isinstance(fresh, np.ndarray) and isinstance(total, np.ndarray):
        return np.divide(fresh, total, out=fresh)
    return fresh / total


def _blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """Parts of scores of a shape, without their last dimension."""
    left = max(1, BLOCK // shape[-1])
    steps: list[int] = []
    for size in reversed(shape[:-1]):
        steps.insert(0, min(size, left))
        left = max(1, left // size)
    starts = (range(0, size, step) for size, step in zip(shape[:-1], steps, strict=True))
    for place in itertools.product(*starts):
        yield tuple(slice(at, at + step) for at, step in zip(place, steps, strict=True))


def _part(x: Array, block: Block, of_keys: bool) -> Array:
    """The part of an argument that a block reads: all keys and values of its heads, or its queries."""
    sizes = x.shape[:-2] if of_keys else x.shape[:-1]
    parts = (block[:-1] if of_keys else block)[-len(sizes) :] if sizes else ()
    return x[tuple(slice(None) if size == 1 else part for size, part in zip(sizes, parts, strict=True))]


def _weights(
    parts: list[Array], rule: ScoreRule, shape: tuple[int, ...], block: Block
) -> tuple[Array, Array | None]:
    q, k, _, *bias = parts
    scores, bent = _product(q, k.swapaxes(-1, -2)), None
    number = scores.dtype.type
    if rule.softcap:
        scores /= number(rule.softcap)
        bent = np.tanh(scores)
        np.multiply(bent, number(rule.softcap), out=scores)
    if rule.seen is not None:
        keys = np.arange(scores.shape[-1])
        first, last = (np.broadcast_to(x, shape)[block][..., None] for x in rule.seen)
        np.add(scores, number(rule.low), out=scores, where=(keys < first) | (keys >= last))
    for x in bias:
        scores += x.astype(scores.dtype, copy=False)
    return divided(*powers_of(scores, not np.isnan(rule.empty), rule.empty)), bent


def _shares(
    g: Array, parts: list[Array], weights: Array, bent: Array | None, rule: ScoreRule
) -> Sequence[Array]:
    """Derivatives by the parts of a block."""
    q, k, v, *bias = parts
    shares = softmax_shares(_product(g, v.swapaxes(-1, -2)), weights, -1)
    of_bias = [unbroadcast(shares, x.shape) for x in bias]
    if bent is not None:
        shares = shares * (1 - bent * bent)
    return _product(shares, k), _over_queries(shares, q, k), _over_queries(weights, g, v), *of_bias


def _product(x: Array, y: Array) -> Array:
    """x y, where heads of x may share one of y, as further rows of it."""
    return np.matmul(_folded(x, y), y).reshape(*x.shape[:-1], y.shape[-1])


def _over_queries(x: Array, y: Array, like: Array) -> Array:
    """xᵀ y, summed over the heads that share one of `like`."""
    return np.matmul(_folded(x, like).swapaxes(-1, -2), _folded(y, like))


def _folded(x: Array, like: Array) -> Array:
    if x.ndim < 3 or like.shape[-3] == x.shape[-3]:
        return x
    return x.reshape(*x.shape[:-3], 1, x.shape[-3] * x.shape[-2], x.shape[-1])
