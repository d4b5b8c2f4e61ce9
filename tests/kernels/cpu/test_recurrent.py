"""Rows that threads take one range after the other give the same bits."""

from typing import Any

import numpy as np

from lite.kernels import backend, get_num_threads, set_num_threads
from lite.kernels.networks import recurrent


def test_ranges_of_rows_on_threads(rng: Any, monkeypatch: Any) -> None:
    x, state, weight = (rng.normal(size=s).astype(np.float32) for s in ((4, 19, 64), (19, 16), (16, 64)))

    def run() -> list[Any]:
        all_h, all_c, gates = recurrent.lstm(x.copy(), state, state, weight)
        h, parts = recurrent.gru(x[..., :48], state, weight[:, :48], None)
        of_gru = [h, *recurrent.gru_gradients(parts, h, weight[:, :48], h[1:], state)]
        return [
            all_h, all_c, *recurrent.lstm_gradients(gates, all_c, weight, all_h[1:], state, state), *of_gru,
        ]  # fmt: skip

    whole, threads = run(), get_num_threads()
    monkeypatch.setattr(recurrent, "_SERIAL", 0)
    try:
        set_num_threads(3)
        parts = run()
    finally:
        set_num_threads(threads)
    # NumPy's products of some rows add up in another order than those of all.
    close = 1e-5 if backend() == "numpy" else 0
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=close, atol=close)
