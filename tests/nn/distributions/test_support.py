"""Sets of values: what lies in them."""

from __future__ import annotations

import numpy as np

from lite.nn.distributions import support


def test_intervals() -> None:
    values = np.array([-1.0, 0.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(support.Real().check(values), [True] * 4 + [False])
    np.testing.assert_array_equal(support.Interval(0, 1).check(values), [False, True, True, False, False])
    np.testing.assert_array_equal(
        support.IntegerInterval(0, 2).check(values), [False, True, False, True, False]
    )


def test_events() -> None:
    rows = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    np.testing.assert_array_equal(support.OneHot().check(rows), [True, False, False])
    inside = support.IndependentSupport(support.Interval(0, 0.7), 1)
    assert inside.event_dim == 1
    np.testing.assert_array_equal(inside.check(rows), [False, True, False])
