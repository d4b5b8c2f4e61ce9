"""Reading and writing by index; the array, the index and the value may each be mapped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Shape
from lite._transforms.levels import count, innermost
from lite._transforms.registry import ndim_of
from lite._transforms.vmap.array import BatchedArray, SharedArray, has_batched, number_of
from lite._transforms.vmap.level import Level, batched_in, level_of
from lite._transforms.vmap.loop import loop

_ALL = slice(None)


class Advanced(NamedTuple):
    """An index with arrays in it, for the value of a mapped array.

    Attributes:
        items: the index, with the mapped dimension first in every mapped array.
        ndim: number of dimensions that the arrays of the index broadcast to.
        before: number of dimensions of the result before these.
        mapped: whether an array of the index is mapped.
        split: whether slices separate the arrays; NumPy then puts the arrays' dimensions first.
    """

    items: tuple[Any, ...]
    ndim: int
    before: int
    mapped: bool
    split: bool


def get_index(x: Any, index: Any) -> Array | BatchedArray:
    """`x[index]`."""
    if type(index) is int or type(index) is slice:
        return number_of(BatchedArray(x.value[_ALL, index], x.level))
    level = level_of(batched_in((x, index), []))
    if mask_of(index) is not None:
        return _masked(level, x, index)
    if not _has_arrays(index):
        items = index if type(index) is tuple else (index,)
        found = level.wrap(x.value[(_ALL, *items)])
        return found if any(item is Ellipsis for item in items) else number_of(found)
    return _get(level, x, advanced(level, index, x.shape))


def _get(level: Level, x: object, index: Advanced) -> Array:
    value = level.value(x)
    if not index.mapped:
        out = _at(value, (_ALL, *index.items))
        # The dimensions of the arrays of the index come before the mapped dimension.
        return level.wrap(np.moveaxis(out, index.ndim, 0) if index.split else out)
    if not level.on(x):
        out = _at(value, index.items)
        return level.wrap(out if index.split else np.moveaxis(out, index.before, 0))
    out = _at(value, (each(level, index), *index.items))
    if not index.split and index.before:
        dims = range(1, 1 + index.ndim)
        out = np.moveaxis(out, tuple(dims), tuple(d + index.before for d in dims))
    return level.wrap(out)


def set_index(x: Any, index: Any, new: ArrayLike) -> None:
    """`x[index] = new`.

    Raises:
        RuntimeError: the index or the new value is mapped, but `x` is not.
    """
    level = level_of(batched_in((x, index, new), []))
    if not level.on(x):
        raise RuntimeError(
            "vmap cannot write into an array that all elements along the mapped dimension share, because "
            "index or value differ between them: make the array inside the mapped function from a mapped "
            "one, with np.zeros_like or np.full_like, or pass it as a mapped argument."
        )
    if not hasattr(new, "shape"):
        new = np.asarray(new)
    if mask_of(index) is not None:
        _set_masked(level, x, index, new)
        return
    if not _has_arrays(index):
        at = (_ALL, *(index if type(index) is tuple else (index,)))
        ndim = x.value[at].ndim - 1
        x.value[at] = level.align(_shrunk(new, ndim), ndim)
        return
    at, values = places_and_values(level, x, advanced(level, index, x.shape), new)
    if has_batched(at) and type(x.value) is not BatchedArray:
        set_index(x.value, at, values)
    else:
        x.value[at] = values


def places_and_values(level: Level, x: Any, found: Advanced, new: Any) -> tuple[tuple[Any, ...], Array]:
    """The index that writes to the value of a mapped array, and the new values in its order."""
    shape = result_shape(level, x, found)
    values = np.broadcast_to(level.align(_shrunk(new, len(shape)), len(shape)), (level.size, *shape))
    if not found.mapped:
        return (_ALL, *found.items), np.moveaxis(values, 0, found.ndim) if found.split else values
    if not found.split and found.before:
        dims = range(1, 1 + found.ndim)
        values = np.moveaxis(values, tuple(d + found.before for d in dims), tuple(dims))
    return (each(level, found), *found.items), values


def result_shape(level: Level, x: Any, index: Advanced) -> Shape:
    """Shape of `x[index]`, computed on a broadcast zero, which takes no memory."""
    dummy = np.broadcast_to(np.zeros((), np.int8), (level.size, *x.shape))
    return _get(level, level.wrap(dummy), index).shape


def advanced(level: Level, index: Any, shape: Shape) -> Advanced:
    """Prepare an index that has arrays in it."""
    items: list[Any] = []
    for item in index if type(index) is tuple else (index,):
        if isinstance(item, list):
            item = np.stack(item) if has_batched(item) else np.asarray(item, None if item else np.intp)
        if isinstance(item, np.ndarray | np.bool_ | bool) and np.asarray(item).dtype.kind == "b":
            # A mask is equal to the index arrays of its true elements.
            mask = np.asarray(item)
            items.extend(mask.nonzero() if mask.ndim else (None, np.flatnonzero(mask)))
        else:
            items.append(np.asarray(item) if isinstance(item, SharedArray) else item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    fill = [_ALL] * (len(shape) - used)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    if at is None:
        items.extend(fill)
    else:
        items[at : at + 1] = fill
    places = [i for i, item in enumerate(items) if item is not None and type(item) is not slice]
    ndim = max(ndim_of(items[i]) for i in places)
    mapped = any(level.on(items[i]) for i in places)
    split = places != list(range(places[0], places[0] + len(places)))
    return Advanced(tuple(level.align(item, ndim) for item in items), ndim, places[0], mapped, split)


def mask_of(index: Any) -> Any:
    """The first mapped mask in an index; None if there is none."""
    for item in index if type(index) is tuple else (index,):
        if _is_mask(item):
            return item
    return None


def _is_mask(item: Any) -> bool:
    return type(item) is BatchedArray and item.dtype.kind == "b"


def _masked(level: Level, x: object, index: Any) -> Any:
    """Elements where a mapped mask is true; each mapped element must have the same number of them."""
    out: list[Any] = []
    for item in index if type(index) is tuple else (index,):
        if not _is_mask(item):
            out.append(item)
        elif type(item.value) is np.ndarray and item.ndim:
            out.extend(where_true(Level(item.level, len(item.value)), item))
        else:
            return loop(level, _pick, (x, index), {}, "indexing with a mask")
    return get_index(x, tuple(out))


def where_true(level: Level, mask: BatchedArray) -> list[Any]:
    """The indices of a mapped mask's true elements, one mapped array for each dimension.

    Raises:
        ValueError: mapped elements have different numbers of true elements.
    """
    rows, *places = np.asarray(mask.value).nonzero()
    counts = np.bincount(rows, minlength=level.size)
    count = int(counts[0]) if level.size else 0
    if (counts != count).any():
        raise ValueError(
            "a mask inside vmap must be true at as many places for each element along the mapped dimension, "
            f"as the result has one shape; it is at {counts.min()} to {counts.max()}. np.where keeps "
            "the shape."
        )
    return [level.wrap(place.reshape(level.size, count)) for place in places]


def _set_masked(level: Level, x: Any, index: Any, new: Any) -> None:
    """`x[index] = new` with a mapped mask in the index: by `np.where` for one number, else in a loop."""
    items = index if type(index) is tuple else (index,)
    before = len(items) - 1
    if ndim_of(new) == 0 and _is_mask(items[-1]) and all(item == _ALL for item in items[:-1]):
        mask = items[-1]
        places = mask.reshape(*[1] * before, *mask.shape, *[1] * (x.ndim - before - mask.ndim))
        x[...] = np.where(places, new.astype(x.dtype), x)
        return
    loop(level, _put, (x, index, new), {}, "assignment through a mask")


def _pick(x: Array, index: Any) -> Array:
    return x[index]


def _put(x: Array, index: Any, new: ArrayLike) -> None:
    x[index] = new


def _has_arrays(index: Any) -> bool:
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        basic = kind is int or kind is slice or item is None or item is Ellipsis
        if not basic and not isinstance(item, np.integer):
            return True
    return False


def _at(value: Array, index: tuple[Any, ...]) -> Any:
    """`value[index]`; arrays of the index may be mapped by an outer map, or be arrays of a graph."""
    if has_batched(index):
        return get_index(value, index)
    inner = innermost(index) if type(value) is np.ndarray else None
    return value[index] if inner is None else inner.pick(value, index)


def each(level: Level, index: Advanced) -> Array:
    """`arange(level.size)`, shaped to broadcast with a mapped index that comes after it."""
    return count(innermost(index.items), level.size).reshape(level.size, *[1] * index.ndim)


def _shrunk(new: Any, ndim: int) -> Array:
    """A new value without leading dimensions of size 1 beyond `ndim`, as NumPy allows them."""
    while new.ndim > ndim and new.shape[0] == 1:
        new = new[0]
    return new
