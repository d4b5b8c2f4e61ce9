"""Beta and Dirichlet distributions: densities, moments, ends, errors."""

import numpy as np
from helpers.cases import each_case, raises
from helpers.densities import check_density, check_outside

from lite.nn import distributions as d


@each_case(("a", "b"), [(1.0, 1.0), (2.0, 3.5), (1.0, 4.0), (60.0, 9.0)])
def test_beta(a: float, b: float) -> None:
    dist = d.Beta(np.float64(a), b)
    check_density(dist)
    check_outside(dist, [-0.1, 1.1])


def test_ends() -> None:
    dist = d.Beta(np.array([0.5, 1.0, 2.0]), 1.0)
    np.testing.assert_array_equal(dist.log_prob(np.zeros(3)), [np.inf, 0, -np.inf])
    np.testing.assert_array_equal(dist.mode, [np.nan, np.nan, 1])
    np.testing.assert_array_equal(d.Beta(0.5, 0.5).mode, 1)  # which of the ends is a convention
    draws = d.Beta(np.full(2000, 1e-3, np.float32), 1e-3).sample(rng=0)
    assert ((draws > 0) & (draws < 1)).all()
    assert np.isfinite(d.Beta(np.float32(1e-3), 1e-3).log_prob(draws)).all()


def test_dirichlet() -> None:
    c = np.array([0.5, 2.0, 4.0])
    dist = d.Dirichlet(c)
    assert (dist.batch_shape, dist.event_shape) == ((), (3,))
    draws = dist.sample((100_000,), rng=0)
    np.testing.assert_allclose(draws.sum(-1), 1)
    np.testing.assert_allclose(draws.mean(0), dist.mean, atol=0.005)
    np.testing.assert_allclose(draws.var(0), dist.variance, rtol=0.03)
    np.testing.assert_allclose(-dist.log_prob(draws).mean(), dist.entropy(), atol=0.01)
    # each share has a beta distribution
    np.testing.assert_allclose(dist.variance[1], d.Beta(2.0, np.float64(4.5)).variance, rtol=1e-12)
    np.testing.assert_allclose(dist.mode, [0, 0.25, 0.75])


def test_vectors_that_are_no_shares() -> None:
    dist = d.Dirichlet(np.full(2, 2.0))
    rows = np.array([[0.5, 0.5], [0.5, 0.6], [1.5, -0.5], [np.nan, 0.5]])
    np.testing.assert_allclose(dist.log_prob(rows), [np.log(1.5), -np.inf, -np.inf, np.nan], rtol=1e-12)
    many = d.Dirichlet(np.ones(10_000, np.float32))
    assert np.isfinite(many.log_prob(many.sample(rng=0)))  # whose sum is 1 to few digits


def test_errors() -> None:
    raises(ValueError, r"concentration1 must be positive, got 0.0", lambda: d.Beta(0.0, 1.0))
    raises(ValueError, "concentration0 must be positive, got nan", lambda: d.Beta(1.0, np.nan))
    raises(ValueError, r"concentration must be positive, got -1.0", d.Dirichlet, np.array([1.0, -1.0]))
    raises(ValueError, "must be at least one-dimensional", lambda: d.Dirichlet(np.float64(1)))
