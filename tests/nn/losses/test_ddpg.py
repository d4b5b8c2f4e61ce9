"""DDPGLoss."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.nn.transitions import linear, q_network, transitions

from lite import nn
from lite.data import Bounded, Composite, Unbounded
from lite.nn.losses import DDPGLoss, TD3Loss


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


def made(**options: Any) -> TD3Loss:
    policy = nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])
    options = {"bounds": (-1.0, 1.0), "delay_actor": False, "delay_qvalue": False, "generator": 0, **options}
    return TD3Loss(policy, [q_network(), q_network(3)], **options)


def test_without_noise_the_least_critic_values_the_bounded_action() -> None:
    td = transitions(6, action=np.zeros((6, 2)))
    out = made(policy_noise=0.0, bounds=(-0.1, 0.1))(td)
    following = td["next"].select("observation")
    following["action"] = np.clip(linear(4, 2)(following["observation"]), -0.1, 0.1)
    values = [q_network(seed)(following.copy())["state_action_value"][:, 0] for seed in (2, 3)]
    np.testing.assert_allclose(out["next_state_value"], np.minimum(*values))
    error = out["pred_value"] - out["target_value"]
    np.testing.assert_allclose(td["td_error"], (error**2).max(0))


def test_bounds() -> None:
    spec = Bounded(np.array([-1.0, -2.0]), 1.0, (2,))
    np.testing.assert_array_equal(made(bounds=None, action_spec=spec).min_action, [-1, -2])
    rows = spec.expand(3, 2)  # of environments, or of agents, which are alike
    for whole in (
        Composite(action=spec), Composite(action=rows, shape=(3,)),
    ):  # fmt: skip
        np.testing.assert_array_equal(made(bounds=None, action_spec=whole).max_action, spec.high)
    for other in (Unbounded((2,)), Composite(action=Unbounded((2,)))):
        raises(ValueError, "action_spec must be a Bounded", made, bounds=None, action_spec=other)
    for wrong in ({"bounds": None}, {"action_spec": spec}):
        raises(ValueError, "one of action_spec and bounds must be given", made, **wrong)
    raises(ValueError, "the low bound must not be above the high one", made, bounds=(1.0, -1.0))
