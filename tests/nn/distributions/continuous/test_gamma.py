"""Gamma, exponential and chi-square distributions: densities, moments, ends, errors."""

import itertools
from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.densities import check_density, check_outside, check_quantiles, check_slope

from lite.nn import distributions as d


@each_case(("shape", "rate"), itertools.product([0.4, 1.0, 3.5, 80.0], [0.2, 3.0]))
def test_gamma(shape: Any, rate: Any) -> None:
    dist = d.Gamma(np.float64(shape), rate)
    check_density(dist) if shape >= 1 else check_moments(dist)
    check_slope(dist, dist.mean * np.array([0.1, 0.9, 1.5]))
    check_outside(dist, [-1.0, -1e-300])
    np.testing.assert_array_equal(dist.cdf(np.array([-1.0, 0.0, np.inf])), [0, 0, 1])


def check_moments(dist: d.Gamma) -> None:
    assert dist.mode == 0
    np.testing.assert_allclose(dist.mean, dist.concentration / dist.rate)


@each_case("rate", [0.2, 3.0])
def test_exponential(rate: float) -> None:
    dist = d.Exponential(np.float64(rate))
    check_density(dist)
    check_quantiles(dist)
    check_outside(dist, [-1.0])
    np.testing.assert_allclose(dist.median, np.log(2) / rate)
    other = d.Gamma(np.float64(1), rate)
    x = np.array([0.0, 0.5, 9.0])
    for name in ("log_prob", "cdf"):
        np.testing.assert_allclose(getattr(dist, name)(x), getattr(other, name)(x), rtol=1e-12)


def test_chi2_is_a_sum_of_squares() -> None:
    dist = d.Chi2(np.array([1.0, 7.0]))
    np.testing.assert_array_equal(dist.df, [1, 7])
    np.testing.assert_array_equal(dist.mean, [1, 7])
    np.testing.assert_array_equal(dist.variance, [2, 14])
    # the square of a standard normal number is below 1 as often as it lies between -1 and 1
    np.testing.assert_allclose(dist.cdf(1.0)[0], 2 * d.Normal(0.0, np.float64(1)).cdf(1.0) - 1, rtol=1e-12)
    check_density(d.Chi2(np.float64(7)))
    assert type(dist.expand((3, 2))) is d.Chi2


def test_small_concentrations_draw_positive_numbers() -> None:
    draws = d.Gamma(np.full(1000, 1e-4, np.float32), 1.0).sample(rng=0)
    assert (draws > 0).all()
    assert draws.dtype == np.float32
    assert np.isfinite(d.Gamma(np.float32(1e-4), 1.0).log_prob(draws)).all()


def test_errors() -> None:
    for make, name in (
        (lambda: d.Gamma(np.array([1.0, 0.0]), 1.0), "concentration must be positive, got 0.0"),
        (lambda: d.Gamma(1.0, np.array([-1.0])), "rate must be positive, got -1.0"),
        (lambda: d.Exponential(np.nan), "rate must be positive, got nan"),
        (lambda: d.Chi2(-2.0), "df must be positive, got -2.0"),
    ):
        raises(ValueError, name, make)
    assert d.Gamma(-1.0, 1.0, validate_args=False).concentration == -1
    raises(TypeError, "expected an array or a number, got None", d.Exponential, None)
