"""RMSprop finds a minimum in each of its forms."""

import numpy as np
import pytest

from lite import TensorDict, optim


@pytest.mark.parametrize("momentum", [0, 0.5])
@pytest.mark.parametrize("centered", [False, True])
def test_minimum(momentum, centered):
    rmsprop = optim.RMSprop(
        optim.LinearLR(0.05, 1.0, 0.0, 400), alpha=0.9, momentum=momentum, centered=centered
    )
    params, state = TensorDict(x=np.array([3.0, -2.0])), None
    for _ in range(400):
        params, state = rmsprop.update(params, TensorDict(x=params["x"] - 1), state)
    np.testing.assert_allclose(params["x"], [1, 1], atol=0.02)
    assert set(state.keys()) == {"step", "square_avg"} | ({"grad_avg"} if centered else set()) | (
        {"momentum_buffer"} if momentum else set()
    )
