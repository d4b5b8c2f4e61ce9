"""Rules of sorting and of looking elements up along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import INT64, Graph
from lite._transforms.graphs.rules import rule
from lite._transforms.registry import NoRule


def _sorted(graph: Graph, a: Any, axis: Any) -> list[GraphArray]:
    x = graph.operand(a)
    if axis is None:
        x, axis = graph.reshape(x, (x.size,)), 0
    axis = normalize_axis_index(axis, x.ndim)
    count = graph.size_array(x.shape[axis])
    outputs = [(x.shape, x.dtype), (x.shape, INT64)]
    return graph.emit_all("TopK", [x, count], outputs, axis=axis, largest=0, sorted=1)


@rule(np.sort)
def _sort(graph: Graph, a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return _sorted(graph, a, axis)[0]


@rule(np.argsort)
def _argsort(graph: Graph, a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    return _sorted(graph, a, axis)[1]  # of equal ones TopK takes the first first


@rule(np.take)
def _take(graph: Graph, a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    if mode != "raise":
        raise NoRule
    x = graph.operand(a)
    if axis is None:
        x, axis = graph.reshape(x, (x.size,)), 0
    return graph.gather(x, integers(graph, indices), normalize_axis_index(axis, x.ndim))


def integers(graph: Graph, indices: Any) -> GraphArray:
    """Indices as int64."""
    found = graph.operand(indices)
    if found.dtype.kind not in "iu":
        raise NoRule("indices that are no integers")
    return graph.cast(found, INT64)


@rule(np.take_along_axis)
def _take_along_axis(graph: Graph, arr: Any, indices: Any, axis: int | None = -1) -> Any:
    x, found = graph.operand(arr), integers(graph, indices)
    if axis is None:
        x, axis = graph.reshape(x, (x.size,)), 0
    axis = normalize_axis_index(axis, x.ndim)
    if x.ndim != found.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    head = graph.broadcast(
        [(*x.shape[:axis], *x.shape[axis + 1 :]), (*found.shape[:axis], *found.shape[axis + 1 :])]
    )
    x = graph.expand(x, (*head[:axis], x.shape[axis], *head[axis:]))
    found = graph.expand(found, (*head[:axis], found.shape[axis], *head[axis:]))
    return graph.emit("GatherElements", [x, found], found.shape, x.dtype, axis=axis)


@rule(np.compress, np.extract, np.nonzero, np.flatnonzero, np.argwhere, np.unique)
def _of_numbers(graph: Graph, *args: Any, **kwargs: Any) -> Any:
    raise NoRule("the shape of the result depends on numbers")


@rule(np.searchsorted)
def _searchsorted(graph: Graph, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if sorter is not None:
        raise NoRule
    edges, values = graph.operand(a), graph.operand(v)
    compare = np.less if side == "left" else np.less_equal
    below = compare(edges, graph.unsqueeze(values, values.ndim))
    return np.sum(below, -1)


@rule(np.digitize)
def _digitize(graph: Graph, x: Any, bins: Any, right: bool = False) -> Any:
    if isinstance(bins, GraphArray) or np.any(np.diff(bins) < 0):
        raise NoRule("bins that may fall")
    return np.searchsorted(graph.operand(bins), x, "left" if right else "right")


@rule(np.argpartition)
def _argpartition(graph: Graph, a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    return _sorted(graph, a, axis)[1]


@rule(np.partition)
def _partition(graph: Graph, a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    return _sorted(graph, a, axis)[0]
