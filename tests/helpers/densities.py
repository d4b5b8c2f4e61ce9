"""Distributions of single numbers against integrals over their own densities, or sums over probabilities."""

from typing import Any

import numpy as np

# Sums over evenly spaced points are nearly exact where a function and its slopes vanish at both ends.
_POINTS = np.linspace(-40.0, 40.0, 20_001)
_STEP = _POINTS[1] - _POINTS[0]


def points(dist: Any, middle: float = 0.0, width: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that cover a distribution's support, and the width that each stands for.

    Args:
        dist: a distribution of one number; its `support` says what is covered.
        middle: where points lie densest, for those of all real numbers.
        width: over what distance from there.
    """
    support = dist.support
    low, high = getattr(support, "low", -np.inf), getattr(support, "high", np.inf)
    if np.isfinite(low) and np.isfinite(high):
        # tanh-sinh: all but the ends' last digits
        t = np.linspace(-3.6, 3.6, 10_001)
        inner = np.pi / 2 * np.sinh(t)
        x = low + (high - low) / (1 + np.exp(-2 * inner))
        slope = (high - low) * np.pi / 2 * np.cosh(t) / (2 * np.cosh(inner) ** 2)
        return x, slope * (t[1] - t[0])
    if np.isfinite(low):
        return low + np.exp(_POINTS), np.exp(_POINTS) * _STEP
    return middle + width * np.sinh(_POINTS), width * np.cosh(_POINTS) * _STEP


def check_density(dist: Any, middle: float = 0.0, width: float = 1.0, rtol: float = 1e-7) -> None:
    """The density has the integral 1, and gives the mean, variance and entropy that the distribution says."""
    x, weights = points(dist, middle, width)
    log_p = dist.log_prob(x)
    _check(dist, x, log_p, weights * np.exp(log_p), rtol)
    if np.isfinite(dist.mode):
        assert dist.log_prob(dist.mode) >= log_p.max() - 1e-6


def check_probabilities(dist: Any, count: int, rtol: float = 1e-9) -> None:
    """Probabilities of the counts below `count` have the sum 1, and give mean, variance and entropy."""
    k = np.arange(float(count))
    log_p = dist.log_prob(k)
    _check(dist, k, log_p, np.exp(log_p), rtol)
    np.testing.assert_allclose(dist.log_prob(dist.mode), log_p.max())
    assert dist.support.check(k[np.isfinite(log_p)]).all()
    np.testing.assert_array_equal(dist.log_prob(np.array([-1.0, 0.5])), -np.inf)


def _check(dist: Any, x: np.ndarray, log_p: np.ndarray, shares: np.ndarray, rtol: float) -> None:
    np.testing.assert_allclose(shares.sum(), 1, rtol=rtol)
    mean = (shares * x).sum()
    np.testing.assert_allclose(dist.mean, mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(dist.variance, (shares * (x - mean) ** 2).sum(), rtol=10 * rtol)
    np.testing.assert_allclose(dist.stddev, np.sqrt(dist.variance), rtol=1e-12)
    try:
        entropy = dist.entropy()
    except NotImplementedError:
        return
    known = np.where(shares > 0, log_p, 0)
    np.testing.assert_allclose(entropy, -(shares * known).sum(), rtol=rtol, atol=rtol)


def check_quantiles(dist: Any) -> None:
    """`icdf` inverts `cdf`, of which the density is the slope, and beyond the support it is 0 or 1."""
    p = np.array([1e-3, 0.1, 0.5, 0.8, 0.999])
    x = dist.icdf(p)
    np.testing.assert_allclose(dist.cdf(x), p, rtol=1e-9)
    check_slope(dist, x)
    np.testing.assert_allclose(dist.median, dist.icdf(np.array(0.5)))
    np.testing.assert_allclose(dist.cdf(np.array([-np.inf, np.inf])), [0, 1])


def check_slope(dist: Any, x: np.ndarray) -> None:
    """The density is the slope of the distribution function."""
    step = 1e-6 * np.maximum(np.abs(x), 1e-3)
    slope = (dist.cdf(x + step) - dist.cdf(x - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(dist.log_prob(x)), slope, rtol=1e-4, atol=1e-9)


def check_outside(dist: Any, outside: Any) -> None:
    """What the support excludes scores -inf, and NaN scores NaN."""
    outside = np.asarray(outside, np.float64)
    assert not dist.support.check(outside).any()
    np.testing.assert_array_equal(dist.log_prob(outside), np.full(outside.shape, -np.inf))
    assert np.isnan(dist.log_prob(np.array(np.nan)))
