"""Rules of functions that sort and search.

In a gradient each element keeps its derivative wherever it goes; equal elements stay in their order (a stable
sort), whatever `kind` says.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Function, Operand
from lite._transforms.grad.tape import value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import INT64, Graph
from lite._transforms.registry import GRAD, ONNX, VMAP, ZERO_GRADIENT, NoRule, as_array, flattened
from lite._transforms.vmap.along import shifted_axis
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.ufuncs import elementwise

ZERO_GRADIENT.update((np.argsort, np.argpartition, np.searchsorted, np.digitize, np.lexsort, np.isin))


@GRAD.rule(np.sort)
def _grad_sort(a: ArrayLike, axis: int | None = -1, *args: Any, **kwargs: Any) -> Array:
    return _permuted(a, axis, lambda held, axis: np.argsort(held, axis, kind="stable"))


@GRAD.rule(np.partition)
def _grad_partition(a: ArrayLike, kth: Any, axis: int | None = -1, *args: Any, **kwargs: Any) -> Array:
    return _permuted(a, axis, lambda held, axis: np.argpartition(held, kth, axis))


def _permuted(a: ArrayLike, axis: int | None, permutation: Any) -> Array:
    a, axis = flattened(a, axis)
    held = value_of(a)
    order = permutation(held, axis)
    back = np.argsort(order, axis)
    value = np.take_along_axis(held, order, axis)
    return with_node(value, (a, lambda g: np.take_along_axis(g, back, axis)))


@ONNX.rule_of_each(np.sort, np.argsort)
def _onnx_sort(
    function: Function, graph: Graph, a: ArrayLike, axis: int | None = -1, *args: Any, **kwargs: Any
) -> Any:
    x, axis = flattened(a, axis)
    if x.dtype.kind != "f":
        return _ascending(graph, x, axis)[function is np.argsort]
    # TopK finds no place for NaN, which NumPy has last: they go with what is infinite, then behind it.
    is_nan = np.isnan(x)
    places = _ascending(graph, np.where(is_nan, np.inf, x), axis)[1]
    last = np.take_along_axis(is_nan, places, axis).astype(np.int32)
    places = np.take_along_axis(places, _ascending(graph, last, axis)[1], axis)
    return places if function is np.argsort else np.take_along_axis(x, places, axis)


def _ascending(graph: Graph, x: Any, axis: int) -> Any:
    """Sorted values and their places; of equal ones TopK takes the first first."""
    outputs = [(x.shape, x.dtype), (x.shape, INT64)]
    inputs = [x, graph.size_array(x.shape[axis])]
    return graph.emit_all("TopK", inputs, outputs, axis=axis, largest=0, sorted=1)


@ONNX.composed(np.partition)
def _onnx_partition(
    a: Array, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None
) -> Array:
    return np.sort(a, axis)


@ONNX.composed(np.argpartition)
def _onnx_argpartition(
    a: Array, kth: Any, axis: Any = -1, kind: str = "introselect", order: str | None = None
) -> Array:
    return np.argsort(a, axis)


@VMAP.rule(np.lexsort)
def _vmap_lexsort(level: Level, keys: Any, axis: int = -1) -> Array:
    items = tuple([level.full(key) for key in keys])
    return level.wrap(np.lexsort(items, shifted_axis(axis, items[0].ndim - 1)))


@VMAP.rule(np.searchsorted)
def _vmap_searchsorted(level: Level, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Array:
    if level.on(a) or level.on(sorter):
        if sorter is not None:
            a = np.take_along_axis(a, sorter, -1)
        if side not in ("left", "right"):
            raise ValueError(f"side must be 'left' or 'right', got {side!r}")
        v = as_array(v)
        # How many elements are before v; NaN comes after all numbers.
        if side == "left":
            return ((a < v[..., None]) | (np.isnan(v)[..., None] & ~np.isnan(a))).sum(-1)
        return ((a <= v[..., None]) | np.isnan(v)[..., None]).sum(-1)
    return level.wrap(np.searchsorted(a, v.value, side, sorter))


@ONNX.rule(np.searchsorted)
def _onnx_searchsorted(
    graph: Graph, a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Operand = None
) -> GraphArray:
    if sorter is not None:
        raise NoRule
    edges: Any = graph.operand(a)
    values = graph.unsqueeze(graph.operand(v), np.ndim(v))
    if side == "left":
        return np.sum((edges < values) | (np.isnan(values) & ~np.isnan(edges)), -1)  # NaN is after all
    return np.sum((edges <= values) | np.isnan(values), -1)


@VMAP.composed(np.digitize)
def _vmap_digitize(x: Array, bins: Array, right: bool = False) -> Array:
    if isinstance(bins, BatchedArray):
        raise NoRule
    return elementwise(lambda values: np.digitize(values, bins, right), (x,))


@ONNX.rule(np.digitize)
def _onnx_digitize(graph: Graph, x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    if isinstance(bins, GraphArray) or np.any(np.diff(bins) < 0):
        raise NoRule("bins that may fall")
    return np.searchsorted(graph.operand(bins), x, "left" if right else "right")


@VMAP.rule(np.isin)
def _vmap_isin(level: Level, element: BatchedArray, test_elements: ArrayLike, **kwargs: Any) -> Array:
    if level.on(test_elements):
        if kwargs:
            raise NoRule
        return (as_array(element)[..., None] == np.ravel(test_elements)).any(-1)
    return level.wrap(np.isin(element.value, test_elements, **kwargs))


@ONNX.rule(np.isin)
def _onnx_isin(
    graph: Graph, element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False,
    invert: bool = False, *, kind: str | None = None,
) -> Array:  # fmt: skip
    values = graph.operand(element)
    found = (graph.unsqueeze(values, values.ndim) == np.ravel(test_elements)).any(-1)
    return ~found if invert else found


@ONNX.rule(np.unique)
def _onnx_refuse(graph: Graph, *args: Any, **kwargs: Any) -> NoReturn:
    raise NoRule("the shape of the result depends on numbers")
