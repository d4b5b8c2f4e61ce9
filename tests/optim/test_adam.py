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
