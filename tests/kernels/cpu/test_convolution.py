"""Bands of rows, which small memory and threads work on one by one, are parts of the same result."""

from typing import Any

import numpy as np

from lite.kernels import backend, get_num_threads, set_num_threads
from lite.kernels.networks import convolution


def test_bands_on_threads(rng: Any, monkeypatch: Any) -> None:
    how = convolution.Convolution((2, 1), (1, 2), (1, 2), (2, 1), 1)
    x, weight = (rng.normal(size=s).astype(np.float32) for s in ((3, 2, 41, 20), (5, 2, 3, 3)))

    def run() -> list[Any]:
        out = how.values(x, weight, None)
        return [out, how.by_input(out, weight, x.shape), how.by_weight(out, x, weight.shape)]

    whole, threads = run(), get_num_threads()
    plans = convolution._plan, convolution._back_plan
    monkeypatch.setattr(convolution, "_PLANES", 1000)
    for plan in plans:
        plan.cache_clear()
    try:
        set_num_threads(3)
        parts = run()
        assert convolution._plan(x.shape, weight.shape, how).units > len(x)
    finally:
        set_num_threads(threads)
        for plan in plans:
            plan.cache_clear()
    # NumPy's products of some rows add up in another order than those of all.
    close = 1e-5 if backend() == "numpy" else 0
    for part, one in zip(parts[:2], whole[:2], strict=True):
        np.testing.assert_allclose(part, one, rtol=close, atol=close)
    np.testing.assert_allclose(parts[2], whole[2], rtol=1e-4)
