"""Functions that NumPy lacks, against the standard library's."""

import math

import numpy as np
import pytest

from lite._arrays import formulas as _special

X = np.concatenate([np.linspace(-9, 9, 20001), [0.0, 1e-300, 0.5, np.nextafter(0.5, 0), np.inf, -np.inf]])


def test_erf():
    expected = np.array([math.erf(x) for x in X])
    np.testing.assert_allclose(_special.erf(X), expected, rtol=1e-15 * 4)
    np.testing.assert_allclose(_special.erf(X.astype(np.float32)), expected, rtol=1e-6, atol=1e-6)
    assert math.isnan(_special.erf(np.array([np.nan]))[0])
    assert math.copysign(1, _special.erf(np.array([-0.0]))[0]) == -1


def test_erfc_of_large_numbers_keeps_its_digits():
    expected = np.array([math.erfc(x) for x in X])
    np.testing.assert_allclose(_special.erfc(X), expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_cdf(dtype):
    x = X.astype(dtype)
    expected = np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x])
    got = _special.normal_cdf(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, rtol=np.finfo(dtype).eps * 100, atol=1e-44)


def test_sigmoid_and_softplus_do_not_overflow():
    x = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(_special.sigmoid(x), [0, 1 / (1 + math.e), 0.5, math.e / (1 + math.e), 1])
        np.testing.assert_allclose(
            _special.softplus(x), [0, math.log1p(1 / math.e), math.log(2), math.log1p(math.e), 1e4]
        )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis, rng):
    x = rng.normal(size=(4, 5)) * 100
    expected = np.exp(x - x.max(axis, keepdims=True))
    expected /= expected.sum(axis, keepdims=True)
    np.testing.assert_allclose(_special.softmax(x, axis), expected)
    np.testing.assert_allclose(np.exp(_special.log_softmax(x, axis)), expected, atol=1e-15)
