"""TanhNormal: a normal distribution, squashed."""

import numpy as np

from lite.nn.distributions import TanhNormal


def test_probabilities_add_up_to_one() -> None:
    dist = TanhNormal(np.array([0.3]), np.array([0.6]), low=-2.0, high=1.0)
    grid = np.linspace(-2, 1, 20_001)[1:-1, None]
    total = np.exp(dist.log_prob(grid)).sum() * (grid[1, 0] - grid[0, 0])
    np.testing.assert_allclose(total, 1, rtol=1e-3)


def test_a_bounded_loc_stands_around_the_middle_of_the_interval() -> None:
    dist = TanhNormal(np.array([0.0, 1e9]), np.ones(2), upscale=1.0, low=1.0, high=3.0, tanh_loc=True)
    np.testing.assert_allclose(dist.root_dist.loc, [2, 3])
