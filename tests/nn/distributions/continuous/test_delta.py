"""Delta and TanhDelta: everything is at one place."""

import numpy as np

from lite.nn.distributions import Delta, TanhDelta


def test_delta() -> None:
    place = np.array([[1.0, 2.0], [3.0, 4.0]])
    dist = Delta(place)
    np.testing.assert_array_equal(dist.sample((3,)), np.broadcast_to(place, (3, 2, 2)))
    np.testing.assert_array_equal(dist.mode, place)
    assert np.all(dist.log_prob(place) == np.inf)
    assert np.all(dist.log_prob(place + 1) == -np.inf)
    near = Delta(place, atol=0.5).log_prob(place + 0.1)
    assert np.all(near == np.inf)


def test_tanh_delta() -> None:
    dist = TanhDelta(np.array([0.0, 1.0]), low=-2.0, high=4.0)
    # Bounds other than -1 and 1 add their middle before tanh, too.
    np.testing.assert_allclose(dist.mode, 1 + 3 * np.tanh([1.0, 2.0]))
