"""LogNormal: density, moments, what it is made of."""

import numpy as np
from helpers.cases import each_case
from helpers.densities import check_density, check_outside, check_quantiles

from lite.nn import distributions as d


@each_case(("loc", "scale"), [(0.0, 1.0), (-1.0, 0.25)])
def test_formulas(loc: float, scale: float) -> None:
    dist = d.LogNormal(np.float64(loc), scale)
    check_density(dist)
    check_quantiles(dist)
    check_outside(dist, [-1.0, 0.0])
    np.testing.assert_allclose(dist.median, np.exp(loc))
