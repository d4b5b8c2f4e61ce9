"""Rules of functions that change shapes, order or number of dimensions, repeat, pad or cut elements.

Past 600 lines because it is one family: each function has three rules of a few lines.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy import linalg
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, DtypeLike, Function, IntOrInts, Shape
from lite._transforms.grad.along import wide
from lite._transforms.grad.indexing import scatter_add
from lite._transforms.grad.tape import holds_traced, unbroadcast, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph, view_of
from lite._transforms.registry import (
    FORMULAS,
    GRAD,
    ONNX,
    VMAP,
    ZERO_GRADIENT,
    NoRule,
    as_array,
    as_arrays,
    formula,
)
from lite._transforms.vmap.along import shifted_axes, shifted_axis
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level
from lite._tree.shape import infer_size

ZERO_GRADIENT.update((np.shape, np.ndim, np.size))


@VMAP.composed(np.shape)
@ONNX.composed(np.shape)
def _shape(a: Array) -> Shape:
    return a.shape


@VMAP.composed(np.ndim)
@ONNX.composed(np.ndim)
def _ndim(a: Array) -> int:
    return int(a.ndim)


@VMAP.composed(np.size)
@ONNX.composed(np.size)
def _size(a: Array, axis: Axes = None) -> Any:
    return a.size if axis is None else math.prod([a.shape[d] for d in np.atleast_1d(axis)])


@GRAD.rule(np.reshape)
def _grad_reshape(
    a: ArrayLike, /, shape: Shape | None = None, order: str = "C", *, newshape: Any = None,
    copy: bool | None = None,
) -> Array:  # fmt: skip
    if order == "A":
        raise NoRule  # an order of memory that the derivative need not have
    held = value_of(a)
    old = held.shape
    options: Any = {"order": order}
    value = np.reshape(held, newshape if shape is None else shape, copy=copy, **options)
    return with_node(value, (a, lambda g: np.reshape(g, old, **options)))


@VMAP.rule(np.reshape)
def _vmap_reshape(
    level: Level, a: BatchedArray, /, shape: Any = None, order: str = "C", *, newshape: Any = None,
    copy: bool | None = None,
) -> Array:  # fmt: skip
    if order not in ("C", "F", None):
        raise NoRule
    sizes = newshape if shape is None else shape
    many = isinstance(sizes, Sequence | np.ndarray)
    new = tuple(map(operator.index, sizes)) if many else (operator.index(sizes),)
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


@ONNX.rule(np.reshape)
def _onnx_reshape(
    graph: Graph, a: Any, /, shape: Shape, order: str = "C", *, copy: bool | None = None
) -> Any:
    sizes = list(shape) if isinstance(shape, Iterable) else [shape]
    if order == "F":
        return np.transpose(np.reshape(np.transpose(a), sizes[::-1]))
    if order not in ("C", "A"):
        raise NoRule
    if any(n == -1 for n in sizes):
        rest = math.prod(n for n in sizes if n != -1)
        known: Any = a.size
        if not rest or known % rest:
            raise ValueError(f"cannot reshape array of size {known} into shape {tuple(sizes)}")
        # A quotient of dynamic sizes may be a plain number, such as that of the features of an image.
        sizes[[n == -1 for n in sizes].index(True)] = graph.dynamic((int(known // rest),))[0]
    return view_of(a, graph.reshape(a, sizes))


@GRAD.rule(np.ravel)
def _grad_ravel(a: Array, order: Any = "C") -> Array:
    held = value_of(a)
    if order not in ("C", "F"):
        if type(held) is not np.ndarray or not held.flags.c_contiguous:
            raise NoRule("the derivative need not have its order of memory")
        order = "C"
    shape = held.shape
    return with_node(np.ravel(held, order), (a, lambda g: np.reshape(g, shape, order=order)))


@VMAP.rule(np.ravel)
def _vmap_ravel(level: Level, a: Any, order: str = "C") -> Array:
    if order == "F":
        a = np.transpose(a)
    return level.wrap(a.value.reshape(level.size, math.prod(a.shape)))


@ONNX.rule(np.ravel)
def _onnx_ravel(graph: Graph, a: Any, order: str = "C") -> GraphArray:
    if order == "F":
        a = np.transpose(a)
    elif order not in ("C", "A", "K"):
        raise NoRule
    return view_of(a, graph.reshape(a, (a.size,)))


@GRAD.rule(np.transpose, np.permute_dims)
def _grad_transpose(a: Any, axes: Any = None) -> Array:
    if axes is None:
        return with_node(np.transpose(value_of(a)), (a, lambda g: np.transpose(g)))
    if len(axes) != a.ndim:
        raise ValueError("axes don't match array")
    order = [normalize_axis_index(axis, a.ndim) for axis in axes]
    back = sorted(range(len(order)), key=order.__getitem__)
    return with_node(np.transpose(value_of(a), order), (a, lambda g: np.transpose(g, back)))


@VMAP.rule(np.transpose, np.permute_dims)
def _vmap_transpose(level: Level, a: BatchedArray, axes: Any = None) -> Array:
    ndim = a.ndim
    if axes is not None and len(axes) != ndim:
        raise ValueError("axes don't match array")
    order = range(ndim, 0, -1) if axes is None else shifted_axes(axes, ndim)
    return level.wrap(a.value.transpose(0, *order))


@ONNX.rule(np.transpose, np.permute_dims)
def _onnx_transpose(graph: Graph, a: GraphArray, axes: Axes = None) -> GraphArray:
    order = range(a.ndim)[::-1] if axes is None else normalize_axis_tuple(axes, a.ndim)
    if len(order) != a.ndim:
        raise ValueError("axes don't match array")
    return view_of(a, graph.transpose(a, order))


@GRAD.rule(np.swapaxes)
def _grad_swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    return with_node(np.swapaxes(value_of(a), axis1, axis2), (a, lambda g: np.swapaxes(g, axis1, axis2)))


@VMAP.rule(np.swapaxes)
def _vmap_swapaxes(level: Level, a: BatchedArray, axis1: int, axis2: int) -> Array:
    return level.wrap(a.value.swapaxes(shifted_axis(axis1, a.ndim), shifted_axis(axis2, a.ndim)))


@ONNX.composed(np.swapaxes)
def _onnx_swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    order = list(range(a.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return np.transpose(a, order)


@GRAD.rule_of_each(np.expand_dims, np.squeeze)
def _grad_ones(function: Function, a: ArrayLike, axis: Axes = None) -> Array:
    held = value_of(a)
    return with_node(function(held, axis), (a, lambda g: g.reshape(held.shape)))


@VMAP.rule(np.expand_dims)
def _vmap_expand_dims(level: Level, a: BatchedArray, axis: Axes) -> Array:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    return level.wrap(np.expand_dims(a.value, shifted_axes(axes, a.ndim + len(axes))))


@ONNX.rule(np.expand_dims)
def _onnx_expand_dims(graph: Graph, a: GraphArray, axis: Any) -> GraphArray:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return view_of(a, graph.unsqueeze(a, *normalize_axis_tuple(axes, a.ndim + len(axes))))


@VMAP.rule(np.squeeze)
def _vmap_squeeze(level: Level, a: BatchedArray, axis: Axes = None) -> Array:
    ones = [d + 1 for d, size in enumerate(a.shape) if size == 1]
    return level.wrap(np.squeeze(a.value, tuple(ones) if axis is None else shifted_axes(axis, a.ndim)))


@ONNX.rule(np.squeeze)
def _onnx_squeeze(graph: Graph, a: GraphArray, axis: Axes = None) -> GraphArray:
    ones = tuple(i for i, n in enumerate(a.shape) if n == 1)
    axes = ones if axis is None else normalize_axis_tuple(axis, a.ndim)
    if not {*axes} <= {*ones}:
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return view_of(a, graph.squeeze(a, *axes)) if axes else a


@GRAD.rule(np.broadcast_to)
def _grad_broadcast_to(array: ArrayLike, shape: Shape, subok: bool = False) -> Array:
    held = value_of(array)
    return with_node(np.broadcast_to(held, shape), (array, lambda g: unbroadcast(g, held.shape)))


@VMAP.rule(np.broadcast_to)
def _vmap_broadcast_to(level: Level, array: Array, shape: Shape, subok: bool = False) -> Array:
    new = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if len(new) < array.ndim:
        raise ValueError(f"an array of {array.ndim} dimensions does not broadcast to the shape {new}")
    return level.wrap(np.broadcast_to(level.align(array, len(new)), (level.size, *new)))


@ONNX.rule(np.broadcast_to)
def _onnx_broadcast_to(graph: Graph, array: GraphArray, shape: Shape, subok: bool = False) -> GraphArray:
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    return view_of(array, graph.expand(array, sizes))


@GRAD.rule(np.roll)
def _grad_roll(a: ArrayLike, shift: Any, axis: Axes = None) -> Array:
    if holds_traced(shift):
        raise NoRule
    return with_node(np.roll(value_of(a), shift, axis), (a, lambda g: np.roll(g, np.negative(shift), axis)))


@VMAP.rule(np.roll)
def _vmap_roll(level: Level, a: BatchedArray, shift: Any, axis: Axes = None) -> Array:
    if not level.on(a) or hasattr(shift, "level"):
        raise NoRule
    if axis is None:
        flat = a.value.reshape(level.size, math.prod(a.shape))
        return level.wrap(np.roll(flat, shift, 1).reshape(a.value.shape))
    axes = [shifted_axis(d, a.ndim) for d in (axis if isinstance(axis, tuple | list) else (axis,))]
    return level.wrap(np.roll(a.value, shift, tuple(axes)))


@ONNX.rule(np.roll)
def _onnx_roll(graph: Graph, a: Any, shift: Any, axis: Axes = None) -> Array:
    if axis is None:
        return np.reshape(np.roll(np.ravel(a), shift, 0), a.shape)
    axes = normalize_axis_tuple(axis, a.ndim)
    shifts = shift if isinstance(shift, Iterable) else (shift,) * len(axes)
    for by, at in zip(shifts, axes, strict=True):
        if graph.size(a.shape[at]) is not None:
            raise NoRule("along a dynamic dimension")
        cut = -by % max(a.shape[at], 1)
        head: Any = (slice(None),) * at
        a = np.concatenate([a[(*head, slice(cut, None))], a[(*head, slice(None, cut))]], at)
    return a


@GRAD.rule(np.repeat)
def _grad_repeat(a: Any, repeats: Array, axis: int | None = None) -> Array:
    a = as_array(a)
    if axis is None or not a.ndim:
        a, axis = a.reshape(-1), 0 if axis is None else axis
    if np.ndim(repeats):
        return np.take(a, np.repeat(np.arange(a.shape[axis]), repeats), axis)
    held = value_of(a)
    place = normalize_axis_index(axis, held.ndim)
    value = np.repeat(held, repeats, place)
    shape = (*held.shape[: place + 1], int(repeats), *held.shape[place + 1 :])
    return with_node(value, (a, lambda g: np.sum(wide(g).reshape(shape), place + 1)))


@VMAP.rule(np.repeat)
def _vmap_repeat(level: Level, a: Any, repeats: Array, axis: int | None = None) -> Array:
    if not level.on(a) or hasattr(repeats, "level"):
        raise NoRule
    if axis is None:
        return level.wrap(np.repeat(a.value.reshape(level.size, math.prod(a.shape)), repeats, 1))
    return level.wrap(np.repeat(a.value, repeats, shifted_axis(axis, a.ndim)))


@ONNX.rule(np.repeat)
def _onnx_repeat(graph: Graph, a: ArrayLike, repeats: Any, axis: int | None = None) -> Any:
    x: Any = a if axis is not None else np.ravel(a)
    axis = normalize_axis_index(axis or 0, x.ndim)
    if np.ndim(repeats):
        if isinstance(repeats, GraphArray) or graph.size(x.shape[axis]) is not None:
            raise NoRule("another number of repeats for each element")
        return np.take(x, np.repeat(np.arange(x.shape[axis]), repeats), axis)
    size: Any = repeats if graph.size(repeats) is not None else operator.index(repeats)
    expanded = graph.expand(graph.unsqueeze(x, axis + 1), (*x.shape[: axis + 1], size, *x.shape[axis + 1 :]))
    return graph.reshape(expanded, (*x.shape[:axis], x.shape[axis] * size, *x.shape[axis + 1 :]))


@GRAD.rule(np.diagonal)
def _grad_diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    held = value_of(a)
    value = np.diagonal(held, offset, axis1, axis2)
    rows = np.arange(value.shape[-1])

    def vjp(g: Array) -> Array:
        first, second = axis1 % len(held.shape), axis2 % len(held.shape)
        rest = [size for d, size in enumerate(held.shape) if d not in (first, second)]
        out = np.zeros_like(g, shape=(*rest, held.shape[first], held.shape[second]))
        out[..., rows + max(-offset, 0), rows + max(offset, 0)] = g
        return np.moveaxis(out, (-2, -1), (first, second))

    return with_node(value, (a, vjp))


@VMAP.rule(np.diagonal)
def _vmap_diagonal(level: Level, a: BatchedArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    return level.wrap(np.diagonal(a.value, offset, shifted_axis(axis1, a.ndim), shifted_axis(axis2, a.ndim)))


@ONNX.rule(np.diagonal)
def _onnx_diagonal(graph: Graph, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GraphArray:
    x: Any = np.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    if graph.size(rows) is not None or graph.size(columns) is not None:
        raise NoRule("of a dynamic dimension")
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    flat = graph.reshape(x, (*x.shape[:-2], rows * columns))
    return view_of(a, graph.gather(flat, graph.constant(places), flat.ndim - 1))


@ONNX.rule_of_each(np.tril, np.triu)
def _onnx_triangle(function: Function, graph: Graph, m: GraphArray, k: int = 0) -> GraphArray:
    if m.ndim == 1:  # a row repeated into a square
        m = graph.expand(m, (m.size, m.size))
    inputs = [m, graph.constant(np.array(k, np.int64))]
    return graph.emit("Trilu", inputs, m.shape, m.dtype, upper=int(function is np.triu))


@GRAD.rule(sliding_window_view)
def _grad_windows(
    x: Array, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    if writeable:
        raise NoRule
    held = value_of(x)
    value = sliding_window_view(held, window_shape, axis)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim, allow_duplicate=True)
    sizes = list(held.shape)
    steps = []  # the size of each axis before it was seen through windows
    for place, window in zip(axes, value.shape[held.ndim :], strict=True):
        steps.append((place, window, sizes[place]))
        sizes[place] -= window - 1

    def vjp(g: Array) -> Array:
        for place, window, size in reversed(steps):
            g = np.moveaxis(g, -1, place + 1)
            shape = (*g.shape[:place], size, *g.shape[place + 2 :])
            places = np.arange(size - window + 1)[:, None] + np.arange(window)
            g = scatter_add(g, (*[slice(None)] * place, places), shape)
        return g

    return with_node(value, (x, vjp))


@VMAP.rule(sliding_window_view)
def _vmap_windows(
    level: Level, x: BatchedArray, window_shape: Any, axis: Axes = None, *, subok: bool = False,
    writeable: bool = False,
) -> Array:  # fmt: skip
    ndim = x.ndim
    windows = window_shape if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    if len(windows) != len(axes):
        raise ValueError(f"window_shape must have one size for each of the axes {tuple(axes)}, got {windows}")
    places = tuple([a % ndim + 1 for a in axes])
    return level.wrap(sliding_window_view(x.value, tuple(windows), places, writeable=writeable))


@ONNX.rule(sliding_window_view)
def _onnx_windows(
    graph: Graph, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> GraphArray:
    if writeable:
        raise NoRule
    windows = window_shape if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim, allow_duplicate=True)
    for place, window in zip(axes, windows, strict=True):
        if window < 0 or (graph.size(x.shape[place]) is None and window > x.shape[place]):
            raise ValueError(f"the window {window} must be from 0 to the size {x.shape[place]}")
        places: Any = np.expand_dims(graph.range(x.shape[place] - window + 1), 1) + np.arange(window)
        x = np.moveaxis(np.take(x, places, place), place + 1, -1)
    return x


@GRAD.rule(np.pad)
def _grad_pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    if callable(mode) or mode in ("maximum", "minimum", "median") or holds_traced(kwargs):
        raise NoRule
    held = value_of(array)
    value = np.pad(held, pad_width, mode, **kwargs)
    widths = _pairs(pad_width, held.ndim)
    if mode in ("constant", "empty"):
        inner = tuple([slice(low, low + n) for (low, _), n in zip(widths, held.shape, strict=True)])
        return with_node(value, (array, lambda g: g[inner]))
    lengths = _pairs(kwargs.get("stat_length"), held.ndim)

    def vjp(g: Array) -> Array:
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

    return with_node(value, (array, vjp))


@VMAP.rule(np.pad)
def _vmap_pad(level: Level, array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    if not level.on(array) or callable(mode) or any(hasattr(value, "level") for value in kwargs.values()):
        raise NoRule
    ndim = array.ndim
    for name in ("constant_values", "end_values", "stat_length"):
        if kwargs.get(name) is not None:
            first = (0, 0) if name != "stat_length" else (1, 1)
            kwargs[name] = (first, *_pairs(kwargs[name], ndim))
    return level.wrap(np.pad(array.value, ((0, 0), *_pairs(pad_width, ndim)), mode, **kwargs))


@ONNX.rule(np.pad)
def _onnx_pad(
    graph: Graph, array: GraphArray, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0,
    **kwargs: Any,
) -> GraphArray:  # fmt: skip
    if kwargs or mode not in ("constant", "edge", "reflect", "wrap") or np.ndim(constant_values):
        raise NoRule
    pairs = _pairs(pad_width, array.ndim)
    if mode == "reflect" and any(
        type(n) is int and max(pair) >= max(n, 1) for n, pair in zip(array.shape, pairs, strict=True)
    ):
        raise NoRule("that reflect more than there is")
    return graph.pad(array, pairs, mode, constant_values)


def _pairs(given: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A pair for each axis, in the forms that `numpy.pad` takes."""
    if given is None:
        return [(None, None)] * ndim
    if isinstance(given, dict):
        pairs = {axis % ndim: pair for axis, pair in given.items()}
        return [tuple(np.broadcast_to(pairs.get(axis, 0), 2).tolist()) for axis in range(ndim)]
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()]


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.matrix_transpose, linalg.matrix_transpose)
def _matrix_transpose(x: Array, /) -> Array:
    if x.ndim < 2:
        raise ValueError(f"matrix transpose needs at least 2 dimensions, got {x.ndim}")
    return x.swapaxes(-1, -2)


