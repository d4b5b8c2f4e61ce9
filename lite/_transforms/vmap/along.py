"""Functions along axes. Axes are shifted by one: the batch dimension is at 0."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._arrays.types import Function
from lite._transforms.registry import NoRule, parameters
from lite._transforms.vmap.level import Level, batched_in


def shifted_axis(axis: int, ndim: int) -> int:
    """The axis of a mapped array's value for an axis of the array, of `ndim` dimensions; else AxisError."""
    return normalize_axis_index(axis, ndim) + 1


def shifted_axes(axes: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """`shifted_axis` for one or more axes."""
    return tuple([axis + 1 for axis in normalize_axis_tuple(axes, ndim)])


def along(level: Level, function: Function, array: Any, axis: Any, rest: dict[str, Any]) -> Any:
    """Apply a function along axes of a mapped array; None means all axes, flattened.

    Args:
        level: the level of the map.
        function: a function of NumPy that keeps the first dimension.
        array: its first argument.
        axis: an int, None or (for reductions) a tuple.
        rest: its other arguments, by name. `where` broadcasts with the array.
    """
    rest = rest.copy()
    value = level.full(array)
    ndim = value.ndim - 1
    where = rest.get("where", True)
    if batched_in([item for name, item in rest.items() if name != "where"], []):
        raise NoRule  # such as an initial value for each element
    if batched_in((where,), []) or (axis is None and np.ndim(where)):
        where = rest["where"] = np.broadcast_to(level.align(where, ndim), value.shape)
    if batched_in((where,), []):  # by an outer map: NumPy dispatches on the array alone, so map it, too
        value = np.where(np.ones_like(where), value, value)
    keep = False
    if axis is None:
        keep = rest.get("keepdims") is True
        rest.pop("keepdims", None)
        flat = (level.size, math.prod(value.shape[1:]))
        value = value.reshape(flat)
        if np.ndim(where):
            rest["where"] = where.reshape(flat)
        axis = 1
    elif isinstance(axis, tuple | list):
        axis = shifted_axes(tuple(axis), ndim)
    else:
        axis = shifted_axis(axis, ndim)
    result = function(value, axis=axis, **rest)
    return level.wrap(result.reshape(level.size, *[1] * ndim) if keep else result)


def bound_to(function: Function, args: Any, kwargs: Any) -> dict[str, Any]:
    """Arguments by the names of a function's parameters."""
    return {**dict(zip(parameters(function), args, strict=False)), **kwargs}
