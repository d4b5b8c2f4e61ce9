"""Windows that slide over the last dimensions: padding, sizes, and their entries one offset at a time.

All functions use slices and joins only, which also work on arrays of other libraries and inside
transformations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lite._arrays.types import Array

Sizes = tuple[int, ...]


def sizes(name: str, value: int | Iterable[int], dims: int) -> Sizes:
    """One number per dimension: a number is repeated, several are taken as they are.

    Raises:
        ValueError: another number of numbers.
    """
    if not isinstance(value, Iterable):
        return (value,) * dims
    out = tuple(value)
    if len(out) != dims:
        raise ValueError(f"{name} must be one number or {dims}, got {out}")
    return out


def pad(x: Array, before: Sizes, after: Sizes, value: float = 0) -> Array:
    """Surround the last dimensions with `value`."""
    if not any(before) and not any(after):
        return x
    dims = len(before)
    if isinstance(x, np.ndarray):
        inner = x.shape[-dims:]
        shape = (*x.shape[:-dims], *(b + n + a for b, n, a in zip(before, inner, after, strict=True)))
        out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
        inside: Any = (..., *(slice(b, b + n) for b, n in zip(before, inner, strict=True)))
        out[inside] = x
        return out
    for axis, b, a in zip(range(x.ndim - dims, x.ndim), before, after, strict=True):
        edges = [np.full((*x.shape[:axis], width, *x.shape[axis + 1 :]), value, x.dtype) for width in (b, a)]
        x = np.concatenate([edges[0], x, edges[1]], axis=axis)
    return x


def span(kernel: Sizes, dilation: Sizes) -> Sizes:
    """Extent of a window."""
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))


def offset_slices(out: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> list[tuple[Any, ...]]:
    """For each offset in the window, in row-major order, the index of its entry in all `out` windows."""
    axes = [
        [slice(i * d, i * d + (n - 1) * s + 1, s) for i in range(k)]
        for n, k, s, d in zip(out, kernel, stride, dilation, strict=True)
    ]
    return [(..., *index) for index in itertools.product(*axes)]


def blocks(x: Array, size: Sizes) -> Array:
    """Blocks of the last dimensions, with their entries as channels: (N, C prod(size), *n / size)."""
    lead, inner = tuple(x.shape[:2]), x.shape[2:]
    split = x.reshape(*lead, *(part for n, s in zip(inner, size, strict=True) for part in (n // s, s)))
    places, within = range(2, 2 + 2 * len(size), 2), range(3, 3 + 2 * len(size), 2)
    apart = split.transpose((0, 1, *within, *places))
    return apart.reshape(
        lead[0], lead[1] * math.prod(size), *(n // s for n, s in zip(inner, size, strict=True))
    )
