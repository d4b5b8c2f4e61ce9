"""Formulas of layers, over the whole line of floats."""

import math

import numpy as np
from helpers.peaks import peak_of

from lite.kernels import _layers
from lite.kernels._layers import pointwise

X = np.concatenate([np.linspace(-12, 12, 2001), [0.0, -0.0, 1e-30, -200, 200, np.inf]]).astype(np.float32)


def test_equal_the_formula():
    for name, formula in [
        ("gelu", lambda x: x * math.erfc(-x / math.sqrt(2)) / 2),
        ("gelu_by_tanh", lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
        ("silu", lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0),
    ]:
        expected = [formula(float(x)) for x in X[:-1]] + [np.inf]
        np.testing.assert_allclose(pointwise(name, X), expected, rtol=2e-6, atol=2e-7)
        assert np.isnan(pointwise(name, np.full(20, np.nan, np.float32))).all()


def numbers(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def test_rms_norm_and_its_derivatives(rng):
    x, g, weight = numbers(rng, 7, 33), numbers(rng, 7, 33), numbers(rng, 33)
    wide = x.astype(float)
    inverse = 1 / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-3)
    normal = wide * inverse
    np.testing.assert_allclose(_layers.rms_norm(x, weight, 33, 1e-3), normal * weight, rtol=1e-5, atol=1e-6)
    by_x, by_weight = _layers.rms_norm_gradients(x, weight, 33, 1e-3, g, True)
    share = g * weight
    wanted = (share - normal * (share * normal).mean(-1, keepdims=True)) * inverse
    np.testing.assert_allclose(by_x, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_weight, (g * normal).sum(0), rtol=1e-4, atol=1e-5)
    assert _layers.rms_norm_gradients(x, None, 33, 1e-3, g, False)[1] is None


def test_swiglu_and_its_derivatives(rng):
    both, g = numbers(rng, 2, 5, 18), numbers(rng, 2, 5, 9)
    both.flags.writeable = False
    left, right = both[..., :9], both[..., 9:]
    for x, y in ((left, right), (left.copy(), right), (left.T.copy().T, right)):
        share = 1 / (1 + np.exp(-x.astype(float)))
        np.testing.assert_allclose(_layers.swiglu(x, y), x * share * y, rtol=1e-5, atol=1e-6)
        by_x, by_y = _layers.swiglu_gradients(x, y, g)
        np.testing.assert_allclose(by_x, g * y * share * (1 + x * (1 - share)), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(by_y, g * x * share, rtol=1e-4, atol=1e-6)


def test_halves_of_rows_are_read_where_they_are(rng):
    both = numbers(rng, 64, 1024)
    x, y = np.split(both, 2, -1)
    g = np.ascontiguousarray(x)
    for call, results in ((lambda: _layers.swiglu(x, y), 1), (lambda: _layers.swiglu_gradients(x, y, g), 2)):
        assert peak_of(call) < (results + 0.5) * x.nbytes


def test_rotations_turn_the_first_heads_and_back(rng):
    x, angles = numbers(rng, 4, 3 * 8), numbers(rng, 4, 3)
    cos, sin = np.cos(angles), np.sin(angles)
    out = x.copy()
    _layers.rotate(out, cos, sin, 2, 8, False)
    heads = x.reshape(4, 3, 8).astype(float)
    a, b, c, s = heads[:, :2, :3], heads[:, :2, 3:6], cos[:, None], sin[:, None]
    heads[:, :2, :6] = np.concatenate([a * c - b * s, b * c + a * s], -1)
    np.testing.assert_allclose(out, heads.reshape(4, 24), rtol=1e-5, atol=1e-6)
    _layers.rotate(out, cos, sin, 2, 8, True)
    np.testing.assert_allclose(out, x, rtol=1e-5, atol=1e-6)
