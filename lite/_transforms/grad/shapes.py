"""Rules of functions that change shapes, order or number of dimensions, and of padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._transforms.grad.along import operand, wide
from lite._transforms.grad.indexing import added
from lite._transforms.grad.rules import composed, rule, rules_of
from lite._transforms.grad.tape import is_traced, record, unbroadcast, value_of
from lite._transforms.registry import NoRule


@rule(np.reshape)
def _reshape(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: bool | None = None
) -> Any:
    if order == "A":
        raise NoRule  # an order of memory that the derivative need not have
    held = value_of(a)
    old = held.shape
    options: Any = {"order": order}
    value = np.reshape(held, newshape if shape is None else shape, copy=copy, **options)
    return record(value, (a, lambda g: np.reshape(g, old, **options)))


@rule(np.ravel)
def _ravel(a: Any, order: Any = "C") -> Any:
    held = value_of(a)
    if order not in ("C", "F"):
        if type(held) is not np.ndarray or not held.flags.c_contiguous:
            raise NoRule("the derivative need not have its order of memory")
        order = "C"
    shape = held.shape
    return record(np.ravel(held, order), (a, lambda g: np.reshape(g, shape, order=order)))


def _reordered(a: Any, order: Sequence[int]) -> Any:
    """An array whose dimensions are those of `a` in another order."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return record(np.transpose(value_of(a), order), (a, lambda g: np.transpose(g, back)))


