"""Rules of functions along one axis: running sums and products, differences, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, DtypeLike, HostArray, Operand
from lite._transforms.grad.along import given, wide
from lite._transforms.grad.tape import holds_traced, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.registry import (
    GRAD,
    ONNX,
    VMAP,
    NoRule,
    as_arrays,
    default,
    flattened,
    formula,
    ndim_of,
)
from lite._transforms.rules.reductions import summed_dtype
from lite._transforms.vmap.level import Level


@GRAD.rule(np.cumsum)
def _grad_cumsum(a: ArrayLike, axis: int | None = None, dtype: DtypeLike = None) -> Array:
    options = given(dtype=dtype)
    a, axis = flattened(a, axis)
    value = np.cumsum(value_of(a), axis, **options)
    return with_node(_floats(value), (a, lambda g: np.flip(np.cumsum(np.flip(wide(g), axis), axis), axis)))


def _floats(value: Array) -> Array:
    if value.dtype.kind in "biu":
        raise NoRule  # integers have no derivative
    return value


@ONNX.rule(np.cumsum)
def _onnx_cumsum(graph: Graph, a: ArrayLike, axis: Axes = None, dtype: DtypeLike = None) -> GraphArray:
    x, axis = flattened(graph.operand(a), axis)
    x = graph.cast(x, summed_dtype(x, dtype))
    place = graph.constant(np.array(axis, np.int64))
    return graph.emit("CumSum", [x, place], x.shape, x.dtype)


def _running(graph: Graph, reduce: Any, neutral: float, x: Any, axis: int) -> Any:
    """A running reduction along an axis: element i is the reduction of elements 0 to i."""
    rows = np.moveaxis(x, axis, -1)
    numbers = graph.range(rows.shape[-1])
    before = numbers[:, None] >= numbers[None, :]
    return np.moveaxis(reduce(np.where(before, rows[..., None, :], neutral), -1), -1, axis)


@ONNX.rule(np.cumprod)
def _onnx_cumprod(graph: Graph, a: ArrayLike, axis: Any = None, dtype: DtypeLike = None) -> Any:
    x, axis = flattened(graph.operand(a), axis)
    return _running(graph, np.prod, 1, graph.cast(x, summed_dtype(x, dtype)), axis)


def _extremes(reduce: Any, largest: bool) -> Any:
    def rule(graph: Graph, a: ArrayLike, axis: Any = 0, dtype: DtypeLike = None) -> Any:
        x = graph.operand(a)
        if x.dtype == np.uint64:  # with its highest bit turned, an int64 that is ordered alike
            low = np.int64(-(1 << 63))
            return (rule(graph, x.astype(np.int64) + low, axis) + low).astype(x.dtype)
        if x.dtype.kind in "bu":  # onnxruntime 1.31 compares 2**32 - 1 as if it were -1
            return rule(graph, x.astype(np.int64), axis).astype(x.dtype)
        if x.dtype.kind == "f":
            neutral: Any = -np.inf if largest else np.inf
        else:
            limits = np.iinfo(x.dtype)
            neutral = int(limits.min if largest else limits.max)
        return _running(graph, reduce, neutral, x, normalize_axis_index(axis, x.ndim))

    return rule


ONNX.rules[np.maximum, "accumulate"] = _extremes(np.max, largest=True)
ONNX.rules[np.minimum, "accumulate"] = _extremes(np.min, largest=False)


@GRAD.rule(np.cumprod)
def _grad_cumprod(a: ArrayLike, axis: int | None = None, dtype: DtypeLike = None) -> Array:
    options = given(dtype=dtype)
    a, axis = flattened(a, axis)
    held = value_of(a)
    value = np.cumprod(held, axis, **options)

    def vjp(g: Array) -> Array:
        # The derivative by x_i is the product before it times s_i = g_i + x_(i+1) s_(i+1): no division by 0.
        x, s = np.moveaxis(held, axis, -1), np.moveaxis(g, axis, -1)
        one = np.ones_like(x[..., :1])
        before = np.cumprod(np.concatenate([one, x[..., :-1]], -1), -1)
        return np.moveaxis(before * _recursion(np.concatenate([x[..., 1:], one], -1), s), -1, axis)

    return with_node(_floats(value), (a, vjp))


def _recursion(a: Array, b: Array) -> Array:
    """The s with s_i = b_i + a_i s_(i+1) along the last axis, and 0 after the end.

    A parallel scan: maps s -> b + a s are composed with the maps 1, 2, 4, ... positions later.
    """
    length, step = b.shape[-1], 1
    while step < length:
        b = np.concatenate([b[..., :-step] + a[..., :-step] * b[..., step:], b[..., -step:]], -1)
        a = np.concatenate([a[..., :-step] * a[..., step:], np.zeros_like(a[..., -step:])], -1)
        step *= 2
    return b


@GRAD.rule(np.unwrap)
def _grad_unwrap(p: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    if holds_traced((args, kwargs)):
        raise NoRule
    # unwrap adds whole periods, which are constant but for jumps.
    return with_node(np.unwrap(value_of(p), *args, **kwargs), (p, lambda g: g))


@GRAD.rule(np.interp)
def _grad_interp(
    x: Array, xp: Array, fp: Array, left: Operand = None, right: Operand = None, period: Any = None
) -> Array:
    x, xp, fp = as_arrays((x, xp, fp))
    if period is not None:
        return np.interp(*_within(x, xp, fp, abs(period)))
    return _between(x, xp, fp, value_of(x), value_of(xp), left, right)


def _within(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Array, Array, Array]:
    """Arguments of `interp` with the period removed: sorted points, and one more at each end."""
    xp = np.remainder(xp, period)
    order = np.argsort(xp)
    xp, fp = xp[order], fp[order]
    around = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
    return np.remainder(x, period), around, np.concatenate([fp[-1:], fp, fp[:1]])


def _between(x: Any, xp: Any, fp: Any, places: Any, points: Any, left: Operand, right: Operand) -> Any:
    """`interp`, with the values of `x` and `xp` as plain arrays in `places` and `points`."""
    last = points.shape[0] - 1
    i = np.clip(np.searchsorted(points, places, "right") - 1, 0, max(last - 1, 0))
    x0, x1, f0, f1 = [_taken(given, at) for given in (xp, fp) for at in (i, np.minimum(i + 1, last))]
    width = x1 - x0  # is 0 between equal points at the end, of which NumPy takes the last
    inner = f0 + (f1 - f0) * np.where(width == 0, 1, (x - x0) / np.where(width == 0, 1, width))
    low = fp[0] if left is None else left
    high = fp[last] if right is None else right
    return np.where(places < points[0], low, np.where(places > points[last], high, inner))


def _taken(table: Any, i: Any) -> Any:
    """`table[i]` for an index of a graph, which an ndarray could not take."""
    return i.look_up(table) if type(table) is np.ndarray and isinstance(i, HostArray) else table[i]


@ONNX.rule(np.interp)
def _onnx_interp(
    graph: Graph, x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Operand = None, right: Operand = None,
    period: Any = None,
) -> Any:  # fmt: skip
    places, points, values = [graph.cast(graph.operand(given), np.float64) for given in (x, xp, fp)]
    if graph.size(points.shape[0]) is not None:
        raise NoRule
    if period is not None:
        return np.interp(*_within(places, points, values, abs(period)))
    return _between(places, points, values, places, points, left, right)


@VMAP.rule(np.interp)
def _vmap_interp(level: Level, x: Any, xp: Array, fp: Array, *args: Any, **kwargs: Any) -> Array:
    if level.on(xp) or level.on(fp):
        raise NoRule
    return level.wrap(np.interp(x.value, xp, fp, *args, **kwargs))


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.cumulative_sum)
def _cumulative_sum(
    x: Array, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    return _cumulative(np.cumsum(x, axis, dtype), 0, x, axis, include_initial)


@formula(np.cumulative_prod)
def _cumulative_prod(
    x: Array, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    return _cumulative(np.cumprod(x, axis, dtype), 1, x, axis, include_initial)


def _cumulative(result: Array, start: int, x: Any, axis: Any, include_initial: bool) -> Array:
    if axis is None and x.ndim != 1:
        raise ValueError(f"a running sum or product of {x.ndim} dimensions needs the argument axis.")
    if not include_initial:
        return result
    axis = normalize_axis_index(axis or 0, x.ndim)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return np.concatenate([np.full(shape, start, result.dtype), result], axis)


@formula(np.diff)
def _diff(a: Array, n: int = 1, axis: int = -1, prepend: Operand = None, append: Operand = None) -> Array:
    no_value = default(np.diff, "prepend")
    before, after = ([] if end is None or end is no_value else [end] for end in (prepend, append))
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if n and (before or after):
        one = tuple(1 if d == axis % ndim_of(a) else size for d, size in enumerate(np.shape(a)))

        def wide(end: ArrayLike) -> Any:
            return np.broadcast_to(end, one) if ndim_of(end) == 0 else end

        a = np.concatenate([*map(wide, before), a, *map(wide, after)], axis)
    at = (slice(None),) * (axis % ndim_of(a))
    for _ in range(n):
        later, earlier = a[(*at, slice(1, None))], a[(*at, slice(None, -1))]
        a = later != earlier if a.dtype.kind == "b" else later - earlier
    return a


@formula(np.trapezoid)
def _trapezoid(y: Array, x: Operand = None, dx: Any = 1.0, axis: int = -1) -> Array:
    ndim = ndim_of(y)
    at = (slice(None),) * (axis % ndim)
    if x is not None:
        dx = np.diff(x, axis=axis if ndim_of(x) > 1 else -1)
        if ndim_of(dx) == 1:
            dx = dx.reshape(-1, *[1] * (ndim - 1 - axis % ndim))
    return (dx * (y[(*at, slice(1, None))] + y[(*at, slice(None, -1))]) / 2.0).sum(axis)


@formula(np.gradient)
def _gradient(f: Array, *varargs: Any, axis: Axes = None, edge_order: int = 1) -> Any:
    axes = tuple(range(f.ndim)) if axis is None else normalize_axis_tuple(axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"'edge_order' must be 1 or 2, got {edge_order}.")
    f = f if f.dtype.kind == "f" else f.astype(np.float64)  # differences of small types wrap around
    steps = varargs or (1.0,)
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise TypeError("invalid number of arguments")
    results = [_derivative(f, step, d, edge_order) for step, d in zip(steps, axes, strict=True)]
    results = [found.astype(f.dtype) for found in results]
    return results[0] if len(axes) == 1 else tuple(results)


def _derivative(f: Array, step: ArrayLike, axis: int, edge_order: int) -> Array:
    """The derivative along one axis: of parabolas through three neighbours, or of lines at the ends."""
    if f.shape[axis] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient.")
    f = np.moveaxis(f, axis, -1)
    if ndim_of(step):
        steps = np.diff(np.multiply(step, 1.0))  # of integers, too
    else:
        steps = np.broadcast_to(step, f.shape[-1] - 1)
    lines = np.diff(f) / steps
    first, second = steps[:-1], steps[1:]
    inner = (lines[..., :-1] * second + lines[..., 1:] * first) / (first + second)
    low, high = lines[..., :1], lines[..., -1:]
    if edge_order == 2:  # at an end a parabola is as far from the line as in the middle
        low = 2 * low - inner[..., :1]
        high = 2 * high - inner[..., -1:]
    return np.moveaxis(np.concatenate([low, inner, high], -1), -1, axis)


@formula(np.ediff1d)
def _ediff1d(ary: ArrayLike, to_end: Operand = None, to_begin: Operand = None) -> Array:
    inner = np.diff(np.ravel(ary))
    parts = [np.ravel(part) for part in (to_begin, inner, to_end) if part is not None]
    return np.concatenate(parts)
