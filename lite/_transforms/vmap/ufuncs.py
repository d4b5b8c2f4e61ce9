"""`vmap` of ufuncs, of generalised ufuncs and of the methods of ufuncs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.types import Array, Axes, Function
from lite._transforms.registry import VMAP, NoRule, as_array, name_of, ndim_of
from lite._transforms.vmap.along import along
from lite._transforms.vmap.array import BatchedArray, number_of
from lite._transforms.vmap.indexing import advanced, mask_of, places_and_values
from lite._transforms.vmap.level import Level, aligned, batched_in, level_of
from lite._transforms.vmap.loop import loop


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`getattr(ufunc, method)(*inputs, **kwargs)` with mapped arrays among the arguments."""
    if method != "__call__":
        return _call_method(ufunc, method, inputs, kwargs)
    if not kwargs and ufunc.signature is None:
        return elementwise(ufunc, inputs)
    out = kwargs.get("out")
    if out is not None:
        if len(kwargs) == len(out) == 1 and len(inputs) == 2 and inputs[0] is out[0]:
            done = _onto(ufunc, inputs[0], inputs[1])
            if done is not None:
                return done
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        if ufunc.signature is None:
            return _in_place(ufunc, inputs, out, kwargs)
    if ufunc.signature is None:
        return elementwise(ufunc, inputs, kwargs)
    level = level_of(batched_in(inputs, []))
    try:
        rule = VMAP.rules.get(ufunc)
        result = rule(level, *inputs, **kwargs) if rule else _core(level, ufunc, inputs, kwargs)
    except NoRule:
        result = loop(level, ufunc, inputs, kwargs)
    return number_of(result) if out is None else _write(out, result)


