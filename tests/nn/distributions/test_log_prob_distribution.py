"""LogProbDistribution: log-probs behind the interface of a distribution."""

import numpy as np
from helpers.cases import raises

from lite.nn.distributions import LogProbDistribution


def test_log_prob_distribution() -> None:
    scores = -np.arange(6, dtype=np.float32).reshape(2, 3)
    mask = np.array([[True, False, True], [False, True, True]])
    value = np.zeros((2, 3), np.int64)
    dist = LogProbDistribution(scores, mask)
    np.testing.assert_array_equal(dist.log_prob(value), [[0, 0, -2], [0, -4, -5]])
    assert dist.log_prob(value).dtype == np.float32
    assert (dist.batch_shape, dist.event_shape) == ((2,), (3,))
    plain = LogProbDistribution(scores)
    np.testing.assert_array_equal(plain.log_prob(value), scores)
    assert not np.shares_memory(plain.log_prob(value), scores)
    assert LogProbDistribution(scores[0]).batch_shape == (3,)
    raises(ValueError, r"Value shape \(2,\) must match log_probs shape \(2, 3\)", dist.log_prob, np.zeros(2))
    raises(ValueError, r"mask shape \(2,\) must match", lambda: LogProbDistribution(scores, np.ones(2, bool)))
    raises(NotImplementedError, "Sampling", lambda: dist.sample())
    raises(NotImplementedError, "Entropy", lambda: dist.entropy())
