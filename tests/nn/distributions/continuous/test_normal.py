"""Normal, HalfNormal and IndependentNormal against their formulas."""

import math

import numpy as np
from helpers.cases import each_case, raises
from helpers.densities import check_density, check_outside, check_quantiles

from lite.nn import distributions as d
from lite.nn.distributions import HalfNormal, IndependentNormal, Normal

LOC, SCALE = np.array([0.0, 1.0]), np.array([1.0, 2.0])


def test_density_and_moments() -> None:
    dist = Normal(LOC, SCALE)
    value = np.array([0.5, -1.0])
    z = (value - LOC) / SCALE
    np.testing.assert_allclose(dist.log_prob(value), -(z**2) / 2 - np.log(SCALE) - math.log(2 * math.pi) / 2)
    np.testing.assert_allclose(dist.entropy(), 0.5 * np.log(2 * math.pi * math.e * SCALE**2))
    np.testing.assert_allclose(dist.cdf(LOC), 0.5)
    np.testing.assert_allclose(dist.icdf(dist.cdf(value)), value, rtol=1e-6)
    np.testing.assert_array_equal(dist.variance, SCALE**2)


def test_independent_normal_has_events() -> None:
    dist = IndependentNormal(LOC, SCALE)
    assert (dist.batch_shape, dist.event_shape) == ((), (2,))
    np.testing.assert_allclose(dist.log_prob(LOC), Normal(LOC, SCALE).log_prob(LOC).sum())
    np.testing.assert_array_equal(dist.mode, LOC)


def test_scales_are_positive() -> None:
    raises(ValueError, r"got -1\.0", lambda: Normal(0.0, np.array([1.0, -1.0])))


@each_case("scale", [0.1, 1.0, 30.0])
def test_half_normal(scale: float) -> None:
    dist = HalfNormal(np.float64(scale))
    check_density(dist)
    check_quantiles(dist)
    check_outside(dist, [-1.0, -1e-300])
    np.testing.assert_array_equal(
        dist.sample((4,), rng=0), np.abs(Normal(np.float64(0), scale).sample((4,), rng=0))
    )
    raises(ValueError, r"scale must be positive, got 0.0", lambda: HalfNormal(0.0))


@each_case(("loc", "scale"), [(0.0, 1.0), (-1.0, 0.25)])
def test_formulas(loc: float, scale: float) -> None:
    dist = d.LogNormal(np.float64(loc), scale)
    check_density(dist)
    check_quantiles(dist)
    check_outside(dist, [-1.0, 0.0])
    np.testing.assert_allclose(dist.median, np.exp(loc))
