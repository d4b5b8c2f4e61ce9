"""Gumbel, Weibull and Pareto: densities, quantiles, ends, errors."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import check_density, check_outside, check_quantiles, points

from lite.nn import distributions as d


@each_case(("loc", "scale"), [(0.0, 1.0), (-2.0, 0.3)])
def test_gumbel(loc: float, scale: float) -> None:
    dist = d.Gumbel(np.float64(loc), scale)
    check_density(dist, loc, scale)
    check_quantiles(dist)


@each_case(("scale", "shape"), [(1.0, 1.0), (2.0, 3.0), (0.1, 1.5)])
def test_weibull(scale: float, shape: float) -> None:
    dist = d.Weibull(np.float64(scale), shape)
    check_density(dist)
    check_quantiles(dist)
    check_outside(dist, [-1.0])


def test_ends_of_weibull() -> None:
    dist = d.Weibull(np.float64(1), np.array([0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(dist.log_prob(0.0), [np.inf, 0, -np.inf])
    np.testing.assert_allclose(dist.mode, [0, 0, np.sqrt(0.5)])
    x = np.array([0.1, 1.0, 5.0])
    np.testing.assert_allclose(
        d.Weibull(np.float64(2), 1.0).log_prob(x), d.Exponential(np.float64(0.5)).log_prob(x), rtol=1e-12
    )


def test_variance_of_narrow_weibulls_keeps_its_digits() -> None:
    # the variance of log(x), (pi / shape)² / 6, to first order
    dist = d.Weibull(np.float64(1), 1e6)
    np.testing.assert_allclose(dist.variance, (np.pi / 1e6) ** 2 / 6, rtol=1e-3)


@each_case(("scale", "alpha"), [(1.0, 30.0), (2.0, 12.0)])
def test_pareto(scale: float, alpha: float) -> None:
    dist = d.Pareto(np.float64(scale), alpha)
    x, weights = points(dist)
    p = weights * np.exp(dist.log_prob(x))
    for got, values in ((1, 1), (dist.mean, x), (-dist.entropy(), dist.log_prob(x))):
        np.testing.assert_allclose(got, (p * values).sum(), rtol=1e-5)
    np.testing.assert_allclose(dist.variance, (p * (x - dist.mean) ** 2).sum(), rtol=1e-4)
    check_quantiles(dist)
    check_outside(dist, [-1.0, 0.0, scale * 0.99])
    assert dist.mode == scale


def test_moments_of_pareto_that_are_infinite() -> None:
    dist = d.Pareto(np.float64(1), np.array([0.5, 1.0, 1.5, 2.0, 3.0]))
    np.testing.assert_allclose(dist.mean, [np.inf, np.inf, 3, 2, 1.5])
    np.testing.assert_allclose(dist.variance, [np.inf] * 4 + [0.75])


def test_errors() -> None:
    for make, message in (
        (lambda: d.Gumbel(0.0, 0.0), "scale must be positive, got 0.0"),
        (lambda: d.Weibull(-1.0, 1.0), "scale must be positive, got -1.0"),
        (lambda: d.Weibull(1.0, 0.0), "concentration must be positive, got 0.0"),
        (lambda: d.Pareto(0.0, 1.0), "scale must be positive, got 0.0"),
        (lambda: d.Pareto(1.0, np.nan), "alpha must be positive, got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
