"""Rules of functions that choose elements or write some, in other forms than brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike

from lite._arrays.types import Array, HostArray, Shape
from lite._transforms.grad.indexing import index_vjp, pick, write_out
from lite._transforms.grad.tape import unbroadcast, value_of, with_node
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import INT64, Graph
from lite._transforms.graphs.indexing import scatter_along
from lite._transforms.graphs.operators import select, truth
from lite._transforms.graphs.sizes import Size
from lite._transforms.levels import count
from lite._transforms.registry import (
    GRAD,
    ONNX,
    VMAP,
    ZERO_GRADIENT,
    NoRule,
    as_array,
    as_arrays,
    flattened,
    formula,
    ndim_of,
)
from lite._transforms.vmap.along import shifted_axis
from lite._transforms.vmap.array import BatchedArray
from lite._transforms.vmap.indexing import get_index, set_index, where_true
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.ufuncs import elementwise

ZERO_GRADIENT.add(np.nonzero)
_NOTHING = object()


@GRAD.rule(np.where)
def _grad_where(condition: ArrayLike, x: Any = _NOTHING, y: Any = _NOTHING, /) -> Any:
    chosen = value_of(condition)
    if x is _NOTHING:
        return np.where(chosen)
    first, second = value_of(x), value_of(y)
    value = np.where(chosen, first, second)
    return with_node(
        value,
        (x, lambda g: unbroadcast(np.where(chosen, g, 0), np.shape(first))),
        (y, lambda g: unbroadcast(np.where(chosen, 0, g), np.shape(second))),
    )


@VMAP.composed(np.where)
def _vmap_where(condition: Array, *choices: Any) -> Any:
    return elementwise(np.where, (condition, *choices)) if choices else np.nonzero(condition)


@ONNX.rule(np.where)
def _onnx_where(graph: Graph, condition: ArrayLike, *choices: Any) -> Any:
    if not choices:
        return graph.nonzero(graph.operand(condition))
    x, y = choices
    kinds = [_kind(graph, item) for item in choices]
    return select(graph, truth(graph, graph.operand(condition)), x, y, np.result_type(*kinds))


def _kind(graph: Graph, item: Any) -> Any:
    """A number of Python, or the dtype of an array."""
    if isinstance(item, GraphArray) and item.weak:
        return 0.0 if item.dtype.kind == "f" else 0
    return item if type(item) in (int, float, bool) else graph.operand(item).dtype


@GRAD.rule(np.take)
def _grad_take(a: Any, indices: Array, axis: int | None = None, mode: str = "raise") -> Array:
    a, axis = flattened(a, axis)
    indices, held = value_of(indices), value_of(a)
    if not hasattr(indices, "dtype"):
        indices = np.asarray(indices, np.intp)
    indices, shape = _in_range(indices, held.shape[axis], mode), held.shape
    index = (*[slice(None)] * axis, indices)
    # `take` gives rows one behind the other, which an index does not, but sees no array that is mapped.
    value = pick(held, index) if isinstance(indices, HostArray) else np.take(held, indices, axis)
    return with_node(value, (a, lambda g: index_vjp(g, index, shape, False)))


def _in_range(indices: Array, size: int, mode: str) -> Array:
    """Indices as `mode` reads them."""
    if mode == "raise":
        return indices
    if type(size) is Size and not isinstance(indices, HostArray):  # the size is known when the graph runs
        raise NoRule
    return indices % size if mode == "wrap" else np.clip(indices, 0, size - 1)


@VMAP.rule(np.take)
def _vmap_take(level: Level, a: Any, indices: Array, axis: int | None = None, mode: str = "raise") -> Any:
    a, place = flattened(a, axis)
    if not hasattr(indices, "shape"):
        indices = np.asarray(indices, None if np.size(indices) else np.intp)
    indices = _in_range(indices, np.shape(a)[place], mode)
    if not level.on(indices):
        return level.wrap(np.take(a.value, indices, place + 1))
    return get_index(a, (slice(None),) * place + (indices,))


@ONNX.rule(np.take)
def _onnx_take(
    graph: Graph, a: ArrayLike, indices: ArrayLike, axis: int | None = None, mode: str = "raise"
) -> GraphArray:
    x, axis = flattened(graph.operand(a), axis)
    indices = _in_range(as_array(indices), x.shape[axis], mode)
    return graph.gather(x, _integers(graph, indices), axis)


def _integers(graph: Graph, indices: ArrayLike) -> GraphArray:
    """Indices as int64."""
    found = graph.operand(indices)
    if found.dtype.kind not in "iu":
        raise NoRule("indices that are not integers")
    return graph.cast(found, INT64)


@GRAD.rule(np.take_along_axis)
def _grad_take_along_axis(arr: ArrayLike, indices: Array, axis: int | None = -1) -> Array:
    arr, axis = flattened(arr, axis)
    held = value_of(arr)
    shape = held.shape
    # Where one element of each row is taken, none is taken twice.
    once = indices.shape == (*shape[:axis], 1, *shape[axis + 1 :])

    def vjp(g: Array) -> Array:
        out = np.zeros_like(g, shape=shape)
        if once:
            np.put_along_axis(out, indices, g, axis)
        else:
            np.add.at(out, _places(indices, axis, shape), g)
        return out

    return with_node(np.take_along_axis(held, indices, axis), (arr, vjp))


def _places(indices: Any, axis: int, shape: Shape) -> tuple[Any, ...]:
    """The index that `take_along_axis` reads at."""
    ndim = len(shape)
    rows = [
        count(indices, size).reshape(*[1] * d, size, *[1] * (ndim - d - 1)) for d, size in enumerate(shape)
    ]
    return (*rows[:axis], indices, *rows[axis + 1 :])


@VMAP.rule(np.take_along_axis)
def _vmap_take_along_axis(level: Level, arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    arr, axis = flattened(arr, axis)
    return level.wrap(np.take_along_axis(level.full(arr), level.full(indices), axis + 1))


@ONNX.rule(np.take_along_axis)
def _onnx_take_along_axis(
    graph: Graph, arr: ArrayLike, indices: ArrayLike, axis: int | None = -1
) -> GraphArray:
    (x, axis), found = flattened(graph.operand(arr), axis), _integers(graph, indices)
    if x.ndim != found.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    head = graph.broadcast([(*y.shape[:axis], *y.shape[axis + 1 :]) for y in (x, found)])
    x, found = (graph.expand(y, (*head[:axis], y.shape[axis], *head[axis:])) for y in (x, found))
    return graph.emit("GatherElements", [x, found], found.shape, x.dtype, axis=axis)


@GRAD.rule(np.put_along_axis)
def _grad_put_along_axis(arr: Array, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    if axis is None:
        new = arr.reshape(-1).copy()
        new[value_of(indices)] = values
        write_out(arr, new.reshape(arr.shape), "unsafe", "numpy.put_along_axis")
        return
    axis = normalize_axis_index(axis, arr.ndim)
    arr[_places(value_of(indices), axis, arr.shape)] = values


@ONNX.rule(np.put_along_axis)
def _onnx_put_along_axis(
    graph: Graph, arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None
) -> None:
    if not isinstance(arr, GraphArray):
        graph.fail("writes what it computed into an ndarray (np.put_along_axis): use np.zeros_like")
    found, new = _integers(graph, indices), graph.operand(values)
    if axis is None:
        arr[np.unravel_index(found, arr.shape) if arr.ndim != 1 else found] = new
        return
    scatter_along(arr, found, new, normalize_axis_index(axis, arr.ndim))


@VMAP.rule(np.put_along_axis)
def _vmap_put_along_axis(
    level: Level, arr: BatchedArray, indices: ArrayLike, values: ArrayLike, axis: int | None
) -> None:
    if not level.on(arr):
        raise RuntimeError("vmap cannot put mapped values into an array that is not mapped itself.")
    if axis is None:
        raise NoRule
    at = shifted_axis(axis, arr.ndim)
    np.put_along_axis(arr.value, level.full(indices), level.align(values, ndim_of(indices)), at)


@VMAP.rule(np.unravel_index)
def _vmap_unravel_index(
    level: Level, indices: BatchedArray, shape: Any, order: Literal["C", "F"] = "C"
) -> tuple[Any, ...]:
    return tuple(map(level.wrap, np.unravel_index(level.value(indices), shape, order)))  # which checks them


@VMAP.composed(np.ravel_multi_index)
def _vmap_ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: Literal["C", "F"] = "C"
) -> Any:
    return elementwise(lambda *found: np.ravel_multi_index(found, dims, mode, order), tuple(multi_index))


@VMAP.rule(np.nonzero)
def _vmap_nonzero(level: Level, a: BatchedArray) -> tuple[Array, ...]:
    if type(a.value) is BatchedArray or not a.ndim:
        raise NoRule
    return tuple(where_true(level, a if a.dtype.kind == "b" else a != 0))


@ONNX.rule(np.nonzero)
def _onnx_nonzero(graph: Graph, a: ArrayLike) -> tuple[GraphArray, ...]:
    return graph.nonzero(graph.operand(a))


@GRAD.rule(np.copyto)
def _grad_copyto(dst: ArrayLike, src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True) -> None:
    new = src if where is True else np.where(value_of(where), src, dst)
    write_out(dst, new, casting if where is True else "unsafe", "numpy.copyto")


@ONNX.rule(np.copyto)
def _onnx_copyto(
    graph: Graph, dst: Any, src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True
) -> None:
    if not isinstance(dst, GraphArray):
        graph.fail("writes what it computed into an ndarray (np.copyto): use the result instead")
    new = graph.operand(src)
    if not np.can_cast(new.dtype, dst.dtype, casting):
        raise TypeError(f"cannot cast from {new.dtype} to {dst.dtype} by the rule {casting!r}.")
    dst[...] = new if where is True else np.where(where, new, dst)


@VMAP.rule(np.copyto)
def _vmap_copyto(
    level: Level, dst: BatchedArray, src: ArrayLike, casting: Any = "same_kind", where: ArrayLike = True
) -> None:
    if not level.on(dst):
        set_index(dst, Ellipsis, src)  # says why not
    ndim = dst.ndim
    np.copyto(dst.value, level.align(as_array(src), ndim), casting, level.align(where, ndim))


@GRAD.rule(np.put)
def _grad_put(a: Array, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    numbers = _in_range(np.asarray(ind).reshape(-1), a.size, mode)
    if numbers.size:
        numbers = np.where(numbers < 0, numbers + a.size, numbers)
        a[np.unravel_index(numbers, a.shape)] = np.resize(v, numbers.shape)


@VMAP.rule(np.put)
def _vmap_put(level: Level, a: BatchedArray, ind: Array, v: ArrayLike, mode: str = "raise") -> None:
    if mode != "raise" or not level.on(a) or ndim_of(v) > ndim_of(ind):
        raise NoRule
    flat = a.reshape(-1)
    flat[ind] = v
    if not np.shares_memory(level.value(flat), a.value):
        a[...] = flat.reshape(a.shape)


@GRAD.rule(np.place)
def _grad_place(arr: Array, mask: ArrayLike, vals: ArrayLike) -> None:
    chosen = np.asarray(value_of(mask), bool).reshape(arr.shape)
    written = np.count_nonzero(chosen)
    if written:
        arr[chosen] = np.resize(vals, (written,))


@GRAD.rule(np.putmask)
def _grad_putmask(a: Array, mask: ArrayLike, values: ArrayLike) -> None:
    np.copyto(a, np.resize(values, a.shape), "unsafe", value_of(mask))


@GRAD.rule(np.fill_diagonal)
def _grad_fill_diagonal(a: Array, val: ArrayLike, wrap: bool = False) -> None:
    mark = np.zeros(a.shape, bool)
    np.fill_diagonal(mark, True, wrap)
    places = np.nonzero(mark)
    new = np.ravel(val)
    a[places] = new if new.shape[0] == 1 else np.resize(new, places[0].shape)


@GRAD.rule(np.piecewise)
def _grad_piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    # Each function gets the elements that it is for, as in NumPy: it may reduce them, or fail on others.
    listed = isinstance(condlist, list | tuple) and (ndim_of(x) == 0 or not np.isscalar(condlist[0]))
    conditions = [value_of(condition) for condition in (as_arrays(condlist) if listed else [condlist])]
    if len(funclist) - len(conditions) not in (0, 1):
        raise ValueError(
            f"{len(conditions)} conditions take as many functions or one more, got {len(funclist)}"
        )
    if len(funclist) > len(conditions):
        conditions.append(~np.any(np.stack(conditions), 0))
    out = np.zeros_like(x)
    for condition, function in zip(conditions, funclist, strict=True):
        chosen = np.asarray(condition, bool) if type(condition) is np.ndarray else condition
        if not callable(function):
            out[chosen] = function
        elif (held := x[chosen]).size:
            out[chosen] = function(held, *args, **kw)
    return out


@VMAP.rule(np.fill_diagonal)
def _vmap_fill_diagonal(level: Level, a: Array, val: ArrayLike, wrap: bool = False) -> None:
    if a.ndim != 2 or wrap or np.ndim(val) > 1:
        raise NoRule
    rows = np.arange(min(a.shape))
    if np.ndim(val) and np.shape(val)[0] != len(rows):
        raise NoRule
    a[rows, rows] = val


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.flatnonzero)
def _flatnonzero(a: ArrayLike) -> Array:
    return np.nonzero(np.ravel(a))[0]


@formula(np.argwhere)
def _argwhere(a: Array) -> Array:
    return np.stack(np.nonzero(a), -1)


@formula(np.compress)
def _compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None) -> Array:
    return np.take(a, np.flatnonzero(condition), axis)


@formula(np.extract)
def _extract(condition: ArrayLike, arr: ArrayLike) -> Array:
    return np.take(np.ravel(arr), np.flatnonzero(condition))


@formula(np.choose)
def _choose(a: ArrayLike, choices: Array, mode: str = "raise") -> Array:
    if isinstance(choices, list | tuple):
        choices = np.stack(np.broadcast_arrays(*choices))
    shape = np.broadcast_shapes(np.shape(a), np.shape(choices)[1:])
    indices = np.broadcast_to(a, shape)
    choices = np.broadcast_to(
        choices[(slice(None), *[None] * (len(shape) + 1 - ndim_of(choices)))], (len(choices), *shape)
    )
    if mode != "raise":
        indices = indices % len(choices) if mode == "wrap" else np.clip(indices, 0, len(choices) - 1)
    return np.take_along_axis(choices, indices[None], 0)[0]


def _whole(indices: ArrayLike) -> Array:
    found = as_array(indices)
    if found.dtype.kind not in "biu":
        raise TypeError("only int indices permitted")
    return found.astype(np.int64)


@formula(np.unravel_index)
def _unravel_index(indices: ArrayLike, shape: Any, order: str = "C") -> tuple[Any, ...]:
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    rest, found = _whole(indices), []
    for size in reversed(sizes) if order == "C" else sizes:
        found.append(rest % size)
        rest = rest // size
    return tuple(found[::-1] if order == "C" else found)


@formula(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    modes = (mode,) * len(dims) if isinstance(mode, str) else mode
    axes = list(zip(map(_whole, multi_index), dims, modes, strict=True))
    number: Any = 0
    step = 1
    for indices, size, how in reversed(axes) if order == "C" else axes:
        number = number + _in_range(indices, size, how) * step
        step = step * size
    return number


@formula(np.putmask)
def _putmask(a: Array, mask: Array, values: Array) -> None:
    if ndim_of(values):
        raise NoRule  # repeated in the order of all elements
    np.copyto(a, values, "unsafe", mask)


@formula(np.select)
def _select(condlist: Any, choicelist: Any, default: ArrayLike = 0) -> Array:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    arrays, out = as_arrays(choicelist), as_array(default)
    dtype = np.result_type(*[a.dtype for a in arrays], out.dtype if out.ndim else default)
    out = out.astype(dtype)
    for condition, choice in zip(condlist[::-1], arrays[::-1], strict=True):
        out = np.where(condition, choice.astype(dtype), out)
    return out
