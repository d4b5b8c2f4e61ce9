"""Operators along axes: sums, extremes, softmax, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays import formulas
from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array
from lite.nn import functional
from lite.nn._import.integers import axes_of, integers, of_input_or
from lite.nn._import.operators import Run, Spec, operator

Axes = tuple[int, ...] | None
Reduce = Callable[[Any, Axes, bool], Any]


def _lowest(dtype: np.dtype[Any]) -> Any:
    return False if dtype.kind == "b" else -np.inf if is_floating(dtype) else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    return True if dtype.kind == "b" else np.inf if is_floating(dtype) else np.iinfo(dtype).max


def _max(x: Array, axes: Axes, keepdims: bool) -> Any:
    if 0 in x.shape:
        return np.max(x, axes, keepdims=keepdims, initial=_lowest(x.dtype))
    return np.max(x, axes, keepdims=keepdims)


def _min(x: Array, axes: Axes, keepdims: bool) -> Any:
    if 0 in x.shape:
        return np.min(x, axes, keepdims=keepdims, initial=_highest(x.dtype))
    return np.min(x, axes, keepdims=keepdims)


def _sum(x: Array, axes: Axes, keepdims: bool) -> Any:
    return np.sum(x, axes, dtype=x.dtype, keepdims=keepdims)


def _mean(x: Array, axes: Axes, keepdims: bool) -> Any:
    if type(x) is np.ndarray and x.size and x.dtype.char in "fd":  # the same in half the time of `np.mean`
        add: Any = np.add
        out = add.reduce(x, axes, keepdims=keepdims)
        out /= x.size // out.size
        return out
    return np.mean(x, axes, keepdims=keepdims).astype(x.dtype, copy=False)


def _norm(x: Array, axes: Axes, keepdims: bool) -> Any:
    return np.sqrt(_sum(x * x, axes, keepdims)).astype(x.dtype)


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _max,
    "ReduceMin": _min,
    "ReduceProd": lambda x, axes, keep: np.prod(x, axes, dtype=x.dtype, keepdims=keep),
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceL2": _norm,
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: np.log(_sum(x, axes, keep)).astype(x.dtype, copy=False),
    "ReduceLogSumExp": lambda x, axes, keep: formulas.log_sum_exp(x, axes, keep).astype(x.dtype, copy=False),
}


@operator(*_REDUCTIONS)
def _reduction(spec: Spec) -> Run:
    reduce, keepdims = _REDUCTIONS[spec.op], bool(spec.get("keepdims", 1))
    given, noop = spec.ints("axes", 1), spec.get("noop_with_empty_axes", 0)

    def run(x: Array, axes: Array | None = None) -> Any:
        found = of_input_or(given, axes)
        if not found:
            if noop:
                return reduce(x[None], (0,), False) if spec.op != "ReduceSum" else x
            return reduce(x, None if x.ndim else (), keepdims)
        return reduce(x, axes_of(found, x.ndim), keepdims)

    return run


@operator("ArgMax", "ArgMin")
def _place(spec: Spec) -> Run:
    find = np.argmax if spec.op == "ArgMax" else np.argmin
    axis, keepdims = spec.get("axis", 0), bool(spec.get("keepdims", 1))
    last = spec.get("select_last_index", 0)

    def run(x: Array) -> Array:
        if last:
            return x.shape[axis] - 1 - find(np.flip(x, axis), axis, keepdims=keepdims)
        return find(x, axis, keepdims=keepdims)

    return run


@operator("CumSum", "CumProd")
def _running(spec: Spec) -> Run:
    run_along, neutral = (np.cumsum, 0) if spec.op == "CumSum" else (np.cumprod, 1)
    backwards, exclusive = spec.get("reverse", 0), spec.get("exclusive", 0)

    def run(x: Array, axis: Array) -> Array:
        (at,) = axes_of(integers(axis), x.ndim)
        if backwards:
            x = np.flip(x, at)
        out = run_along(x, at, dtype=np.int64 if x.dtype == bool else x.dtype)  # as torch.onnx writes masks
        if exclusive:
            before = (slice(None),) * at  # slices, as there may be nothing along the axis
            edge = np.full_like(out[(*before, slice(1))], neutral)
            out = np.concatenate([edge, out[(*before, slice(-1))]], at)
        return np.flip(out, at) if backwards else out

    return run


@operator("Softmax", "LogSoftmax", "Hardmax")
def _along(spec: Spec) -> Run:
    functions: dict[str, Callable[[Any, int], Any]] = {
        "Softmax": functional.softmax,
        "LogSoftmax": functional.log_softmax,
        "Hardmax": _hardmax,
    }
    compute = functions[spec.op]
    if spec.opset >= 13:
        axis = spec.get("axis", -1)
        return lambda x: compute(x, axis)
    axis = spec.get("axis", 1)

    def run(x: Array) -> Array:  # over all axes from that one on
        at = axis + x.ndim if axis < 0 else axis
        return compute(x.reshape(*x.shape[:at], math.prod(x.shape[at:])), -1).reshape(x.shape)

    return run


def _hardmax(x: Array, axis: int) -> Array:
    if 0 in x.shape:
        return x
    places = np.expand_dims(np.argmax(x, axis), axis)
    count = x.shape[axis]
    shape = [1] * x.ndim
    shape[axis] = count
    return (np.arange(count).reshape(shape) == places).astype(x.dtype)


@operator("LpNormalization")
def _lp_normalization(spec: Spec) -> Run:
    axis, p = spec.get("axis", -1), spec.get("p", 2)

    def run(x: Array) -> Array:
        size = (
            np.sum(np.abs(x), axis, keepdims=True) if p == 1 else np.sqrt(np.sum(x * x, axis, keepdims=True))
        )
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype, copy=False)

    return run
