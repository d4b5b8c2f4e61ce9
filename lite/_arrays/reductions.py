"""Reductions of one array over some axes, as `fn(array, axis, keepdims)`.

Sums of small integers and bools are int64, means of integers float64, and 16-bit floats accumulate in
float32. An empty mean is NaN, without a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.dtypes import inexact
from lite._arrays.types import Array, Function, as_array

Axis: TypeAlias = int | tuple[int, ...] | None
Reducer: TypeAlias = Callable[[Array, Axis, bool], Any]

_add: Any = np.add.reduce
_and: Any = np.logical_and.reduce
_or: Any = np.logical_or.reduce


def _is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


@lru_cache(maxsize=64)  # cached, as NumPy computes properties of a dtype at each access
def _sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind in "biu":
        return np.dtype(np.uint64 if dtype.newbyteorder("=") == np.uint64 else np.int64)
    if _is_half(dtype):
        return np.dtype(np.float32)
    return dtype if dtype.isnative else dtype.newbyteorder("=")  # ufuncs reduce in no other order


def _count(array: Array, axis: Axis) -> int:
    if axis is None:
        return math.prod(array.shape)
    return math.prod([array.shape[a] for a in ((axis,) if isinstance(axis, int) else axis)])


@lru_cache(maxsize=256)
def _number(dtype: np.dtype[Any], value: float) -> Array:
    return np.array(value, dtype)


def _divided(sums: Any, count: float) -> Any:
    """`sums / count`; of none NaN, without a warning."""
    if isinstance(sums, np.ndarray | np.floating) and sums.dtype.kind == "f" and count > 0:
        # Nothing warns here. An array is divided by in half the time of a number, and without errstate.
        return np.true_divide(sums, _number(sums.dtype, count))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.true_divide(sums, count)


def total(ufunc: np.ufunc, dtype: np.dtype[Any] | None = None) -> Reducer:
    """Sum (`np.add`) or product (`np.multiply`), in `dtype` if one is given."""

    reduce: Function = ufunc.reduce

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        own = array.dtype
        wide = _sum_dtype(own) if dtype is None else dtype
        if axis is None and not keepdims and type(array) is np.ndarray:
            # With `out` NumPy returns no scalar, which would have to be converted to an array.
            out = np.empty((), wide)
            reduce(array, None, wide, out)
        else:
            out = reduce(array, axis, wide, None, keepdims)
        if wide is own or dtype is not None:
            return out
        return out.astype(own) if _is_half(own) else out

    return call


def mean(dtype: np.dtype[Any] | None = None) -> Reducer:
    """Arithmetic mean; of integers in float64."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        values = array if dtype is None else array.astype(dtype)
        own = np.dtype(np.float64) if dtype is None and values.dtype.kind in "biu" else values.dtype
        # In pieces: integers, such as images in mapped files, are not all there as floats.
        wide = _add(values, axis=axis, dtype=_sum_dtype(own), keepdims=keepdims)
        out = _divided(wide, _count(array, axis))
        return out if out.dtype is own else out.astype(own)

    return call


_sum, _mean = total(np.add), mean()


def variance(correction: float, root: bool) -> Reducer:
    """Variance, or its root, with `n - correction` in the denominator (at least 0)."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        values = inexact(array)
        wide = values.astype(np.float32) if _is_half(values.dtype) else values
        gap = wide - _mean(wide, axis, True)
        if gap.dtype.kind == "c":
            square = gap.real**2 + gap.imag**2
        else:
            square = np.multiply(gap, gap, out=gap if type(gap) is np.ndarray else None)
        sums = _add(square, axis=axis, keepdims=keepdims)
        out = _divided(sums, max(_count(array, axis) - correction, 0))
        out = np.sqrt(out) if root else out
        return out.astype(values.dtype) if _is_half(values.dtype) else out

    return call


def nan_total(dtype: np.dtype[Any] | None = None) -> Reducer:
    """Sum with NaN counted as 0."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        return total(np.add, dtype)(_without_nan(array), axis, keepdims)

    return call


def nan_mean(dtype: np.dtype[Any] | None = None) -> Reducer:
    """Mean of the elements that are not NaN."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        values = inexact(array) if dtype is None else array.astype(dtype)
        known = _add(~np.isnan(values), axis=axis, dtype=np.int64, keepdims=keepdims)
        wide = _add(_without_nan(values), axis=axis, dtype=_sum_dtype(values.dtype), keepdims=keepdims)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.true_divide(wide, known).astype(values.dtype)

    return call


def _without_nan(array: Array) -> Array:
    return np.where(np.isnan(array), np.zeros((), array.dtype), array) if array.dtype.kind in "fcV" else array


def extreme(ufunc: np.ufunc) -> Reducer:
    """Largest (`np.maximum`) or smallest (`np.minimum`) value; NaN if there is one."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        return ufunc.reduce(array, axis=axis, keepdims=keepdims)

    return call


def every(array: Array, axis: Axis, keepdims: bool) -> Array:
    """Whether all elements are true."""
    if type(array) is np.ndarray:  # what `np.all` does, in half the time
        return _and(array, axis, None, None, keepdims)
    return np.all(array, axis=axis, keepdims=keepdims)


def some(array: Array, axis: Axis, keepdims: bool) -> Array:
    """Whether any element is true."""
    if type(array) is np.ndarray:
        return _or(array, axis, None, None, keepdims)
    return np.any(array, axis=axis, keepdims=keepdims)


def position(find: Callable[..., Any]) -> Reducer:
    """`np.argmax` or `np.argmin` over any axes; the position is row-major over all of them."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        if axis is None or isinstance(axis, int):
            return find(array, axis=axis, keepdims=keepdims)
        kept = [a for a in range(array.ndim) if a not in axis]
        moved = array.transpose((*kept, *sorted(axis)))  # in any order
        flat = moved.reshape((*moved.shape[: len(kept)], _count(array, axis)))
        out = find(flat, axis=-1)
        return np.expand_dims(out, axis) if keepdims else out

    return call


def quantile(q: ArrayLike, interpolation: str) -> Reducer:
    """Quantiles; several of them are a new first axis."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        values = inexact(array)
        out = np.quantile(values, q, axis=axis, keepdims=keepdims, method=interpolation)  # type: ignore[call-overload]
        return as_array(out).astype(values.dtype, copy=False)

    return call


def vector_norm(dtype: np.dtype[Any] | None = None) -> Reducer:
    """Euclidean norm."""

    def call(array: Array, axis: Axis, keepdims: bool) -> Array:
        values = inexact(array) if dtype is None else array.astype(dtype)
        size = np.abs(values) if values.dtype.kind == "c" else values
        return np.sqrt(_sum(size * size, axis, keepdims))

    return call
