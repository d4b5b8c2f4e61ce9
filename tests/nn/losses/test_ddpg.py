"""DDPGLoss."""

import numpy as np
import pytest
from helpers.nn.transitions import linear, q_network, transitions

from lite import enable_grad, nn
from lite.nn.losses import DDPGLoss


def actor() -> nn.TensorDictModule:
    return nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])


def test_by_hand() -> None:
    td = transitions(6, action=np.random.default_rng(0).normal(size=(6, 2)))
    out = DDPGLoss(actor(), q_network(), delay_value=False)(td)
    mine = q_network()(actor()(td.copy()))["state_action_value"]
    np.testing.assert_allclose(out["loss_actor"], -mine.mean())
    np.testing.assert_allclose(out["td_error"], (out["pred_value"] - out["target_value"]) ** 2)
    np.testing.assert_allclose(td["td_error"], out["td_error"])


def test_each_loss_teaches_its_own_network() -> None:
    policy, critic = actor(), q_network()
    td = transitions(6, action=np.zeros((6, 2)))
    loss = DDPGLoss(policy, critic, delay_value=False)
    with enable_grad():
        loss(td)["loss_actor"].backward()
    assert policy.module.weight.grad is not None
    assert critic.module.linear.weight.grad is None
    loss.zero_grad()
    with enable_grad():
        loss(td)["loss_value"].backward()
    assert policy.module.weight.grad is None
    assert critic.module.linear.weight.grad is not None


def test_a_critic_without_values() -> None:
    critic = nn.TensorDictModule(lambda observation: observation, ["observation"], ["worth"])
    td = transitions(6, action=np.zeros((6, 2)))
    with pytest.raises(KeyError, match="DDPGLoss reads the entry 'state_action_value'"):
        DDPGLoss(actor(), critic, delay_value=False)(td)
