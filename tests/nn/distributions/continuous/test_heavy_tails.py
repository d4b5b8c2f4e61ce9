"""Cauchy and Student's t: densities, what has no mean, errors."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import check_density, check_quantiles, points

from lite.nn import distributions as d


@each_case(("loc", "scale"), [(0.0, 1.0), (3.0, 0.2)])
def test_cauchy(loc: float, scale: float) -> None:
    dist = d.Cauchy(np.float64(loc), scale)
    x, weights = points(dist, loc, scale)
    shares = weights * np.exp(dist.log_prob(x))
    np.testing.assert_allclose(shares.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(-(shares * dist.log_prob(x)).sum(), dist.entropy(), rtol=1e-7)
    check_quantiles(dist)
    assert np.isnan(dist.mean)
    assert dist.variance == np.inf
    assert dist.deterministic_sample == dist.median == loc


@each_case("df", [2.5, 5.0, 400.0])
def test_student_t(df: float) -> None:
    check_density(d.StudentT(np.float64(df), 0.5, 2.0), 0.5, 2.0, rtol=2e-5)


def test_moments_that_do_not_exist() -> None:
    dist = d.StudentT(np.array([0.5, 1.0, 1.5, 2.0, 3.0]), 7.0, 2.0)
    np.testing.assert_array_equal(dist.mean, [np.nan, np.nan, 7, 7, 7])
    np.testing.assert_array_equal(dist.variance, [np.nan, np.nan, np.inf, np.inf, 12])


def test_errors() -> None:
    for make, message in (
        (lambda: d.Cauchy(0.0, -1.0), "scale must be positive, got -1.0"),
        (lambda: d.StudentT(0.0), "df must be positive, got 0.0"),
        (lambda: d.StudentT(1.0, 0.0, np.nan), "scale must be positive, got nan"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@each_case(("loc", "scale"), [(0.0, 1.0), (-2.0, 0.3)])
def test_formulas(loc: float, scale: float) -> None:
    dist = d.Laplace(np.float64(loc), scale)
    check_density(dist, loc, scale, rtol=1e-5)
    check_quantiles(d.Laplace(np.float64(0.1), scale))
    np.testing.assert_allclose(dist.log_prob(loc + scale), -1 - np.log(2 * scale))


def test_tails_keep_their_digits() -> None:
    dist = d.Laplace(np.float64(0), 1.0)
    np.testing.assert_allclose(dist.cdf(-100.0), 0.5 * np.exp(-100.0), rtol=1e-12)
    draws = d.Laplace(np.zeros(200_000, np.float32), 1.0).sample(rng=0)
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() > 10  # a chance of 5e-5 each, which shares of few digits would miss


def test_errors_of_laplace() -> None:
    with pytest.raises(ValueError, match=r"scale must be positive, got 0.0"):
        d.Laplace(0.0, np.zeros(2))
