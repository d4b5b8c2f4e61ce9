"""Target parameters that follow."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import critic, gaussian, linear

from lite import nn
from lite.nn.losses import ClipPPOLoss, DQNLoss, HardUpdate, SoftUpdate


def made() -> tuple[DQNLoss, Any, Any]:
    net = linear(4, 2)
    loss = DQNLoss(net, action_space="categorical")
    key = "module", "0", "module", "bias"
    return loss, net.bias, loss.target_value_network_params[key]


@each_case("way", [{"eps": 0.75}, {"tau": 0.25}])
def test_soft(way: dict[str, float]) -> None:
    loss, bias, target = made()
    target[...] = 7
    update = SoftUpdate(loss, **way)
    np.testing.assert_array_equal(target, bias.data)  # they start as one
    bias.fill_(1.0)
    target[...] = 0
    update.step()
    np.testing.assert_allclose(target, 0.25)
    update.step()
    np.testing.assert_allclose(target, 0.4375)
    np.testing.assert_array_equal(bias.data, 1.0)


def test_hard() -> None:
    loss, bias, target = made()
    update = HardUpdate(loss, value_network_update_interval=2)
    bias.fill_(5.0)
    reached = []
    for _ in range(4):
        update.step()
        reached.append(bool((target == 5).all()))
    assert reached == [False, False, True, True]
    other = HardUpdate(made()[0], value_network_update_interval=2)
    other.load_state_dict(update.state_dict())
    assert other.counter == update.counter == 1
    for state in ({}, {"initialized": False}, {"counter": 7}):
        raises(KeyError, "", other.load_state_dict, state)
    assert (other.initialized, other.counter) == (update.initialized, 1)


def test_errors() -> None:
    loss, _, _ = made()
    raises(RuntimeError, "one of eps and tau must be given", lambda: SoftUpdate(loss))
    raises(ValueError, "only one of eps and tau", lambda: SoftUpdate(loss, eps=0.5, tau=0.5))
    raises(ValueError, r"eps must be between 0 and 1, got 1\.5", lambda: SoftUpdate(loss, eps=1.5))
    with pytest.warns(UserWarning, match="was tau meant"):
        SoftUpdate(loss, eps=0.005)
    with pytest.raises(ValueError, match="loss_module must be a LossModule, got Linear"):
        SoftUpdate(nn.Linear(1, 1), eps=0.9)  # type: ignore[arg-type]
    for never in (0.005, -1):
        with pytest.raises(ValueError, match=f"update_interval must be a whole number, got {never}"):
            HardUpdate(loss, value_network_update_interval=never)
    raises(RuntimeError, "the loss has no target parameters", HardUpdate, ClipPPOLoss(gaussian(), critic()))
    update = SoftUpdate(loss, eps=0.9)
    with pytest.warns(UserWarning, match="initialised before"):
        update.init_()
    assert repr(update) == "SoftUpdate(value_network_params)"
