"""VonMises: density over a turn, circular variance, large concentrations, errors."""

import numpy as np
import pytest

from lite.nn import distributions as d


@pytest.mark.parametrize("concentration", [1e-4, 0.5, 10.0, 200.0, 1e5])
def test_formulas(concentration: float) -> None:
    dist = d.VonMises(np.float64(0.4), concentration)
    x = 0.4 + np.linspace(-np.pi, np.pi, 100_001)[1:]
    p = np.exp(dist.log_prob(x)) * (2 * np.pi / 100_000)
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-10)
    np.testing.assert_allclose((p * (1 - np.cos(x - 0.4))).sum(), dist.variance, rtol=1e-9)
    assert dist.mean == dist.mode == 0.4
    np.testing.assert_allclose(dist.log_prob(x), dist.log_prob(x + 2 * np.pi), rtol=1e-6)


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"concentration must be positive, got 0.0"):
        d.VonMises(0.0, np.zeros(2))
