"""Laplace: density, quantiles, tails, errors."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import check_density, check_quantiles

from lite.nn import distributions as d


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


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"scale must be positive, got 0.0"):
        d.Laplace(0.0, np.zeros(2))
