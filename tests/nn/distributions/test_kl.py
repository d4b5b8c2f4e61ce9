"""Divergences: every pair of the table against the integral, or the sum, that it stands for."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.densities import points

from lite.nn import distributions as d
from lite.nn.distributions import kl
from lite.nn.distributions.kl import _rules

# Two of each, by class; a Uniform in the interval that Beta covers, and one around it.
F = np.float64
DISTS: dict[str, list[Any]] = {
    "Bernoulli": [d.Bernoulli(probs=F(0.3)), d.Bernoulli(probs=F(0.8))],
    "Beta": [d.Beta(F(2), 3.0), d.Beta(F(4), 1.5)],
    "Binomial": [d.Binomial(6, probs=F(0.3)), d.Binomial(6, probs=F(0.8))],
    "Cauchy": [d.Cauchy(F(0.2), 1.0), d.Cauchy(F(1), 0.5)],
    "Exponential": [d.Exponential(F(0.7)), d.Exponential(F(2))],
    "Gamma": [d.Gamma(F(3), 2.0), d.Gamma(F(2.5), 0.7)],
    "Geometric": [d.Geometric(probs=F(0.3)), d.Geometric(probs=F(0.6))],
    "Gumbel": [d.Gumbel(F(0.3), 0.8), d.Gumbel(F(-0.2), 1.3)],
    "HalfNormal": [d.HalfNormal(F(0.7)), d.HalfNormal(F(2))],
    "Laplace": [d.Laplace(F(0.2), 0.7), d.Laplace(F(-0.5), 1.5)],
    "LogNormal": [d.LogNormal(F(0.2), 0.7), d.LogNormal(F(-0.5), 1.2)],
    "Normal": [d.Normal(F(0.3), 0.8), d.Normal(F(-0.2), 1.3)],
    "Pareto": [d.Pareto(F(0.2), 6.0), d.Pareto(F(0.1), 4.0)],
    "Poisson": [d.Poisson(F(1.5)), d.Poisson(F(4))],
    "Uniform": [d.Uniform(F(0.25), 0.75), d.Uniform(F(-1), 1.5)],
}


def pairs() -> Iterator[tuple[Any, Any]]:
    kinds = {name: dists for name, dists in DISTS.items() if name != "LogNormal"}
    for kind_p, kind_q in list(_rules):
        if kind_p.__name__ in kinds and kind_q.__name__ in kinds:
            yield from zip(kinds[kind_p.__name__], reversed(kinds[kind_q.__name__]), strict=True)
    yield tuple(DISTS["LogNormal"])


def direct(p: Any, q: Any) -> float:
    """The mean of log p(x) - log q(x), by summing over x."""
    if p.support.is_discrete:
        x, weights = np.arange(200.0), 1.0
        x = x[p.support.check(x)]
    else:
        x, weights = points(p, float(getattr(p, "loc", 0.0)), float(getattr(p, "scale", 1.0)))
    log_p = p.log_prob(x)
    log_q = np.where(q.support.check(x), q.log_prob(x), -np.inf)
    shares = weights * np.exp(log_p)
    if shares[log_q == -np.inf].sum() > 1e-9:  # less are ends that no draw reaches
        return math.inf
    drawn = (shares > 0) & (log_q > -np.inf)
    return float((shares[drawn] * (log_p[drawn] - log_q[drawn])).sum())


@each_case(("p", "q"), pairs())
def test_pairs(p: Any, q: Any) -> None:
    got = d.kl_divergence(p, q)
    np.testing.assert_allclose(got, direct(p, q), rtol=1e-4, atol=1e-6)
    if type(p) is type(q):
        np.testing.assert_allclose(d.kl_divergence(p, p), 0, atol=1e-14)


def test_the_table_is_tested() -> None:
    """The pairs that have no test of their own below are in the table above."""
    mine = {kind.__name__ for pair in _rules for kind in pair if kind.__module__.startswith("lite.")}
    others = {"Categorical", "Dirichlet", "Independent", "MultivariateNormal", "TanhNormal"}
    assert mine - {"Delta"} == (set(DISTS) - {"LogNormal"}) | others | {"TransformedDistribution"}


@each_case("make", [lambda p: d.Categorical(probs=p), lambda p: d.OneHotCategorical(probs=p)])
def test_classes(make: Any) -> None:
    p, q = np.array([[0.2, 0.8, 0.0], [0.5, 0.2, 0.3]]), np.array([0.5, 0.2, 0.3])
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(p > 0, p * np.log(p / q), 0).sum(-1)
    np.testing.assert_allclose(d.kl_divergence(make(p), make(q)), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(d.kl_divergence(make(q), make(p)), [np.inf, 0])


def test_shares() -> None:
    p, q = d.Dirichlet(np.array([0.5, 2.0, 4.0])), d.Dirichlet(np.array([1.0, 1.0, 3.0]))
    x = p.sample((200_000,), rng=0)
    np.testing.assert_allclose(d.kl_divergence(p, q), (p.log_prob(x) - q.log_prob(x)).mean(), atol=0.01)
    two = [np.array([0.5, 2.0]), np.array([1.5, 3.0])]
    np.testing.assert_allclose(
        d.kl_divergence(*(d.Dirichlet(c) for c in two)),
        d.kl_divergence(*(d.Beta(*c) for c in two)),
        rtol=1e-12,
    )
    of_rows = [d.kl_divergence(d.Dirichlet(a), d.Dirichlet(b)) for a, b in (two, two[::-1])]
    batch = d.Dirichlet(np.stack(two)), d.Dirichlet(np.stack(two[::-1]))
    np.testing.assert_allclose(d.kl_divergence(*batch), of_rows, rtol=1e-12)


def test_bounds_that_meet() -> None:
    beta, pareto, least = d.Beta(2.0, 3.0), d.Pareto(0.5, 2.0), d.Exponential(1.0)
    finite = [
        (d.Uniform(0.0, 1.0), beta),
        (beta, d.Uniform(0.0, 1.0)),
        (d.Uniform(0.5, 1.0), pareto),
        (d.Uniform(0.0, 1.0), least),
    ]
    infinite = [
        *((d.Uniform(*ends), beta) for ends in ((-0.1, 1.0), (0.0, 1.1))),
        *((beta, d.Uniform(*ends)) for ends in ((0.1, 1.0), (0.0, 0.9))),
        (d.Uniform(0.4, 1.0), pareto),
        (d.Uniform(-0.1, 1.0), least),
    ]
    for p, q in (*finite, *infinite):
        assert np.isfinite(d.kl_divergence(p, q)) == ((p, q) in finite), (p, q)


def test_vectors() -> None:
    loc, scale = np.array([[0.0, 1.0], [2.0, 0.5]]), np.array([[1.0, 0.5], [2.0, 0.3]])
    made = [d.Independent(d.Normal(m, s), 1) for m, s in zip(loc, scale, strict=True)]
    full = [d.MultivariateNormal(m, np.diag(s**2)) for m, s in zip(loc, scale, strict=True)]
    squashed = [d.TanhNormal(m, s, low=-2.0) for m, s in zip(loc, scale, strict=True)]
    maps = [d.TransformedDistribution(one, [d.TanhTransform(), d.AffineTransform(0.0, 2.0)]) for one in made]
    expected = sum(
        d.kl_divergence(d.Normal(loc[0, i], scale[0, i]), d.Normal(loc[1, i], scale[1, i])) for i in range(2)
    )
    for p, q in (made, full, squashed, maps):
        np.testing.assert_allclose(d.kl_divergence(p, q), expected, rtol=1e-12)
    root = np.random.default_rng(0).normal(size=(2, 3, 3))
    p, q = (d.MultivariateNormal(np.ones(3) * i, root[i] @ root[i].T + np.eye(3)) for i in range(2))
    x = p.sample((300_000,), rng=0)
    np.testing.assert_allclose(d.kl_divergence(p, q), (p.log_prob(x) - q.log_prob(x)).mean(), rtol=0.01)


def test_ends() -> None:
    coins = d.Bernoulli(probs=np.array([0.0, 1.0, 0.5]))
    np.testing.assert_allclose(
        d.kl_divergence(coins, d.Bernoulli(probs=np.array([[0.0], [1.0]]))),
        [[0, np.inf, np.inf], [np.inf, 0, np.inf]],
    )
    np.testing.assert_allclose(d.kl_divergence(d.Poisson(F(0)), d.Poisson(F(2))), 2)
    np.testing.assert_array_equal(
        d.kl_divergence(d.Pareto(F(1), np.array([0.5, 1.5])), d.Exponential(F(1))) == np.inf, [True, False]
    )
    more, fewer = d.Binomial(5, probs=F(0.5)), d.Binomial(3, probs=F(0.5))
    assert d.kl_divergence(more, fewer) == np.inf
    raises(NotImplementedError, "q has more trials", lambda: d.kl_divergence(fewer, more))


@each_case("dtype", ["float16", "float32", "float64"])
def test_batches_and_dtypes(dtype: str) -> None:
    p, q = d.Normal(np.zeros((3, 1), dtype), 1.0), d.Gumbel(np.zeros(4, dtype), 1.0)
    for one, other in ((p, p), (p, q), (p, d.Uniform(np.zeros(4, dtype), 1.0))):
        got = d.kl_divergence(one, other)
        assert (got.shape, got.dtype) == (np.broadcast_shapes((3, 1), other.batch_shape), dtype)
    assert d.kl_divergence(p, d.Normal(np.zeros((0, 1, 1), dtype), 1.0)).shape == (0, 3, 1)


def test_small_divergences_keep_their_digits_in_single_precision() -> None:
    a, b = np.float32(100.0), np.float32(100.001)
    wide = d.kl_divergence(d.Gamma(F(a), 1.0), d.Gamma(F(b), 1.0))
    np.testing.assert_allclose(d.kl_divergence(d.Gamma(a, 1.0), d.Gamma(b, 1.0)), wide, rtol=1e-5)


def test_what_has_no_formula() -> None:
    normal = d.Normal(np.zeros(2), 1.0)
    squashed = [d.TransformedDistribution(normal, d.AffineTransform(0.0, s)) for s in (1.0, 2.0)]
    for p, q, message in (
        (normal, d.StudentT(1.0), "for a Normal and a StudentT; add one with register_kl"),
        (d.Independent(normal, 1), d.Independent(normal, 0),
            "reinterpreted_batch_ndims must be equal, got 1 and 0"),
        (*squashed, "equal transforms and event shapes"),
        (d.TanhNormal(np.zeros(2), 1.0), d.TanhNormal(np.zeros(2), 1.0, high=2.0), "equal bounds"),
    ):  # fmt: skip
        raises(NotImplementedError, message, d.kl_divergence, p, q)
    masked = [d.MaskedCategorical(np.zeros(3), indices=np.array(kept)) for kept in ([0, 1], [1, 2])]
    assert d.kl_divergence(masked[0], masked[0]) == 0
    raises(NotImplementedError, "equal indices only", lambda: d.kl_divergence(*masked))
    with pytest.raises(ValueError, match=r"equal event shapes, got \(2,\) and \(3,\)"):
        d.kl_divergence(*(d.MultivariateNormal(np.zeros(n), np.eye(n)) for n in (2, 3)))


def test_pairs_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kl, "_rules", dict(_rules))

    class Mine(d.Normal):
        pass

    mine, plain = Mine(np.zeros(2), 1.0), d.Normal(np.ones(2), 1.0)
    np.testing.assert_allclose(d.kl_divergence(mine, plain), 0.5)  # that of its base
    d.register_kl(Mine, d.Normal)(lambda p, q: "first")
    assert d.kl_divergence(mine, plain) == "first"
    assert d.kl_divergence(mine, mine) == "first"
    d.register_kl(d.Normal, Mine)(lambda p, q: "second")
    with pytest.warns(RuntimeWarning, match="name one with register_kl.Mine, Mine"):
        assert d.kl_divergence(mine, mine) == "first"
    with pytest.raises(TypeError, match="type_q must be a subclass of Distribution, got <class 'int'>"):
        d.register_kl(Mine, int)  # type: ignore[type-var]


def test_of_a_gamma_to_an_exponential() -> None:
    p, q = d.Gamma(np.array(3.0), np.array(2.0)), d.Exponential(np.array(0.5))
    x = p.sample((200_000,), rng=np.random.default_rng(0))
    np.testing.assert_allclose(d.kl_divergence(p, q), (p.log_prob(x) - q.log_prob(x)).mean(), rtol=0.01)
