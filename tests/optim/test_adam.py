"""Adam and AdamW: decay, and NaN. Their formulas are in test_formulas.py."""

import numpy as np
import pytest

from lite import TensorDict, optim


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


def test_torchs_options_of_how_to_step_are_taken():
    params, grads = TensorDict(w=np.zeros(2)), TensorDict(w=np.array([3.0, -0.5]))
    for optimizer in (optim.Adam, optim.AdamW, optim.RMSprop):
        want, _ = optimizer(0.1).update(params, grads)
        got, _ = optimizer(0.1, capturable=True, foreach=True).update(params, grads)
        np.testing.assert_array_equal(got["w"], want["w"], err_msg=optimizer.__name__)
