"""Rows of any length, and nothing beside them."""

import itertools
from typing import Any

import numpy as np
import pytest

from lite.kernels.backends.choice import backend
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.products import parted, shifted


@jit(entry=True)
def copied(x: Any, y: Any, count: int, shift: float) -> None:
    shifted(x, 2, y, 3, count, np.float32(shift))


@jit(entry=True)
def in_parts(x: Any, y: Any, parts: int, first: int, count: int) -> None:
    parted(x, 2, y, 3, parts, first, 50, count)


@pytest.mark.depth
@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
def test_copies_so_many(rng: Any) -> None:
    for count in [0, 1, 15, 16, 17, 40]:
        x, y = rng.normal(size=60).astype(np.float32), np.zeros(60, np.float32)
        expected = y.copy()
        expected[3 : 3 + count] = x[2 : 2 + count] + np.float32(0.5)
        copied(x, y, count, 0.5)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.depth
@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
def test_parts_so_many_groups(rng: Any) -> None:
    for parts, first, count in itertools.product([2, 3, 4], [0, 1, 5], [0, 1, 15, 16, 17, 40]):
        x, y = rng.normal(size=2 + parts * 40).astype(np.float32), np.zeros(4 * 50 + 10, np.float32)
        expected = y.copy()
        for i in range(parts * count if parts != 3 else 0):
            row, place = (first + i) % parts, (first + i) // parts
            expected[3 + 50 * row + place] = x[2 + i]
        in_parts(x, y, parts, first, count)
        np.testing.assert_array_equal(y, expected)
