"""Rows of any length, and nothing beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lite.kernels.backends.choice import backend
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.products import shifted


@jit(entry=True)
def copied(x: Any, y: Any, count: int, shift: float) -> None:
    shifted(x, 2, y, 3, count, np.float32(shift))


@pytest.mark.depth
@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
def test_copies_so_many(rng: Any) -> None:
    for count in [0, 1, 15, 16, 17, 40]:
        x, y = rng.normal(size=60).astype(np.float32), np.zeros(60, np.float32)
        expected = y.copy()
        expected[3 : 3 + count] = x[2 : 2 + count] + np.float32(0.5)
        copied(x, y, count, 0.5)
        np.testing.assert_array_equal(y, expected)
