"""Uniform between two bounds."""

import numpy as np
import pytest

from lite.nn.distributions import Uniform


def test_density_and_moments() -> None:
    dist = Uniform(np.array([0.0, -1.0]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(dist.log_prob(np.array([1.0, 0.0])), -np.log([2.0, 4.0]))
    np.testing.assert_allclose(dist.mean, [1.0, 1.0])
    np.testing.assert_allclose(dist.variance, [4 / 12, 16 / 12])
    np.testing.assert_allclose(dist.entropy(), np.log([2.0, 4.0]))
    samples = dist.sample((300,), rng=0)
    assert np.all((samples >= [0, -1]) & (samples < [2, 3]))


def test_bounds_in_order() -> None:
    with pytest.raises(ValueError):
        Uniform(np.array([1.0]), np.array([1.0]))
