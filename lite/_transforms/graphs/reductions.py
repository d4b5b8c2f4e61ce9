"""Rules of reductions along axes, and of running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import BOOL, Graph
from lite._transforms.graphs.rules import composed, rule
from lite._transforms.graphs.ufuncs import binary, select, truth
from lite._transforms.registry import NoRule, default

_REDUCED = (np.dtype(np.int32), np.dtype(np.int64))
_NO_VALUE = default(np.sum, "keepdims")


def axes_of(x: GraphArray, axis: Any) -> tuple[int, ...]:
    """Axes as numbers from the front; None stands for all."""
    return tuple(range(x.ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, x.ndim)))


def reduced(x: GraphArray, axes: Sequence[int], keepdims: Any) -> tuple[int, ...]:
    """The shape after a reduction."""
    if keepdims is True:
        return tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    return tuple(n for axis, n in enumerate(x.shape) if axis not in axes)


def reduce(graph: Graph, op: str, x: GraphArray, axis: Any, keepdims: Any) -> GraphArray:
    """An operator along axes."""
    keepdims = keepdims is not _NO_VALUE and bool(keepdims)
    axes = axes_of(x, axis)
    if not axes:
        return x
    # onnxruntime reduces few types of integers.
    wide = x if x.dtype.kind == "f" or x.dtype in _REDUCED else graph.cast(x, np.int64)
    shape = reduced(x, axes, keepdims)
    out = graph.emit(op, [wide, graph.ints(*axes)], shape, wide.dtype, keepdims=int(keepdims))
    return graph.cast(out, x.dtype)


def _masked(graph: Graph, x: GraphArray, where: Any, otherwise: Any) -> GraphArray:
    if where is True or where is _NO_VALUE:
        return x
    return select(graph, truth(graph, graph.operand(where)), x, otherwise, x.dtype)


def _summed_dtype(x: GraphArray, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        return np.dtype(dtype)
    return np.dtype(np.add.reduce(np.zeros(1, x.dtype)).dtype)


@rule(np.sum)
def _sum(
    graph: Graph,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = True,
) -> Any:
    x = graph.operand(a)
    x = _masked(graph, graph.cast(x, _summed_dtype(x, dtype)), where, 0)
    out = reduce(graph, "ReduceSum", x, axis, keepdims)
    return out if initial is _NO_VALUE or initial is None else binary(graph, "Add", out, initial)


@rule(np.prod)
def _prod(
    graph: Graph,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: Any = False,
    initial: Any = _NO_VALUE,
    where: Any = True,
) -> Any:
    x = graph.operand(a)
    x = _masked(graph, graph.cast(x, _summed_dtype(x, dtype)), where, 1)
    out = reduce(graph, "ReduceProd", x, axis, keepdims)
    return out if initial is _NO_VALUE or initial is None else binary(graph, "Mul", out, initial)


def _extreme(op: str, both: str) -> Any:
    def run(
        graph: Graph,
        a: Any,
        axis: Any = None,
        keepdims: Any = False,
        initial: Any = _NO_VALUE,
        where: Any = True,
    ) -> Any:
        x = graph.operand(a)
        if where is not True and where is not _NO_VALUE:
            if initial is _NO_VALUE or initial is None:
                raise NoRule("where needs initial")
            x = _masked(graph, x, where, initial)
        out = reduce(graph, op, graph.cast(x, np.int32) if x.dtype == BOOL else x, axis, keepdims)
        if initial is not _NO_VALUE and initial is not None:
            out = binary(graph, both, out, initial)
        return graph.cast(out, x.dtype)

    return run


rule(np.max, np.amax)(_extreme("ReduceMax", "Max"))
rule(np.min, np.amin)(_extreme("ReduceMin", "Min"))


@rule(np.all)
def _all(graph: Graph, a: Any, axis: Any = None, keepdims: Any = False, where: Any = True) -> Any:
    x = graph.cast(_masked(graph, truth(graph, graph.operand(a)), where, True), np.int32)
    return graph.cast(reduce(graph, "ReduceMin", x, axis, keepdims), BOOL)


@rule(np.any)
def _any(graph: Graph, a: Any, axis: Any = None, keepdims: Any = False, where: Any = True) -> Any:
    x = graph.cast(_masked(graph, truth(graph, graph.operand(a)), where, False), np.int32)
    return graph.cast(reduce(graph, "ReduceMax", x, axis, keepdims), BOOL)


@rule(np.count_nonzero)
def _count_nonzero(graph: Graph, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return np.sum(truth(graph, graph.operand(a)), axis, keepdims=keepdims)


@rule(np.mean)
def _mean(
    graph: Graph, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, *, where: Any = True
) -> Any:
    x = graph.operand(a)
    if where is not True and where is not _NO_VALUE:
        chosen = graph.cast(graph.expand(graph.operand(where), x.shape), x.dtype)
        return np.sum(x, axis, dtype, keepdims=keepdims, where=where) / np.sum(
            chosen, axis, keepdims=keepdims
        )
    wanted = (
        np.dtype(dtype) if dtype is not None else x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    )
    return reduce(graph, "ReduceMean", graph.cast(x, wanted), axis, keepdims)


@rule(np.var)
def _var(
    graph: Graph,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = _NO_VALUE,
    correction: Any = _NO_VALUE,
) -> Any:
    if where is not True and where is not _NO_VALUE:
        raise NoRule
    ddof = ddof if correction is _NO_VALUE else correction
    x = graph.operand(a)
    axes = axes_of(x, axis)
    centred = x - (np.mean(x, axes, dtype, keepdims=True) if mean is _NO_VALUE else mean)
    squares = centred * centred
    if not ddof:
        return np.mean(squares, axes, keepdims=keepdims)
    if any(graph.size(x.shape[axis]) is not None for axis in axes):
        raise NoRule("ddof along a dynamic dimension")
    count = math.prod(x.shape[axis] for axis in axes)
    return np.sum(squares, axes, keepdims=keepdims) / max(count - ddof, 0)


def _without_nan(function: Any, filler: float) -> Any:
    def run(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, where: Any = True) -> Any:
        known = a if a.dtype.kind != "f" else np.where(np.isnan(a), a.dtype.type(filler), a)
        return function(known, axis, dtype, keepdims=keepdims, where=where)

    return run


composed(np.nansum)(_without_nan(np.sum, 0.0))
composed(np.nanprod)(_without_nan(np.prod, 1.0))


@composed(np.nanmean)
def _nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False, *, where: Any = True) -> Any:
    known = (~np.isnan(a)).astype(a.dtype)
    total = np.nansum(a, axis, dtype, keepdims=keepdims, where=where)
    return total / np.sum(known, axis, keepdims=keepdims, where=where)


@rule(np.average)
def _average(graph: Graph, a: Any, axis: Any = None, weights: Any = None, *, keepdims: Any = False) -> Any:
    if weights is None:
        return np.mean(graph.operand(a), axis, keepdims=keepdims)
    scale = graph.operand(weights)
    if scale.ndim == 1 and a.ndim > 1:
        scale = graph.reshape(scale, [scale.size if i == axis % a.ndim else 1 for i in range(a.ndim)])
    total: Any = np.sum(a * scale, axis, keepdims=keepdims)
    return total / np.sum(graph.expand(scale, a.shape), axis, keepdims=keepdims)


@composed(np.std)
def _std(a: Any, *args: Any, **kwargs: Any) -> Any:
    return np.sqrt(np.var(a, *args, **kwargs))


@composed(np.ptp)
def _ptp(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


def _position(op: str) -> Any:
    def run(graph: Graph, a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
        x = graph.operand(a)
        if x.dtype == BOOL:
            x = graph.cast(x, np.int32)
        keep = keepdims is not _NO_VALUE and bool(keepdims)
        if axis is None:
            if keep:
                raise NoRule
            x, axis = graph.reshape(x, (x.size,)), 0
        axis = normalize_axis_index(axis, x.ndim)
        return graph.emit(op, [x], reduced(x, (axis,), keep), np.int64, axis=axis, keepdims=int(keep))

    return run


rule(np.argmax)(_position("ArgMax"))
rule(np.argmin)(_position("ArgMin"))


@rule(np.cumsum)
def _cumsum(graph: Graph, a: Any, axis: Any = None, dtype: Any = None) -> Any:
    x = graph.operand(a)
    x = graph.cast(x, _summed_dtype(x, dtype))
    if axis is None:
        x, axis = graph.reshape(x, (x.size,)), 0
    where = graph.constant(np.array(normalize_axis_index(axis, x.ndim), np.int64))
    return graph.emit("CumSum", [x, where], x.shape, x.dtype)


@rule(np.linalg.norm)
def _norm(graph: Graph, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x = graph.operand(x)
    if axis is None and x.ndim != 1 and ord is not None:
        raise NoRule("norms of matrices")
    if isinstance(axis, tuple) and len(axis) != 1 and ord is not None:
        raise NoRule("norms of matrices")
    return _vector_norm(x, axis, keepdims, 2 if ord is None else ord)


def _vector_norm(x: GraphArray, axis: Any, keepdims: bool, ord: Any) -> Any:
    if ord == 2:
        return np.sqrt(np.sum(x * x, axis, keepdims=keepdims))
    if ord == np.inf:
        return np.max(np.abs(x), axis, keepdims=keepdims)
    if ord == -np.inf:
        return np.min(np.abs(x), axis, keepdims=keepdims)
    if ord == 1:
        return np.sum(np.abs(x), axis, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(x.dtype), axis, keepdims=keepdims)
    return np.sum(np.abs(x) ** ord, axis, keepdims=keepdims) ** (1.0 / ord)


@composed(np.linalg.vector_norm)
def _named_vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return _vector_norm(x, axis, keepdims, ord)


@composed(np.cumulative_sum)
def _cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    out: Any = np.cumsum(x, axis, dtype)
    if not include_initial:
        return out
    at = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    first = out[(*[slice(None)] * at, slice(0, 1))]
    return np.concatenate([np.zeros_like(first), out], at)


@composed(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    for _ in range(n):
        axis = normalize_axis_index(axis, a.ndim)
        head: Any = (slice(None),) * axis
        a = a[(*head, slice(1, None))] - a[(*head, slice(None, -1))]
    return a
