"""MixtureSameFamily: densities, moments, draws, events, errors."""

import numpy as np
from helpers.cases import raises
from helpers.densities import check_slope

from lite.nn import distributions as d

P = np.array([0.2, 0.8])


def test_numbers() -> None:
    parts = [d.Normal(np.float64(-1), 0.5), d.Normal(np.float64(2), 1.0)]
    both = d.Normal(np.array([-1.0, 2.0]), np.array([0.5, 1.0]))
    dist = d.MixtureSameFamily(d.Categorical(probs=P), both)
    x = np.linspace(-4, 4, 9)
    expected = sum(p * np.exp(part.log_prob(x)) for p, part in zip(P, parts, strict=True))
    np.testing.assert_allclose(np.exp(dist.log_prob(x)), expected, rtol=1e-12)
    check_slope(dist, x)
    draws = dist.sample((200_000,), rng=0)
    np.testing.assert_allclose(dist.mean, 1.4)
    np.testing.assert_allclose(draws.mean(), dist.mean, atol=0.01)
    np.testing.assert_allclose(draws.var(), dist.variance, rtol=0.01)
    assert dist.support.check(x).all()
    for call in (dist.entropy, lambda: dist.icdf(0.5), lambda: dist.mode):
        raises(NotImplementedError, "MixtureSameFamily does not define", call)


def test_vectors_are_mixed_as_a_whole() -> None:
    loc, scale = np.array([[0.0, 10, 20], [3, 13, 23]]), np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.4]])
    weights = d.Categorical(probs=P)
    dist = d.MixtureSameFamily(weights, d.Independent(d.Normal(loc, scale), 1))
    each = [d.MixtureSameFamily(weights, d.Normal(loc[:, j], scale[:, j])) for j in range(3)]
    np.testing.assert_allclose(dist.mean, [one.mean for one in each])
    np.testing.assert_allclose(dist.variance, [one.variance for one in each])
    draws = dist.sample((50,), rng=0)
    assert set((draws > [1.5, 11.5, 21.5]).sum(-1)) == {0, 3}
    parts = [d.Normal(*pair).log_prob(draws).sum(-1) for pair in zip(loc, scale, strict=True)]
    np.testing.assert_allclose(np.exp(dist.log_prob(draws)), P @ np.exp(parts))


def test_errors() -> None:
    parts, weights = d.Normal(np.zeros((3, 2)), 1.0), d.Categorical(probs=P)
    for make, message in (
        (lambda: d.MixtureSameFamily(parts, parts),
            "mixture_distribution must be a Categorical, got a Normal"),
        (lambda: d.MixtureSameFamily(d.OneHotCategorical(probs=P), parts), "a Categorical, got a OneHot"),
        (lambda: d.MixtureSameFamily(weights, 1.0),
            "component_distribution must be a Distribution, got float"),
        (lambda: d.MixtureSameFamily(d.Categorical(probs=np.ones(3)), parts), r"\(3,\), got \(3, 2\)"),
        (lambda: d.MixtureSameFamily(d.Categorical(probs=np.ones((4, 2))), parts),
            r"\(4, 2\), got \(3, 2\)"),
        (lambda: d.MixtureSameFamily(weights, d.Normal(0.0, 1.0)), r"got \(\)"),
    ):  # fmt: skip
        raises(ValueError, message, make)


def test_moments_of_vectors() -> None:
    rng = np.random.default_rng(0)
    probs, loc = np.array([[0.25, 0.75], [0.5, 0.5]]), rng.normal(size=(2, 2, 3))
    mixture = d.MixtureSameFamily(d.Categorical(probs=probs), d.Independent(d.Normal(loc, 2.0), 1))
    mean = (probs[..., None] * loc).sum(1)
    np.testing.assert_allclose(mixture.mean, mean)
    variance = 4 + (probs[..., None] * (loc - mean[:, None]) ** 2).sum(1)
    np.testing.assert_allclose(mixture.variance, variance)
