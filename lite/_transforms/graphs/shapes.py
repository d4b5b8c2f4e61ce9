"""Rules of functions that rearrange, repeat or cut elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.rules import composed, rule
from lite._transforms.registry import NoRule


def view_of(base: GraphArray, value: GraphArray, index: Any = None) -> GraphArray:
    """The same value as a view of the memory of another array, at an index if there is one."""
    return GraphArray(value.graph, value.name, value.shape, value.dtype, base, index)


@rule(np.reshape)
def _reshape(graph: Graph, a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    if order not in ("C", "A"):
        raise NoRule
    x = graph.operand(a)
    sizes = list(shape) if isinstance(shape, Iterable) else [shape]
    if any(n == -1 for n in sizes):
        rest = math.prod(n for n in sizes if n != -1)
        known: Any = x.size
        if not rest or known % rest:
            raise ValueError(f"cannot reshape array of size {known} into shape {tuple(sizes)}")
        sizes[[n == -1 for n in sizes].index(True)] = known // rest
    return view_of(x, graph.reshape(x, sizes))


@rule(np.ravel)
def _ravel(graph: Graph, a: Any, order: str = "C") -> Any:
    if order not in ("C", "A", "K"):
        raise NoRule
    return view_of(a, graph.reshape(a, (a.size,)))


@rule(np.transpose, np.permute_dims)
def _transpose(graph: Graph, a: Any, axes: Any = None) -> Any:
    x = graph.operand(a)
    order = range(x.ndim)[::-1] if axes is None else normalize_axis_tuple(axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError("axes don't match array")
    return view_of(x, graph.transpose(x, order))


@composed(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Any:
    return np.swapaxes(x, -1, -2)


@composed(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    first, second = normalize_axis_index(axis1, a.ndim), normalize_axis_index(axis2, a.ndim)
    order[first], order[second] = order[second], order[first]
    return np.transpose(a, order)


@composed(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    sources, targets = normalize_axis_tuple(source, a.ndim), normalize_axis_tuple(destination, a.ndim)
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return np.transpose(a, order)


@composed(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    axis = normalize_axis_index(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


@rule(np.expand_dims)
def _expand_dims(graph: Graph, a: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return view_of(a, graph.unsqueeze(a, *normalize_axis_tuple(axes, a.ndim + len(axes))))


@rule(np.squeeze)
def _squeeze(graph: Graph, a: Any, axis: Any = None) -> Any:
    if axis is None:
        axes = tuple(i for i, n in enumerate(a.shape) if n == 1)
    else:
        axes = normalize_axis_tuple(axis, a.ndim)
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return view_of(a, graph.squeeze(a, *axes)) if axes else a


@rule(np.broadcast_to)
def _broadcast_to(graph: Graph, array: Any, shape: Any, subok: bool = False) -> Any:
    shape = shape if isinstance(shape, Iterable) else (shape,)
    x = graph.operand(array)
    return view_of(x, graph.expand(x, tuple(shape)))


@rule(np.broadcast_arrays)
def _broadcast_arrays(graph: Graph, *args: Any, subok: bool = False) -> Any:
    arrays = [graph.operand(x) for x in args]
    shape = graph.broadcast([x.shape for x in arrays])
    return tuple(view_of(x, graph.expand(x, shape)) for x in arrays)


@rule(np.atleast_1d)
def _atleast_1d(graph: Graph, *arys: Any) -> Any:
    out = tuple(graph.unsqueeze(x, 0) if x.ndim == 0 else x for x in map(graph.operand, arys))
    return out[0] if len(out) == 1 else out


@rule(np.atleast_2d)
def _atleast_2d(graph: Graph, *arys: Any) -> Any:
    out: Any = tuple(x if x.ndim > 1 else np.atleast_1d(x)[None] for x in map(graph.operand, arys))
    return out[0] if len(out) == 1 else out


@rule(np.shape)
def _shape(graph: Graph, a: Any) -> Any:
    return a.shape


@rule(np.ndim)
def _ndim(graph: Graph, a: Any) -> int:
    return int(a.ndim)


@rule(np.size)
def _size(graph: Graph, a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


@composed(np.flip)
def _flip(m: Any, axis: Any = None) -> Any:
    axes = range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


@composed(np.flipud)
def _flipud(m: Any) -> Any:
    return np.flip(m, 0)


@composed(np.fliplr)
def _fliplr(m: Any) -> Any:
    return np.flip(m, 1)


@rule(np.roll)
def _roll(graph: Graph, a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return np.reshape(np.roll(np.ravel(a), shift, 0), a.shape)
    axes = normalize_axis_tuple(axis, a.ndim)
    shifts = shift if isinstance(shift, Iterable) else (shift,) * len(axes)
    for by, at in zip(shifts, axes, strict=True):
        if graph.size(a.shape[at]) is not None:
            raise NoRule("along a dynamic dimension")
        cut = -by % a.shape[at] if a.shape[at] else 0
        head: Any = (slice(None),) * at
        a = np.concatenate([a[(*head, slice(cut, None))], a[(*head, slice(None, cut))]], at)
    return a


@rule(np.tile)
def _tile(graph: Graph, A: Any, reps: Any) -> Any:
    x = graph.operand(A)
    counts = list(reps) if isinstance(reps, Iterable) else [reps]
    ndim = max(x.ndim, len(counts))
    counts = [1] * (ndim - len(counts)) + counts
    if x.ndim < ndim:
        x = graph.reshape(x, (*[1] * (ndim - x.ndim), *x.shape))
    shape = [n * count for n, count in zip(x.shape, counts, strict=True)]
    return graph.emit("Tile", [x, graph.shape_array(counts)], shape, x.dtype)


@rule(np.repeat)
def _repeat(graph: Graph, a: Any, repeats: Any, axis: int | None = None) -> Any:
    count = operator.index(repeats) if np.ndim(repeats) == 0 else None
    if count is None:
        raise NoRule("another number of repeats for each element")
    x: Any = a if axis is not None else np.ravel(a)
    axis = normalize_axis_index(axis or 0, x.ndim)
    wide = graph.unsqueeze(x, axis + 1)
    size: Any = repeats if graph.size(repeats) is not None else count
    wide = graph.expand(wide, (*x.shape[: axis + 1], size, *x.shape[axis + 1 :]))
    return graph.reshape(wide, (*x.shape[:axis], x.shape[axis] * size, *x.shape[axis + 1 :]))


@rule(np.pad)
def _pad(
    graph: Graph, array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Any:
    modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in modes or np.ndim(constant_values):
        raise NoRule
    x = graph.operand(array)
    if isinstance(pad_width, dict):
        raise NoRule
    width = np.broadcast_to(pad_width, (x.ndim, 2))
    return pad(graph, x, width.tolist(), modes[mode], constant_values)


def pad(graph: Graph, x: GraphArray, width: list[list[int]], mode: str, value: Any = 0) -> GraphArray:
    """`x` with (before, after) more in each dimension."""
    if not any(map(any, width)):
        return x
    shape = [b + n + a for (b, a), n in zip(width, x.shape, strict=True)]
    ends = graph.ints(*(b for b, _ in width), *(a for _, a in width))
    filler = graph.constant(np.array(value, x.dtype)) if mode == "constant" and value else None
    inputs = [x, ends] if filler is None else [x, ends, filler]
    return graph.emit("Pad", inputs, shape, x.dtype, mode=mode)


def _triangle(upper: int) -> Any:
    def run(graph: Graph, m: Any, k: int = 0) -> Any:
        x = graph.operand(m)
        return graph.emit("Trilu", [x, graph.constant(np.array(k, np.int64))], x.shape, x.dtype, upper=upper)

    return run


rule(np.triu)(_triangle(1))
rule(np.tril)(_triangle(0))


@rule(np.diagonal)
def _diagonal(graph: Graph, a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x: Any = np.moveaxis(a, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    if graph.size(rows) is not None or graph.size(columns) is not None:
        raise NoRule("of a dynamic dimension")
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    flat = graph.reshape(x, (*x.shape[:-2], rows * columns))
    return view_of(a, graph.gather(flat, graph.constant(places), flat.ndim - 1))


@composed(np.linalg.diagonal)
def _last_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return np.diagonal(x, offset, -2, -1)


@composed(np.linalg.trace)
def _last_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return np.trace(x, offset, -2, -1, dtype)


@composed(np.rot90)
def _rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    first, second = normalize_axis_tuple(axes, m.ndim)
    for _ in range(k % 4):
        m = np.flip(np.swapaxes(m, first, second), first)
    return m


@composed(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), -1, dtype)
