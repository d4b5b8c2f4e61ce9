"""Binomial and multinomial: probabilities, ends, all values, errors."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.densities import check_probabilities

from lite.nn import distributions as d


@each_case(("n", "p"), [(1, 0.3), (9, 0.5), (300, 0.02)])
def test_probabilities(n: int, p: float) -> None:
    check_probabilities(d.Binomial(n, probs=np.float64(p)), n + 5)
    check_probabilities(d.Binomial(n, logits=np.log(p / (1 - np.float64(p)))), n + 5)


def test_many_trials_keep_their_digits() -> None:
    dist = d.Binomial(10**9, probs=np.float64(0.5))
    # the normal distribution's density at its peak, exact to 1 / n; terms are as large as 1e9
    np.testing.assert_allclose(dist.log_prob(5e8), -0.5 * np.log(np.pi / 2 * 1e9), atol=1e-6)


def test_certain_outcomes() -> None:
    dist = d.Binomial(3, logits=np.array([np.inf, -np.inf]))
    np.testing.assert_allclose(
        dist.log_prob(np.array([[3.0], [0.0]])), [[0, -np.inf], [-np.inf, 0]], atol=1e-14
    )
    np.testing.assert_array_equal(dist.sample((5,), rng=0), np.broadcast_to([3.0, 0.0], (5, 2)))
    np.testing.assert_allclose(dist.entropy(), 0, atol=1e-14)
    none = d.Binomial(0, probs=np.array([0.0, 0.5]))
    np.testing.assert_array_equal(none.log_prob(np.zeros(2)), 0)
    np.testing.assert_array_equal(none.sample(rng=0), 0)


def test_all_values() -> None:
    dist = d.Binomial(3, probs=np.array([[0.1, 0.5]], np.float32))
    values = dist.enumerate_support()
    assert (values.shape, values.dtype) == ((4, 1, 2), np.float32)
    assert dist.enumerate_support(expand=False).shape == (4, 1, 1)
    np.testing.assert_allclose(np.exp(dist.log_prob(values)).sum(0), 1, rtol=1e-6)
    uneven = d.Binomial(np.array([2, 3]), probs=0.5)
    for call in (uneven.enumerate_support, uneven.entropy):
        raises(NotImplementedError, r"total_count must be one number, got 2.0 to 3", call)
    assert d.Binomial(np.zeros((0,)), probs=0.5).enumerate_support().shape == (1, 0)


@each_case("n", [0, 1, 4])
def test_multinomial(n: int) -> None:
    p = np.array([0.2, 0.5, 0.3])
    dist = d.Multinomial(n, probs=p)
    assert (dist.batch_shape, dist.event_shape) == ((), (3,))
    rows = np.array([c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n], float)
    log_p = dist.log_prob(rows)
    shares = np.exp(log_p)
    np.testing.assert_allclose(shares.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(shares @ rows, dist.mean, rtol=1e-12)
    np.testing.assert_allclose(shares @ rows**2 - dist.mean**2, dist.variance, atol=1e-12)
    np.testing.assert_allclose(-(shares * log_p).sum(), dist.entropy(), rtol=1e-12, atol=1e-14)
    assert dist.support.check(rows).all()
    wrong = np.array([[n + 1, 0, 0], [n + 0.5, 0, -0.5], [n + 1, -1, 0]])
    np.testing.assert_array_equal(dist.log_prob(wrong), -np.inf)
    assert not dist.support.check(wrong).any()


def test_errors() -> None:
    for make, message in (
        (lambda: d.Binomial(2), "Either `probs` or `logits`"),
        (lambda: d.Binomial(2, probs=1.5), r"probs must lie in \[0, 1\], got 1.5"),
        (lambda: d.Binomial(-1, probs=0.5), "total_count must be a whole number .*, got -1.0"),
        (lambda: d.Binomial(1.5, probs=0.5), "total_count must be a whole number .*, got 1.5"),
        (lambda: d.Multinomial(-1, probs=np.ones(2)), "total_count must not be negative, got -1"),
        (lambda: d.Multinomial(1), "Either `probs` or `logits`"),
    ):
        raises(ValueError, message, make)
    with pytest.raises(NotImplementedError, match="total_count must be one int, got a ndarray"):
        d.Multinomial(np.array([1, 2]), probs=np.ones(2))


@each_case("rate", [0.3, 4.0, 50.5])
def test_probabilities_of_poisson(rate: float) -> None:
    check_probabilities(d.Poisson(np.float64(rate)), 300)


def test_what_there_is_not() -> None:
    raises(NotImplementedError, "Poisson does not define entropy", lambda: d.Poisson(1.0).entropy())
    raises(ValueError, r"rate must not be negative, got -1.0", lambda: d.Poisson(-1.0))
