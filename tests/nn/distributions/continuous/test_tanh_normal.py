"""TanhNormal: a normal distribution, squashed."""

from __future__ import annotations

import numpy as np

from lite.nn.distributions import TanhNormal


def test_probabilities_add_up_to_one() -> None:
    dist = TanhNormal(np.array([0.3]), np.array([0.6]), low=-2.0, high=1.0)
    grid = np.linspace(-2, 1, 20_001)[1:-1, None]
    total = np.exp(dist.log_prob(grid)).sum() * (grid[1, 0] - grid[0, 0])
    np.testing.assert_allclose(total, 1, rtol=1e-3)