def elementwise(function: Function, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """Call a function that broadcasts its inputs with the values of mapped arrays.

    A `where` among the keyword arguments broadcasts, too.
    """
    top = -1
    ndim = 0
    for x in inputs:
        if type(x) is BatchedArray:
            top = max(top, x.level)
            ndim = max(ndim, x.value.ndim - 1)
        elif type(x) is np.ndarray:
            ndim = max(ndim, x.ndim)
        elif not np.isscalar(x):
            ndim = max(ndim, ndim_of(x))
    if kwargs:
        where = kwargs.get("where")
        if where is not None:
            for x in batched_in((where,), []):
                top = max(top, x.level)
            ndim = max(ndim, ndim_of(where))
            kwargs = {**kwargs, "where": aligned(where, top, ndim)}
    values = [aligned(x, top, ndim) for x in inputs]
    result = function(*values, **kwargs) if kwargs else function(*values)
    if type(result) is tuple:
        return tuple([number_of(BatchedArray(item, top)) for item in result])
    return number_of(BatchedArray(result, top))


def _onto(ufunc: np.ufunc, target: BatchedArray, other: Any) -> Any:
    """`target += other` and similar, in the common cases that need no checks; else None."""
    if type(target) is not BatchedArray or ufunc.signature is not None:
        return None
    value = target.value
    if type(other) is BatchedArray:
        if other.level != target.level or other.value.ndim > value.ndim:
            return None
        ufunc(value, aligned(other, other.level, value.ndim - 1), out=value)
    elif type(other) is np.ndarray and other.ndim < value.ndim:
        ufunc(value, other, out=value)
    else:
        return None
    return target


def _in_place(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any, kwargs: dict[str, Any]) -> Any:
    """Compute into the memory of `out`, whose arrays must be mapped as the inputs are."""
    where = kwargs.get("where", True)
    level = level_of(batched_in((inputs, out, where), []))
    for target in out:
        if target is not None and not level.on(target):
            raise RuntimeError(
                f"vmap cannot write the result of {name_of(ufunc)} into an array that all elements along the "
                "mapped dimension share: use the function without out (x = x + y instead of x += y)."
            )
    ndim = max(target.ndim for target in out if target is not None)
    if any(ndim_of(x) > ndim for x in (*inputs, where)):
        raise ValueError(f"the inputs of {name_of(ufunc)} have more dimensions than its out argument.")
    targets = tuple(None if target is None else target.value for target in out)
    if where is not True:
        kwargs = {**kwargs, "where": level.align(where, ndim)}
    found = ufunc(*[level.align(x, ndim) for x in inputs], out=targets, **kwargs)
    made = found if type(found) is tuple else (found,)
    return _outputs(
        out, [level.wrap(x) if target is None else x for target, x in zip(out, made, strict=True)]
    )


def _write(out: Any, result: Any) -> Any:
    results = result if type(result) is tuple else (result,)
    for target, value in zip(out, results, strict=True):
        if target is not None:
            target[...] = value
    return _outputs(out, results)


def _outputs(out: Any, results: Iterable[Any]) -> Any:
    """The return value of a ufunc: the arrays of `out`, with new results in place of None."""
    given = tuple([new if target is None else target for target, new in zip(out, results, strict=True)])
    return given[0] if len(given) == 1 else given


def _core(level: Level, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A generalised ufunc: its loop dimensions broadcast, its core dimensions are the last ones."""
    signature = ufunc.signature or ""
    if "axes" in kwargs or "?" in signature:
        raise NoRule
    operands = signature.split("->")[0][1:-1].split("),(")
    cores = [len(operand.split(",")) if operand else 0 for operand in operands]
    axis = kwargs.get("axis", -1)
    if axis >= 0:  # counted from the front, where the mapped dimension is
        kwargs = {**kwargs, "axis": axis - max(ndim_of(x) for x in inputs)}
        if len({ndim_of(x) for x in inputs}) > 1:
            raise NoRule
    loops = max(ndim_of(x) - core for x, core in zip(inputs, cores, strict=True))
    values = [level.align(x, loops + core) for x, core in zip(inputs, cores, strict=True)]
    result = ufunc(*values, **kwargs)
    return level.wrap_all(result) if type(result) is tuple else level.wrap(result)


def _call_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = kwargs.pop("out", None)
    level = level_of(batched_in((inputs, kwargs), []))
    try:
        result = _METHODS[method](level, ufunc, *inputs, **kwargs)
    except NoRule:
        result = loop(level, getattr(ufunc, method), inputs, kwargs, f"{name_of(ufunc)}.{method}")
    return number_of(result) if out is None else _write(out, result)


def _outer(level: Level, ufunc: np.ufunc, a: Array, b: ArrayLike, **kwargs: Any) -> Array:
    a = as_array(a)
    return ufunc(a[(..., *[None] * ndim_of(b))], b, **kwargs)


def _reduce(level: Level, ufunc: np.ufunc, a: ArrayLike, axis: Axes = 0, **kwargs: Any) -> Array:
    return along(level, ufunc.reduce, a, axis, kwargs)


def _accumulate(level: Level, ufunc: np.ufunc, a: ArrayLike, axis: Axes = 0, **kwargs: Any) -> Array:
    return along(level, ufunc.accumulate, a, axis, kwargs)


def _reduceat(level: Level, ufunc: np.ufunc, a: Array, indices: Array, axis: int = 0, **kwargs: Any) -> Array:
    if batched_in((indices,), []):
        raise NoRule
    return along(level, lambda x, axis: ufunc.reduceat(x, indices, axis, **kwargs), a, axis, {})


def _at_indices(level: Level, ufunc: np.ufunc, a: BatchedArray, indices: ArrayLike, *b: Any) -> None:
    if not level.on(a):
        raise RuntimeError(
            f"vmap cannot write by {name_of(ufunc)}.at into an array that all elements along the mapped "
            "dimension share: make the array from a mapped one, with np.zeros_like."
        )
    if mask_of(indices) is not None:
        raise NoRule
    found = advanced(level, indices, a.shape)
    at, values = places_and_values(level, a, found, as_array(b[0] if b else 0))
    ufunc.at(a.value, at, *[values] * len(b))


_METHODS: dict[str, Any] = {
    "accumulate": _accumulate, "at": _at_indices, "outer": _outer, "reduce": _reduce, "reduceat": _reduceat,
}  # fmt: skip
