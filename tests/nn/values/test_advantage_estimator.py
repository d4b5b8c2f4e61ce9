"""What GAE, VTrace and Retrace share: what is written when, and that an error leaves everything as it was."""

from typing import Any

import numpy as np
import pytest

from lite import TensorDict
from lite.kernels import Advantage
from lite.nn.values.advantage_estimator import AdvantageEstimator


class Fixed(AdvantageEstimator):
    """Advantages 1, 2, ..., targets ten times that; `averaged` doubles them."""

    def __init__(self, averaged: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.averaged = averaged

    def _estimates(self, tensordict: Any, params: Any, target_params: Any, time_dim: Any) -> Any:
        steps = np.arange(1.0, len(tensordict) + 1)
        self.asked = params, target_params, time_dim
        return Advantage(steps, 10 * steps), tensordict.get("shifted_valid", None), {("state_value",): -steps}

    def _averaged(self, advantage: Any, valid: Any, tensordict: Any) -> Any:
        if self.averaged and "broken" in tensordict:
            raise ValueError("broken")
        return 2 * advantage if self.averaged else advantage


def test_estimates_and_values_are_written() -> None:
    td = TensorDict({}, [3])
    estimator = Fixed()
    assert estimator(td, params=1, target_params=2, time_dim=0) is td
    assert estimator.asked == (1, 2, 0)
    assert set(td.keys()) == {"advantage", "value_target", "state_value"}
    np.testing.assert_array_equal(td["advantage"], [1, 2, 3])
    np.testing.assert_array_equal(td["value_target"], [10, 20, 30])
    np.testing.assert_array_equal(Fixed(averaged=True)(td)["advantage"], [2, 4, 6])


def test_steps_without_a_value_get_zero() -> None:
    td = TensorDict({"shifted_valid": np.array([True, False, True])}, [3])
    out = Fixed(averaged=True)(td)
    np.testing.assert_array_equal(out["advantage"], [2, 0, 6])
    np.testing.assert_array_equal(out["value_target"], [10, 0, 30])


def test_value_estimate_writes_the_values_alone() -> None:
    td = TensorDict({}, [2])
    np.testing.assert_array_equal(Fixed().value_estimate(td, 1, 2, 0), [10, 20])
    assert set(td.keys()) == {"state_value"}


def test_an_error_leaves_the_tensordict_as_it_was() -> None:
    td = TensorDict({"broken": np.ones(2)}, [2])
    with pytest.raises(ValueError, match="broken"):
        Fixed(averaged=True)(td)
    assert set(td.keys()) == {"broken"}
