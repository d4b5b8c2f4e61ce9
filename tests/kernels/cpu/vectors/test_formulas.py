"""Operations of formulas on NumPy's arrays, which run where nothing is compiled."""

import numpy as np
import pytest

pytest.importorskip("numba")
from lite.kernels.cpu.vectors.formulas import ROUND, Arrays


@pytest.mark.parametrize(("itemsize", "dtype"), [(4, np.float32), (8, np.float64)])
def test_operations(itemsize, dtype):
    o = Arrays(itemsize)
    x = np.array([-3, -0.4, 0, 2.6, np.nan], dtype)
    np.testing.assert_array_equal(o.at_least(x, -1.0), [-1, dtype(-0.4), 0, dtype(2.6), np.nan])
    np.testing.assert_array_equal(o.larger(x, dtype(1)), [1, 1, 1, dtype(2.6), 1])
    assert o.fused(x, dtype(2), dtype(1)).dtype == dtype
    rounded = dtype(ROUND[itemsize]) + np.array([-5, 0, 7], dtype)
    np.testing.assert_array_equal(o.power(rounded), [2.0**-5, 1, 2.0**7])
    assert type(o.narrow(0.1)) is dtype
    assert type(o.wide(dtype(0.5))) is np.float64
