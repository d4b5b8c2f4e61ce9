"""Distributions: identities, dtypes, errors.

Densities and moments are compared with torch's in tests/parity/test_torch_distributions.py; samplers with
distribution functions in test_samplers.py.
"""

import math
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import grad
from lite.nn import distributions as d
from lite.nn.distributions import support

PARTS = np.array([-1.3, 0.0, 0.4, 2.0])


# Samples of these are functions of the parameters, so a policy learns through them.
REPARAMETRISED = {
    *("Beta", "Cauchy", "Chi2", "Dirichlet", "Exponential", "Gamma", "Gumbel", "HalfNormal", "Laplace"),
    *(
        "MultivariateNormal", "Normal", "OneHotCategoricalStraightThrough", "Pareto",
        "RelaxedOneHotCategorical",
    ),
    *("StudentT", "TanhNormal", "TruncatedNormal", "Uniform", "Weibull"),
}  # fmt: skip


def test_which_have_rsample() -> None:
    assert {
        name for name in d.__all__ if getattr(getattr(d, name), "has_rsample", False) is True
    } == REPARAMETRISED


# -- identities ------------------------------------------------------------------------------------------


@each_case(
    "dist",
    [
        d.Normal(PARTS, 0.7),
        d.Uniform(PARTS, PARTS + 2),
        d.TanhNormal(PARTS, 0.7, low=-1.0, high=3.0, event_dims=0),
        d.TruncatedNormal(PARTS, 0.7, a=-1.0, b=0.5),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_icdf_inverts_cdf_and_the_density_is_its_slope(dist: Any) -> None:
    p = np.array([[0.1], [0.5], [0.8]])
    x = dist.icdf(p)
    assert x.shape == (3, 4)
    np.testing.assert_allclose(dist.cdf(x), np.broadcast_to(p, (3, 4)), atol=1e-5)
    step = 1e-6
    slope = (dist.cdf(x + step) - dist.cdf(x - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(dist.log_prob(x)), slope, rtol=1e-4)
    np.testing.assert_allclose(dist.median, dist.icdf(0.5))


def test_independent_sums_over_events() -> None:
    base = d.Normal(np.zeros((2, 3, 4)), 1.0)
    for k, batch in ((0, (2, 3, 4)), (1, (2, 3)), (2, (2,)), (3, ())):
        dist = d.Independent(base, k)
        assert dist.batch_shape + dist.event_shape == (2, 3, 4)
        assert dist.log_prob(np.zeros((2, 3, 4))).shape == dist.entropy().shape == batch
        np.testing.assert_allclose(dist.entropy().sum(), base.entropy().sum())
        assert dist.support.check(np.zeros((2, 3, 4))).shape == batch
    raises(ValueError, r"reinterpreted_batch_ndims must be from 0 to 3.*got 4", d.Independent, base, 4)


def test_tanh_normal_scores_what_it_draws() -> None:
    dist = d.TanhNormal(np.zeros((5, 2)), 0.5, low=-2.0, high=2.0)
    value, score = dist.sample_and_log_prob((3,), rng=0)
    assert (value.shape, score.shape) == ((3, 5, 2), (3, 5))
    np.testing.assert_allclose(dist.log_prob(value), score, rtol=1e-9)
    np.testing.assert_array_equal(value, dist.sample((3,), rng=0))
    far = d.TanhNormal(np.float32([20.0, -20.0]), np.float32([0.1, 0.1]))
    value, score = far.sample_and_log_prob(rng=0)
    assert np.isfinite(score)
    assert (np.abs(value) < 1).all()


@each_case("scale", [0.5, 0.70711, 3.0])
def test_mode_of_tanh_normal_is_the_highest_point(scale: Any) -> None:
    loc = np.linspace(-2, 2, 9)[:, None]
    dist = d.TanhNormal(loc, scale, low=-2.0, high=4.0)
    grid = np.linspace(-2, 4, 2001)[1:-1]
    highest = [d.TanhNormal(m, scale, low=-2.0, high=4.0).log_prob(grid[:, None]).max() for m in loc]
    mode = dist.get_mode()
    assert mode.shape == loc.shape
    assert (dist.log_prob(mode) >= np.array(highest) - 1e-12).all()
    assert d.TanhNormal(loc.astype(np.float32), scale).get_mode().dtype == np.float32
    with pytest.raises(RuntimeError, match="get_mode"):
        _ = dist.mode


def test_mode_of_tanh_normal_with_two_equal_peaks() -> None:
    assert d.TanhNormal(np.zeros(1), 0.72).get_mode()[0] > 0.3
    assert d.TanhNormal(np.array([-1e-9]), 0.72).get_mode()[0] < -0.3


def test_update_takes_other_parameters() -> None:
    loc, scale, value = np.full(2, 0.3), np.full(2, 0.6), np.array([0.1, -0.2])
    for cls in (d.TanhNormal, d.TruncatedNormal, d.IndependentNormal):
        dist = cls(np.zeros(2), np.ones(2), tanh_loc=True)
        dist.update(loc, scale)
        np.testing.assert_array_equal(dist.log_prob(value), cls(loc, scale, tanh_loc=True).log_prob(value))
    for cls in (d.Delta, d.TanhDelta):
        dist = cls(np.zeros(2))
        dist.update(loc)
        np.testing.assert_array_equal(dist.mode, cls(loc).mode)


def test_tanh_loc_counts_from_the_start() -> None:
    dist = d.IndependentNormal(np.array([100.0]), 1.0, tanh_loc=True)
    np.testing.assert_allclose(dist.mean, [5.0])


def test_scale_as_a_function() -> None:
    loc = np.zeros((3, 2), np.float32)
    for cls in (d.IndependentNormal, d.TanhNormal):
        dist = cls(loc, np.ones_like)
        assert dist.sample(rng=0).dtype == np.float32
        np.testing.assert_array_equal(dist.log_prob(loc), cls(loc, 1.0).log_prob(loc))


def test_delta_of_events_with_several_dimensions() -> None:
    param = np.arange(24.0).reshape(2, 3, 4)
    dist = d.Delta(param, batch_shape=(2,), event_shape=(3, 4))
    value = param.copy()
    value[1, 2, 3] += 1
    np.testing.assert_array_equal(dist.log_prob(value), [np.inf, -np.inf])
    np.testing.assert_array_equal(
        dist.log_prob(np.stack([param, value])), [[np.inf, np.inf], [np.inf, -np.inf]]
    )
    assert dist.sample((5,)).shape == (5, 2, 3, 4)
    assert not np.shares_memory(dist.sample(), param)
    np.testing.assert_array_equal(dist.variance, np.zeros((2, 3, 4)))
    elementwise = d.Delta(param, batch_shape=(2, 3, 4))
    np.testing.assert_array_equal(elementwise.log_prob(value) == np.inf, param == value)
    with pytest.raises(ValueError, match=r"\(2,\) and event_shape \(3,\) must make param's shape"):
        d.Delta(param, batch_shape=(2,), event_shape=(3,))


def test_tanh_delta() -> None:
    dist = d.TanhDelta(np.array([0.0, 0.5]), low=0.0, high=4.0)
    value = dist.mode
    np.testing.assert_allclose(value, 2 + 2 * np.tanh(np.array([2.0, 2.5])))
    assert dist.log_prob(value) == np.inf
    assert dist.log_prob(value - 0.1) == -np.inf
    np.testing.assert_array_equal(dist.sample((3,)), np.broadcast_to(value, (3, 2)))
    np.testing.assert_array_equal(dist.mean, value)
    assert dist.support.check(value).all()


def test_ties() -> None:
    one_hot = d.OneHotCategorical(logits=np.array([1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(one_hot.mode, [1, 0, 1])
    np.testing.assert_allclose(one_hot.mean, one_hot.probs)
    coin = d.Bernoulli(probs=np.array([0.2, 0.5]))
    np.testing.assert_array_equal(coin.mode, [0, np.nan])
    np.testing.assert_array_equal(coin.deterministic_sample, [0, 1])


def test_a_last_axis_of_one_is_dropped() -> None:
    dist = d.OneHotCategorical(logits=np.zeros((3, 4, 1)))
    assert (dist.batch_shape, dist.event_shape, dist.sample(rng=0).shape) == ((3,), (4,), (3, 4))


def test_values_outside_the_support_score_minus_infinity() -> None:
    np.testing.assert_array_equal(d.Uniform(0.0, 1.0).log_prob(np.array([-0.1, 1.0, 1.5])), [-np.inf] * 3)
    np.testing.assert_array_equal(
        d.TruncatedNormal(0.0, 1.0, a=-1.0, b=1.0).log_prob(np.array([-1.1, 1.1])), [-np.inf] * 2
    )
    np.testing.assert_array_equal(d.Bernoulli(probs=0.3).log_prob(np.array([-1.0, 2.0])), [-np.inf] * 2)


def test_one_sided_truncation() -> None:
    dist = d.TruncatedNormal(0.0, 1.0, a=0.0, b=np.inf)
    np.testing.assert_allclose(dist.mean, math.sqrt(2 / math.pi), rtol=1e-5)
    np.testing.assert_allclose(dist.variance, 1 - 2 / math.pi, rtol=1e-4)
    np.testing.assert_allclose(dist.entropy(), 0.5 * math.log(math.pi / 2) + 0.5, rtol=1e-4)


# -- parameters --------------------------------------------------------------------------------------------


def test_parameters_are_broadcast_and_numbers_follow_arrays() -> None:
    dist = d.Normal(np.zeros((3, 1), np.float32), np.ones(2, np.float32))
    assert dist.batch_shape == (3, 2)
    assert dist.sample(rng=0).shape == (3, 2)
    assert d.Normal(np.zeros(2, np.float32), 1.0).scale.dtype == np.float32
    assert d.Normal(0, 1).loc.dtype == np.float32
    assert d.Normal(np.zeros(2, np.float32), np.ones(2)).loc.dtype == np.float64
    assert d.Normal(np.zeros(2, int), np.ones(2, int)).log_prob(np.zeros(2)).shape == (2,)


def test_parameters_are_checked_unless_that_is_left_out() -> None:
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (d.Dirichlet, {"concentration": [-1.0, 1.0]}), (d.Chi2, {"df": -1.0}), (d.Poisson, {"rate": -1.0}),
        (d.MultivariateNormal, {"loc": np.zeros(2), "covariance_matrix": [[1.0, 2.0], [0.0, 1.0]]}),
        (d.Uniform, {"low": 1.0, "high": 0.0}), (d.Bernoulli, {"probs": 2.0}), (d.Geometric, {"probs": 2.0}),
        (d.Binomial, {"total_count": -1, "probs": 0.5}), (d.Binomial, {"total_count": 1, "probs": 2.0}),
        (d.Multinomial, {"total_count": -1, "probs": [0.5, 0.5]}),
        (d.NegativeBinomial, {"total_count": -1.0, "probs": 0.5}),
    ]  # fmt: skip
    for kind, parameters in wrong:
        for options in ({}, {"validate_args": True}):
            raises(ValueError, "", lambda: kind(**parameters, **options))  # noqa: B023
        assert isinstance(kind(**parameters, validate_args=False), kind)


def test_errors_say_what_was_given() -> None:
    raises(ValueError, r"scale must be positive, got -2", d.Normal, np.zeros(2), np.array([1.0, -2.0]))
    assert d.Normal(np.zeros(2), -1.0, validate_args=False).scale.min() == -1
    d.Normal.set_default_validate_args(False)
    try:
        assert d.Bernoulli(probs=np.array([1.5])).probs == 1.5
        raises(ValueError, "df must be positive, got -1", d.Chi2, np.array([-1.0]), validate_args=True)
    finally:
        d.Distribution.set_default_validate_args(True)
    raises(ValueError, r"probs must lie in \[0, 1\], got 1.5", d.Bernoulli, probs=np.array([1.5]))
    raises(ValueError, "scale must be positive, got nan", lambda: d.TanhNormal(np.zeros(2), np.nan))
    raises(ValueError, "high must be above low, got -1", d.Uniform, np.zeros(2), np.array([1.0, -1.0]))
    raises(ValueError, r"probs must lie in \[0, 1\], got 1.5", d.Bernoulli, probs=np.array([0.5, 1.5]))
    raises(RuntimeError, "high must be above low=1", d.TanhNormal, np.zeros(1), np.ones(1), low=1.0, high=0.0)
    raises(ValueError, "a and b must be given together", d.TruncatedNormal, np.zeros(1), np.ones(1), a=0.0)
    raises(TypeError, "expected an array or a number, got None", lambda: d.Normal(None, 1.0))
    make, logits, flags, ids = d.MaskedCategorical, np.zeros(2), np.ones(2, bool), np.ones(2, int)
    raises(TypeError, "mask must be boolean, got int64", make, logits, mask=ids)
    raises(TypeError, "indices must be integers, got float64", make, logits, indices=logits)
    raises(ValueError, "Either `mask` or `indices`", make, logits, mask=flags, indices=ids)
    with pytest.raises(ValueError, match="created from indices"):
        _ = d.MaskedCategorical(logits=np.zeros(2), indices=np.array([0])).mask
    raises(NotImplementedError, "event_dims=0", lambda: d.TanhNormal(np.zeros(1), np.ones(1)).cdf(0.5))
    raises(NotImplementedError, "Delta does not define entropy", lambda: d.Delta(np.zeros(1)).entropy())


def test_supports() -> None:
    assert repr(d.Uniform(0.0, 1.0).support) == "Interval(low=0.0, high=1.0)"
    assert repr(d.Normal(0.0, 1.0).support) == "Real()"
    np.testing.assert_array_equal(support.Real().check([0.0, np.nan]), [True, False])
    np.testing.assert_array_equal(d.Categorical(probs=np.ones(3)).support.check([-1, 0, 2, 3]), [0, 1, 1, 0])
    np.testing.assert_array_equal(support.IntegerInterval(0, 1).check([0.5, 1.0]), [False, True])
    np.testing.assert_array_equal(support.OneHot().check([[0, 1], [1, 1], [0, 0], [2, -1]]), [1, 0, 0, 0])
    vectors = d.TanhNormal(np.zeros((4, 2)), 1.0).support
    np.testing.assert_array_equal(vectors.check([[0, 0.5], [0, 2]]), [True, False])
    assert (vectors.event_dim, vectors.is_discrete) == (1, False)
    assert repr(vectors) == "IndependentSupport(Interval(low=-1.0, high=1.0), 1)"


# -- what stands for a distribution ------------------------------------------------------------------------


class Bare(d.Distribution):
    """Defines only what a subclass must, and what the tests give it."""

    def sample(self, sample_shape: Any = (), *, rng: Any = None) -> Any:
        return np.zeros((*sample_shape, *self.batch_shape))


def test_the_fallback_depends_on_the_support() -> None:
    from lite.nn.distributions.distribution import deterministic_sample

    class OnTheLine(Bare):
        mean, mode, support = 1.0, 2.0, support.Real()

    class Within(Bare):
        mean, mode, support = 1.0, 2.0, support.Interval(0, 3)

    class Nowhere(Bare):
        mean, mode = 1.0, 2.0

    for cls, expected in ((OnTheLine, 1.0), (Within, 2.0), (Nowhere, 1.0)):
        with pytest.warns(UserWarning, match=f"{cls.__name__} has no deterministic_sample"):
            assert deterministic_sample(cls()) == expected
        with pytest.warns(UserWarning, match="deterministic_sample"):
            assert d.Independent(cls((2,)), 1).deterministic_sample == expected
    with (
        pytest.warns(UserWarning, match="its mean is used"),
        pytest.raises(NotImplementedError, match="mean"),
    ):
        deterministic_sample(Bare())


def test_no_gradient_is_lost_in_a_draw() -> None:
    """As torch's: a draw of classes is refused where its derivative is asked for."""
    for make in (
        lambda x: d.Categorical(logits=x),
        lambda x: d.OneHotCategorical(probs=np.exp(x)),
        lambda x: d.Independent(d.Bernoulli(logits=x), 1),
        lambda x: d.Poisson(np.exp(x)),
    ):
        assert make(PARTS).rsample((2,), rng=0).shape[0] == 2
        with pytest.raises(NotImplementedError, match="has no rsample: no derivative goes through its draws"):
            grad(lambda x, make=make: (make(x).rsample(rng=0) * x).sum())(PARTS)


def test_what_is_not_defined_says_so() -> None:
    bare = Bare((2,))
    for name in ("mean", "mode", "median", "variance", "stddev", "support"):
        raises(NotImplementedError, "Bare does not define", getattr, bare, name)
    for name in ("log_prob", "cdf", "icdf"):
        raises(NotImplementedError, f"Bare does not define {name}", getattr(bare, name), 0.5)
    raises(NotImplementedError, "entropy", lambda: bare.entropy())
    assert bare.rsample((3,)).shape == (3, 2)
    assert repr(bare) == "Bare(batch_shape=(2,), event_shape=())"


def test_every_name_makes_a_distribution() -> None:
    assert d.distributions_maps["tanhnormal"] is d.TanhNormal
    for name, cls in d.distributions_maps.items():
        assert name == cls.__name__.lower()
        assert issubclass(cls, d.Distribution)


def test_small_parts_of_families() -> None:
    np.testing.assert_array_equal(d.Normal(0.0, [1.0, 2.0]).stddev, [1, 2])
    mask = np.array([[True, False, True]])
    np.testing.assert_array_equal(d.MaskedCategorical(logits=np.zeros((1, 3)), mask=mask).mask, mask)
    certain = d.rand_one_hot(np.array([[0.0, 100.0], [100.0, 0.0]]), rng=0)
    np.testing.assert_array_equal(certain, [[0, 1], [1, 0]])
    inverse = d.TanhTransform().inv
    np.testing.assert_allclose(inverse.inv(np.array(0.5)), np.tanh(0.5))
    np.testing.assert_allclose(d.Categorical(probs=np.full((2, 4), 0.25)).perplexity(), [4, 4])
