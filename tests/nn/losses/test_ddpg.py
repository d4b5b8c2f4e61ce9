"""DDPGLoss."""

import numpy as np
import pytest
from helpers.nn.transitions import linear, q_network, transitions

from lite import nn
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


def test_a_critic_without_values() -> None:
    critic = nn.TensorDictModule(lambda observation: observation, ["observation"], ["worth"])
    td = transitions(6, action=np.zeros((6, 2)))
    with pytest.raises(KeyError, match="DDPGLoss reads the entry 'state_action_value'"):
        DDPGLoss(actor(), critic, delay_value=False)(td)
