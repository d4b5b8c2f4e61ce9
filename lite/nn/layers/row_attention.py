"""Attention of heads that stand side by side in rows, as one node: scores exist for a block of queries only.

Queries, keys and values stay where the product that made them put them, in one array or in three. The
backward pass keeps these (rotated), the result, and a number for each query and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of, with_vjp
from lite.nn.layers.large_arrays import layers_for
from lite.nn.layers.recorded import is_recorded

_LANES = 16  # what a head's width is a multiple of in the kernels


class Seen(NamedTuple):
    """The range of keys that each query sees.

    Attributes:
        first: (sequences, queries), int64: its first key.
        last: (sequences, queries), int64: the one after its last.
    """

    first: Array
    last: Array


class Rotary(NamedTuple):
    """Rotary embedding of queries and keys: cosine and sine of the angles.

    Attributes:
        cos: (sequences, queries, half), float32.
        sin: likewise.
    """

    cos: Array
    sin: Array


def row_attention(
    parts: Sequence[Array],
    seen: Seen,
    scale: float,
    heads: int,
    groups: int,
    rotary: Rotary | None = None,
) -> Array | None:
    """Attention, or None: small arrays, and others than plain float32, are for the general formula.

    Args:
        parts: queries, keys and values side by side, (N, T, (heads + 2 * groups) * width); or the three,
            (N, T, heads * width) and (N, S, groups * width).
        seen: which keys each query sees.
        scale: a factor of scores.
        heads: number of heads of queries.
        groups: heads of keys, each for several of queries.
        rotary: of queries and keys, where there are as many of one as of the other.

    Returns:
        (N, T, heads * width).
    """
    values = [value_of(x) for x in parts]
    kernels = layers_for(*values, *(rotary or ()), few=False)
    if kernels is None or any(type(x) is not np.ndarray for x in seen):
        return None
    width = values[0].shape[2] // (heads + 2 * groups if len(parts) == 1 else heads)
    wide = -(-width // _LANES) * _LANES
    sizes = (values[0].shape[1], values[-1].shape[1], heads, groups, wide)
    counts = (heads, groups, groups) if len(parts) == 3 else (heads + 2 * groups,)
    rows = [_with_width(x.reshape(-1, x.shape[-1]), width, wide) for x in values]
    if rotary is not None:
        rotary = Rotary(*(x.reshape(-1, x.shape[-1]) for x in rotary))
        rows = [x.copy() if i < 2 and wide == width else x for i, x in enumerate(rows)]
        _rotate(kernels, rows, rotary, heads, groups, wide, False)
    flat = [np.ascontiguousarray(x).reshape(-1) for x in rows]
    q, k, v = _places(kernels, flat, counts, heads, groups, wide)
    out, logs = kernels.attention(q, k, v, *seen, scale, sizes)
    result = _with_width(out, wide, width)
    if not is_recorded(*parts):
        return result

    def back(g: Array) -> tuple[Any, ...]:
        found = [np.zeros(x.shape, np.float32) for x in rows]
        into = [x.reshape(-1) for x in found]
        g = _with_width(g, width, wide)
        targets = tuple(into) if len(into) == 3 else (into[0],) * 3
        kernels.attention_gradients(q, k, v, *seen, scale, sizes, out, logs, g, targets)
        if rotary is not None:
            _rotate(kernels, found, rotary, heads, groups, wide, True)
        return tuple(
            _with_width(x, wide, width).reshape(like.shape) for x, like in zip(found, values, strict=True)
        )

    return with_vjp(result, parts, back)


def _with_width(x: Array, old: int, new: int) -> Array:
    """Heads of another width: cut, or with zeros behind their numbers."""
    if old == new:
        return x
    heads = x.reshape(-1, old)
    out = np.zeros((len(heads), new), x.dtype)
    out[:, : min(old, new)] = heads[:, :new]
    return out.reshape(*x.shape[:-1], -1)


def _rotate(
    kernels: Any, rows: list[Array], rotary: Rotary, heads: int, groups: int, width: int, back: bool
) -> None:
    """Rotate queries and keys in place; `back` is the inverse, for gradients."""
    counts = (heads + groups,) if len(rows) == 1 else (heads, groups)
    for x, count in zip(rows, counts, strict=False):
        kernels.rotate(x, *rotary, count, width, back)


def _places(
    kernels: Any, flat: list[Array], counts: tuple[int, ...], heads: int, groups: int, width: int
) -> list[Any]:
    """The rows of queries, keys and values, in one array or in three."""
    if len(flat) == 3:
        return [kernels.Rows(x, 0, count * width) for x, count in zip(flat, counts, strict=True)]
    row = counts[0] * width
    return [kernels.Rows(flat[0], at * width, row) for at in (0, heads, heads + groups)]
