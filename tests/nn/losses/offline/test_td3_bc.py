"""TD3BCLoss."""

from typing import Any

import numpy as np
from helpers.nn.transitions import linear, q_network, transitions

from lite import nn
from lite.nn.losses import TD3BCLoss, TD3Loss


def made(cls: type[TD3Loss], **options: Any) -> TD3Loss:
    policy = nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])
    options = {"bounds": (-1.0, 1.0), "delay_actor": False, "delay_qvalue": False, "generator": 0, **options}
    return cls(policy, [q_network(), q_network(3)], **options)


def batch() -> Any:
    return transitions(6, action=np.random.default_rng(2).normal(size=(6, 2)))


def test_by_hand() -> None:
    td = batch()
    loss = made(TD3BCLoss, alpha=1.5, reduction="none")
    out = loss(td)
    assert loss.out_keys[2:5] == ["bc_loss", "lmbd", "pred_value"]
    acted = td.copy().set("action", linear(4, 2)(td["observation"]))
    value = q_network()(acted.copy())["state_action_value"][:, 0]
    distance = ((acted["action"] - td["action"]) ** 2).mean()
    weight = 1.5 / np.abs(value).mean()
    np.testing.assert_allclose([out["bc_loss"], out["lmbd"]], [distance, weight])
    np.testing.assert_allclose(out["loss_actor"], distance - weight * value)
    np.testing.assert_allclose(out["state_action_value_actor"], value)


def test_critics_learn_as_those_of_td3() -> None:
    td, same = batch(), batch()
    found, expected = made(TD3BCLoss)(td), made(TD3Loss)(same)
    for key in ("loss_qvalue", "pred_value", "target_value", "next_state_value"):
        np.testing.assert_array_equal(found[key], expected[key])
    np.testing.assert_array_equal(td["td_error"], same["td_error"])


def test_the_critics_share() -> None:
    one, other, td = made(TD3BCLoss), made(TD3BCLoss), batch()
    np.testing.assert_array_equal(one.qvalue_loss(td)[0], other.value_loss(td)[0])
