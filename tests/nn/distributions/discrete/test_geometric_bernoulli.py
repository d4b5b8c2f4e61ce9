"""Bernoulli against its definition."""

import numpy as np
from helpers.cases import raises

from lite.nn.distributions import Bernoulli

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
