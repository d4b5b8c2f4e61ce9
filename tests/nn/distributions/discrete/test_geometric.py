"""Geometric and negative binomial: probabilities, ends, errors."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.densities import check_probabilities

from lite.nn import distributions as d
from lite.nn.distributions import Bernoulli
from lite.nn.distributions.discrete.geometric import fails, log_likelihood


@each_case("p", [0.05, 0.5, 0.99])
def test_geometric(p: float) -> None:
    check_probabilities(d.Geometric(probs=np.float64(p)), 2000)
    check_probabilities(d.Geometric(logits=np.log(p / (1 - np.float64(p)))), 2000)


@each_case(("total", "p"), [(1.0, 0.5), (0.5, 0.3), (7.0, 0.9)])
def test_negative_binomial(total: float, p: float) -> None:
    check_probabilities(d.NegativeBinomial(np.float64(total), probs=p), 3000)


def test_no_failure_to_wait_for() -> None:
    dist = d.NegativeBinomial(np.zeros(3), probs=np.array([0.0, 0.5, 0.9]))
    np.testing.assert_array_equal(dist.sample((9,), rng=0), 0)
    np.testing.assert_array_equal(dist.log_prob(np.zeros(3)), 0)
    np.testing.assert_array_equal(dist.log_prob(np.ones(3)), -np.inf)


def test_parameters_follow_the_probabilities() -> None:
    dist = d.NegativeBinomial(np.array([1, 2]), probs=np.array([0.5, 0.5], np.float32))
    assert dist.total_count.dtype == dist.mean.dtype == dist.sample(rng=0).dtype == np.float32
    assert d.NegativeBinomial(np.array([1.0, 2.0]), probs=0.5).mean.dtype == np.float64
    assert d.NegativeBinomial(2.0, logits=np.zeros((3, 1))).expand((3, 4)).mean.shape == (3, 4)


def test_errors() -> None:
    for make, message in (
        (lambda: d.Geometric(), "Either `probs` or `logits`"),
        (lambda: d.Geometric(probs=0.0), r"probs must lie in \(0, 1\], got 0.0"),
        (lambda: d.Geometric(probs=1.5), r"probs must lie in \(0, 1\], got 1.5"),
        (lambda: d.NegativeBinomial(1.0), "Either `probs` or `logits`"),
        (lambda: d.NegativeBinomial(1.0, probs=1.0), r"probs must lie in \[0, 1\), got 1.0"),
        (lambda: d.NegativeBinomial(-1.0, probs=0.5), "total_count must not be negative, got -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


MAKE = {
    "Bernoulli": d.Bernoulli,
    "Binomial": lambda **given: d.Binomial(3, **given),
    "Geometric": d.Geometric,
    "NegativeBinomial": lambda **given: d.NegativeBinomial(3.0, **given),
}


@each_case("name", MAKE)
def test_either_gives_the_other(name: str) -> None:
    p = np.array([0.1, 0.5, 0.9])
    logits = np.log(p / (1 - p))
    np.testing.assert_allclose(MAKE[name](probs=p).logits, logits, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(MAKE[name](logits=logits).probs, p, rtol=1e-12)
    for given in ({}, {"probs": p, "logits": logits}):
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both"):
            MAKE[name](**given)


def test_likelihoods() -> None:
    ones, zeros = np.array([0.0, 2.0, 2.0]), np.array([3.0, 0.0, 3.0])
    np.testing.assert_allclose(log_likelihood(ones, zeros, np.zeros(3)), -np.log(2) * np.array([3, 2, 5]))
    np.testing.assert_array_equal(log_likelihood(ones, zeros, np.full(3, np.inf)), [-np.inf, 0, -np.inf])


def test_counts() -> None:
    np.testing.assert_array_equal(
        fails(np.array([0.0, 3.0, -1.0, 0.5, np.nan])), [False, False, True, True, False]
    )


P = np.array([0.1, 0.5, 0.9])


def test_probabilities_and_moments() -> None:
    dist = Bernoulli(probs=P)
    np.testing.assert_allclose(dist.log_prob(np.array([1.0, 0.0, 1.0])), np.log([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(dist.mean, P)
    np.testing.assert_allclose(dist.variance, P * (1 - P))
    np.testing.assert_allclose(dist.entropy(), -(P * np.log(P) + (1 - P) * np.log(1 - P)))
    np.testing.assert_allclose(Bernoulli(logits=np.log(P / (1 - P))).probs, P)


def test_samples_and_errors() -> None:
    samples = Bernoulli(probs=P).sample((4000,), rng=0)
    assert set(np.unique(samples)) == {0.0, 1.0}
    np.testing.assert_allclose(samples.mean(0), P, atol=0.03)
    raises(ValueError, "", Bernoulli, probs=P, logits=P)
    raises(ValueError, r"got 2\.0", Bernoulli, probs=np.array([2.0]))
