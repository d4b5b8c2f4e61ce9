"""Derivatives of the special functions of lite, which are no functions of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.formulas import erf, erfc, log_gamma
from lite._arrays.special import OfPairs, bessel_ratio, digamma, log_beta, log_i0, trigamma
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import record
from lite._transforms.registry import name_of

# From the argument and the result to the derivative.
_DERIVATIVES: dict[Any, Callable[[Any, Any], Any]] = {
    erf: lambda x, y: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    erfc: lambda x, y: -2 / math.sqrt(math.pi) * np.exp(-x * x),
    digamma: lambda x, y: trigamma(x),
    log_gamma: lambda x, y: digamma(x),
    log_i0: lambda x, y: np.sign(x) * bessel_ratio(np.abs(x)),
}


# Of two numbers: from the arguments to both derivatives.
_DERIVATIVES_OF_PAIRS: dict[Any, Callable[[Any, Any], tuple[Any, Any]]] = {
    log_beta: lambda a, b: (digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)),
}


def elementwise(x: TracedArray, function: Callable[[Any], Any]) -> Any:
    """`function(x)` with its derivative."""
    if isinstance(function, OfPairs) and function.function in _DERIVATIVES_OF_PAIRS:
        pairs = x.value
        both = _DERIVATIVES_OF_PAIRS[function.function]
        return record(
            function(pairs),
            (x, lambda g: np.stack([g * part for part in both(pairs[..., 0], pairs[..., 1])], -1)),
        )
    derivative = _DERIVATIVES.get(function)
    if derivative is None:
        raise NotImplementedError(
            f"no gradient through {name_of(function)}: there is no rule for it. Give its derivative with "
            "lite.custom_vjp, or detach the array (x.detach()) if it is to count as a constant."
        )
    value = x.value
    y = function(value)
    return record(y, (x, lambda g: g * derivative(value, y)))