@rule(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> Any:
    if axes is None:
        return record(np.transpose(value_of(a)), (a, lambda g: np.transpose(g)))
    if len(axes) != a.ndim:
        raise ValueError("axes don't match array")
    return _reordered(a, [normalize_axis_index(axis, a.ndim) for axis in axes])


@rule(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    return record(np.matrix_transpose(value_of(x)), (x, lambda g: np.matrix_transpose(g)))


@rule(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return record(np.swapaxes(value_of(a), axis1, axis2), (a, lambda g: np.swapaxes(g, axis1, axis2)))


@rule(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    value = np.moveaxis(value_of(a), source, destination)
    return record(value, (a, lambda g: np.moveaxis(g, destination, source)))


@rule(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    ndim = a.ndim
    axis = normalize_axis_index(axis, ndim)
    start = start + ndim if start < 0 else start
    if not 0 <= start <= ndim:
        raise ValueError(f"start must be between {-ndim} and {ndim}, got {start}")
    rest = [d for d in range(ndim) if d != axis]
    rest.insert(start - (axis < start), axis)
    return _reordered(a, rest)


@rule(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Any:
    held = value_of(a)
    return record(np.expand_dims(held, axis), (a, lambda g: g.reshape(held.shape)))


@rule(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Any:
    held = value_of(a)
    return record(np.squeeze(held, axis), (a, lambda g: g.reshape(held.shape)))


@rule(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    held = value_of(array)
    return record(np.broadcast_to(held, shape), (array, lambda g: unbroadcast(g, held.shape)))


@rule(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    return record(np.flip(value_of(m), axis), (m, lambda g: np.flip(g, axis)))


@rule(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return record(np.rot90(value_of(m), k, axes), (m, lambda g: np.rot90(g, -k, axes)))


@rule(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if is_traced(shift):
        raise NoRule
    return record(np.roll(value_of(a), shift, axis), (a, lambda g: np.roll(g, np.negative(shift), axis)))


@rules_of(np.fft.fftshift, np.fft.ifftshift)
def _shift(function: Any) -> Any:
    def run(x: Any, axes: Any = None) -> Any:
        places = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple | list) else (axes,)
        sizes = [x.shape[axis] // 2 for axis in places]
        return np.roll(x, sizes if function is np.fft.fftshift else [-size for size in sizes], tuple(places))

    return run


@rule(np.tile)
def _tile(A: Any, reps: Any) -> Any:
    counts = tuple(reps) if isinstance(reps, Sequence | np.ndarray) else (reps,)
    held = value_of(A)
    ndim = max(held.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - held.ndim) + held.shape
    pairs = [n for pair in zip(counts, sizes, strict=True) for n in pair]

    def pull(g: Any) -> Any:
        return np.sum(wide(g).reshape(pairs), tuple(range(0, 2 * ndim, 2))).reshape(held.shape)

    return record(np.tile(held, reps), (A, pull))


@rule(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    a = operand(a)
    if axis is None or not a.ndim:
        a, axis = a.reshape(-1), 0 if axis is None else axis
    if np.ndim(repeats) and len(repeats) != 1:
        return np.take(a, np.repeat(np.arange(a.shape[axis]), repeats), axis)
    held = value_of(a)
    place = normalize_axis_index(axis, held.ndim)
    value = np.repeat(held, repeats, place)
    shape = (
        *held.shape[: place + 1],
        value.shape[place] // max(held.shape[place], 1),
        *held.shape[place + 1 :],
    )
    return record(value, (a, lambda g: np.sum(wide(g).reshape(shape), place + 1)))


@rule(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    held = value_of(a)
    value = np.diagonal(held, offset, axis1, axis2)
    rows = np.arange(value.shape[-1])

    def pull(g: Any) -> Any:
        out = np.zeros_like(g, shape=held.shape)
        np.moveaxis(out, (axis1, axis2), (-2, -1))[..., rows + max(-offset, 0), rows + max(offset, 0)] = g
        return out

    return record(value, (a, pull))


@composed(np.linalg.diagonal)
def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return np.diagonal(x, offset, -2, -1)


@rule(np.tril)
def _tril(m: Any, k: int = 0) -> Any:
    return _triangle(np.tril, m, k)


@rule(np.triu)
def _triu(m: Any, k: int = 0) -> Any:
    return _triangle(np.triu, m, k)


def _triangle(function: Any, m: Any, k: int) -> Any:
    if m.ndim == 1:  # a row repeated into a square
        m = np.broadcast_to(m, (m.shape[0], m.shape[0]))
    return record(function(value_of(m), k), (m, lambda g: function(g, k)))


@rule(np.lib.stride_tricks.sliding_window_view)
def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    if writeable:
        raise NoRule
    held = value_of(x)
    value = np.lib.stride_tricks.sliding_window_view(held, window_shape, axis)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim, allow_duplicate=True)
    sizes = list(held.shape)
    steps = []  # the size of each axis before it was seen through windows
    for place, window in zip(axes, value.shape[held.ndim :], strict=True):
        steps.append((place, window, sizes[place]))
        sizes[place] -= window - 1

    def pull(g: Any) -> Any:
        for place, window, size in reversed(steps):
            g = np.moveaxis(g, -1, place + 1)
            shape = (*g.shape[:place], size, *g.shape[place + 2 :])
            places = np.arange(size - window + 1)[:, None] + np.arange(window)
            g = added(g, (*[slice(None)] * place, places), shape)
        return g

    return record(value, (x, pull))


@rule(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    if callable(mode) or mode in ("maximum", "minimum", "median") or is_traced(kwargs):
        raise NoRule
    held = value_of(array)
    value = np.pad(held, pad_width, mode, **kwargs)
    widths = _pairs(pad_width, held.ndim)
    if mode in ("constant", "empty"):
        inner = tuple([slice(low, low + n) for (low, _), n in zip(widths, held.shape, strict=True)])
        return record(value, (array, lambda g: g[inner]))
    lengths = _pairs(kwargs.get("stat_length"), held.ndim)

    def pull(g: Any) -> Any:
        for axis, (width, length) in enumerate(zip(widths, lengths, strict=True)):
            if width == (0, 0):
                continue
            # Such padding is linear: what it makes of each unit vector is a column of its matrix.
            options = {"stat_length": (length, (1, 1))} if mode == "mean" and length[0] else {}
            if "reflect_type" in kwargs:
                options["reflect_type"] = kwargs["reflect_type"]
            unit = np.eye(held.shape[axis], dtype=g.dtype)
            matrix = np.pad(unit, (width, (0, 0)), mode, **options)
            g = np.moveaxis(np.matmul(np.moveaxis(g, axis, -1), matrix), -1, axis)
        return g

    return record(value, (array, pull))


def _pairs(given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis, in the forms that `numpy.pad` takes."""
    if given is None:
        return [(None, None)] * ndim
    if isinstance(given, dict):
        pairs = {axis % ndim: pair for axis, pair in given.items()}
        return [tuple(np.broadcast_to(pairs.get(axis, 0), 2).tolist()) for axis in range(ndim)]
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]
