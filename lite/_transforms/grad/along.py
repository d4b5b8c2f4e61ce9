"""Helpers of rules of functions along axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from lite._arrays.types import Array, Axes, HostArray, Operand, Shape
from lite._transforms.grad.tape import holds_traced
from lite._transforms.registry import NOT_GIVEN, NoRule

_FEW = 1 << 14  # elements up to which a copy is faster than np.broadcast_to


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, without derivatives.

    Raises:
        NoRule: one of them is traced.
    """
    kept = {name: value for name, value in options.items() if value is not NOT_GIVEN and value is not None}
    if holds_traced(kept):
        raise NoRule
    return kept


def kept_shape(shape: Shape, axis: Axes) -> Shape:
    """The shape of the result of a reduction along axes that the array has, kept with size 1."""
    if axis is None:
        return (1,) * len(shape)
    if type(axis) is int:
        at = axis if axis >= 0 else axis + len(shape)
        return (*shape[:at], 1, *shape[at + 1 :])
    axes = normalize_axis_tuple(axis, len(shape))
    return tuple([1 if d in axes else size for d, size in enumerate(shape)])


def spread(g: Array, shape: Shape, axis: Axes) -> Array:
    """A derivative by what was reduced, repeated along the axes that are gone."""
    kept = g if axis is None else g.reshape(kept_shape(shape, axis))
    if isinstance(kept, HostArray) or math.prod(shape) > _FEW:
        return np.broadcast_to(kept, shape)
    out = np.empty(shape, kept.dtype)
    out[...] = kept
    return out


def masked(g: Array, where: Operand) -> Array:
    """A derivative, with zeros where elements took no part."""
    return g if where is None else np.where(where, g, 0)


def wide(g: Array) -> Array:
    """A derivative to be summed: in single precision at least, so that long sums keep their digits."""
    return g.astype(np.float32) if g.dtype.itemsize < 4 else g


class Rows:
    """An array seen with some of its axes as the last one.

    Args:
        shape: shape of the array.
        axis: one axis, several, or None for all.
    """

    def __init__(self, shape: Shape, axis: Axes) -> None:
        ndim = len(shape)
        self.axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
        rest = [d for d in range(ndim) if d not in self.axes]
        self.order = (*rest, *self.axes)
        self.back = tuple(sorted(range(ndim), key=self.order.__getitem__))
        self.outer = tuple([shape[d] for d in rest])
        self.moved = tuple([shape[d] for d in self.order])
        self.length = math.prod([shape[d] for d in self.axes])

    def of(self, x: Array) -> Array:
        """The array with its axes as the last one."""
        return np.transpose(x, self.order).reshape((*self.outer, self.length))

    def undo(self, rows: Array) -> Array:
        """An array of the old shape from what `of` gave."""
        return np.transpose(rows.reshape(self.moved), self.back)
