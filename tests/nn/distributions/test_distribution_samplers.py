"""Samplers against distribution functions (Kolmogorov-Smirnov) and probabilities (chi-square); seeds."""

import itertools
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import points
from helpers.nn.distributions import MAKE, parameters

from lite.nn import distributions as d

N = 10_000


def kolmogorov_smirnov(draws: np.ndarray, cdf: Callable[[Any], Any]) -> float:
    """The largest distance of the empirical distribution function from `cdf`, times the root of n."""
    ordered = np.sort(draws)
    expected = cdf(ordered)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = max((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    return float(distance * math.sqrt(len(ordered)))


KS_LIMIT = 1.95  # exceeded with probability 0.1%


def chi_square(counts: Any, probs: Any) -> float:
    expected = np.asarray(probs) * np.sum(counts)
    seen = expected > 0
    assert not np.asarray(counts)[~seen].any()
    return float(((counts - expected)[seen] ** 2 / expected[seen]).sum())


# -- samplers ----------------------------------------------------------------------------------------

# Those with a distribution function of their own, which are compared with torch's and with densities.
QUANTILES = (
    *("Cauchy", "Chi2", "Exponential", "Gamma", "Gumbel", "HalfNormal", "Laplace", "LogNormal"),
    *("MixtureSameFamily", "Normal", "Pareto", "TanhNormal", "TruncatedNormal", "Uniform", "Weibull"),
)


@each_case("name", QUANTILES)
def test_samples_follow_their_own_distribution_function(name: str) -> None:
    p = {key: value[0].astype(np.float32) for key, value in parameters().items()}
    dist = MAKE[name](p)
    if name == "TanhNormal":
        dist = d.TanhNormal(p["loc"], p["scale"], low=-1.0, high=3.0, event_dims=0)
    draws = dist.sample((N,), rng=1)
    assert (draws.shape, draws.dtype) == ((N, *dist.batch_shape, *dist.event_shape), np.float32)
    for column in dist.cdf(draws).reshape(N, -1).T:
        assert kolmogorov_smirnov(column, lambda p: p) < KS_LIMIT
    assert dist.support.check(draws).all()


def test_the_statistic_tells_distributions_apart() -> None:
    draws = d.Normal(np.array([0.05]), 1.0).sample((N,), rng=0)[:, 0]
    assert kolmogorov_smirnov(d.Normal(0.0, 1.0).cdf(draws), lambda p: p) > KS_LIMIT


# Those without: the distribution function is summed from the density.
DENSITIES: dict[str, Callable[[], Any]] = {
    "Beta 0.5": lambda: d.Beta(np.float64(0.5), 0.7),
    "Beta 3": lambda: d.Beta(np.float64(3), 2.0),
    "StudentT 1.5": lambda: d.StudentT(np.float64(1.5), 0.3, 2.0),
    "StudentT 30": lambda: d.StudentT(np.float64(30), -1.0, 0.5),
    "VonMises 0.1": lambda: d.VonMises(np.float64(0), 0.1),
    "VonMises 50": lambda: d.VonMises(np.float64(1), 50.0),
}


@each_case("name", DENSITIES)
def test_samples_follow_the_density(name: str) -> None:
    dist = DENSITIES[name]()
    draws = dist.sample((N,), rng=3)
    if "VonMises" in name:
        x = np.linspace(-np.pi, np.pi, 100_001)
        weights = np.full(x.shape, x[1] - x[0])
    else:
        x, weights = points(dist, getattr(dist, "loc", 0.0), getattr(dist, "scale", 1.0))
        x, weights = x[np.isfinite(dist.log_prob(x))], weights[np.isfinite(dist.log_prob(x))]
    shares = weights * np.exp(dist.log_prob(x))
    up_to = np.cumsum(shares) - shares / 2
    assert kolmogorov_smirnov(np.interp(draws, x, up_to), lambda p: p) < KS_LIMIT


COUNTS: dict[str, Callable[[], Any]] = {
    "Binomial": lambda: d.Binomial(9, probs=np.float64(0.3)),
    "Geometric": lambda: d.Geometric(probs=np.float64(0.3)),
    "NegativeBinomial": lambda: d.NegativeBinomial(np.float64(2.5), probs=0.4),
    "Poisson": lambda: d.Poisson(np.float64(3.5)),
    "Poisson 40": lambda: d.Poisson(np.float64(40.5)),
}


@each_case("name", COUNTS)
def test_counts_are_as_frequent_as_they_are_probable(name: str) -> None:
    dist = COUNTS[name]()
    draws = dist.sample((N,), rng=4)
    assert dist.support.check(draws).all()
    probs = np.exp(dist.log_prob(np.arange(200.0)))
    counts = np.bincount(draws.astype(int), minlength=200)
    common = probs * N > 5
    rest = [counts[~common].sum()], [probs[~common].sum()]
    statistic = chi_square(np.append(counts[common], rest[0]), np.append(probs[common], rest[1]))
    freedom = common.sum()
    assert statistic < freedom + 3.3 * math.sqrt(2 * freedom) + 4  # about 0.1%


def test_counts_of_classes() -> None:
    probs = np.array([0.1, 0.0, 0.6, 0.3])
    draws = d.Multinomial(5, probs=probs).sample((N,), rng=0)
    np.testing.assert_array_equal(draws.sum(-1), 5)
    np.testing.assert_allclose(draws.mean(0), 5 * probs, atol=0.04)  # four standard deviations
    np.testing.assert_allclose(np.cov(draws.T), 5 * (np.diag(probs) - probs[:, None] * probs), atol=0.05)


def test_rows_and_repetitions_draw_alike() -> None:
    """The two ways to search give the same classes of the same numbers."""
    probs = np.random.default_rng(0).random((7, 5))
    few = np.stack([d.Categorical(probs=probs).sample(rng=seed) for seed in range(3)])
    for seed in range(3):
        uniform = np.random.default_rng(seed).random(7)
        total = probs / probs.sum(-1, keepdims=True)
        np.testing.assert_array_equal(few[seed], (np.cumsum(total, -1) <= uniform[:, None]).sum(-1))


@each_case(
    ("form", "cls"),
    itertools.product(["mask", "indices", "padded"], ["MaskedCategorical", "MaskedOneHotCategorical"]),
)
def test_masked_classes(form: Any, cls: Any) -> None:
    probs = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    arguments: dict[str, Any] = {"mask": np.array([[True, False, True, False], [False, True, True, False]])}
    if form != "mask":
        arguments = {"indices": np.array([[0, 2], [1, 2]])}
    if form == "padded":
        arguments = {"indices": np.array([[0, 2, -1], [-1, 1, 2]]), "padding_value": -1}
    expected = np.array([[0.25, 0, 0.75, 0], [0, 0.5, 0.5, 0]])
    dist = getattr(d, cls)(probs=probs, **arguments)
    draws = dist.sample((N,), rng=0)
    if "OneHot" in cls:
        np.testing.assert_allclose(dist.mean, expected)
        np.testing.assert_allclose(dist.variance, expected * (1 - expected))
        counts = draws.sum(0)
        tie = [0, 1, 1, 0] if form == "mask" else [0, 1, 0, 0]
        np.testing.assert_array_equal(dist.mode, [[0, 0, 1, 0], tie])
        values: Any = np.eye(4, dtype=int)[:, None]
    else:
        counts = np.stack([np.bincount(column, minlength=4) for column in draws.T])
        np.testing.assert_array_equal(dist.mode, [2, 1])
        values = np.arange(4)[:, None]
    for row in range(2):
        assert chi_square(counts[row], expected[row]) < 10.8
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(dist.log_prob(values).T, np.log(expected))
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(dist.entropy(), -np.nansum(expected * np.log(expected), -1))


def test_a_finite_neg_inf() -> None:
    dist = d.MaskedCategorical(logits=np.zeros(3), mask=np.array([True, True, False]), neg_inf=-100.0)
    np.testing.assert_allclose(dist.log_prob(np.arange(3)), [-math.log(2), -math.log(2), -100 - math.log(2)])
    np.testing.assert_allclose(dist.entropy(), math.log(2))
    missing = d.MaskedCategorical(logits=np.zeros(3), indices=np.array([0, 1]), neg_inf=-5.0)
    np.testing.assert_allclose(missing.log_prob(np.array([1, 2])), [-math.log(2), -5.0])


# -- random numbers --------------------------------------------------------------------------------------


def test_seeds_and_generators() -> None:
    dist = d.Normal(np.zeros(3), 1.0)
    np.testing.assert_array_equal(dist.sample((2,), rng=5), dist.sample((2,), rng=np.random.default_rng(5)))
    rng = np.random.default_rng(5)
    assert not np.array_equal(dist.sample((2,), rng=rng), dist.sample((2,), rng=rng))
    assert not np.array_equal(dist.sample(), dist.sample())
    np.random.seed(0)  # noqa: NPY002 - NumPy's own global state is not touched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    dist.sample()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_draws_its_own_numbers() -> None:
    dist = d.Uniform(0.0, 1.0)
    dist.sample()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, np.asarray(dist.sample((2,)), np.float64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 16))
    assert not np.array_equal(theirs, dist.sample((2,)).astype(np.float64))
    os.close(reader), os.close(writer)
