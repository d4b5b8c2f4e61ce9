"""Formulas of layers, over the whole line of floats."""

import math

import numpy as np
import pytest

from lite.kernels._layers import pointwise

X = np.concatenate([np.linspace(-12, 12, 2001), [0.0, -0.0, 1e-30, -200, 200, np.inf]]).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gelu", lambda x: x * math.erfc(-x / math.sqrt(2)) / 2),
        ("gelu_by_tanh", lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        ("silu", lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0),
    ],
)
def test_equal_the_formula(name, formula):
    expected = [formula(float(x)) for x in X[:-1]] + [np.inf]
    np.testing.assert_allclose(pointwise(name, X), expected, rtol=2e-6, atol=2e-7)
    assert np.isnan(pointwise(name, np.full(20, np.nan, np.float32))).all()
