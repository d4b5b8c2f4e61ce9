"""GELU by compiled code and by NumPy, against the standard library's error function."""

import math

import numpy as np
import pytest
from helpers.cases import noting

from lite import grad, nn
from lite.nn.layers.large_arrays import LARGE

pytestmark = pytest.mark.compiled
SPECIAL = [0.0, -0.0, 1e-40, -1e-20, 30.0, -30.0, 1e30, -1e30, 3e38, -3e38, np.inf, np.nan]


def exact(x):
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def by_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x if inner > 20 else x * math.exp(2 * inner) / (1 + math.exp(2 * inner))


@pytest.mark.parametrize(("approximate", "formula"), [("none", exact), ("tanh", by_tanh)])
class TestNumbers:
    def test_against_the_formula(self, approximate, formula):
        for dtype, size, rtol in (
            (np.float32, 999, 1e-6),
            (np.float32, LARGE, 1e-6),
            (np.float64, 999, 1e-14),
        ):
            x = np.linspace(-15, 15, size, dtype=dtype)
            got = nn.GELU(approximate)(x)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, [formula(float(v)) for v in x], rtol=rtol, atol=rtol / 10)

    def test_numbers_at_the_edges(self, approximate, formula):
        for size in [len(SPECIAL), LARGE]:
            with noting(size):
                x = np.resize(np.array(SPECIAL, np.float32), size)
                expected = np.resize([formula(v) if abs(v) < 1e3 else max(v, 0.0) for v in x.tolist()], size)
                np.testing.assert_allclose(nn.GELU(approximate)(x), expected, rtol=1e-6, atol=1e-30)

    def test_minus_infinity_gives_what_torch_gives(self, approximate, formula):
        for size in (1, LARGE):
            assert np.isnan(nn.GELU(approximate)(np.full(size, -np.inf, np.float32))).all()

    def test_derivatives(self, approximate, formula):
        for dtype, size, rtol in ((np.float64, 99, 1e-8), (np.float32, LARGE, 1e-4)):
            x, h = np.linspace(-5, 5, size, dtype=dtype), 1e-5
            expected = [(formula(v + h) - formula(v - h)) / (2 * h) for v in x.tolist()]
            found = grad(lambda x: nn.GELU(approximate)(x).sum())(x)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol / 10)


def test_views_and_read_only_arrays(rng):
    x = rng.normal(size=(2 * LARGE, 2)).astype(np.float32)
    expected = nn.GELU()(x)
    x.flags.writeable = False
    np.testing.assert_array_equal(nn.GELU()(x), expected)
    np.testing.assert_array_equal(nn.GELU()(x.T), expected.T)
    np.testing.assert_array_equal(nn.GELU()(x[:, 1]), expected[:, 1])


def test_an_unknown_formula():
    with pytest.raises(RuntimeError, match="approximate must be 'none' or 'tanh', got 'exp'"):
        nn.GELU("exp")(np.zeros(2))
