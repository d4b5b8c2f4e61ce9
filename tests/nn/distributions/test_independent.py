"""Independent: dimensions of the batch become those of an event."""

import numpy as np
import pytest

from lite.nn.distributions import Independent, Normal


def test_shapes_and_sums() -> None:
    base = Normal(np.zeros((4, 2, 3)), np.ones((4, 2, 3)))
    dist = Independent(base, 2)
    assert (dist.batch_shape, dist.event_shape) == ((4,), (2, 3))
    value = np.arange(24.0).reshape(4, 2, 3)
    np.testing.assert_allclose(dist.log_prob(value), base.log_prob(value).sum((1, 2)))
    np.testing.assert_allclose(dist.entropy(), base.entropy().sum((1, 2)))
    np.testing.assert_array_equal(dist.mean, base.mean)
    np.testing.assert_array_equal(dist.sample((5,), rng=1), base.sample((5,), rng=1))


def test_too_many_dimensions() -> None:
    with pytest.raises(ValueError, match="2"):
        Independent(Normal(np.zeros(3), np.ones(3)), 2)


def test_the_median_is_that_of_each_number() -> None:
    np.testing.assert_array_equal(Independent(Normal(np.arange(3.0), np.ones(3)), 1).median, [0, 1, 2])
