"""SGD with momentum finds a minimum, and its first step has no dampening."""

import numpy as np
import pytest

from lite import TensorDict, optim


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}])
def test_minimum(options):
    sgd = optim.SGD(0.05, **options)
    params, state = TensorDict(x=np.array([3.0, -2.0])), None
    for _ in range(300):
        params, state = sgd.update(params, TensorDict(x=params["x"] - 1), state)
    np.testing.assert_allclose(params["x"], [1, 1], atol=1e-5)


def test_the_first_step_is_not_dampened():
    params = TensorDict(x=np.zeros(1))
    one = TensorDict(x=np.ones(1))
    sgd = optim.SGD(1.0, momentum=0.5, dampening=0.75)
    params, state = sgd.update(params, one)
    assert params["x"] == -1
    assert sgd.update(params, one, state)[0]["x"] == -1.75


def test_without_momentum_there_is_only_the_count():
    assert list(optim.SGD(0.1).init(TensorDict(x=np.ones(1))).keys()) == ["step"]
