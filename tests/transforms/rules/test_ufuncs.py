"""Every row of the table: its derivatives against central differences, its operators against NumPy."""

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import Case
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_derivatives
from helpers.vmap_cases import f

import lite
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
]

test_derivatives, test_graphs_of_derivatives = of_derivatives(CASES)


OPERATORS = [ufunc for ufunc, row in UFUNCS.items() if row.onnx]
POSITIVE = np.abs(numbers(5, 3)) + np.float32(0.1)
SMALL = np.tanh(numbers(5, 3)) * np.float32(0.9)
DOMAINS = {
    np.log: POSITIVE, np.log2: POSITIVE, np.log10: POSITIVE, np.sqrt: POSITIVE, np.arcsin: SMALL,
    np.arccos: SMALL, np.arctanh: SMALL, np.log1p: SMALL, np.arccosh: POSITIVE + 1, np.reciprocal: POSITIVE,
}  # fmt: skip
ONE = [ufunc for ufunc in OPERATORS if ufunc.nin == 1 and ufunc is not np.invert]
TWO = [ufunc for ufunc in OPERATORS if ufunc.nin == 2]
OF_INTEGERS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)


def test_of_one_array() -> None:
    integers = numbers(5, 3, dtype=np.int64)
    floats = [DOMAINS.get(ufunc, numbers(5, 3) * 3) for ufunc in ONE]
    for dtype in (np.float32, np.float64):  # arccos, arcsin and arctan have float32's digits
        arrays = [x.astype(dtype) for x in floats]
        check_graph(lambda *xs: [ufunc(x) for ufunc, x in zip(ONE, xs, strict=True)], *arrays)
    check_graph(np.invert, integers)


def test_of_two_arrays() -> None:
    a, b = numbers(5, 3), numbers(3, seed=1)
    positive = [ufunc for ufunc in TWO if ufunc in (np.power, np.float_power)]
    others = [ufunc for ufunc in TWO if ufunc not in (*positive, *OF_INTEGERS)]
    axes = {0: {0: "n"}}
    check_graph(lambda a, b: [ufunc(a, b) for ufunc in others], a, b, axes=axes)
    check_graph(lambda a, b: [ufunc(a, b) for ufunc in positive], POSITIVE, b, axes=axes)
    a, b = numbers(5, 3, dtype=np.int64), numbers(3, dtype=np.int64, seed=1)
    check_graph(lambda a, b: [ufunc(a, b) for ufunc in OF_INTEGERS], a, b, axes=axes)


def test_small_numbers_keep_their_digits() -> None:
    x = np.float32([1e-7, -1e-7, 0, 1e-3, 0.5, -0.5, 3, 80])
    check_graph(lambda x: (np.log1p(x), np.expm1(x)), x, rtol=2e-6, atol=0)


def test_of_infinite_numbers_and_nan() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 2.5, -0.1, 3e30])
    a, b = (grid.ravel() for grid in np.meshgrid(x, x))
    of_two = (
        *(np.floor_divide, np.remainder, np.hypot, np.logaddexp, np.logaddexp2, np.arctan2, np.copysign),
        np.heaviside,
    )
    for name, ufunc in [(ufunc.__name__, ufunc) for ufunc in of_two]:
        with np.errstate(all="ignore"):
            want, got = ufunc(a, b), lite.jit(ufunc, threads=1)(a, b)
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=name)
    check_graph(lambda x: (*np.modf(x), np.signbit(x)), x)
    assert lite.jit(np.floor_divide, threads=1)(np.float64([1.0]), np.float64([0.1])) == 9  # not floor(a / b)


def test_divisors_of_whole_numbers() -> None:
    """0, -1, by which the smallest number ends a process, and those that leave a rest of another sign."""
    of_two = (np.floor_divide, np.remainder, np.fmod)
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        limits = np.iinfo(dtype)
        edges = [limits.min, limits.min + 1, -7, -2, -1, 0, 1, 2, 3, 63, limits.max - 1, limits.max]
        x = np.array([edge for edge in edges if edge >= limits.min], dtype)
        a, b = (grid.ravel() for grid in np.meshgrid(x, x))
        with np.errstate(all="ignore"):
            want = [ufunc(a, b) for ufunc in of_two]
            by_known = [ufunc(x, n) for ufunc in of_two for n in x]
        got = lite.jit(lambda a, b: [ufunc(a, b) for ufunc in of_two], threads=1)(a, b)
        np.testing.assert_array_equal(got, want, str(dtype))
        got = lite.jit(lambda a, x=x: [ufunc(a, n) for ufunc in of_two for n in x], threads=1)(x)
        np.testing.assert_array_equal(got, by_known, str(dtype))


def test_powers_have_all_bits() -> None:
    for dtype in (np.int8, np.int32, np.uint32, np.int64):
        x = np.array([0, 1, 3, 7, 100], dtype)
        a, b = np.meshgrid(x, x)
        np.testing.assert_array_equal(lite.jit(np.power, threads=1)(a, b), a**b, strict=True)
        for n in (b, np.zeros_like(x), 3 * x[:3, None], dtype(13)):
            got = lite.jit(lambda a, n=n: np.power(a, n), threads=1)(x)
            np.testing.assert_array_equal(got, np.power(x, n), strict=True)
    with pytest.raises(ValueError, match="negative integer powers"):
        lite.jit(lambda x: x ** np.array([2, 2, 2, 2, -1]), threads=1)(x)


def test_integers_whose_upper_halves_agree() -> None:
    """Lower halves of int64 are unsigned; operators of onnxruntime 1.31 take them for signed."""

    def chosen(x: Any) -> Any:
        pairs = x, x[::-1, ::-1]
        reduced = [f(x, axis=axis) for f in (np.max, np.min) for axis in (None, 0, -1, (0, 1))]
        single = np.max(x, 1, keepdims=True), np.max(x, initial=3), np.ptp(x, 0), np.sign(x), np.abs(x)
        return (*reduced, *single, np.maximum(*pairs), np.minimum(*pairs))

    middles = ((np.int64, 2**40 + 2**31), (np.uint32, 2**31), (np.uint64, 2**40 + 2**31), (np.uint64, 2**63))
    for dtype, middle in middles:
        x = np.array([[0, middle - 1, middle], [middle + 7, 1, 2**31]], dtype)
        for signed in (x, -x) if dtype is np.int64 else (x,):
            for got, want in zip(lite.jit(chosen, threads=1)(signed), chosen(signed), strict=True):
                np.testing.assert_array_equal(got, want, str(dtype), strict=True)


def test_shifts_by_any_number() -> None:
    for dtype in (np.int32, np.int64, np.uint8):
        x = np.array([0, 1, 77, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
        a, b = (grid.ravel() for grid in np.meshgrid(x, np.arange(66, dtype=dtype)))
        for ufunc in (np.left_shift, np.right_shift):
            np.testing.assert_array_equal(lite.jit(ufunc, threads=1)(a, b), ufunc(a, b), str(dtype))
