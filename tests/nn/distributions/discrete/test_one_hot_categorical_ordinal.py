"""Ordinal: each score says how probable it is to pass a class."""

import numpy as np

from lite.nn.distributions import OneHotOrdinal, Ordinal

SCORES = np.array([0.3, -1.0, 2.0, 0.0])


def test_logits_are_sums_of_log_probs_of_passing() -> None:
    passed = 1 / (1 + np.exp(-SCORES))
    logits = np.array([np.log(passed[: k + 1]).sum() + np.log(1 - passed[k + 1 :]).sum() for k in range(4)])
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(Ordinal(SCORES).probs, expected, rtol=1e-6)
    np.testing.assert_allclose(OneHotOrdinal(SCORES).probs, expected, rtol=1e-6)
    assert Ordinal(SCORES).sample((3,), rng=0).shape == (3,)
    assert OneHotOrdinal(SCORES).sample((3,), rng=0).shape == (3, 4)
