"""LogNormal: density, moments, what it is made of."""

from __future__ import annotations

import numpy as np
from helpers.densities import check_density, check_outside, check_quantiles
from helpers.noting import noting

from lite.nn import distributions as d


def test_formulas() -> None:
    for loc, scale in [(0.0, 1.0), (-1.0, 0.25)]:
        with noting(loc, scale):
            dist = d.LogNormal(np.float64(loc), scale)
            check_density(dist)
            check_quantiles(dist)
            check_outside(dist, [-1.0, 0.0])
            np.testing.assert_allclose(dist.median, np.exp(loc))
