"""What `lite.nn` calls: arrays of any layout, on any number of threads."""

import numpy as np
import pytest

from lite.kernels import _layers


@pytest.mark.parametrize("layout", ["as it is", "read-only", "turned", "empty"])
def test_pointwise_reads_any_layout(rng, layout):
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
