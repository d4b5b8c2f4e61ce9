"""Functions that activations and distributions need and NumPy does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.defaults import get_default_dtype
from lite._arrays.dtypes import Dtype, compute_dtype, is_inexact

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


def float_dtypes(x: Any) -> tuple[Dtype, Dtype]:
    """The dtype to compute a function of `x` in, and that of its result; integers become default floats."""
    dtype = x.dtype
    if dtype.char in "fd":  # nearly always
        return dtype, dtype
    return compute_dtype(dtype if is_inexact(dtype) else get_default_dtype())


def floats(x: Any) -> tuple[Any, Dtype]:
    """`x` in the dtype to compute in, and the dtype of the result."""
    compute, result = float_dtypes(x)
    return (x if x.dtype == compute else x.astype(compute)), result


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
    """exp(x) / sum(exp(x)) along an axis."""
    if x.shape[axis] == 0:
        return x
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
