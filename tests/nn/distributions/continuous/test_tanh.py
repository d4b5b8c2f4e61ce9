"""The map between all numbers and an interval."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite.nn.distributions.continuous.tanh import TanhMap

DTYPE = np.dtype(np.float64)


BOUNDS = [(-1.0, 1.0), (0.0, 5.0), (np.array([-3.0, 0.0]), np.array([0.0, 1.0]))]


@each_case(("low", "high"), BOUNDS)
def test_there_and_back(low: Any, high: Any) -> None:
    squash = TanhMap(low, high, DTYPE, safe=True, error=ValueError)
    z = np.array([-1.5, 2.0])
    y = squash.forward(z)
    assert np.all((y > low) & (y < high))
    np.testing.assert_allclose(squash.inverse(y), z)
    step = 1e-6
    slope = (squash.forward(z + step) - squash.forward(z - step)) / (2 * step)
    np.testing.assert_allclose(squash.log_derivative(z), np.log(slope), rtol=1e-5)


def test_bounds_in_order() -> None:
    with pytest.raises(RuntimeError, match="above low"):
        TanhMap(1.0, 0.0, DTYPE, safe=True, error=RuntimeError)
