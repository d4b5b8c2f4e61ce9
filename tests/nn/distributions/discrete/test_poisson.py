"""Poisson: probabilities, ends, errors."""

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.densities import check_probabilities

from lite.nn import distributions as d


@each_case("rate", [0.3, 4.0, 50.5])
def test_probabilities(rate: float) -> None:
    check_probabilities(d.Poisson(np.float64(rate)), 300)


def test_what_there_is_not() -> None:
    with pytest.raises(NotImplementedError, match="Poisson does not define entropy"):
        d.Poisson(1.0).entropy()
    with pytest.raises(ValueError, match=r"rate must not be negative, got -1.0"):
        d.Poisson(-1.0)
