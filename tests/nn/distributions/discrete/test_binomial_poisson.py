"""Poisson: probabilities, ends, errors."""

import numpy as np
from helpers.cases import each_case, raises
from helpers.densities import check_probabilities

from lite.nn import distributions as d


@each_case("rate", [0.3, 4.0, 50.5])
def test_probabilities(rate: float) -> None:
    check_probabilities(d.Poisson(np.float64(rate)), 300)


def test_what_there_is_not() -> None:
    raises(NotImplementedError, "Poisson does not define entropy", lambda: d.Poisson(1.0).entropy())
    raises(ValueError, r"rate must not be negative, got -1.0", lambda: d.Poisson(-1.0))
