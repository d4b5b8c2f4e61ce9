"""Parameters as float arrays, shapes, checks, and what draws."""

import numpy as np
import pytest
from helpers.cases import raises

from lite.nn.distributions import Gamma, Normal
from lite.nn.distributions.distribution import (
    as_float,
    as_shape,
    as_value,
    float_arrays,
    in_double,
    require,
    sum_rightmost,
)


def test_one_dtype_and_shape() -> None:
    a, b, c = float_arrays(np.zeros((2, 1), np.float32), np.ones(3, np.float16), 2)
    assert {x.shape for x in (a, b, c)} == {(2, 3)}
    assert {x.dtype for x in (a, b, c)} == {np.dtype(np.float32)}
    whole, number = float_arrays(np.arange(2), 0.5)
    assert whole.dtype == number.dtype == np.float32
    raises(TypeError, "got None", float_arrays, None)
    assert as_float([0.5, 1.0]).dtype == np.float32  # numbers of Python have the default
    for wrong in ([1.0, None], np.array([1.0, None]), "1"):  # NumPy would make NaN of None
        raises(TypeError, "array of numbers or a number, got the dtype", float_arrays, 0.5, wrong)


def test_shapes() -> None:
    assert [as_shape(s) for s in (None, 3, (2, np.int64(4)))] == [(), (3,), (2, 4)]


def test_require_shows_an_offending_value() -> None:
    values = np.array([1.0, -2.0])
    require(values > -3, "must be large", values)
    with pytest.raises(TypeError, match=r"must be positive, got -2\.0"):
        require(values > 0, "must be positive", values, TypeError)


def test_sums_over_the_last_dimensions() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(sum_rightmost(values, 2), values.reshape(2, 12).sum(1))
    assert sum_rightmost(values, 0) is values


def test_values_keep_their_floats() -> None:
    single = np.dtype(np.float32)
    array = np.zeros(2)
    assert as_value(array, single) is array
    assert as_value(np.arange(2), single).dtype == as_value(1, single).dtype == single
    assert as_value(True, single) == 1


def test_formulas_in_double_precision() -> None:
    seen = []

    def formula(x, y):
        seen.append((x.dtype, y.dtype))
        return x / y

    a, b = np.float32([1.0, 3e38]), np.float32([0.0, 1e-30])
    out = in_double(formula, a, b)  # neither a division by 0 nor what float32 cannot hold warns
    assert seen == [(np.float64, np.float64)]
    np.testing.assert_array_equal(out, np.float32([np.inf, np.inf]))
    assert out.dtype == np.float32
    assert in_double(formula, a, b.astype(np.float64)).dtype == np.float64


def test_parameters_that_do_not_broadcast() -> None:
    for kind in (Normal, Gamma):
        raises(ValueError, r"broadcast to one, got \[\(2,\), \(3,\)\]", kind, np.ones(2), np.ones(3))
