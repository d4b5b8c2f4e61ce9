"""Geometric and negative binomial: probabilities, ends, errors."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import check_probabilities

from lite.nn import distributions as d


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
