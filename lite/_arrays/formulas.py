"""Functions that NumPy does not have, each once; and the table of pointwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import Dtype, inexact
from lite._arrays.types import Array, as_array

Pointwise = Callable[..., Any]

_BLOCK = 1 << 14
# erf(x) / x as a quotient of polynomials in x², for |x| up to 4: exact to float32 (Eigen, XLA).
_ERF_NUMERATOR = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_DENOMINATOR = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
# log(erfc(x) exp(x²) / t), t = 2 / (2 + x), as a Chebyshev series in t
# (Press et al., Numerical Recipes, section 6.2.2).
_ERFC = (
    -1.3026537197817094,
    6.4196979235649026e-1,
    1.9476473204185836e-2,
    -9.561514786808631e-3,
    -9.46595344482036e-4,
    3.66839497852761e-4,
    4.2523324806907e-5,
    -2.0278578112534e-5,
    -1.624290004647e-6,
    1.303655835580e-6,
    1.5626441722e-8,
    -8.5238095915e-8,
    6.529054439e-9,
    5.059343495e-9,
    -9.91364156e-10,
    -2.27365122e-10,
    9.6467911e-11,
    2.394038e-12,
    -6.886027e-12,
    8.94487e-13,
    3.13092e-13,
    -1.12708e-13,
    3.81e-16,
    7.106e-15,
    -1.523e-15,
    -9.4e-17,
    1.21e-16,
    -2.8e-17,
)
# Quotients of polynomials, highest power first, exact to about 1e-16: in 0.180625 - q² for the middle, and in
# r = sqrt(-log(tail)) less 1.6 or 5 for the tails (Wichura 1988, algorithm AS 241, Applied Statistics 37).
_MIDDLE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852545925,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_TAIL = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)


def horner(coefficients: tuple[float, ...], x: Any) -> Any:
    """A polynomial of `x`, the highest coefficient first."""
    out = x * x.dtype.type(coefficients[0])
    out += x.dtype.type(coefficients[1])
    for c in coefficients[2:]:
        out *= x
        out += x.dtype.type(c)
    return out


def erf(x: Any) -> Any:
    """The error function of float32 or float64 arrays, to about their precision."""
    if x.dtype == np.float32:
        x = np.clip(x, -4.0, 4.0)
        square = x * x
        out = horner(_ERF_NUMERATOR, square)
        out *= x
        out /= horner(_ERF_DENOMINATOR, square)
        return out
    z = np.abs(x)
    near = np.minimum(z, 0.5)  # a power series where 1 - erfc would lose digits
    square = near * near
    inner = 2.0 / np.sqrt(np.pi) * near * _erf_series(square)
    return np.copysign(np.where(z < 0.5, inner, 1.0 - erfc(z)), x)


def _erf_series(square: Any) -> Any:
    """sum of (-x²)^n / (n! (2n + 1)), for x² up to 1/4."""
    total, term = np.ones_like(square), np.ones_like(square)
    for n in range(1, 14):
        term = term * (-square / n)
        total = total + term / (2 * n + 1)
    return total


def erfc(x: Any) -> Any:
    """1 - erf(x) of float64 arrays, with small results exact, too."""
    z = np.abs(x)
    t = 2.0 / (2.0 + z)
    ty = 4.0 * t - 2.0
    d = dd = np.zeros_like(t)
    for c in _ERFC[:0:-1]:
        d, dd = ty * d - dd + c, d
    tail = t * np.exp(-z * z + 0.5 * (_ERFC[0] + ty * d) - dd)
    return np.where(x >= 0, tail, 2.0 - tail)


def normal_cdf(x: Any) -> Any:
    """Probability below `x` under the standard normal distribution; small ones are exact, too."""
    wide = x.astype(np.float64, copy=False)
    out = 0.5 * erfc(-wide / np.sqrt(2.0))
    return out.astype(x.dtype, copy=False)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)); what exp has no number for gives 0."""
    return 1 / _one_and_exp(x)


def silu(x: Any) -> Any:
    """x / (1 + exp(-x))."""
    with np.errstate(invalid="ignore"):  # -inf has no result
        return x / _one_and_exp(x)


def _one_and_exp(x: Any) -> Any:
    with np.errstate(over="ignore"):
        out = np.exp(-x)
    out += x.dtype.type(1)
    return out


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def log_softmax(x: Any, axis: int) -> Any:
    """x - log(sum(exp(x))) along an axis."""
    if x.shape[axis] == 0:
        return x
    shifted = x - x.max(axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis, keepdims=True))
    return shifted


def softmax(x: Any, axis: int) -> Any:
    """exp(x) / sum(exp(x)) along an axis; NaN for a row of only -inf, or with +inf.

    The logarithm of the sum is not taken: that of large numbers would be rounded to too few digits.
    """
    x = inexact(x)
    if x.shape[axis] == 0:
        return x
    with np.errstate(invalid="ignore"):
        powers = x - x.max(axis, keepdims=True)
    powers = np.exp(powers, out=powers) if isinstance(powers, np.ndarray) else np.exp(powers)
    powers /= powers.sum(axis, keepdims=True)
    return powers


def in_blocks(function: Callable[[Any], Any], x: Any, compute: Dtype, result: Dtype) -> Any:
    """An elementwise function in the dtype `compute`, applied to what fits into a core's cache at a time."""
    if not isinstance(x, np.ndarray) or x.size <= _BLOCK or not x.flags.c_contiguous:
        return function(x.astype(compute, copy=False)).astype(result, copy=False)
    out = np.empty(x.shape, result)
    source, target = x.reshape(-1), out.reshape(-1)
    for i in range(0, x.size, _BLOCK):
        target[i : i + _BLOCK] = function(source[i : i + _BLOCK].astype(compute, copy=False))
    return out


def accumulate(fresh: Any, x: Any) -> Any:
    """`fresh` + x; into `fresh`, an array that nobody else has, where both are plain arrays."""
    if isinstance(fresh, np.ndarray) and isinstance(x, np.ndarray):
        fresh += x
        return fresh
    return fresh + x


def _quotient(pair: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    return np.polyval(pair[0], x) / np.polyval(pair[1], x)


def normal_quantile(p: Any) -> Any:
    """The number below which a standard normal one lies with probability `p`; NaN outside [0, 1]."""
    wide = as_array(p).astype(np.float64, copy=False)
    q = wide - 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.sqrt(-np.log(np.minimum(wide, 1.0 - wide)))
        near = np.abs(q) <= 0.425
        middle = q * _quotient(_MIDDLE, 0.180625 - np.where(near, q * q, 0.0))
        tail = np.where(
            r <= 5.0,
            _quotient(_TAIL, np.minimum(r, 5.0) - 1.6),
            _quotient(_FAR_TAIL, np.minimum(r, 27.0) - 5.0),
        )
        tail = np.where(np.isinf(r), np.inf, tail)
        out = np.where(near, middle, np.copysign(tail, q))
    return np.where((wide >= 0) & (wide <= 1), out, np.nan).astype(p.dtype, copy=False)


def log_sum_exp(array: Array, axis: Any, keepdims: bool) -> Any:
    """`log(sum(exp(array)))` without overflow."""
    values = inexact(array)
    top = np.maximum.reduce(values, axis=axis, keepdims=True, initial=-math.inf)
    shift = np.where(np.isfinite(top), top, 0).astype(values.dtype)
    with np.errstate(divide="ignore"):
        out = np.log(np.add.reduce(np.exp(values - shift), axis=axis, keepdims=True)) + shift
    if keepdims:
        return out
    return np.squeeze(out, tuple(range(out.ndim)) if axis is None else axis)


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
