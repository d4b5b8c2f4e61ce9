"""OneHotCategorical: a Categorical whose values are rows with a single one."""

import numpy as np

from lite.nn.distributions import Categorical, OneHotCategorical, rand_one_hot

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
