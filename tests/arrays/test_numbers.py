"""A number converted beforehand gives what the ufunc makes of it: values, dtypes, errors and warnings."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite import TensorDict
from lite._arrays.numbers import number_as_array, operands_for

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64"]
NUMBERS: list[Any] = [
    True, 0, 3, -1, 300, 2**40, 2**70, 10**400, 0.1, -0.0, 1e-45, 1e300, float("inf"), float("nan"), 1 + 2j,
]  # fmt: skip
FUNCTIONS = [
    np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.power, np.maximum, np.equal,
    np.less, np.arctan2, np.bitwise_and, np.logical_or,
]  # fmt: skip


def outcome(fn: Callable[..., Any], *args: Any) -> tuple[Any, set[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = fn(*args)
        except (TypeError, ValueError, OverflowError) as error:
            result = type(error)
    return result, {str(w.message) for w in caught}


def assert_outcomes(got: tuple[Any, set[str]], expected: tuple[Any, set[str]]) -> None:
    assert got[1] == expected[1]
    if isinstance(expected[0], type):
        assert got[0] is expected[0]
    else:
        assert got[0].dtype == expected[0].dtype
        np.testing.assert_array_equal(got[0], expected[0])


@each_case("number", NUMBERS, ids=lambda n: str(n)[:9])
@each_case("dtype", DTYPES)
def test_as_the_ufunc_does_it(dtype: str, number: Any) -> None:
    leaf = np.array([0, 1, 2, 7], dtype)
    value = number_as_array(number, leaf.dtype)
    for fn in FUNCTIONS:
        assert_outcomes(outcome(fn, leaf, value), outcome(fn, leaf, number))
    mask = np.array([True, False, True, False])
    assert_outcomes(outcome(np.where, mask, leaf, value), outcome(np.where, mask, leaf, number))


def test_numbers_are_converted_once_per_dtype() -> None:
    leaves = [np.ones(2, np.float32), np.ones(3, np.float32), np.ones(2, np.int8)]
    first, second, third = operands_for(2, leaves)
    assert first is second
    assert (first.dtype, third.dtype) == (np.float32, np.int8)
    assert operands_for(2.5, leaves)[2] == 2.5
    assert type(operands_for(2.5, leaves)[2]) is float
    assert operands_for(300, leaves)[2] == 300


def test_in_place_with_numbers_of_other_kinds() -> None:
    td = TensorDict({"a": np.ones(2, np.float32), "b": np.ones(2, np.int8)}, batch_size=[2])
    td.add_(2)
    np.testing.assert_array_equal(td["b"], np.array([3, 3], np.int8))
    raises(TypeError, "int8", td.add_, 0.5)
    np.testing.assert_array_equal(td["a"], np.array([3, 3], np.float32))
