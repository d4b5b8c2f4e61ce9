"""Rules of functions that make an array like another, or between two, show one or save it."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, DtypeLike, Function, IntOrInts
from lite._transforms.grad.tape import constant, value_of
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.registry import GRAD, ONNX, VMAP, ZERO_GRADIENT, NoRule, formula, ndim_of
from lite._transforms.vmap.along import shifted_axis
from lite._transforms.vmap.level import Level, batched_in

ZERO_GRADIENT.update((np.array_repr, np.array_str, np.array2string))
ZERO_GRADIENT.update((np.diag_indices_from, np.tril_indices_from, np.triu_indices_from))


def _sizes(a: Array, shape: IntOrInts | None) -> tuple[int, ...]:
    """The sizes of an array like `a`, which the argument `shape` may give."""
    return tuple(a.shape if shape is None else shape if isinstance(shape, tuple | list) else (shape,))


@GRAD.rule_of_each(np.zeros_like, np.ones_like, np.empty_like)
def _grad_like(function: Function, a: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    # Traced, although nothing leads there yet: it may be written into.
    return constant(function(value_of(a), *args, **kwargs), a)


@VMAP.rule_of_each(np.zeros_like, np.ones_like, np.empty_like)
def _vmap_like(
    function: Any, level: Level, a: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, **kwargs: Any,
) -> Array:  # fmt: skip
    return level.wrap(function(a.value, dtype, "C", shape=(level.size, *_sizes(a, shape))))


@ONNX.rule_of_each(np.zeros_like, np.ones_like, np.empty_like)
def _onnx_like(function: Function, graph: Graph, a: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    return np.full_like(a, int(function is np.ones_like), *args, **kwargs)


@GRAD.rule(np.full_like)
def _grad_full_like(
    a: Array, fill_value: Array | float, dtype: DtypeLike = None, order: str = "K", subok: bool = True,
    shape: IntOrInts | None = None, **kwargs: Any,
) -> Array:  # fmt: skip
    filled = np.ones_like(a, shape=shape) * fill_value
    return filled.astype(a.dtype if dtype is None else dtype, copy=False)


@VMAP.composed(np.full_like)
def _vmap_full_like(a: ArrayLike, fill_value: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    out = np.empty_like(a, *args, **kwargs)
    out[...] = fill_value
    return out


@ONNX.rule(np.full_like)
def _onnx_full_like(
    graph: Graph, a: Any, fill_value: ArrayLike, dtype: DtypeLike = None, order: str = "K",
    subok: bool = True, shape: Any = None, **kwargs: Any,
) -> GraphArray:  # fmt: skip
    filler = graph.operand(fill_value, a.dtype if dtype is None else dtype)
    return graph.expand(filler, _sizes(a, shape)).copy()


@GRAD.rule(np.linspace)
@ONNX.composed(np.linspace)
def _grad_linspace(
    start: Array | float, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DtypeLike = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    parts = num - 1 if endpoint else num
    # Differences of integers would wrap around; Python's numbers decide no dtype.
    start, stop = (x if isinstance(x, int | float) else np.multiply(x, 1.0) for x in (start, stop))
    difference = np.subtract(stop, start)
    step = difference / parts if parts > 0 else difference * np.nan
    places = np.arange(num, dtype=step.dtype).reshape(-1, *[1] * np.ndim(step))
    if endpoint and num > 1:  # the end is met exactly
        end = np.broadcast_to(stop * step.dtype.type(1), (1, *step.shape))
        out = np.concatenate([start + step * places[:-1], end])
    else:
        out = start + (step * places if num > 1 else 0 * places)
    out = np.moveaxis(out, 0, axis)
    if dtype is not None:
        out = (np.floor(out) if np.dtype(dtype).kind in "iu" else out).astype(dtype)
    return (out, step) if retstep else out


@GRAD.rule(np.logspace)
@ONNX.composed(np.logspace)
def _grad_logspace(
    start: Array | float, stop: Array | float, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: DtypeLike = None, axis: int = 0,
) -> Array:  # fmt: skip
    if np.ndim(base):
        raise NoRule
    out = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return out if dtype is None else out.astype(dtype)


@GRAD.rule(np.geomspace)
@ONNX.composed(np.geomspace)
def _grad_geomspace(
    start: Array | float, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DtypeLike = None,
    axis: int = 0,
) -> Array:  # fmt: skip
    ratio = np.true_divide(stop, start)
    places = np.linspace(0.0, 1.0, num, endpoint).reshape(-1, *[1] * np.ndim(ratio))
    out = np.moveaxis(start * np.power(ratio, places), 0, axis)
    return out if dtype is None else out.astype(dtype)


@VMAP.rule_of_each(np.linspace, np.logspace, np.geomspace)
def _vmap_spaced(
    function: Function, level: Level, start: ArrayLike, stop: ArrayLike, *args: Any, axis: int = 0,
    **kwargs: Any,
) -> Array:  # fmt: skip
    if batched_in((args, kwargs), []):
        raise NoRule
    ndim = max(ndim_of(start), ndim_of(stop))
    place = shifted_axis(axis, ndim + 1)
    out = function(level.align(start, ndim), level.align(stop, ndim), *args, axis=place, **kwargs)
    return level.wrap_all(out) if isinstance(out, tuple) else level.wrap(out)


@VMAP.rule_of_each(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from)
def _vmap_indices_from(function: Function, level: Level, arr: Array, *args: Any, **kwargs: Any) -> Array:
    return function(np.broadcast_to(np.int8(0), arr.shape), *args, **kwargs)


@VMAP.composed(np.array_repr, np.array_str, np.array2string)
def _vmap_text(a: ArrayLike, *args: Any, **kwargs: Any) -> str:
    return repr(a)


@GRAD.rule(np.save, np.savez, np.savez_compressed, np.savetxt)
def _grad_refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "an array that a gradient is computed for is not saved, as its derivative would be lost: save what "
        "detach() gives, or what the differentiated function returns."
    )


@VMAP.composed(np.save, np.savez, np.savez_compressed, np.savetxt)
def _vmap_refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "an array inside vmap stands for one element along the mapped dimension and is not saved: return it "
        "from the mapped function and save the result."
    )


# -- formulas ----------------------------------------------------------------------------------------------


@formula(np.copy)
def _copy(a: Array, order: str = "K", subok: bool = False) -> Array:
    return a.copy()


@formula(np.meshgrid)
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    places = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        places[:2] = 1, 0
    grids = [
        np.reshape(x, [-1 if d == place else 1 for d in range(ndim)])
        for x, place in zip(xi, places, strict=True)
    ]
    if sparse:
        return tuple(grids)
    return tuple([grid.copy() if copy else grid for grid in np.broadcast_arrays(*grids)])


@formula(np.diag)
def _diag(v: Array, k: int = 0) -> Array:
    if np.ndim(v) == 2:
        return np.diagonal(v, k)
    if np.ndim(v) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    size = v.shape[0] + abs(k)
    out = np.zeros_like(v, shape=(size, size))
    rows = np.arange(v.shape[0]) + max(-k, 0)
    out[rows, rows + k] = v
    return out


@formula(np.diagflat)
def _diagflat(v: ArrayLike, k: int = 0) -> Array:
    return np.diag(np.ravel(v), k)


@formula(np.vander)
def _vander(x: Array, N: int | None = None, increasing: bool = False) -> Array:
    count = x.shape[0] if N is None else N
    powers = np.arange(count)
    return x[:, None] ** (powers if increasing else powers[::-1])


@formula(np.resize)
def _resize(a: ArrayLike, new_shape: Any) -> Array:
    if type(np.size(a)) is not int:
        raise NoRule("of a dynamic size")
    sizes = tuple(new_shape) if isinstance(new_shape, tuple | list) else (new_shape,)
    flat = np.ravel(a)
    count = math.prod(sizes)
    if not flat.size:
        return np.zeros_like(flat, shape=sizes)
    return np.take(flat, np.arange(count) % flat.size).reshape(sizes)