@VMAP.rule(np.moveaxis)
def _vmap_moveaxis(level: Level, a: BatchedArray, source: IntOrInts, destination: IntOrInts) -> Array:
    return level.wrap(np.moveaxis(a.value, shifted_axes(source, a.ndim), shifted_axes(destination, a.ndim)))


@formula(np.moveaxis)
def _moveaxis(a: Array, source: IntOrInts, destination: IntOrInts) -> Array:
    sources, targets = normalize_axis_tuple(source, a.ndim), normalize_axis_tuple(destination, a.ndim)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return np.transpose(a, order)


@formula(np.rollaxis)
def _rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    axis = normalize_axis_index(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    if not 0 <= start <= a.ndim:
        raise ValueError(f"start must be between {-a.ndim} and {a.ndim}, got {start}")
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


@VMAP.rule(np.flip)
def _vmap_flip(level: Level, m: BatchedArray, axis: Axes = None) -> Array:
    return level.wrap(np.flip(m.value, shifted_axes(range(m.ndim) if axis is None else axis, m.ndim)))


@formula(np.flip)
def _flip(m: Array, axis: Axes = None) -> Array:
    axes = range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)
    return m[tuple([slice(None, None, -1 if d in axes else 1) for d in range(m.ndim)])]


def _counts(reps: Any, ndim: int) -> tuple[int, ...]:
    """How often `numpy.tile` repeats each dimension, of `ndim` or more."""
    counts = tuple(reps) if isinstance(reps, Iterable) else (reps,)
    return (1,) * (ndim - len(counts)) + counts


