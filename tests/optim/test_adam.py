"""Adam and AdamW find a minimum, whatever the scale of their gradients."""

import numpy as np
import pytest

from lite import TensorDict, optim


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(
    "make", [optim.Adam, lambda lr: optim.AdamW(lr, weight_decay=0), lambda lr: optim.Adam(lr, amsgrad=True)]
)
def test_minimum_at_any_scale(make, scale):
    adam = make(optim.CosineAnnealingLR(0.1, T_max=300))
    params, state = TensorDict(x=np.array([3.0, -2.0])), None
    for _ in range(300):
        params, state = adam.update(params, TensorDict(x=scale * (params["x"] - 1)), state)
    np.testing.assert_allclose(params["x"], [1, 1], atol=1e-2)


def test_decay_is_apart_from_the_means():
    params = TensorDict(x=np.array([1.0]))
    new, state = optim.AdamW(0.1, weight_decay=0.5).update(params, TensorDict(x=np.array([0.0])))
    assert new["x"] == 0.95
    assert state["exp_avg", "x"] == 0
    new, state = optim.Adam(0.1, weight_decay=0.5).update(params, TensorDict(x=np.array([0.0])))
    assert state["exp_avg", "x"] == pytest.approx(0.05)


def test_a_nan_stays_with_its_number():
    params = TensorDict(x=np.zeros(3))
    new, _ = optim.Adam(0.1).update(params, TensorDict(x=np.array([1.0, np.nan, 1.0])))
    np.testing.assert_array_equal(np.isnan(new["x"]), [False, True, False])
