"""Derivatives of the special functions of lite, which are not functions of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.formulas import erf, erfc, horner, log_gamma
from lite._arrays.special import bessel_ratio, digamma, gamma_below, log_beta, log_i0
from lite._arrays.types import Array, Function
from lite._transforms.grad.running import nestings
from lite._transforms.grad.tape import holds_traced, lifted, unbroadcast, value_of, with_node
from lite._transforms.levels import innermost
from lite._transforms.registry import name_of

# Bernoulli numbers, in the series of trigamma for large numbers (Abramowitz and Stegun 1964, 6.4.12).
_TRIGAMMA = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)


def trigamma(x: Array) -> Array:
    """The derivative of digamma for x > 0."""
    out: Any = 0.0
    for _ in range(10):  # as trigamma(x) = trigamma(x + 1) + 1 / x²
        out = out + 1.0 / (x * x)
        x = x + 1.0
    square = 1.0 / (x * x)
    return out + 1.0 / x + 0.5 * square + square / x * horner(_TRIGAMMA, square)


def _bessel_ratio_derivative(x: Array, y: Array) -> Array:
    return np.where(x == 0, 0.5, 1 - y / np.where(x == 0, 1, x) - y * y)


def _gamma_below_derivative(a: Array, x: Array, y: ArrayLike) -> Array:
    return np.exp((a - 1) * np.log(x) - x - log_gamma(a))


# Of each argument: from the arguments and the result to the derivative; None where there is no formula.
_DERIVATIVES: dict[Any, tuple[Callable[..., Any] | None, ...]] = {
    erf: (lambda x, y: 2 / math.sqrt(math.pi) * np.exp(-x * x),),
    erfc: (lambda x, y: -2 / math.sqrt(math.pi) * np.exp(-x * x),),
    log_gamma: (lambda x, y: digamma(x),),
    digamma: (lambda x, y: trigamma(x),),
    log_i0: (lambda x, y: np.sign(x) * bessel_ratio(np.abs(x)),),
    bessel_ratio: (_bessel_ratio_derivative,),
    log_beta: (lambda a, b, y: digamma(a) - digamma(a + b), lambda a, b, y: digamma(b) - digamma(a + b)),
    gamma_below: (None, _gamma_below_derivative),
}


def elementwise(function: Callable[..., Any], args: tuple[Any, ...]) -> Array:
    """`function(*args)` with its derivative."""
    if nestings[0]:
        args = lifted(args, innermost(args).level)
    values = [value_of(x) for x in args]
    y = function(*values)
    derivatives = _DERIVATIVES.get(function, (None,) * len(args))
    pairs = zip(args, derivatives, strict=True)
    parents = [(x, _vjp_by(function, i, d, values, y)) for i, (x, d) in enumerate(pairs) if holds_traced(x)]
    return with_node(y, *parents)


def _vjp_by(
    function: Function, i: int, derivative: Any, values: list[Any], y: ArrayLike
) -> Callable[[Any], Any]:
    if derivative is None:
        raise NotImplementedError(
            f"no gradient through {name_of(function)} by its argument {i}: detach it (x.detach()) if it is "
            "to count as a constant."
        )
    return lambda g: unbroadcast(g * derivative(*values, y), np.shape(values[i]))
