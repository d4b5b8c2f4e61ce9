"""SGD: dampening, and what its state has."""

import numpy as np

from lite import TensorDict, optim


def test_the_first_step_is_not_dampened():
    params = TensorDict(x=np.zeros(1))
    one = TensorDict(x=np.ones(1))
    sgd = optim.SGD(1.0, momentum=0.5, dampening=0.75)
    params, state = sgd.update(params, one)
    assert params["x"] == -1
    assert sgd.update(params, one, state)[0]["x"] == -1.75


def test_without_momentum_there_is_only_the_count():
    assert list(optim.SGD(0.1).init(TensorDict(x=np.ones(1))).keys()) == ["step"]