@VMAP.rule(np.tile)
def _vmap_tile(level: Level, A: BatchedArray, reps: Any) -> Array:
    counts = _counts(reps, A.ndim)
    return level.wrap(np.tile(level.align(A, len(counts)), (1, *counts)))


@formula(np.tile)
def _tile(A: Array, reps: Any) -> Array:
    counts = _counts(reps, A.ndim)
    sizes = (1,) * (len(counts) - A.ndim) + A.shape
    pairs = list(zip(counts, sizes, strict=True))
    ones = np.reshape(A, [n for size in sizes for n in (1, size)])
    blocks = np.broadcast_to(ones, [n for pair in pairs for n in pair])
    return np.reshape(blocks, [count * size for count, size in pairs]).copy()


@VMAP.rule_of_each(np.tril, np.triu)
def _vmap_triangle(function: Function, level: Level, m: BatchedArray, k: int = 0) -> Array:
    if not level.on(m) or m.ndim < 2 or hasattr(k, "level"):
        return FORMULAS[function](m, k)
    return level.wrap(function(m.value, k))


@formula(np.tril)
def _tril(m: Array, k: int = 0) -> Array:
    return np.where(_below_diagonal(m, k), m, np.zeros((), m.dtype))


@formula(np.triu)
def _triu(m: Array, k: int = 0) -> Array:
    return np.where(_below_diagonal(m, k - 1), np.zeros((), m.dtype), m)


