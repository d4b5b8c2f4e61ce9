"""The same in NumPy as in compiled code."""

from typing import Any

import numpy as np

from lite.kernels.cpu import convolution, plain_convolution
from lite.kernels.networks.convolution import Convolution


def test_equal_the_kernels(rng: Any, monkeypatch: Any) -> None:
    how = Convolution((2, 1), (1, 2), (1, 0), (2, 2), 2)
    x, weight, bias = (rng.normal(size=s).astype(np.float32) for s in ((2, 4, 9, 8), (6, 2, 3, 3), (6,)))

    def run() -> list[Any]:
        out = how.values(x, weight, bias)
        return [out, how.by_input(out, weight, x.shape), how.by_weight(out, x, weight.shape)]

    compiled = run()
    for name in ("convolve", "by_weight"):
        monkeypatch.setattr(convolution, name, getattr(plain_convolution, name))
    for a, b in zip(run(), compiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
