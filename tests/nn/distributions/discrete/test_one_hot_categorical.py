"""OneHotCategorical: a Categorical whose values are rows with a single one."""

from typing import Any

import numpy as np

import lite
from lite.nn.distributions import (
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    OneHotOrdinal,
    Ordinal,
    kl_divergence,
    rand_one_hot,
)

LOGITS = np.random.default_rng(0).normal(size=(3, 5))


def test_values_are_rows() -> None:
    dist, classes = OneHotCategorical(logits=LOGITS), Categorical(logits=LOGITS)
    value = np.eye(5)[[4, 0, 2]]
    np.testing.assert_allclose(dist.log_prob(value), classes.log_prob(np.array([4, 0, 2])))
    np.testing.assert_array_equal(dist.mode.argmax(-1), LOGITS.argmax(-1))
    np.testing.assert_allclose(dist.entropy(), classes.entropy())
    samples = dist.sample((6,), rng=0)
    assert samples.shape == (6, 3, 5)
    np.testing.assert_array_equal(samples.sum(-1), 1)


def test_rand_one_hot() -> None:
    probs = np.tile([0.25, 0.0, 0.75], (2000, 1))
    drawn = rand_one_hot(probs, do_softmax=False, rng=0)
    np.testing.assert_array_equal(drawn.sum(-1), 1)
    np.testing.assert_allclose(drawn.mean(0), [0.25, 0, 0.75], atol=0.04)


def test_straight_through() -> None:
    def drawn(logits: Any) -> Any:
        return OneHotCategoricalStraightThrough(logits=logits).rsample((2,), rng=0)

    logits, weight = LOGITS.astype(np.float32), np.arange(5, dtype=np.float32)
    dist = OneHotCategoricalStraightThrough(logits=logits)
    for samples in (drawn(logits), dist.sample((2,), rng=0)):
        assert samples.dtype == np.float32
        np.testing.assert_array_equal(samples, OneHotCategorical(logits=logits).sample((2,), rng=0))
    found = lite.value_and_grad(lambda x: (drawn(x) * weight).sum())(logits)
    p = dist.probs
    np.testing.assert_array_equal(found[0], (drawn(logits) * weight).sum())
    expected = 2 * p * (weight - (p * weight).sum(-1, keepdims=True))
    np.testing.assert_allclose(found[1], expected, rtol=1e-5, atol=1e-6)
    tied = OneHotCategoricalStraightThrough(np.array([0.4, 0.2, 0.4], np.float32))
    np.testing.assert_array_equal(tied.mode, [1, 0, 0])
    np.testing.assert_allclose(kl_divergence(dist, dist), 0, atol=1e-7)


SCORES = np.array([0.3, -1.0, 2.0, 0.0])


def test_logits_are_sums_of_log_probs_of_passing() -> None:
    passed = 1 / (1 + np.exp(-SCORES))
    logits = np.array([np.log(passed[: k + 1]).sum() + np.log(1 - passed[k + 1 :]).sum() for k in range(4)])
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(Ordinal(SCORES).probs, expected, rtol=1e-6)
    np.testing.assert_allclose(OneHotOrdinal(SCORES).probs, expected, rtol=1e-6)
    assert Ordinal(SCORES).sample((3,), rng=0).shape == (3,)
    assert OneHotOrdinal(SCORES).sample((3,), rng=0).shape == (3, 4)
