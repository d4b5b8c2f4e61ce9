"""LogNormal: density, moments, what it is made of."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.densities import check_density, check_outside, check_quantiles
from helpers.noting import noting

from lite.nn import distributions as d


def test_formulas() -> None:
    for loc, scale in [(0.0, 1.0), (-1.0, 0.25)]:
        with noting(loc, scale):
            dist = d.LogNormal(np.float64(loc), scale)
            check_density(dist)
            check_quantiles(dist)
            check_outside(dist, [-1.0, 0.0])
            np.testing.assert_allclose(dist.median, np.exp(loc))


def test_it_is_the_exponential_of_a_normal_distribution() -> None:
    loc = np.array([0.0, 2.0], np.float32)
    dist = d.LogNormal(loc, 0.5)
    assert isinstance(dist, d.TransformedDistribution)
    np.testing.assert_array_equal(dist.sample((3,), rng=0), np.exp(d.Normal(loc, 0.5).sample((3,), rng=0)))
    assert dist.log_prob(1).dtype == dist.cdf(1).dtype == dist.mean.dtype == np.float32
    large = dist.expand((3, 2))
    assert large.loc.shape == large.mean.shape == (3, 2)
    with pytest.raises(ValueError, match=r"scale must be positive, got -1.0"):
        d.LogNormal(0.0, -1.0)
