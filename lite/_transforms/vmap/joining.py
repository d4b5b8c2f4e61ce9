"""Rules of functions that join arrays, and that take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import further
from lite._transforms.vmap.level import Level, ndim_of
from lite._transforms.vmap.rules import composed, rule


def _items(arrays: Any) -> list[Any]:
    return [a if hasattr(a, "ndim") else np.asarray(a) for a in arrays]


@rule(np.concatenate, np.concat)
def _concatenate(level: Level, arrays: Any, axis: int | None = 0, **kwargs: Any) -> Any:
    items = _items(arrays)
    if axis is None:
        items, axis = [np.ravel(a) for a in items], 0
    return level.wrap(np.concatenate([level.full(a) for a in items], further(axis, items[0].ndim), **kwargs))


@rule(np.stack)
def _stack(level: Level, arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    items = _items(arrays)
    return level.wrap(np.stack([level.full(a) for a in items], further(axis, items[0].ndim + 1), **kwargs))


@composed(np.vstack)
def _vstack(tup: Any, **kwargs: Any) -> Any:
    return np.concatenate([np.atleast_2d(a) for a in tup], 0, **kwargs)


@composed(np.hstack)
def _hstack(tup: Any, **kwargs: Any) -> Any:
    items = [np.atleast_1d(a) for a in tup]
    return np.concatenate(items, 0 if items and ndim_of(items[0]) == 1 else 1, **kwargs)


@composed(np.dstack)
def _dstack(tup: Any) -> Any:
    return np.concatenate([np.atleast_3d(a) for a in tup], 2)


@composed(np.column_stack)
def _column_stack(tup: Any) -> Any:
    items = _items(tup)
    return np.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in items], 1)


@composed(np.block)
def _block(arrays: Any) -> Any:
    parts, depth = arrays, 0
    while isinstance(parts, list) and parts:
        depth, parts = depth + 1, parts[0]

    def widest(part: Any) -> int:
        return max(map(widest, part)) if isinstance(part, list) else ndim_of(part)

    ndim = max(depth, widest(arrays))

    def join(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            if not axis or not part:
                raise NoRule  # NumPy names the list that is too deep, or empty
            return np.concatenate([join(item, axis + 1) for item in part], axis)
        if axis:
            raise NoRule
        missing = (None,) * (ndim - ndim_of(part))
        return (part if hasattr(part, "ndim") else np.asarray(part))[missing]

    return join(arrays, -depth)


@composed(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([arr, values], axis)


@rule(np.array_split)
def _array_split(level: Level, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return level.wrap_all(np.array_split(ary.value, indices_or_sections, further(axis, ary.ndim)))


@rule(np.split)
def _split(level: Level, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return level.wrap_all(np.split(ary.value, indices_or_sections, further(axis, ary.ndim)))


@composed(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, 1 if ndim_of(ary) > 1 else 0)


@composed(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    if ndim_of(ary) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return np.split(ary, indices_or_sections, 0)


@composed(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    if ndim_of(ary) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return np.split(ary, indices_or_sections, 2)


@rule(np.unstack)
def _unstack(level: Level, x: Any, /, *, axis: int = 0) -> Any:
    return level.wrap_all(np.unstack(np.moveaxis(x.value, further(axis, x.ndim), 1), axis=1))


@composed(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = 1, 0
    grids = [
        np.reshape(x, [-1 if d == place else 1 for d in range(ndim)])
        for x, place in zip(xi, places, strict=True)
    ]
    if sparse:
        return tuple(grids)
    return tuple([grid.copy() if copy else grid for grid in np.broadcast_arrays(*grids)])


@rule(np.insert)
def _insert(level: Level, arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    if not isinstance(obj, int | np.integer):
        raise NoRule
    if axis is None:
        arr, axis = np.ravel(arr), 0
    place = axis % ndim_of(arr)
    head = (slice(None),) * place
    shape = list(np.shape(arr))
    if ndim_of(values) > 1 and np.shape(values)[0] != 1:
        raise NoRule
    shape[place] = 1
    size = np.shape(arr)[place]
    if not -size <= obj <= size:
        raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {size}")
    at = int(obj) % size if obj < 0 else int(obj)
    new = np.broadcast_to(values if hasattr(values, "shape") else np.asarray(values), shape)
    new = new.astype(arr.dtype)
    return np.concatenate([arr[(*head, slice(None, at))], new, arr[(*head, slice(at, None))]], axis)
