"""What `lite.nn` calls: arrays of any layout, on any number of threads."""

import numpy as np

from lite.kernels import _layers


def test_pointwise_reads_any_layout(rng):
    for layout in ["as it is", "read-only", "turned", "empty"]:
        x = rng.normal(size=(6, 7)).astype(np.float32)
        x.flags.writeable = layout != "read-only"
        x = {"turned": x.T, "empty": x[:0]}.get(layout, x)
        got = _layers.pointwise("silu", x)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, x / (1 + np.exp(-x.astype(np.float64))), rtol=1e-6)


def test_threads_take_whole_rows(rng, monkeypatch):
    x = rng.normal(size=(50, 9)).astype(np.float32)
    alone = _layers.layer_norm(x, x[0], x[1], 9, 1e-5)
    monkeypatch.setattr(_layers, "_SERIAL", 10)
    monkeypatch.setattr(_layers, "_CHUNK", 40)
    np.testing.assert_array_equal(_layers.layer_norm(x, x[0], x[1], 9, 1e-5), alone)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(alone, normal * wide[0] + wide[1], atol=1e-5)


def test_softmax_and_its_derivative(rng):
    x = rng.normal(size=(5, 37)).astype(np.float32) * 5
    x[0, :3] = -np.inf, -200, -86.5
    x[1] = -np.inf
    x[2, 4], x[3, 5] = np.nan, np.inf
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(1, keepdims=True))
        expected = powers / powers.sum(1, keepdims=True)
    got = _layers.softmax(x)
    np.testing.assert_allclose(got, expected, rtol=3e-6, atol=1e-37)
    assert got[0, 0] == 0
    np.testing.assert_array_equal(_layers.softmax(x, 1.0)[1], np.zeros(37))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(_layers.log_softmax(x)[[0, 4]], np.log(expected)[[0, 4]], rtol=1e-6)
    assert np.isnan(_layers.log_softmax(x)[1:4]).all()
    g = rng.normal(size=x.shape).astype(np.float32)
    shares = expected * (g - (g * expected).sum(1, keepdims=True))
    np.testing.assert_allclose(_layers.softmax_gradients(got, g), shares, rtol=1e-4, atol=1e-7)
    again = x.copy()
    assert _layers.softmax(again, out=again) is again
    np.testing.assert_array_equal(again, got)
