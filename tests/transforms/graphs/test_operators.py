"""Operators that onnxruntime has for some dtypes alone: of float64 all digits, of integers any kind."""

from typing import Any

import numpy as np
import pytest
from helpers.graphs import check

import lite
from lite._arrays.formulas import softplus

FUNCTIONS = [
    *(np.sinh, np.cosh, np.tan, np.arcsinh, softplus),
    *(lambda x: np.arccosh(x * x + 1), lambda x: np.arctanh(x / 5)),
    *(np.arctan, lambda x: np.arctan(100 / x), lambda x: np.arcsin(x / 5), lambda x: np.arccos(x / 5)),
]


def test_digits_of_float64() -> None:
    for function in FUNCTIONS:
        check(function, np.linspace(-4, 4, 9) + 0.125, rtol=1e-11, atol=1e-12)


def test_ends_of_inverse_angles() -> None:
    x = np.array([-1.0, -0.0, 0.0, 1.0])
    check(lambda x: np.arcsin(x), x, rtol=1e-15)
    check(lambda x: np.arccos(x), x, rtol=1e-15, atol=1e-15)
    check(lambda x: np.arctan(x), np.array([-np.inf, -1e300, -0.0, 1e-300, np.inf, np.nan]), rtol=1e-15)


def test_a_choice_of_integers_of_any_kind() -> None:
    for dtype in (np.int8, np.int16, np.uint16, np.uint32, np.uint64):
        x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 1, 0], dtype)

        def chosen(x: Any) -> Any:
            return np.where(x > 0, x[::-1], x), np.where(x > 0, 3, x), np.sum(x, where=x > 0)

        for got, want in zip(lite.jit(chosen, threads=1)(x), chosen(x), strict=True):
            np.testing.assert_array_equal(got, want, str(dtype), strict=True)


def test_operators_that_a_runtime_has_for_few_integers() -> None:
    """The graph widens them, and narrows the result."""
    for dtype in (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64):
        x = np.array([[3, 1, 0], [2, 250, 7], [1, 0, 1]]).astype(dtype)
        check(lambda x: (x @ x.T, np.einsum("ij,kj->ki", x, x), np.cumsum(x, 1, dtype=x.dtype)), x)
        check(lambda x: np.tril(x[:, :, None] * x[:, None]), x)
        check(lambda x: (np.pad(x, ((0, 0), (1, 2)), "edge"), np.where(x > 1, x, x[::-1])), x)
        if dtype != np.uint64:  # whose order is that of int64 only below 2**63
            check(lambda x: (np.argmax(x, 1), np.argmin(x, 1), np.sort(x, 1)), x)
        else:
            for function in (np.argmax, np.sort):
                with pytest.raises(NotImplementedError, match="orders numbers of uint64"):
                    check(lambda x, f=function: f(x, 1), x)
