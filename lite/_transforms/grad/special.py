"""Derivatives of the special functions of lite, which are no functions of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.formulas import erf, erfc, log_gamma
from lite._arrays.special import bessel_ratio, digamma, log_i0
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import record
from lite._transforms.registry import name_of

# From the argument and the result to the derivative.
_DERIVATIVES: dict[Any, Callable[[Any, Any], Any]] = {
    erf: lambda x, y: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    erfc: lambda x, y: -2 / math.sqrt(math.pi) * np.exp(-x * x),
    log_gamma: lambda x, y: digamma(x),
    log_i0: lambda x, y: np.sign(x) * bessel_ratio(np.abs(x)),
}


def elementwise(x: TracedArray, function: Callable[[Any], Any]) -> Any:
    """`function(x)` with its derivative."""
    derivative = _DERIVATIVES.get(function)
    if derivative is None:
        raise NotImplementedError(
            f"no gradient through {name_of(function)}: there is no rule for it. Give its derivative with "
            "lite.custom_vjp, or detach the array (x.detach()) if it is to count as a constant."
        )
    value = x.value
    y = function(value)
    return record(y, (x, lambda g: g * derivative(value, y)))
