"""Numbers of log-ratios, against their definitions."""

import numpy as np

from lite.models.comparison.mismatch import EDGES, by_position, by_probability, estimates, first_beyond


def test_estimates_are_their_definitions() -> None:
    x = np.array([0.0, 0.2, -0.1, -0.5, 0.004, 0.8])
    x.flags.writeable = False
    found, ratio = estimates(x), np.exp(x)
    np.testing.assert_allclose(found.mean, x.mean())
    np.testing.assert_allclose(found.deviation, x.std())
    np.testing.assert_allclose((found.mean_abs, found.max_abs), (abs(x).mean(), 0.8))
    np.testing.assert_allclose(found.percentiles[50], np.median(abs(x)))
    np.testing.assert_allclose(found.k1, (-np.log(ratio)).mean())
    np.testing.assert_allclose(found.k3, (ratio - 1 - np.log(ratio)).mean())
    np.testing.assert_allclose(found.chi_square, ((ratio - 1) ** 2).mean())
    np.testing.assert_allclose((found.ratio_mean, found.ratio_median), (ratio.mean(), np.median(ratio)))
    np.testing.assert_allclose(found.outside, 3 / 6)  # exp(-0.1) = 0.905 is inside
    counts, _ = np.histogram(ratio, [0, *EDGES, np.inf])
    np.testing.assert_array_equal(found.histogram, counts)


def test_wild_values_stay_numbers() -> None:
    found = estimates(np.array([9999.0, -9999.0, 0.0]))
    assert np.isfinite([found.k1, found.k3, found.chi_square, found.ratio_mean]).all()
    assert found.max_abs == 9999
    assert sum(found.histogram) == 3


def test_first_beyond() -> None:
    rows = [np.array([0.0, -0.3, 0.5]), np.array([0.1]), np.array([0.2, 0.0])]
    np.testing.assert_array_equal(first_beyond(rows, 0.1), [1, -1, 0])
    np.testing.assert_array_equal(first_beyond(rows, 0.4), [2, -1, -1])


def test_groups() -> None:
    rows = [np.array([0.1, -0.2, 0.3, 0.4, 0.5]), np.array([-0.3])]
    groups = by_position(rows)
    assert [(g.low, g.high, g.tokens) for g in groups] == [(0, 1, 2), (1, 2, 1), (2, 4, 2), (4, 8, 1)]
    np.testing.assert_allclose([g.mean for g in groups], [-0.1, -0.2, 0.35, 0.5])
    np.testing.assert_allclose([g.mean_abs for g in groups], [0.2, 0.2, 0.35, 0.5])
    log_probs = np.log([0.005, 0.05, 0.5, 0.995, 1.0, 1e-300])
    groups = by_probability(log_probs, np.arange(6.0))
    assert [(g.low, g.high, g.tokens) for g in groups] == [
        (0, 0.01, 2), (0.01, 0.1, 1), (0.5, 0.9, 1), (0.99, 1, 2),
    ]  # fmt: skip
    np.testing.assert_allclose([g.mean for g in groups], [2.5, 1, 2, 3.5])
