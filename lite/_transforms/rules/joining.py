"""Rules of functions that join arrays, and that take them apart."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike

from lite._arrays.types import Array, DtypeLike, Function
from lite._transforms.grad.tape import Vjp, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.registry import (
    FORMULAS,
    GRAD,
    ONNX,
    VMAP,
    NoRule,
    as_array,
    as_arrays,
    flattened,
    formula,
    ndim_of,
)
from lite._transforms.vmap.along import shifted_axis
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.level import Level


@GRAD.rule(np.concatenate)
def _grad_concatenate(
    arrays: Any, /, axis: int | None = 0, *, dtype: DtypeLike = None, casting: Any = "same_kind"
) -> Array:
    parts = as_arrays(arrays)
    if axis is None:
        parts, axis = [part.reshape(-1) for part in parts], 0
    value = np.concatenate([value_of(part) for part in parts], axis, dtype=dtype, casting=casting)
    head = (slice(None),) * normalize_axis_index(axis, value.ndim)
    parents, start = [], 0
    for part in parts:
        end = start + part.shape[axis]
        parents.append((part, _at((*head, slice(start, end)))))
        start = end
    return with_node(value, *parents)


@VMAP.rule(np.concatenate, np.concat)
def _vmap_concatenate(level: Level, arrays: Any, axis: int | None = 0, **kwargs: Any) -> Array:
    items = as_arrays(arrays)
    if axis is None:
        items, axis = [np.ravel(a) for a in items], 0
    parts = [level.full(a) for a in items]
    return level.wrap(np.concatenate(parts, shifted_axis(axis, items[0].ndim), **kwargs))


@ONNX.rule(np.concatenate)
def _onnx_concatenate(
    graph: Graph, arrays: Any, axis: Any = 0, dtype: DtypeLike = None, casting: str = "same_kind"
) -> GraphArray:
    parts = _of_one_dtype(graph, arrays, dtype)
    if axis is None:
        parts, axis = [graph.reshape(x, (x.size,)) for x in parts], 0
    if any(x.ndim != parts[0].ndim for x in parts):
        raise ValueError("all the input arrays must have the same number of dimensions")
    return graph.concatenate(parts, normalize_axis_index(axis, parts[0].ndim))


def _of_one_dtype(graph: Graph, arrays: Any, dtype: DtypeLike) -> list[GraphArray]:
    parts = [graph.operand(x) for x in arrays]
    if not parts:
        raise ValueError("need at least one array to join")
    wanted = np.result_type(*[x.dtype for x in parts]) if dtype is None else np.dtype(dtype)
    return [graph.cast(x, wanted) for x in parts]


@GRAD.rule(np.stack)
def _grad_stack(arrays: Any, axis: int = 0, *, dtype: DtypeLike = None, casting: Any = "same_kind") -> Array:
    parts = as_arrays(arrays)
    value = np.stack([value_of(part) for part in parts], axis, dtype=dtype, casting=casting)
    head = (slice(None),) * normalize_axis_index(axis, value.ndim)
    return with_node(value, *[(part, _at((*head, i))) for i, part in enumerate(parts)])


def _at(index: Any) -> Vjp:
    return lambda g: g[index]


@VMAP.rule(np.stack)
def _vmap_stack(level: Level, arrays: Any, axis: int = 0, **kwargs: Any) -> Array:
    items = as_arrays(arrays)
    parts = [level.full(a) for a in items]
    return level.wrap(np.stack(parts, shifted_axis(axis, items[0].ndim + 1), **kwargs))


@ONNX.rule(np.stack)
def _onnx_stack(
    graph: Graph, arrays: Any, axis: int = 0, dtype: DtypeLike = None, casting: str = "same_kind"
) -> GraphArray:
    parts = _of_one_dtype(graph, arrays, dtype)
    if any(tuple(x.shape) != tuple(parts[0].shape) for x in parts):
        raise ValueError("all input arrays must have the same shape")
    return graph.stack(parts, normalize_axis_index(axis, parts[0].ndim + 1))


@VMAP.rule_of_each(np.split, np.array_split)
def _vmap_split(
    function: Function, level: Level, ary: BatchedArray, indices_or_sections: Any, axis: int = 0
) -> list[Array]:
    return level.wrap_all(function(ary.value, indices_or_sections, shifted_axis(axis, ary.ndim)))


@ONNX.rule_of_each(np.split, np.array_split, np.unstack)
def _onnx_split(function: Function, graph: Graph, x: GraphArray, *args: Any, axis: int = 0) -> GraphArray:
    *sections, axis = args if len(args) > 1 else (*args, axis)
    if graph.size(x.shape[axis]) is not None:
        raise NoRule("a dynamic dimension")
    return FORMULAS[function](x, *sections, axis=axis)


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.vstack)
def _vstack(tup: Any, **kwargs: Any) -> Array:
    return np.concatenate([np.atleast_2d(a) for a in tup], 0, **kwargs)


@formula(np.hstack)
def _hstack(tup: Any, **kwargs: Any) -> Array:
    items = [np.atleast_1d(a) for a in tup]
    return np.concatenate(items, 0 if items and ndim_of(items[0]) == 1 else 1, **kwargs)


@formula(np.dstack)
def _dstack(tup: Any) -> Array:
    return np.concatenate([np.atleast_3d(a) for a in tup], 2)


@formula(np.column_stack)
def _column_stack(tup: Any) -> Array:
    items = as_arrays(tup)
    return np.concatenate([a.reshape(-1, 1) if a.ndim < 2 else a for a in items], 1)


@formula(np.block)
def _block(arrays: Any) -> Array:
    parts, depth = arrays, 0
    while isinstance(parts, list) and parts:
        depth, parts = depth + 1, parts[0]

    def widest(part: ArrayLike) -> int:
        return max(map(widest, part)) if isinstance(part, list) else ndim_of(part)

    ndim = max(depth, widest(arrays))

    def join(part: ArrayLike, axis: int) -> Array:
        if isinstance(part, list):
            if not axis or not part:
                raise NoRule  # NumPy names the list that is too deep, or empty
            return np.concatenate([join(item, axis + 1) for item in part], axis)
        if axis:
            raise NoRule
        missing = (None,) * (ndim - ndim_of(part))
        return as_array(part)[missing]

    return join(arrays, -depth)


@formula(np.array_split)
def _array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    size = ary.shape[axis]
    if np.ndim(indices_or_sections):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, longer = divmod(size, count)
        ends = [i * each + min(i, longer) for i in range(1, count)]
    head = (slice(None),) * normalize_axis_index(axis, ary.ndim)
    return [ary[(*head, slice(*pair))] for pair in zip([0, *ends], [*ends, size], strict=True)]


@formula(np.split)
def _split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    if not np.ndim(indices_or_sections) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return np.array_split(ary, indices_or_sections, axis)


@formula(np.unstack)
def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    head = (slice(None),) * normalize_axis_index(axis, x.ndim)
    return tuple([x[(*head, i)] for i in range(x.shape[axis])])


@formula(np.delete)
def _delete(arr: Array, obj: Array, axis: int | None = None) -> Array:
    arr, axis = flattened(arr, axis)
    return np.take(arr, np.delete(np.arange(arr.shape[axis]), obj), axis)


@formula(np.append)
def _append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    return np.concatenate([arr, values], axis)


@formula(np.hsplit)
def _hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    return np.split(ary, indices_or_sections, 1 if ndim_of(ary) > 1 else 0)


@formula(np.vsplit)
def _vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    if ndim_of(ary) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return np.split(ary, indices_or_sections, 0)


@formula(np.dsplit)
def _dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    if ndim_of(ary) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return np.split(ary, indices_or_sections, 2)


@formula(np.insert)
def _insert(arr: Array, obj: Array, values: Array, axis: int | None = None) -> Array:
    arr, axis = flattened(as_array(arr), axis)
    values = as_array(values)
    size = arr.shape[axis]
    # Elements go where their numbers go; those from `size` on are new.
    if isinstance(obj, slice):
        obj = np.arange(size)[obj]
    single = not np.ndim(obj)
    if single or np.size(obj) == 1:
        new = np.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        if single:
            new = np.moveaxis(new, 0, axis)
        count = new.shape[axis]
        obj = np.reshape(obj, ())
    else:
        new, count = values, np.size(obj) if np.asarray(obj).dtype.kind != "b" else int(np.sum(obj))
    shape = [count if d == axis else n for d, n in enumerate(arr.shape)]
    order = np.insert(np.arange(size), obj, np.arange(size, size + count))
    both = np.concatenate([arr, np.broadcast_to(new, shape).astype(arr.dtype)], axis)
    return np.take(both, order, axis)