def _below_diagonal(m: Array, k: int) -> Array:
    if hasattr(k, "level"):
        raise NoRule
    rows, columns = (m.shape * 2)[-2:]
    return np.tri(rows, columns, k, dtype=bool)


@formula(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Array:
    first, second = normalize_axis_tuple(axes, m.ndim)
    if k % 4 == 2:
        return np.flip(m, (first, second))
    if k % 4:
        m = np.flip(np.swapaxes(m, first, second), first if k % 4 == 1 else second)
    return m


@formula(linalg.diagonal)
def _linalg_diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    return np.diagonal(x, offset, -2, -1)


@formula(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Array, ...]:
    shape = np.broadcast_shapes(*map(np.shape, args))
    return tuple([np.broadcast_to(a, shape) for a in args])


@formula(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Array:
    return _each(arys, lambda a: a.reshape(1) if a.ndim == 0 else a)


@formula(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Array:
    return _each(arys, lambda a: a if a.ndim > 1 else a.reshape(1, math.prod(a.shape)))


@formula(np.atleast_3d)
def _atleast_3d(*arys: Any) -> Array:
    def grown(a: Array) -> Array:
        shape = a.shape
        new = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}
        return a.reshape(new[a.ndim]) if a.ndim < 3 else a

    return _each(arys, grown)


def _each(arys: Any, fn: Function) -> Any:
    out = tuple(map(fn, as_arrays(arys)))
    return out[0] if len(out) == 1 else out


@formula(np.fliplr)
def _fliplr(m: ArrayLike) -> Array:
    if np.ndim(m) < 2:
        raise ValueError("Input must be >= 2-d.")
    return np.flip(m, 1)


@formula(np.flipud)
def _flipud(m: ArrayLike) -> Array:
    return np.flip(m, 0)


@formula(np.trace)
def _trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DtypeLike = None) -> Array:
    return np.diagonal(a, offset, axis1, axis2).sum(-1, dtype=dtype)


@formula(linalg.trace)
def _linalg_trace(x: ArrayLike, /, *, offset: int = 0, dtype: DtypeLike = None) -> Array:
    return np.diagonal(x, offset, -2, -1).sum(-1, dtype=dtype)
