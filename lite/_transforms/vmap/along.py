"""Functions along axes: those axes of what a mapped array holds are one further."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._transforms.registry import NoRule
from lite._transforms.vmap.level import Level, batched_in


def further(axis: int, ndim: int) -> int:
    """An axis of `ndim` as an axis of what is held; AxisError if there is no such axis."""
    return normalize_axis_index(axis, ndim) + 1


def all_further(axes: Any, ndim: int) -> tuple[int, ...]:
    """One or more axes of `ndim` as axes of what is held."""
    return tuple([axis + 1 for axis in normalize_axis_tuple(axes, ndim)])


def along(level: Level, function: Any, array: Any, axis: Any, rest: dict[str, Any]) -> Any:
    """A function of an array along axes, where None means all of them, flattened.

    Args:
        level: the map.
        function: gives a result whose first dimension is that of the array.
        array: what it is called with.
        axis: an int, None or (for reductions) a tuple.
        rest: its other arguments, by name. `where` broadcasts with the array.
    """
    rest = rest.copy()
    out = rest.pop("out", None)
    value = level.full(array)
    ndim = value.ndim - 1
    where = rest.get("where", True)
    if batched_in([item for name, item in rest.items() if name != "where"], []):
        raise NoRule  # such as an initial value for each element
    if batched_in((where,), []) or (axis is None and np.ndim(where)):
        where = rest["where"] = np.broadcast_to(level.align(where, ndim), value.shape)
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
        axis = all_further(tuple(axis), ndim)
    else:
        axis = further(axis, ndim)
    result = function(value, axis=axis, **rest)
    wrapped = level.wrap(result.reshape(level.size, *[1] * ndim) if keep else result)
    if out is None:
        return wrapped
    out[...] = wrapped
    return out
