"""TruncatedNormal: the part of a normal distribution between two bounds."""

import numpy as np

from lite.nn.distributions import Independent, Normal, TruncatedNormal


def test_density_is_the_normal_one_over_the_probability_inside() -> None:
    loc, scale = np.array([0.2]), np.array([0.8])
    dist = TruncatedNormal(loc, scale, low=-1.0, high=0.5)
    normal = Normal(loc, scale)
    inside = (normal.cdf(np.array([0.5])) - normal.cdf(np.array([-1.0])))[0]
    value = np.array([0.1])
    expected = Independent(normal, 1).log_prob(value) - np.log(inside)
    np.testing.assert_allclose(dist.log_prob(value), expected, rtol=1e-5)
    at = np.array([[-1.0], [0.5], [-1 - 1e-6], [0.5 + 1e-6]])  # the bounds belong to it
    assert np.isfinite(dist.log_prob(at)).tolist() == [True, True, False, False]


def test_modes_lie_a_little_inside_of_the_bounds() -> None:
    dist = TruncatedNormal(np.array([-3.0, 0.2, 3.0]), np.ones(3), low=-1.0, high=0.5)
    np.testing.assert_array_equal(dist.mode, [-1 + 1e-6, 0.2, 0.5 - 1e-6])
