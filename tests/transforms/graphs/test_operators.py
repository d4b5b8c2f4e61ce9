"""Operators that onnxruntime has for float32 alone keep the digits of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.graphs import check

from lite._arrays.formulas import softplus

FUNCTIONS = [
    *(np.sinh, np.cosh, np.tan, np.arcsinh, softplus),
    *(lambda x: np.arccosh(x * x + 1), lambda x: np.arctanh(x / 5)),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_digits_of_float64(function: Any) -> None:
    check(function, np.linspace(-4, 4, 9) + 0.125, rtol=1e-11, atol=1e-12)
