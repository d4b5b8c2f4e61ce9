"""Sets of values: what lies in them."""

from typing import Any

import numpy as np

from lite.nn import distributions as d
from lite.nn.distributions import support


def test_intervals() -> None:
    values = np.array([-1.0, 0.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(support.Real().check(values), [True] * 4 + [False])
    np.testing.assert_array_equal(support.Interval(0, 1).check(values), [False, True, True, False, False])
    np.testing.assert_array_equal(
        support.IntegerInterval(0, 2).check(values), [False, True, False, True, False]
    )


def test_numbers_above_and_whole_numbers() -> None:
    values = np.array([-1.0, 0.0, 0.5, 3.0, np.inf, np.nan])
    np.testing.assert_array_equal(support.GreaterThan(0).check(values), [0, 0, 1, 1, 1, 0])
    np.testing.assert_array_equal(support.IntegerInterval(0, np.inf).check(values), [0, 1, 0, 1, 0, 0])
    assert repr(support.GreaterThan(0)) == "GreaterThan(low=0)"


def test_shares_and_counts() -> None:
    rows = np.array([[0.5, 0.5], [0.5, 0.6], [1.5, -0.5], [1, 0], [np.nan, 1]])
    np.testing.assert_array_equal(support.Simplex().check(rows), [1, 0, 0, 1, 0])
    shares = np.full((1, 3), 0.333, np.float16)  # rounded: the sum is off by more than a millionth
    assert abs(float(shares.sum()) - 1) > 1e-6
    assert support.Simplex().check(shares)
    counts = np.array([[2, 1], [3, 0], [4, -1], [1, 1], [2.5, 0.5]])
    np.testing.assert_array_equal(support.Counts(3).check(counts), [1, 1, 0, 0, 0])
    assert (support.Counts(3).event_dim, support.Counts(3).is_discrete) == (1, True)
    assert repr(support.Counts(3)) == "Counts(total=3)"


def test_dimensions_of_a_value_are_those_of_an_event() -> None:
    ones = np.ones((2, 3))
    families: list[Any] = [
        *(d.Beta(ones, ones), d.Binomial(3, probs=ones), d.Categorical(probs=ones), d.Dirichlet(ones)),
        *(d.Gamma(ones, ones), d.Multinomial(3, probs=ones), d.MultivariateNormal(ones, np.eye(3))),
        *(d.Normal(ones, 1.0), d.OneHotCategorical(probs=ones), d.RelaxedOneHotCategorical(0.5, probs=ones)),
        *(d.TanhNormal(ones, 1.0), d.TruncatedNormal(ones, 1.0), d.Independent(d.Normal(ones, 1.0), 2)),
    ]
    for dist in families:
        assert dist.support.event_dim == len(dist.event_shape), dist
        assert dist.support.check(dist.sample(rng=0)).shape == dist.batch_shape
