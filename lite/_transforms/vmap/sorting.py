"""Rules of functions that look up, take, put and search."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.formulas import ndim_of
from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import further
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.indexing import get_index, set_index, where_true
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import composed, rule
from lite._transforms.vmap.ufuncs import elementwise


@rule(np.take)
def _take(
    level: Level, a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    if out is not None:
        raise NoRule
    if axis is None:
        a, axis = np.ravel(a), 0
    if not hasattr(indices, "shape"):
        indices = np.asarray(indices, None if np.size(indices) else np.intp)
    place = further(axis, ndim_of(a)) - 1
    size = np.shape(a)[place]
    if mode == "wrap":
        indices = indices % size
    elif mode == "clip":
        indices = np.clip(indices, 0, size - 1)
    if not level.on(indices):
        return level.wrap(np.take(a.value, indices, place + 1))
    return get_index(a, (slice(None),) * place + (indices,))


@rule(np.take_along_axis)
def _take_along_axis(level: Level, arr: Any, indices: Any, axis: int | None = -1) -> Any:
    arr, indices, axis = _along_axis(level, arr, indices, axis)
    return level.wrap(np.take_along_axis(arr, indices, axis))


@rule(np.put_along_axis)
def _put_along_axis(level: Level, arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    if not level.on(arr):
        raise RuntimeError("vmap cannot put mapped values into an array that is not mapped itself.")
    if axis is None:
        raise NoRule
    held, places, at = _along_axis(level, arr, indices, axis)
    np.put_along_axis(held, places, level.align(values, ndim_of(indices)), at)


def _along_axis(level: Level, arr: Any, indices: Any, axis: int | None) -> tuple[Any, Any, int]:
    if axis is None:
        arr, axis = np.ravel(arr), 0
    return level.full(arr), level.full(indices), further(axis, ndim_of(arr))


@rule(np.nonzero)
def _nonzero(level: Level, a: Any) -> Any:
    if type(a.value) is BatchedArray or not a.ndim:
        raise NoRule
    return tuple(where_true(level, a if a.dtype.kind == "b" else a != 0))


@rule(np.searchsorted)
def _searchsorted(level: Level, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    if level.on(a) or level.on(sorter):
        if sorter is not None:
            a = np.take_along_axis(a, sorter, -1)
        if side not in ("left", "right"):
            raise ValueError(f"side must be 'left' or 'right', got {side!r}")
        v = v if hasattr(v, "shape") else np.asarray(v)
        # How many elements are before v; NaN comes after all numbers.
        if side == "left":
            return ((a < v[..., None]) | (np.isnan(v)[..., None] & ~np.isnan(a))).sum(-1)
        return ((a <= v[..., None]) | np.isnan(v)[..., None]).sum(-1)
    return level.wrap(np.searchsorted(a, v.value, side, sorter))


@composed(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    if isinstance(bins, BatchedArray):
        raise NoRule
    return elementwise(lambda values: np.digitize(values, bins, right), (x,))


@rule(np.copyto)
def _copyto(level: Level, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    if not level.on(dst):
        set_index(dst, Ellipsis, src)  # says why not
    ndim = dst.ndim
    src = src if hasattr(src, "shape") else np.asarray(src)
    np.copyto(dst.value, level.align(src, ndim), casting, level.align(where, ndim))


@rule(np.put)
def _put(level: Level, a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    if mode != "raise" or not level.on(a) or ndim_of(v) > ndim_of(ind):
        raise NoRule
    flat = a.reshape(-1)
    flat[ind] = v
    if not np.shares_memory(flat.value, a.value):
        a[...] = flat.reshape(a.shape)


@rule(np.shares_memory)
def _shares_memory(level: Level, a: Any, b: Any, max_work: Any = None) -> bool:
    return np.shares_memory(level.value(a), level.value(b), max_work)


@rule(np.may_share_memory)
def _may_share_memory(level: Level, a: Any, b: Any, max_work: Any = None) -> bool:
    return np.may_share_memory(level.value(a), level.value(b), max_work)


@rule(np.lexsort)
def _lexsort(level: Level, keys: Any, axis: int = -1) -> Any:
    items = tuple([level.full(key) for key in keys])
    return level.wrap(np.lexsort(items, further(axis, items[0].ndim - 1)))


@rule(np.isin)
def _isin(level: Level, element: Any, test_elements: Any, **kwargs: Any) -> Any:
    if level.on(test_elements):
        if kwargs:
            raise NoRule
        element = element if hasattr(element, "shape") else np.asarray(element)
        return (element[..., None] == np.ravel(test_elements)).any(-1)
    return level.wrap(np.isin(element.value, test_elements, **kwargs))


@rule(np.interp)
def _interp(level: Level, x: Any, xp: Any, fp: Any, *args: Any, **kwargs: Any) -> Any:
    if level.on(xp) or level.on(fp):
        raise NoRule
    return level.wrap(np.interp(x.value, xp, fp, *args, **kwargs))
