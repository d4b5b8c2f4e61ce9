"""Distributions inside `vmap`: with mapped parameters they give what their batch gives."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import noting, raises

from lite import vmap
from lite.nn import distributions as d

R = np.random.default_rng(0)
POSITIVE, LOC = R.uniform(0.2, 3, (5, 4)), R.normal(size=(5, 4))
SHARES, COUNTS = R.uniform(0.1, 0.9, (5, 4)), R.integers(0, 6, (5, 4)).astype(float)
VALUES = R.uniform(0.1, 0.9, (5, 4))
COVARIANCES = np.eye(4) + 0.3 * POSITIVE[..., None] * POSITIVE[..., None, :]

# the class, parameters with the mapped dimension first, and values
CASES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "Beta": (d.Beta, (POSITIVE, SHARES), VALUES),
    "Binomial": (lambda p: d.Binomial(6, probs=p), (SHARES,), COUNTS),
    "Cauchy": (d.Cauchy, (LOC, POSITIVE), VALUES),
    "Chi2": (d.Chi2, (POSITIVE,), VALUES),
    "Dirichlet": (d.Dirichlet, (POSITIVE,), VALUES / VALUES.sum(-1, keepdims=True)),
    "Exponential": (d.Exponential, (POSITIVE,), VALUES),
    "Gamma": (d.Gamma, (POSITIVE, SHARES), VALUES),
    "Geometric": (lambda p: d.Geometric(probs=p), (SHARES,), COUNTS),
    "Gumbel": (d.Gumbel, (LOC, POSITIVE), VALUES),
    "HalfNormal": (d.HalfNormal, (POSITIVE,), VALUES),
    "Laplace": (d.Laplace, (LOC, POSITIVE), VALUES),
    "LogNormal": (d.LogNormal, (LOC, POSITIVE), VALUES),
    "MixtureSameFamily": (lambda w, m, s: d.MixtureSameFamily(d.Categorical(logits=w), d.Normal(m, s)),
        (LOC, LOC, POSITIVE), VALUES[:, 0]),
    "Multinomial": (lambda w: d.Multinomial(6, logits=w), (LOC,),
        R.multinomial(6, np.full(4, 0.25), 5) * 1.0),
    "MultivariateNormal": (d.MultivariateNormal, (LOC, COVARIANCES), VALUES),
    "NegativeBinomial": (lambda n, w: d.NegativeBinomial(n, logits=w), (POSITIVE, LOC), COUNTS),
    "Pareto": (d.Pareto, (SHARES, POSITIVE), VALUES + 1),
    "Poisson": (d.Poisson, (POSITIVE,), COUNTS),
    "RelaxedOneHotCategorical": (lambda t, w: d.RelaxedOneHotCategorical(t, logits=w),
        (POSITIVE[:, 0], LOC), VALUES / VALUES.sum(-1, keepdims=True)),
    "StudentT": (d.StudentT, (POSITIVE, LOC, SHARES), VALUES),
    "TransformedDistribution": (lambda m,
        s: d.TransformedDistribution(d.Normal(m, s), [d.TanhTransform(), d.AffineTransform(m, s)]),
        (LOC, POSITIVE), LOC + 0.1),
    "VonMises": (d.VonMises, (LOC, POSITIVE), VALUES),
    "Weibull": (d.Weibull, (POSITIVE, SHARES), VALUES),
}  # fmt: skip
# Of these the random numbers that a draw takes depend on the parameters.
REJECTING = (
    *("Beta", "Binomial", "Chi2", "Dirichlet", "Gamma", "Multinomial", "NegativeBinomial", "Poisson"),
    *("StudentT", "VonMises"),
)


def member(dist: Any, name: str, value: Any) -> Any:
    found = getattr(dist, name)
    if name in ("log_prob", "cdf", "icdf"):
        return found(value)
    return found() if callable(found) else found


def mapped_parameters(name: str) -> None:
    make, parameters, values = CASES[name]
    dist, tested = make(*parameters), 0
    for what in ("log_prob", "cdf", "icdf", "mean", "mode", "variance", "entropy"):
        given = VALUES if what == "icdf" else values
        try:
            expected = member(dist, what, given)
        except NotImplementedError:
            continue
        got = vmap(lambda v, *p, what=what: member(make(*p), what, v))(given, *parameters)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-11)
        tested += 1
    assert tested >= (1 if name == "RelaxedOneHotCategorical" else 3)


def test_mapped_parameters() -> None:
    for name in CASES:
        with noting(name):
            mapped_parameters(name)


def mapped_draws(name: str) -> None:
    make, parameters, _ = CASES[name]
    rng = np.random.default_rng(1)

    def draw(*p: Any) -> Any:
        return make(*p).sample((3,), rng=rng)

    expected = make(*parameters).sample((3,), rng=0)
    got = vmap(draw, randomness="different", out_dims=1)(*parameters)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    raises(RuntimeError, "vmap met a random draw", lambda: vmap(draw)(*parameters))
    if name in REJECTING:
        with pytest.raises(
            RuntimeError, match=r"draws by Generator\.\w+ cannot be the same for all elements"
        ):
            vmap(draw, randomness="same")(*parameters)
        raises(RuntimeError, "vmap met a random draw", lambda: vmap(draw)(*parameters))
    elif name != "MixtureSameFamily":
        equal = [np.stack([p[0]] * 5) for p in parameters]
        same = vmap(draw, randomness="same")(*equal)
        np.testing.assert_array_equal(same, np.broadcast_to(same[:1], same.shape))


def test_mapped_draws() -> None:
    for name in CASES:
        with noting(name):
            mapped_draws(name)


def test_divergences() -> None:
    got = vmap(lambda m, s: d.kl_divergence(d.Normal(m, s), d.Gumbel(0.0, 1.0)))(LOC, POSITIVE)
    np.testing.assert_allclose(got, d.kl_divergence(d.Normal(LOC, POSITIVE), d.Gumbel(0.0, 1.0)), rtol=1e-12)
    got = vmap(lambda m, c: d.kl_divergence(d.MultivariateNormal(m, c), d.MultivariateNormal(m * 0, c)))(
        LOC, COVARIANCES
    )
    expected = d.kl_divergence(
        d.MultivariateNormal(LOC, COVARIANCES), d.MultivariateNormal(LOC * 0, COVARIANCES)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-12)
