"""The same in NumPy as in compiled code."""

from typing import Any

import numpy as np

from lite.kernels.cpu import plain_recurrent, recurrent
from lite.kernels.networks.recurrent import gru, gru_gradients, lstm, lstm_gradients


def test_equal_the_kernels(rng: Any, monkeypatch: Any) -> None:
    x, state, weight = (rng.normal(size=s).astype(np.float32) for s in ((4, 9, 64), (9, 16), (16, 64)))

    def run() -> list[Any]:
        all_h, all_c, gates = lstm(x.copy(), state, state, weight)
        h, parts = gru(x[..., :48], state, weight[:, :48], state[0])
        of_gru = [h, *gru_gradients(parts, h, weight[:, :48], h[1:], state)]
        return [all_h, all_c, *lstm_gradients(gates, all_c, weight, all_h[1:], state, state), *of_gru]

    compiled = run()
    for name in ("lstm", "lstm_back", "gru", "gru_back"):
        monkeypatch.setattr(recurrent, name, getattr(plain_recurrent, name))
    for a, b in zip(run(), compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
