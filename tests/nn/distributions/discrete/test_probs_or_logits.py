"""What distributions of zeros and ones share: probabilities and logits, likelihoods of counts."""

import numpy as np
import pytest
from helpers.cases import each_case

from lite.nn import distributions as d
from lite.nn.distributions.discrete.probs_or_logits import fails, log_likelihood

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
