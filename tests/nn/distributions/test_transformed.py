"""TransformedDistribution: densities, quantiles, shapes, bounds, policies, errors."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.nn import ProbabilisticTensorDictModule, set_interaction_type
from lite.nn import distributions as d


def test_falling_maps() -> None:
    dist = d.TransformedDistribution(d.Exponential(np.float64(2)), d.AffineTransform(1.0, -1.0))
    p = np.array([0.1, 0.5, 0.9])
    x = dist.icdf(p)
    assert (np.diff(x) > 0).all()
    np.testing.assert_allclose(dist.cdf(x), p, rtol=1e-12)
    np.testing.assert_allclose(dist.log_prob(0.0), np.log(2) - 2)
    assert dist.log_prob(1.5) == -np.inf
    each = d.TransformedDistribution(d.Exponential(np.ones(2)), d.AffineTransform(0.0, np.array([1.0, -1.0])))
    np.testing.assert_allclose(each.cdf(np.array([1.0, -1.0])), [1 - np.exp(-1), np.exp(-1)], rtol=1e-12)


def test_values_that_no_map_gives() -> None:
    maps = [d.ExpTransform(), d.AffineTransform(5.0, 2.0)]
    dist = d.TransformedDistribution(d.Normal(np.float64(0), 1.0), maps)
    values = np.array([4.0, 5.0, 7.0, np.nan])
    np.testing.assert_allclose(
        dist.log_prob(values), [-np.inf, -np.inf, -0.5 * np.log(2 * np.pi) - np.log(2), np.nan]
    )
    np.testing.assert_allclose(dist.cdf(values), [0, 0, 0.5, np.nan])
    vectors = d.TransformedDistribution(d.Independent(d.Normal(np.zeros(2), 1.0), 1), d.TanhTransform())
    got = vectors.log_prob(np.array([[0.0, 0.0], [0.0, 1.5], [np.nan, 0.0]]))
    np.testing.assert_allclose(got, [-np.log(2 * np.pi), -np.inf, np.nan])
    np.testing.assert_array_equal(vectors.support.check(np.array([[0.0, 0.0], [0.0, 1.5]])), [True, False])


def test_shapes() -> None:
    base = d.Normal(np.zeros((3, 1)), 1.0)
    wide = d.TransformedDistribution(base, d.AffineTransform(0.0, np.ones(4)))
    assert wide.batch_shape == wide.sample(rng=0).shape == wide.log_prob(0.0).shape == (3, 4)
    assert np.unique(wide.sample(rng=0)).size == 12  # of which each is drawn
    events = d.TransformedDistribution(d.Normal(np.zeros((3, 4)), 1.0), d.ReshapeTransform((4,), (2, 2)))
    assert (events.batch_shape, events.event_shape) == ((3,), (2, 2))
    assert events.log_prob(events.sample((5,), rng=0)).shape == (5, 3)
    rows = d.Independent(d.Normal(np.zeros((1, 2, 4)), 1.0), 1)
    stretched = d.TransformedDistribution(rows, d.AffineTransform(0.0, np.ones((3, 2, 4)), event_dim=1))
    assert (stretched.batch_shape, stretched.event_shape) == ((3, 2), (4,))
    joined = d.TransformedDistribution(rows, d.ReshapeTransform((2, 4), (8,)))
    assert (joined.batch_shape, joined.event_shape, joined.base_dist.event_shape) == ((1,), (8,), (2, 4))
    large = events.expand((7, 3))
    assert large.sample(rng=0).shape == (7, 3, 2, 2)
    assert large.log_prob(np.zeros((2, 2))).shape == (7, 3)
    assert d.TransformedDistribution(base, []).support.check(0.0)


def test_with_a_cache_saturated_actions_have_scores() -> None:
    loc, scale = np.array([20.0], np.float32), np.array([0.1], np.float32)
    base = d.Normal(loc, scale)
    for cache, finite in ((0, False), (1, True)):
        dist = d.TransformedDistribution(base, d.TanhTransform(cache_size=cache))
        drawn = dist.sample(rng=0)
        assert drawn == 1
        assert np.isfinite(dist.log_prob(drawn)).all() == finite


def test_in_a_policy() -> None:
    def squashed(loc: np.ndarray, scale: np.ndarray) -> d.TransformedDistribution:
        return d.TransformedDistribution(
            d.Independent(d.Normal(loc, scale), 1), [d.TanhTransform(cache_size=1)]
        )

    module = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["action"], distribution_class=squashed, return_log_prob=True, generator=0
    )
    with set_interaction_type("random"):
        td = module(TensorDict(loc=np.zeros((5, 2)), scale=np.ones((5, 2)), batch_size=[5]))
    assert (td["action"].shape, td["action_log_prob"].shape) == ((5, 2), (5,))
    z = np.arctanh(td["action"])
    expected = (-0.5 * z * z - 0.5 * np.log(2 * np.pi) - np.log(1 - td["action"] ** 2)).sum(-1)
    np.testing.assert_allclose(td["action_log_prob"], expected, rtol=1e-9)


def test_errors() -> None:
    base = d.Normal(0.0, 1.0)
    raises(ValueError, "transforms must be a Transform or a list", d.TransformedDistribution, base, [np.tanh])
    raises(ValueError, "transforms must be a Transform or a list", d.TransformedDistribution, base, np.tanh)
    with pytest.raises(ValueError, match=r"need 1 dimensions of base_distribution, got shape \(\)"):
        d.TransformedDistribution(base, d.AffineTransform(0.0, 1.0, event_dim=1))
    with pytest.raises(NotImplementedError, match="TransformedDistribution does not define mean"):
        _ = d.TransformedDistribution(base, d.TanhTransform()).mean


def test_dimensions_of_an_event_beyond_those_of_the_map() -> None:
    base = d.Independent(d.Normal(np.zeros((3, 2, 4)), 1.0), 2)
    found = d.TransformedDistribution(base, [d.IndependentTransform(d.ExpTransform(), 1)])
    assert (found.batch_shape, found.event_shape, found.support.event_dim) == ((3,), (2, 4), 2)
