"""Products of matrices in flat arrays, with strides, parts of tiles, and what is there already."""

from typing import Any

import numpy as np
import pytest

from lite.kernels.backends.choice import backend
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.products import product

pytestmark = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")


@jit(entry=True)
def run(a: Any, b: Any, c: Any, rows: int, columns: int, depth: int, turned: bool, add: bool) -> None:
    row, step = (1, rows) if turned else (depth, 1)
    product(a, 1, row, step, b, 2, columns + 3, c, 3, columns + 1, rows, columns, depth, add)


def test_equal_matmul() -> None:
    for turned in [False, True]:
        for rows, columns, depth in [(19, 48, 5), (8, 32, 1), (3, 16, 7)]:
            rng = np.random.default_rng(0)
            a, b = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns + 3))
            c = rng.normal(size=(rows, columns + 1)).astype(np.float32)
            flat = [
                np.concatenate([np.zeros(n), x.reshape(-1)]).astype(np.float32)
                for n, x in ((1, a.T if turned else a), (2, b))
            ]
            for add in (False, True):
                out = np.concatenate([np.zeros(3, np.float32), c.reshape(-1)])
                run(*flat, out, rows, columns, depth, turned, add)
                found = out[3:].reshape(c.shape)
                wanted = a @ b[:, :columns] + (c[:, :columns] if add else 0)
                np.testing.assert_allclose(found[:, :columns], wanted, rtol=1e-4, atol=1e-5)
                np.testing.assert_array_equal(found[:, columns], c[:, columns])
