"""Rules of functions that change shapes, order or number of dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._transforms.registry import NoRule
from lite._transforms.vmap.along import all_further, further
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import rule
from lite._tree.shape import infer_size


@rule(np.shape)
def _shape(level: Level, a: Any) -> Any:
    return a.shape


@rule(np.ndim)
def _ndim(level: Level, a: Any) -> int:
    return int(a.ndim)


@rule(np.size)
def _size(level: Level, a: Any, axis: Any = None) -> int:
    shape = a.shape
    return math.prod(shape if axis is None else [shape[d] for d in np.atleast_1d(axis)])


@rule(np.reshape)
def _reshape(
    level: Level, a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    if order not in ("C", "F", None):
        raise NoRule
    sizes = newshape if shape is None else shape
    new = (
        tuple(map(operator.index, sizes))
        if isinstance(sizes, Sequence | np.ndarray)
        else (operator.index(sizes),)
    )
    if order == "F":
        return np.transpose(np.reshape(np.transpose(a), new[::-1], copy=copy))
    own = a.shape
    if new == own and not copy:
        return level.wrap(a.value)
    try:
        new = infer_size(new, math.prod(own))
    except RuntimeError as error:
        raise ValueError(f"cannot reshape array of size {math.prod(own)} into shape {new}") from error
    return level.wrap(np.reshape(a.value, (level.size, *new), copy=copy))


@rule(np.ravel)
def _ravel(level: Level, a: Any, order: str = "C") -> Any:
    if order == "F":
        a = np.transpose(a)
    return level.wrap(a.value.reshape(level.size, math.prod(a.shape)))


@rule(np.transpose, np.permute_dims)
def _transpose(level: Level, a: Any, axes: Any = None) -> Any:
    ndim = a.ndim
    if axes is not None and len(axes) != ndim:
        raise ValueError("axes don't match array")
    order = range(ndim, 0, -1) if axes is None else all_further(axes, ndim)
    return level.wrap(a.value.transpose(0, *order))


@rule(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(level: Level, x: Any, /) -> Any:
    if x.ndim < 2:
        raise ValueError(f"matrix transpose needs at least 2 dimensions, got {x.ndim}")
    return level.wrap(x.value.swapaxes(-1, -2))


@rule(np.swapaxes)
def _swapaxes(level: Level, a: Any, axis1: int, axis2: int) -> Any:
    return level.wrap(a.value.swapaxes(further(axis1, a.ndim), further(axis2, a.ndim)))


@rule(np.moveaxis)
def _moveaxis(level: Level, a: Any, source: Any, destination: Any) -> Any:
    return level.wrap(np.moveaxis(a.value, all_further(source, a.ndim), all_further(destination, a.ndim)))


@rule(np.rollaxis)
def _rollaxis(level: Level, a: Any, axis: int, start: int = 0) -> Any:
    at = start + a.ndim if start < 0 else start
    return level.wrap(np.rollaxis(a.value, further(axis, a.ndim), at + 1))


@rule(np.expand_dims)
def _expand_dims(level: Level, a: Any, axis: Any) -> Any:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    return level.wrap(np.expand_dims(a.value, all_further(axes, a.ndim + len(axes))))


@rule(np.squeeze)
def _squeeze(level: Level, a: Any, axis: Any = None) -> Any:
    ones = [d + 1 for d, size in enumerate(a.shape) if size == 1]
    return level.wrap(np.squeeze(a.value, tuple(ones) if axis is None else all_further(axis, a.ndim)))


@rule(np.broadcast_to)
def _broadcast_to(level: Level, array: Any, shape: Any, subok: bool = False) -> Any:
    new = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if len(new) < array.ndim:
        raise ValueError(f"an array of {array.ndim} dimensions does not broadcast to the shape {new}")
    return level.wrap(np.broadcast_to(level.align(array, len(new)), (level.size, *new)))


@rule(np.tile)
def _tile(level: Level, A: Any, reps: Any) -> Any:
    counts = tuple(reps) if isinstance(reps, Sequence | np.ndarray) else (reps,)
    counts = (1,) * (A.ndim - len(counts)) + counts
    return level.wrap(np.tile(level.align(A, len(counts)), (1, *counts)))


@rule(np.repeat)
def _repeat(level: Level, a: Any, repeats: Any, axis: int | None = None) -> Any:
    if not level.on(a) or hasattr(repeats, "level"):
        raise NoRule
    if axis is None:
        return level.wrap(np.repeat(a.value.reshape(level.size, math.prod(a.shape)), repeats, 1))
    return level.wrap(np.repeat(a.value, repeats, further(axis, a.ndim)))


@rule(np.roll)
def _roll(level: Level, a: Any, shift: Any, axis: Any = None) -> Any:
    if not level.on(a) or hasattr(shift, "level"):
        raise NoRule
    if axis is None:
        flat = a.value.reshape(level.size, math.prod(a.shape))
        return level.wrap(np.roll(flat, shift, 1).reshape(a.value.shape))
    axes = [further(d, a.ndim) for d in (axis if isinstance(axis, tuple | list) else (axis,))]
    return level.wrap(np.roll(a.value, shift, tuple(axes)))


@rule(np.rot90)
def _rot90(level: Level, m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    first, second = (further(axis, m.ndim) for axis in axes)
    return level.wrap(np.rot90(m.value, k, (first, second)))


@rule(np.diagonal)
def _diagonal(level: Level, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return level.wrap(np.diagonal(a.value, offset, further(axis1, a.ndim), further(axis2, a.ndim)))


@rule(np.linalg.diagonal)
def _linalg_diagonal(level: Level, x: Any, /, *, offset: int = 0) -> Any:
    return level.wrap(np.diagonal(x.value, offset, further(-2, x.ndim), further(-1, x.ndim)))


@rule(np.pad)
def _pad(level: Level, array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    if not level.on(array) or callable(mode) or any(hasattr(value, "level") for value in kwargs.values()):
        raise NoRule
    ndim = array.ndim
    widths = _per_axis(pad_width, ndim)
    for name in ("constant_values", "end_values", "stat_length"):
        if kwargs.get(name) is not None:
            first = (0, 0) if name != "stat_length" else (1, 1)
            kwargs[name] = (first, *_per_axis(kwargs[name], ndim))
    return level.wrap(np.pad(array.value, ((0, 0), *widths), mode, **kwargs))


def _per_axis(given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis, in the forms that `numpy.pad` takes."""
    if isinstance(given, dict):
        pairs = {axis % ndim: pair for axis, pair in given.items()}
        return [tuple(np.broadcast_to(pairs.get(axis, 0), 2).tolist()) for axis in range(ndim)]
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]
