"""Rules of functions that join arrays, or take them apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.rules import composed, rule
from lite._transforms.registry import NoRule


def _together(graph: Graph, arrays: Any, dtype: Any) -> list[GraphArray]:
    parts = [graph.operand(x) for x in arrays]
    if not parts:
        raise ValueError("need at least one array to join")
    wanted = np.result_type(*[x.dtype for x in parts]) if dtype is None else np.dtype(dtype)
    return [graph.cast(x, wanted) for x in parts]


@rule(np.concatenate)
def _concatenate(
    graph: Graph, arrays: Any, axis: Any = 0, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    parts = _together(graph, arrays, dtype)
    if axis is None:
        parts, axis = [graph.reshape(x, (x.size,)) for x in parts], 0
    for x in parts:
        if x.ndim != parts[0].ndim:
            raise ValueError("all the input arrays must have the same number of dimensions")
    return graph.concatenate(parts, normalize_axis_index(axis, parts[0].ndim))


@rule(np.stack)
def _stack(graph: Graph, arrays: Any, axis: int = 0, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = _together(graph, arrays, dtype)
    if any(tuple(x.shape) != tuple(parts[0].shape) for x in parts):
        raise ValueError("all input arrays must have the same shape")
    return graph.stack(parts, normalize_axis_index(axis, parts[0].ndim + 1))


@composed(np.hstack)
def _hstack(tup: Any, **kwargs: Any) -> Any:
    parts = [np.atleast_1d(x) for x in tup]
    return np.concatenate(parts, 0 if parts[0].ndim == 1 else 1, **kwargs)


@composed(np.vstack)
def _vstack(tup: Any, **kwargs: Any) -> Any:
    return np.concatenate([np.atleast_2d(x) for x in tup], 0, **kwargs)


@composed(np.dstack)
def _dstack(tup: Any) -> Any:
    parts = [np.atleast_2d(x) for x in tup]
    wide = [x[..., None] if x.ndim == 2 else x for x in parts]
    return np.concatenate(wide, 2)


@rule(np.split, np.array_split)
def _split(graph: Graph, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    axis = normalize_axis_index(axis, ary.ndim)
    size = ary.shape[axis]
    if graph.size(size) is not None:
        raise NoRule("a dynamic dimension")
    parts = np.array_split(np.arange(size), indices_or_sections)
    if np.ndim(indices_or_sections) == 0 and size % int(indices_or_sections):
        raise NoRule("parts of different sizes")
    head: Any = (slice(None),) * axis
    ends = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    return [ary[(*head, slice(start, stop))] for start, stop in pairwise(ends)]


@composed(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@composed(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, 0)


@composed(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Any:
    return np.split(ary, indices_or_sections, 2)


@composed(np.column_stack)
def _column_stack(tup: Any) -> Any:
    return np.concatenate([np.atleast_1d(x)[:, None] if np.ndim(x) < 2 else x for x in tup], 1)


@rule(np.unstack)
def _unstack(graph: Graph, x: Any, /, *, axis: int = 0) -> Any:
    axis = normalize_axis_index(axis, x.ndim)
    if graph.size(x.shape[axis]) is not None:
        raise NoRule("a dynamic dimension")
    return tuple(x[(*[slice(None)] * axis, i)] for i in range(x.shape[axis]))


@composed(np.append)
def _append(arr: Any, values: Any, axis: Any = None) -> Any:
    return np.concatenate((arr, values), axis)
