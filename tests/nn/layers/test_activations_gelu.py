"""GELU by compiled code and by NumPy, against the standard library's error function."""

import math

import numpy as np
import pytest
from helpers.noting import noting

from lite import nn, vmap
from lite.nn.layers import large_arrays as _compiled
from lite.nn.layers.large_arrays import LARGE

pytestmark = pytest.mark.compiled
SPECIAL = [0.0, -0.0, 1e-40, -1e-20, 30.0, -30.0, 1e30, -1e30, 3e38, -3e38, np.inf, np.nan]


def exact(x):
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def by_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x if inner > 20 else x * math.exp(2 * inner) / (1 + math.exp(2 * inner))


@pytest.fixture
def numpy_only(monkeypatch):
    monkeypatch.setattr(_compiled, "_kernels", lambda name: None)


@pytest.mark.parametrize(("approximate", "formula"), [("none", exact), ("tanh", by_tanh)])
class TestNumbers:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("size", [LARGE - 1, LARGE])
    def test_against_the_formula(self, approximate, formula, dtype, size):
        x = np.linspace(-15, 15, size, dtype=dtype)
        got = nn.GELU(approximate)(x)
        assert got.dtype == dtype
        rtol = 1e-6 if dtype == np.float32 else 1e-14
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

    def test_both_ways_agree(self, approximate, formula, rng, monkeypatch):
        x = (rng.normal(size=(4, LARGE)) * 3).astype(np.float32)
        compiled = nn.GELU(approximate)(x)
        monkeypatch.setattr(_compiled, "_kernels", lambda name: None)
        np.testing.assert_allclose(compiled, nn.GELU(approximate)(x), rtol=1e-6, atol=1e-7)


def test_views_and_read_only_arrays(rng):
    x = rng.normal(size=(2 * LARGE, 2)).astype(np.float32)
    expected = nn.GELU()(x)
    x.flags.writeable = False
    np.testing.assert_array_equal(nn.GELU()(x), expected)
    np.testing.assert_array_equal(nn.GELU()(x.T), expected.T)
    np.testing.assert_array_equal(nn.GELU()(x[:, 1]), expected[:, 1])


def test_more_numbers_than_one_thread_takes(rng, numpy_only, monkeypatch):
    import lite.kernels

    x = rng.normal(size=700_001).astype(np.float32)
    expected = nn.GELU()(x)
    monkeypatch.undo()
    before = lite.kernels.get_num_threads()
    lite.kernels.set_num_threads(3)
    try:
        np.testing.assert_allclose(nn.GELU()(x), expected, rtol=1e-6, atol=1e-7)
    finally:
        lite.kernels.set_num_threads(before)


def test_half_precision_and_integers(rng):
    x = rng.normal(size=LARGE + 1).astype(np.float16)
    got = nn.GELU()(x)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, nn.GELU()(x.astype(np.float32)).astype(np.float16))
    assert nn.GELU()(np.array([1])).dtype == np.float32


def test_under_vmap(rng):
    x = rng.normal(size=(3, LARGE)).astype(np.float32)
    np.testing.assert_allclose(vmap(nn.GELU())(x), nn.GELU()(x), rtol=1e-6, atol=1e-7)


def test_an_unknown_formula():
    with pytest.raises(RuntimeError, match="approximate must be 'none' or 'tanh', got 'exp'"):
        nn.GELU("exp")(np.zeros(2))
