"""ReinforceLoss."""

from __future__ import annotations

import numpy as np
from helpers.nn.transitions import categorical, critic, transitions

from lite import enable_grad
from lite.nn.losses import ReinforceLoss, SoftUpdate


def test_by_hand() -> None:
    policy = categorical()
    td = transitions(6, action=np.arange(6) % 3, advantage=np.ones((6, 1)), value_target=np.ones((6, 1)))
    out = ReinforceLoss(policy, critic(), reduction="sum")(td)
    np.testing.assert_allclose(out["loss_actor"], -policy.get_dist(td.copy()).log_prob(td["action"]).sum())


def test_the_policy_does_not_learn_through_the_advantage() -> None:
    policy, value = categorical(), critic()
    td = transitions(2, 3, action=np.zeros((2, 3), int))
    loss = ReinforceLoss(policy, value, delay_value=True)
    SoftUpdate(loss, eps=0.9)
    with enable_grad():
        loss(td)["loss_actor"].backward()
    assert policy[0].module.weight.grad is not None
    assert value.module.weight.grad is None
    assert "advantage" not in td
