"""Rules of reductions.

If several elements are the largest or smallest, they share the derivative equally, as in `torch.amax`.
Elements that `where` leaves out, or that a function for NaN skips, have the derivative 0.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, DtypeLike, Function, HostArray, Operand
from lite._transforms.grad.along import Rows, given, kept_shape, masked, spread
from lite._transforms.grad.tape import Vjp, holds_traced, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import BOOL, Graph
from lite._transforms.graphs.operators import select, truth
from lite._transforms.graphs.scan import scan
from lite._transforms.registry import (
    GRAD,
    NOT_GIVEN,
    ONNX,
    VMAP,
    ZERO_GRADIENT,
    NoRule,
    as_arrays,
    default,
    formula,
    ndim_of,
    parameters,
)
from lite._transforms.vmap.along import along, bound_to
from lite._transforms.vmap.level import Level

ZERO_GRADIENT.update((np.all, np.any, np.count_nonzero, np.argmax, np.argmin, np.nanargmax, np.nanargmin))


@VMAP.rule_of_each(
    *(np.sum, np.prod, np.max, np.min, np.amax, np.amin, np.mean, np.std, np.var, np.any, np.all, np.ptp),
    *(np.argmax, np.argmin, np.median, np.cumsum, np.cumprod, np.cumulative_sum, np.cumulative_prod),
    *(np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nanmean, np.nanstd, np.nanvar, np.nanmedian),
    *(np.nanargmax, np.nanargmin, np.nancumsum, np.nancumprod, np.count_nonzero),
    *(np.sort, np.argsort, np.partition, np.argpartition, np.unwrap, np.delete),
)
def _vmap_along_axis(function: Function, level: Level, *args: Any, **kwargs: Any) -> Array:
    name, start = parameters(function)[0], default(function, "axis")
    bound = bound_to(function, args, kwargs)
    array, axis = bound.pop(name), bound.pop("axis", start)
    if axis is None and function in _ONE_DIMENSION and ndim_of(array) != 1:
        raise ValueError(f"{function.__name__} of an array of {ndim_of(array)} dimensions needs an axis.")
    return along(level, function, array, axis, bound)


_ONE_DIMENSION = (np.cumulative_sum, np.cumulative_prod)


@GRAD.rule(np.sum)
def _grad_sum(a: ArrayLike, axis: Axes = None, dtype: DtypeLike = None, **options: Any) -> Array:
    if holds_traced(options.get("initial")):
        initial = options.pop("initial")
        return np.sum(a, axis, dtype, **options) + initial
    options = given(dtype=dtype, **options)
    held = value_of(a)
    value = _floats(np.sum(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")
    return with_node(value, (a, lambda g: masked(spread(g, shape, axis), mask)))


def _floats(value: Array, held: Array) -> Array:
    if value.dtype.kind in "biu" and held.dtype.kind not in "biu":
        raise NoRule  # sums of integer parts, which no derivative would be of
    return value


@GRAD.rule(np.mean)
def _grad_mean(a: ArrayLike, axis: Axes = None, dtype: DtypeLike = None, **options: Any) -> Array:
    options = given(dtype=dtype, **options)
    held = value_of(a)
    if not options and type(held) is np.ndarray and held.size and held.dtype.char in "fd":
        total = np.add.reduce(held, axis=axis)  # as np.mean does, in a third of its time
        value = total / (held.size // total.size)
    else:
        value = _floats(np.mean(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")
    if mask is None:
        left = max(value.size, 1)
        if type(left) is int or axis is None:
            count = held.size // left
        else:  # of what is left the size is dynamic, that of what is gone need not be
            count = math.prod([shape[k] for k in normalize_axis_tuple(axis, len(shape))])
        factor = 1 / max(count, 1)  # the count itself may be too large for float16
        return with_node(value, (a, lambda g: spread(g * factor, shape, axis)))
    return with_node(value, (a, lambda g: masked(spread(g, shape, axis) / _count(mask, held, axis), mask)))


def _count(mask: Operand, x: Array, axis: Axes) -> Array:
    """The number of elements that are reduced, with the reduced axes kept; 1 if there are none."""
    if mask is None and isinstance(x, HostArray):  # in a graph, that of a dynamic size is computed
        full: Any = np.ones_like(x, np.bool_)
    else:
        full = np.broadcast_to(True if mask is None else mask, x.shape)
    return np.maximum(np.sum(full, axis, keepdims=True), 1)


@GRAD.rule_of_each(np.var, np.std)
def _grad_variance(
    function: Function, a: ArrayLike, axis: Any = None, dtype: DtypeLike = None, *, ddof: Any = 0,
    correction: Any = None, **options: Any,
) -> Array:  # fmt: skip
    if _is_given(options.pop("mean", None)):
        raise NoRule  # it might depend on the array, or might not
    free = correction if _is_given(correction) else ddof
    options = given(dtype=dtype, ddof=free, **options)
    held = value_of(a)
    value = function(held, axis, **options)
    shape, mask = held.shape, options.get("where")

    def vjp(g: Array) -> Array:
        if function is np.std:  # as in torch, the derivative is 0 where the deviation is 0
            g = np.where(value == 0, 0, g / (2 * np.where(value == 0, 1, value)))
        data = masked(held, mask)
        count = _count(mask, held, axis)
        centred = data - np.sum(data, axis, keepdims=True) / count
        return masked(spread(g, shape, axis) * centred * 2 / np.maximum(count - free, 0), mask)

    return with_node(value, (a, vjp))


@GRAD.rule_of_each(np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin)
def _grad_extreme(function: Function, a: ArrayLike, axis: Axes = None, **options: Any) -> Array:
    options = given(**options)
    held = value_of(a)
    value = function(held, axis, **options)
    shape, mask = held.shape, options.get("where")

    def vjp(g: Array) -> Array:
        # Where the result is NaN, it comes from elements that are NaN.
        found = value.reshape(kept_shape(shape, axis))
        chosen = (held == found) | ((held != held) & (found != found))
        if mask is not None:
            chosen = chosen & mask
        ties = np.maximum(np.sum(chosen, axis, keepdims=True), 1)
        return np.where(chosen, spread(g, shape, axis) / ties, 0)

    return with_node(value, (a, vjp))


@GRAD.rule(np.prod)
def _grad_prod(a: ArrayLike, axis: Axes = None, dtype: DtypeLike = None, **options: Any) -> Array:
    options = given(dtype=dtype, **options)
    held = value_of(a)
    value = _floats(np.prod(held, axis, **options), held)
    shape, mask = held.shape, options.get("where")

    def vjp(g: Array) -> Array:
        rows = Rows(shape, axis)
        data = rows.of(held if mask is None else np.where(mask, held, 1))
        share = spread(g * options.get("initial", 1), shape, axis) * rows.undo(others(data))
        return masked(share, mask)

    return with_node(value, (a, vjp))


def others(x: Array) -> Array:
    """For each element along the last axis the product of the others, without a division."""
    one = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([one, x[..., :-1]], -1), -1)
    after = np.flip(np.cumprod(np.concatenate([one, np.flip(x, -1)[..., :-1]], -1), -1), -1)
    return before * after


@GRAD.rule_of_each(np.median, np.nanmedian)
def _grad_median(
    function: Any, a: Array, axis: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    options = given(keepdims=keepdims)
    held = value_of(a)
    vjp = _quantile_vjp(held, np.asarray(0.5), axis, "linear", function is np.nanmedian)
    return with_node(function(held, axis, **options), (a, vjp))


@VMAP.rule_of_each(np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
def _vmap_quantile(function: Function, level: Level, *args: Any, **kwargs: Any) -> Array:
    bound = bound_to(function, args, kwargs)
    array, axis = bound.pop("a"), bound.pop("axis", None)
    if bound.get("weights") is not None:
        raise NoRule
    if bound.get("keepdims") is True and axis is None:
        axis = tuple(range(ndim_of(array)))
    ndim = ndim_of(bound["q"])

    def first(a: ArrayLike, **rest: Any) -> Array:
        # The dimensions of q come first, before the mapped one.
        return np.moveaxis(function(a, **rest), ndim, 0)

    return along(level, first, array, axis, bound)


@GRAD.rule_of_each(np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
def _grad_quantile(
    function: Function, a: Array, q: Array, axis: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Operand = None,
) -> Array:  # fmt: skip
    parts = 100 if function in (np.percentile, np.nanpercentile) else 1
    skips = function in (np.nanquantile, np.nanpercentile)
    options = given(keepdims=keepdims)
    if weights is not None or method not in _POSITIONS or given(q=q).keys() != {"q"}:
        raise NoRule
    held = value_of(a)
    value = function(held, q, axis, method=method, **options)
    return with_node(value, (a, _quantile_vjp(held, np.true_divide(q, parts), axis, method, skips)))


# Places of quantiles among n sorted elements, counted from 0; in between neighbours are interpolated.
_POSITIONS: dict[str, Any] = {
    "linear": lambda q, n: q * (n - 1),
    "lower": lambda q, n: np.floor(q * (n - 1)),
    "higher": lambda q, n: np.ceil(q * (n - 1)),
    "nearest": lambda q, n: np.rint(q * (n - 1)),
    "midpoint": lambda q, n: (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))) / 2,
    "interpolated_inverted_cdf": lambda q, n: q * n - 1,
    "hazen": lambda q, n: q * n - 0.5,
    "weibull": lambda q, n: q * (n + 1) - 1,
    "median_unbiased": lambda q, n: q * (n + 1 / 3) - 2 / 3,
    "normal_unbiased": lambda q, n: q * (n + 1 / 4) - 5 / 8,
}


def _quantile_vjp(held: Array, q: Array, axis: Axes, method: str, skips: bool) -> Vjp:
    def vjp(g: Array) -> Array:
        rows = Rows(held.shape, axis)
        data = rows.of(held)
        order = np.argsort(data, -1, kind="stable")
        count: Any = rows.length
        if skips:  # NaN is sorted to the end
            count = np.maximum(np.sum(~np.isnan(data), -1), 1)
        lead = q.reshape((q.size, *[1] * len(rows.outer)))
        place = np.clip(_POSITIONS[method](lead, count), 0, count - 1)
        # Each quantile is a weighted mean of its two neighbours among the sorted elements.
        weights = np.maximum(1 - np.abs(place[..., None] - np.arange(rows.length)), 0)
        shares = np.sum(g.reshape((q.size, *rows.outer, 1)) * weights, 0)
        return rows.undo(np.take_along_axis(shares, np.argsort(order, -1), -1))

    return vjp


# -- ONNX --------------------------------------------------------------------------------------------------


def _axes(x: GraphArray, axis: Axes) -> tuple[int, ...]:
    """Axes as numbers from the front; None stands for all."""
    return tuple(range(x.ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, x.ndim)))


def _reduced_shape(x: GraphArray, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(x.shape) if keepdims or axis not in axes)


def _reduce(graph: Graph, op: str, x: GraphArray, axis: Axes, keepdims: bool) -> GraphArray:
    """An operator along axes."""
    keepdims = keepdims is not NOT_GIVEN and bool(keepdims)
    axes = _axes(x, axis)
    if not axes:
        return x
    # onnxruntime reduces few types of integers.
    wide = x if x.dtype.kind == "f" or x.dtype in (np.int32, np.int64) else graph.cast(x, np.int64)
    shape = _reduced_shape(x, axes, keepdims)
    out = graph.emit(op, [wide, graph.ints(*axes)], shape, wide.dtype, keepdims=int(keepdims))
    return graph.cast(out, x.dtype)


def _sum_of_int64(graph: Graph, x: GraphArray, axis: Axes, keepdims: bool) -> GraphArray:
    """A sum by halves of 32 bits: onnxruntime sums integers in float64, which rounds large ones."""
    wide, half = graph.cast(x, np.int64), graph.constant(np.int64(2**32))
    low: Any = wide & graph.constant(np.int64(2**32 - 1))
    high = graph.emit("Div", [wide - low, half], x.shape, wide.dtype)
    sums: list[Any] = [_reduce(graph, "ReduceSum", part, axis, keepdims) for part in (high, low)]
    return graph.cast(sums[0] * half + sums[1], x.dtype)


def _product_of_integers(graph: Graph, x: GraphArray, axis: Axes, keepdims: bool) -> Any:
    """A product by a Scan over the factors: ReduceProd of onnxruntime multiplies integers in float64."""
    if _is_empty(x, axis):  # which Scan does not take
        return _reduce(graph, "ReduceProd", x, axis, keepdims)
    rows = Rows(x.shape, axis)
    factors: Any = np.moveaxis(rows.of(x), -1, 0)  # type: ignore[arg-type]
    one = graph.expand(graph.constant(np.ones((), x.dtype)), factors.shape[1:])
    (out,), _ = scan(graph, lambda state, row: ([state[0] * row[0]], []), [one], [factors])
    return out.reshape(kept_shape(x.shape, axis)) if keepdims is True else out


def _extreme_of_int64(graph: Graph, op: str, x: GraphArray, axis: Axes, keepdims: bool) -> GraphArray:
    """The largest or smallest by ArgMax or ArgMin: ReduceMax of onnxruntime 1.31 is wrong for some int64.

    It compares the lower halves as signed if the upper halves are equal.
    """
    axes, wide, sign = _axes(x, axis), graph.cast(x, np.int64), graph.constant(np.int64(-(2**63)))
    out: Any = wide ^ sign if x.dtype == np.uint64 else wide  # whose order is that of x
    for k in axes:
        shape = _reduced_shape(out, (k,), True)
        at = graph.emit(op, [out], shape, np.int64, axis=k, keepdims=1)
        out = graph.emit("GatherElements", [out, at], shape, np.int64, axis=k)
    out = out ^ sign if x.dtype == np.uint64 else out
    keeps = keepdims is not NOT_GIVEN and bool(keepdims)
    return graph.cast(out if keeps or not axes else graph.squeeze(out, *axes), x.dtype)


def _is_empty(x: GraphArray, axis: Axes) -> bool:
    """Whether there is nothing to reduce; `lite.jit` keeps the graph for sizes of the same answer."""
    return math.prod(x.shape[k] for k in _axes(x, axis)) < 1


def _is_given(value: object) -> bool:
    return value is not None and value is not NOT_GIVEN


def _masked(graph: Graph, x: GraphArray, where: ArrayLike, otherwise: Any) -> GraphArray:
    if where is True or where is NOT_GIVEN:
        return x
    if not _is_given(otherwise):
        raise NoRule("where needs initial")
    return select(graph, truth(graph, graph.operand(where)), x, otherwise, x.dtype)


def summed_dtype(x: GraphArray, dtype: DtypeLike) -> np.dtype[Any]:
    """The dtype that NumPy sums in."""
    return np.dtype(dtype) if dtype is not None else np.add.reduce(np.zeros(1, x.dtype)).dtype


# The operator, the ufunc that joins its result with `initial`, and the value of elements left out by `where`.
_REDUCTIONS: dict[Function, tuple[str, np.ufunc, int | None]] = {
    np.sum: ("ReduceSum", np.add, 0),
    np.prod: ("ReduceProd", np.multiply, 1),
    **dict.fromkeys((np.max, np.amax), ("ReduceMax", np.maximum, None)),
    **dict.fromkeys((np.min, np.amin), ("ReduceMin", np.minimum, None)),
    np.all: ("ReduceMin", np.logical_and, True),
    np.any: ("ReduceSum", np.logical_or, False),  # ReduceMax of no elements is not False
}


@ONNX.rule_of_each(*_REDUCTIONS)
def _onnx_reduction(
    function: Function, graph: Graph, a: ArrayLike, axis: Axes = None, dtype: DtypeLike = None, **options: Any
) -> Array | GraphArray:
    """A reduction in a graph, as NumPy computes it: with `where`, `initial`, NaN and exact int64."""
    op, join, left_out = _REDUCTIONS[function]
    x, initial = graph.operand(a), options.get("initial")
    given = x.dtype
    if function in (np.all, np.any):
        x = truth(graph, x)
    elif function in (np.sum, np.prod):
        x = graph.cast(x, summed_dtype(x, dtype))
    x = _masked(graph, x, options.get("where", True), initial if left_out is None else left_out)
    wide = graph.cast(x, np.int32) if x.dtype == BOOL else x
    if left_out is None and not _is_given(initial) and _is_empty(x, axis):
        raise ValueError(f"zero-size array to reduction operation {join.__name__} which has no identity")
    along: Any = {"axis": axis, "keepdims": options.get("keepdims", False)}
    out: Any
    exact = graph.exact_integers and given == x.dtype in (np.int64, np.uint32, np.uint64)
    if exact and function is np.sum:
        out = _sum_of_int64(graph, x, **along)
    elif graph.exact_integers and op == "ReduceProd" and given != BOOL and x.dtype.kind in "iu":
        out = _product_of_integers(graph, x, **along)
    elif exact and left_out is None and not (_is_given(initial) and _is_empty(x, axis)):
        out = _extreme_of_int64(graph, "Arg" + op.removeprefix("Reduce"), x, **along)
    else:
        out = _reduce(graph, op, wide, **along)
    if left_out is None and x.dtype.kind == "f":  # the operators propagate NaN only in some positions
        out = np.where(np.any(np.isnan(x), **along), np.nan, out)
    if _is_given(initial):
        out = join(out, graph.operand(initial, out.dtype))
    return graph.cast(out, x.dtype)


def _onnx_log_sum_exp(
    graph: Graph, a: ArrayLike, axis: Axes = 0, dtype: DtypeLike = None, keepdims: bool = False
) -> GraphArray:
    x = graph.operand(a)
    if dtype is not None or x.dtype.kind != "f":
        raise NoRule
    return _reduce(graph, "ReduceLogSumExp", x, axis, keepdims)


ONNX.rules[np.logaddexp, "reduce"] = _onnx_log_sum_exp


@ONNX.rule(np.count_nonzero)
def _onnx_count_nonzero(graph: Graph, a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    return np.sum(truth(graph, graph.operand(a)), axis, keepdims=keepdims)


@ONNX.rule(np.mean)
def _onnx_mean(
    graph: Graph, a: ArrayLike, axis: Any = None, dtype: Any = None, keepdims: Any = False, *,
    where: Any = True,
) -> Array | GraphArray:  # fmt: skip
    x = graph.operand(a)
    wanted = dtype if dtype is not None else x.dtype if x.dtype.kind == "f" else np.float64
    if where is not True and where is not NOT_GIVEN:
        chosen = graph.cast(graph.expand(graph.operand(where), x.shape), wanted)
        total = np.sum(x, axis, wanted, keepdims=keepdims, where=where)
        return total / np.sum(chosen, axis, keepdims=keepdims)
    count: Any = math.prod(x.shape[k] for k in _axes(x, axis))
    if graph.is_computed(count):  # there may be nothing, of which the operator gives 0
        return np.sum(x, axis, wanted, keepdims=keepdims) / graph.operand(count, wanted)
    out = _reduce(graph, "ReduceMean", graph.cast(x, wanted), axis, keepdims)
    return graph.expand(graph.constant(np.nan, wanted), out.shape) if _is_empty(x, axis) else out


@ONNX.rule(np.var)
def _onnx_var(
    graph: Graph,
    a: ArrayLike,
    axis: Axes = None,
    dtype: DtypeLike = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike = NOT_GIVEN,
    correction: Any = NOT_GIVEN,
) -> GraphArray:
    """`numpy.var` in a graph."""
    ddof = ddof if correction is NOT_GIVEN else correction
    x = graph.operand(a)
    if where is not True and where is not NOT_GIVEN:
        x = x if x.dtype.kind == "f" else graph.cast(x, np.float64)
        chosen = graph.expand(graph.operand(where), x.shape)
        count = np.sum(chosen, axis, keepdims=True).astype(x.dtype)
        middle = np.sum(x, axis, keepdims=True, where=chosen) / count if mean is NOT_GIVEN else mean
        squared = np.sum(np.square(x - middle), axis, keepdims=True, where=chosen)
        out = squared / np.maximum(count - ddof, 0.0)
        return out if keepdims is True else np.squeeze(out, None if axis is None else axis)
    axes = _axes(x, axis)
    centred = x - (np.mean(x, axes, dtype, keepdims=True) if mean is NOT_GIVEN else mean)
    squares = centred * centred
    if not ddof:
        return np.mean(squares, axes, keepdims=keepdims)
    size: Any = math.prod(x.shape[axis] for axis in axes)
    if graph.size(size) is not None:
        total: Any = np.sum(squares, axes, keepdims=keepdims)
        return total / np.maximum(graph.operand(size, total.dtype) - ddof, 0)
    return np.sum(squares, axes, keepdims=keepdims) / max(size - ddof, 0)


@ONNX.rule_of_each(np.nanmax, np.nanmin)
def _onnx_nanextreme(
    function: Function, graph: Graph, a: ArrayLike, axis: Any = None, keepdims: bool = False
) -> Any:
    x: Any = graph.operand(a)
    plain, neutral = (np.max, -np.inf) if function is np.nanmax else (np.min, np.inf)
    if x.dtype.kind != "f":
        return plain(x, axis, keepdims=keepdims)
    nothing = np.all(np.isnan(x), axis, keepdims=keepdims)
    return np.where(nothing, np.nan, plain(np.where(np.isnan(x), neutral, x), axis, keepdims=keepdims))


@ONNX.rule_of_each(np.quantile, np.percentile)
def _onnx_quantile(
    function: Function, graph: Graph, a: ArrayLike, q: Any, axis: Axes = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: Operand = None,
) -> Any:  # fmt: skip
    x: Any = graph.operand(a)
    rows = Rows(x.shape, axis)
    if weights is not None or method not in _POSITIONS or graph.size(rows.length) is not None:
        raise NoRule
    shares = np.asarray(q, np.float64) / (100 if function is np.percentile else 1)
    ordered = np.sort(rows.of(x if x.dtype.kind == "f" else x.astype(np.float64)), -1)
    place = np.clip(_POSITIONS[method](shares.reshape(-1), rows.length), 0, rows.length - 1)
    low = np.floor(place).astype(np.int64)
    weight = (place - low).astype(ordered.dtype)
    high = np.minimum(low + 1, rows.length - 1)
    first, second = ordered[..., low], ordered[..., high]
    apart = second - first  # what is infinite is left out where the other is nearer, as by NumPy
    found = np.where(weight < 0.5, first + apart * weight, second - apart * (1 - weight))
    found = np.where(weight == 0, first, found)
    found = np.where(np.isnan(ordered[..., -1:]), np.nan, found)  # NaN is sorted to the end
    found = found.astype(function(np.zeros(1, x.dtype), q, method=method).dtype)
    shape = kept_shape(x.shape, axis) if keepdims is True else rows.outer
    return np.moveaxis(found, -1, 0).reshape((*shares.shape, *shape))


@ONNX.composed(np.median)
def _onnx_median(a: Any, axis: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    if Rows(np.shape(a), axis).length == 0:  # NaN, which a quantile of nothing is not
        return np.mean(a, axis, keepdims=keepdims)
    middle = [np.quantile(a, 0.5, axis, method=side, keepdims=keepdims) for side in ("lower", "higher")]
    return np.mean(np.stack(middle), 0)  # also right for infinities, which a quantile cannot interpolate


@ONNX.composed(np.std)
def _onnx_std(a: Array, *args: Any, **kwargs: Any) -> Array:
    return np.sqrt(np.var(a, *args, **kwargs))


@ONNX.rule_of_each(np.argmax, np.argmin)
def _onnx_position(
    function: Function, graph: Graph, a: ArrayLike, axis: Any = None, *, keepdims: bool = False
) -> GraphArray:
    op = "ArgMax" if function is np.argmax else "ArgMin"
    x: Any = graph.operand(a)
    keep = keepdims is not NOT_GIVEN and bool(keepdims)
    if axis is None:
        if keep:
            raise NoRule
        x, axis = graph.reshape(x, (x.size,)), 0
    axis = normalize_axis_index(axis, x.ndim)
    if x.dtype.kind == "f":  # the first NaN comes before all numbers
        sign = 1 if function is np.argmax else -1
        most = np.finfo(x.dtype).max
        x = np.where(np.isnan(x), sign * np.inf, np.clip(x, -most, most))
    return graph.emit(op, [x], _reduced_shape(x, (axis,), keep), np.int64, axis=axis, keepdims=int(keep))


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.ptp)
def _ptp(a: ArrayLike, axis: Axes = None, keepdims: bool = NOT_GIVEN) -> Array:
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


def _skipping(plain: Function, neutral: int, a: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """A sum or product of the elements that are not NaN."""
    return plain(np.where(np.isnan(a), neutral, a), *args, **kwargs)


for _name, _neutral in {"sum": 0, "prod": 1, "cumsum": 0, "cumprod": 1}.items():
    formula(getattr(np, f"nan{_name}"))(functools.partial(_skipping, getattr(np, _name), _neutral))


def _of_numbers(plain: Function, a: ArrayLike, *args: Any, where: Any = True, **kwargs: Any) -> Array:
    """A mean or variance of the elements that are not NaN."""
    return plain(a, *args, where=~np.isnan(a) & where, **kwargs)


for _name in ("mean", "var", "std"):
    formula(getattr(np, f"nan{_name}"))(functools.partial(_of_numbers, getattr(np, _name)))


@formula(np.average)
def _average(
    a: Any, axis: Any = None, weights: Array | None = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        mean = np.mean(a, axis, keepdims=keepdims)
        count = np.size(a) / max(np.size(mean), 1)
        return (mean, np.full_like(mean, count)) if returned else mean
    if np.shape(weights) != np.shape(a):
        (place,) = normalize_axis_tuple(axis, ndim_of(a))
        weights = np.reshape(weights, (-1, *[1] * (ndim_of(a) - 1 - place)))
    a, weights = as_arrays((a, np.broadcast_to(weights, np.shape(a))))
    wide = [np.float64] if a.dtype.kind in "biu" else []  # products of integers would wrap around
    weights = weights.astype(np.result_type(a.dtype, weights.dtype, *wide))
    total = np.sum(weights, axis, keepdims=keepdims)
    mean = np.sum(a * weights, axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


@formula(np.cov)
def _cov(
    m: ArrayLike, y: Operand = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Operand = None, aweights: Operand = None, *, dtype: DtypeLike = None,
) -> Array:  # fmt: skip
    if fweights is not None or aweights is not None:
        raise NoRule("weights")
    given = as_arrays([m] if y is None else [m, y])
    wanted = np.result_type(*given, np.float64) if dtype is None else dtype
    parts = [np.atleast_2d(x) for x in given]
    if not rowvar:  # a single row is turned where it comes first, as NumPy does since 2.2
        first = ndim_of(given[0]) > 1
        parts = [x.T if x.shape[0] != 1 or (first and i == 0) else x for i, x in enumerate(parts)]
    rows = np.concatenate(parts, 0).astype(wanted)
    count = max(rows.shape[1] - (ddof if ddof is not None else 0 if bias else 1), 0)
    centred = rows - rows.mean(1, keepdims=True)
    return np.squeeze(np.matmul(centred, np.conjugate(centred.T)) / count)


@formula(np.corrcoef)
def _corrcoef(x: Array, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Array:
    covariance = np.cov(x, y, rowvar, dtype=dtype)
    if ndim_of(covariance) == 0:
        return covariance / covariance
    deviation = np.sqrt(np.diagonal(covariance).real)
    return np.clip(covariance / deviation[:, None] / deviation, -1, 1)
