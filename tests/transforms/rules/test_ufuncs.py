"""Every row of the table: its derivatives against central differences, its operators against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import CHECKS, Case
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.vmap_cases import f

from lite._transforms.rules.ufuncs import UFUNCS

DIFFERENTIABLE = [ufunc for ufunc, row in UFUNCS.items() if row.derivatives]
ABOVE_0 = (np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.reciprocal)
IN_1 = (np.arcsin, np.arccos, np.arctanh)


def unary(ufunc: Any) -> Any:
    if ufunc in ABOVE_0:
        return lambda x: ufunc(np.abs(x) + 0.2)
    if ufunc in IN_1:
        return lambda x: ufunc(x / (1 + np.abs(x)))
    if ufunc is np.arccosh:
        return lambda x: ufunc(1.2 + x * x)
    return ufunc


def binary(ufunc: Any) -> Any:
    if ufunc in (np.power, np.float_power):
        return lambda x, y: ufunc(np.abs(x) + 0.2, y)
    if ufunc in (np.true_divide, np.fmod, np.remainder):
        return lambda x, y: ufunc(x, np.abs(y) + 0.7)
    if ufunc is np.ldexp:
        return lambda x, y: ufunc(x, np.array([1, -2, 3])) + 0 * y
    if ufunc is np.heaviside:
        return lambda x, y: ufunc(x, y) * x
    return ufunc


CASES: list[Case] = [
    *((ufunc.__name__, unary(ufunc), (f(2, 3),)) for ufunc in DIFFERENTIABLE if ufunc.nin == 1),
    *((ufunc.__name__, binary(ufunc), (f(2, 3), f(3))) for ufunc in DIFFERENTIABLE if ufunc.nin == 2),
    *(
        (f"{ufunc.__name__} of itself", lambda x, u=ufunc: binary(u)(x, x * x + 1), (f(3),))
        for ufunc in DIFFERENTIABLE
        if ufunc.nin == 2
    ),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_derivative(check: Any, case: Case) -> None:
    check(*case)


OPERATORS = [ufunc for ufunc, row in UFUNCS.items() if row.onnx]
POSITIVE = np.abs(numbers(5, 3)) + np.float32(0.1)
SMALL = np.tanh(numbers(5, 3)) * np.float32(0.9)
DOMAINS = {
    np.log: POSITIVE,
    np.log2: POSITIVE,
    np.log10: POSITIVE,
    np.sqrt: POSITIVE,
    np.arcsin: SMALL,
    np.arccos: SMALL,
    np.arctanh: SMALL,
    np.log1p: SMALL,
    np.arccosh: POSITIVE + 1,
    np.reciprocal: POSITIVE,
}
ONE = sorted((f for f in OPERATORS if f.nin == 1), key=lambda f: f.__name__)
TWO = sorted((f for f in OPERATORS if f.nin == 2), key=lambda f: f.__name__)
OF_INTEGERS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


@pytest.mark.parametrize("ufunc", ONE, ids=lambda f: f.__name__)
def test_of_one_array(ufunc: np.ufunc) -> None:
    x = DOMAINS.get(ufunc, numbers(5, 3) * 3)
    x = numbers(5, 3, dtype=np.int64) if ufunc is np.invert else x
    check_graph(ufunc, x)
    if ufunc is not np.invert:  # arccos, arcsin and arctan have float32's digits
        check_graph(ufunc, x.astype(np.float64))


@pytest.mark.parametrize("ufunc", TWO, ids=lambda f: f.__name__)
def test_of_two_arrays(ufunc: np.ufunc) -> None:
    a, b = numbers(5, 3), numbers(3, seed=1)
    if ufunc in OF_INTEGERS:
        a, b = numbers(5, 3, dtype=np.int64), numbers(3, dtype=np.int64, seed=1)
    elif ufunc in (np.power, np.float_power):
        a = POSITIVE
    check_graph(ufunc, a, b, axes={0: {0: "n"}})


@pytest.mark.parametrize("ufunc", [np.log1p, np.expm1])
def test_small_numbers_keep_their_digits(ufunc: np.ufunc) -> None:
    check_graph(ufunc, np.float32([1e-7, -1e-7, 0, 1e-3, 0.5, -0.5, 3, 80]), rtol=2e-6, atol=0)


def test_ends_of_the_range() -> None:
    x = np.float32([np.inf, -np.inf, np.nan, 0, -1])
    for ufunc in (np.isnan, np.isinf, np.isfinite, np.log1p, np.expm1, np.sign, np.maximum):
        check_graph(lambda x, f=ufunc: f(x, 0) if f.nin == 2 else f(x), x)
