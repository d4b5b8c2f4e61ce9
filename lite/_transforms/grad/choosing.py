"""Rules of functions that choose elements or write some, in other forms than brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._transforms.grad.indexing import write
from lite._transforms.grad.rules import composed, rule
from lite._transforms.grad.tape import record, unbroadcast, value_of

_NOTHING = object()


@rule(np.where)
def _where(condition: Any, x: Any = _NOTHING, y: Any = _NOTHING, /) -> Any:
    chosen = value_of(condition)
    if x is _NOTHING:
        return np.where(chosen)
    first, second = value_of(x), value_of(y)
    value = np.where(chosen, first, second)
    return record(
        value,
        (x, lambda g: unbroadcast(np.where(chosen, g, 0), np.shape(first))),
        (y, lambda g: unbroadcast(np.where(chosen, 0, g), np.shape(second))),
    )


@composed(np.take)
def _take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normalize_axis_index(axis, a.ndim)
    indices = value_of(indices)
    if not hasattr(indices, "dtype"):
        indices = np.asarray(indices, np.intp)
    size = a.shape[axis]
    if mode == "wrap":
        indices = indices % size
    elif mode == "clip":
        indices = np.clip(indices, 0, size - 1)
    return a[(*[slice(None)] * axis, indices)]


@rule(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    held = value_of(arr)
    shape = held.shape
    axis = normalize_axis_index(axis, len(shape))
    # Where one element of each row is taken, none is taken twice.
    once = indices.shape == (*shape[:axis], 1, *shape[axis + 1 :])

    def pull(g: Any) -> Any:
        out = np.zeros_like(g, shape=shape)
        if once:
            np.put_along_axis(out, indices, g, axis)
        else:
            np.add.at(out, _places(indices, axis, shape), g)
        return out

    return record(np.take_along_axis(held, indices, axis), (arr, pull))


def _places(indices: Any, axis: int, shape: Any) -> tuple[Any, ...]:
    """The index that `take_along_axis` reads at."""
    ndim = len(shape)
    return tuple(
        [
            indices if d == axis else np.arange(size).reshape(*[1] * d, size, *[1] * (ndim - d - 1))
            for d, size in enumerate(shape)
        ]
    )


@composed(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    if axis is None:
        write(arr, _written(arr.reshape(-1), value_of(indices), values).reshape(arr.shape))
        return
    axis = normalize_axis_index(axis, arr.ndim)
    arr[_places(value_of(indices), axis, arr.shape)] = values


def _written(new: Any, index: Any, values: Any) -> Any:
    new = new.copy()
    new[index] = values
    return new


@composed(np.copyto)
def _copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    new = src if where is True else np.where(value_of(where), src, dst)
    write(dst, new, casting if where is True else "unsafe", "numpy.copyto")


@composed(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    numbers = np.asarray(ind).reshape(-1)
    if mode == "wrap":
        numbers = numbers % a.size
    elif mode == "clip":
        numbers = np.clip(numbers, 0, a.size - 1)
    if numbers.size:
        numbers = np.where(numbers < 0, numbers + a.size, numbers)
        a[np.unravel_index(numbers, a.shape)] = np.resize(v, numbers.shape)


@composed(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    chosen = np.asarray(value_of(mask), bool).reshape(arr.shape)
    count = np.count_nonzero(chosen)
    if count:
        arr[chosen] = np.resize(vals, (count,))


@composed(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    np.copyto(a, np.resize(values, a.shape), "unsafe", value_of(mask))


@composed(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    mark = np.zeros(a.shape, bool)
    np.fill_diagonal(mark, True, wrap)
    places = np.nonzero(mark)
    new = np.ravel(val)
    a[places] = new if new.shape[0] == 1 else np.resize(new, places[0].shape)
