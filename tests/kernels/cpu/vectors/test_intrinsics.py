"""A formula is the same function in compiled code as on NumPy's arrays."""

import numpy as np
import pytest
from helpers.tiers import standing_for_all

from lite.kernels.backends.choice import backend

pytestmark = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
numba = pytest.importorskip("numba")


def scaled(o, x, factor):
    return x * o.narrow(factor) + 1.0


def sum_and_highest(o, x, factor):
    finite = o.where(x > -1e30, x, 0.0)
    return finite * o.narrow(factor), x


@pytest.mark.parametrize("size", standing_for_all([70, 1, 16]))
def test_compiled_formulas(rng, size):
    dtype = np.float32
    from lite.kernels.cpu.vectors.formulas import folded, written

    x, keep = rng.normal(size=size).astype(dtype), rng.random(size) < 0.7
    keep[0] = True
    hidden = np.where(keep, x, -np.inf)
    write, out = written(parameters=1)(scaled), np.zeros(size, dtype)
    numba.njit(lambda x, keep, past, out: write(x, 3.0, False, keep, past, out))(x, keep, size == 16, out)
    np.testing.assert_allclose(out, hidden * 3 + 1, rtol=1e-6)
    fold = folded(parameters=1, total="sum", highest="max")(sum_and_highest)
    total, highest = numba.njit(lambda x, keep: fold(x, 0.5, False, keep))(x, keep)
    np.testing.assert_allclose(total, x[keep].sum(dtype=np.float64) / 2, rtol=1e-5, atol=1e-6)
    assert highest == x[keep].max()


def test_formulas_of_one_number():
    from lite.kernels.cpu.vectors.formulas import by_number

    both = by_number(results=2)(lambda o, x: (x * 2.0, 1.0 - x))
    assert numba.njit(lambda x: both(x))(3.0) == (6.0, -2.0)
