"""The one table of pointwise functions: NumPy's ufuncs, and small functions where there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import Array

Pointwise = Callable[..., Any]


def _reciprocal(x: Array) -> Any:
    # np.reciprocal of an integer is an integer, 0 for everything above 1.
    return np.true_divide(1, x)


def _sigmoid(x: Array) -> Any:
    # 1 / (1 + exp(-x)) overflows for large negative x, and unsigned integers have no negative.
    value = x if x.dtype.kind in "fV" else x.astype(np.float64)
    small = np.exp(-np.abs(value))
    return np.where(value >= 0, 1, small) / (1 + small)


def _frac(x: Array) -> Any:
    return x - np.trunc(x)


def _rsqrt(x: Array) -> Any:
    return np.true_divide(1, np.sqrt(x))


def _relu(x: Array) -> Any:
    return np.maximum(x, 0)


def _each(fn: Callable[[float], float]) -> Pointwise:
    """A function of the math module on every element; NumPy has no special functions."""
    slow = np.frompyfunc(fn, 1, 1)

    def call(x: Array) -> Any:
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        return np.asarray(slow(x), dtype=dtype)

    return call


def _lgamma(x: float) -> float:
    # The poles at 0, -1, -2 ... are infinite, as everywhere in NumPy, not an error.
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


UNARY: dict[str, Pointwise] = {
    "abs": np.absolute,
    "neg": np.negative,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "square": np.square,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "sigmoid": _sigmoid,
    "relu": _relu,
    "sign": np.sign,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.round,
    "trunc": np.trunc,
    "frac": _frac,
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "lgamma": _each(_lgamma),
    "logical_not": np.logical_not,
    "bitwise_not": np.invert,
}

PREDICATES: dict[str, Pointwise] = {
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isneginf": np.isneginf,
    "isposinf": np.isposinf,
    "isreal": np.isreal,
}

BINARY: dict[str, Pointwise] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "mod": np.remainder,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

COMPARISONS = frozenset({np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal})


def swapped(fn: Pointwise) -> Pointwise:
    """The same function with its two arguments exchanged, for reflected operators."""

    def call(a: Any, b: Any) -> Any:
        return fn(b, a)

    return call


def lerp(start: Any, end: Any, weight: Any) -> Any:
    return start + weight * (end - start)
