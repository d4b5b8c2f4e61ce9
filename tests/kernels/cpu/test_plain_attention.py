"""The same in NumPy as in compiled code."""

from typing import Any

import numpy as np

from lite.kernels import _layers
from lite.kernels.cpu import attention, plain_attention


def test_equal_the_kernels(rng: Any, monkeypatch: Any) -> None:
    x, g = (rng.normal(size=shape).astype(np.float32) for shape in ((2 * 5, 4 * 16), (2, 5, 2 * 16)))
    rows = [_layers.Rows(x.reshape(-1), at * 16, 64) for at in (0, 2, 3)]
    last = np.arange(5)[None] + np.zeros((2, 1), np.int64)  # the first sees nothing
    given = (*rows, np.zeros_like(last), last, 0.3, (5, 5, 2, 1, 16))

    def run() -> list[Any]:
        out, logs = _layers.attention(*given)
        by = np.zeros(x.size, np.float32)
        _layers.attention_gradients(*given, out, logs, g, (by, by, by))
        return [out, logs, by]

    compiled = run()
    for name in ("attention", "gradients"):
        monkeypatch.setattr(attention, name, getattr(plain_attention, name))
    for a, b in zip(run(), compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
