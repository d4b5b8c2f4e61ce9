"""IQLLoss and DiscreteIQLLoss, computed by hand."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.nn.transitions import categorical, critic, gaussian, linear, q_network, transitions

from lite import enable_grad, nn
from lite.nn.losses import DiscreteIQLLoss, IQLLoss, SoftUpdate


def made(**options: Any) -> IQLLoss:
    loss = IQLLoss(gaussian(), [q_network(2), q_network(3)], critic(), **options)
    SoftUpdate(loss, eps=0.9)
    return loss


def batch(*shape: int) -> Any:
    shape = shape or (6,)
    return transitions(*shape, action=np.random.default_rng(2).normal(size=(*shape, 2)))


def test_by_hand() -> None:
    td = batch()
    out = made(expectile=0.8, temperature=3.0, loss_function="l2", reduction="none")(td)
    qs = np.stack([q_network(seed)(td.copy())["state_action_value"][:, 0] for seed in (2, 3)])
    value, ahead = (critic()(part.copy())["state_value"] for part in (td, td["next"]))
    error = qs.min(0) - value[:, 0]
    np.testing.assert_allclose(out["loss_value"], np.where(error > 0, 0.8, 0.2) * error**2)
    target = (td["next", "reward"] + 0.99 * ahead * ~td["next", "terminated"])[:, 0]
    np.testing.assert_allclose(out["loss_qvalue"], ((qs - target) ** 2).sum(0), rtol=1e-6)
    np.testing.assert_allclose(td["td_error"], ((qs - target) ** 2).max(0), rtol=1e-6)
    log_prob = gaussian().get_dist(td.copy()).log_prob(td["action"])
    np.testing.assert_allclose(out["loss_actor"], -np.exp(3 * error) * log_prob)
    np.testing.assert_allclose(td["_log_prob"], log_prob)


def test_no_weight_is_above_100() -> None:
    td = batch()
    out = made(temperature=1e6, reduction="none")(td)
    weights = out["loss_actor"] / -td["_log_prob"]
    assert set(weights.round(9).tolist()) == {0, 100}


def test_each_network_learns_from_its_own_loss() -> None:
    loss = made()
    for name, network in {"loss_actor": "actor", "loss_qvalue": "qvalue", "loss_value": "value"}.items():
        loss.zero_grad()
        with enable_grad():
            loss(batch())[name].backward()
        learnt = {key.split(".")[0] for key, leaf in loss.named_parameters() if leaf.grad is not None}
        assert learnt == {f"{network}_network_params"}


def test_masked_steps_and_n_step_discounts_count_for_critics_too() -> None:
    td = batch()
    td["collector", "mask"] = np.array([1, 1, 0, 1, 1, 0], bool)
    td["next", "reward"][~td["collector", "mask"]] = 1e9
    assert made()(td)["loss_qvalue"] < 1e3
    steps = batch().set("steps_to_next_obs", np.full((6, 1), 3))
    assert made()(steps)["loss_qvalue"] != made()(batch())["loss_qvalue"]


def test_a_single_critic_is_not_stacked() -> None:
    for network in (q_network(), [q_network()]):
        loss = IQLLoss(gaussian(), network, critic(), num_qvalue_nets=1)
        assert loss.qvalue_network_params["module", "linear", "weight"].shape == (1, 6)
        np.testing.assert_array_equal(
            loss._taken(loss.qvalue_network_params, batch())[0],
            q_network()(batch())["state_action_value"][:, 0],
        )


def discrete(**options: Any) -> DiscreteIQLLoss:
    critics = [
        nn.TensorDictModule(linear(4, 3, seed), ["observation"], ["state_action_value"]) for seed in (4, 5)
    ]
    loss = DiscreteIQLLoss(categorical(), critics, critic(), **options)
    SoftUpdate(loss, eps=0.9)
    return loss


def test_discrete_by_hand() -> None:
    td = transitions(6, action=np.arange(6) % 3)
    out = discrete(action_space="categorical", reduction="none")(td)
    qs = np.stack([linear(4, 3, seed)(td["observation"]) for seed in (4, 5)])[
        :, np.arange(6), np.arange(6) % 3
    ]
    error = qs.min(0) - critic()(td.copy())["state_value"][:, 0]
    np.testing.assert_allclose(out["loss_value"], 0.5 * error**2)
    log_prob = categorical().get_dist(td.copy()).log_prob(td["action"])
    np.testing.assert_allclose(out["loss_actor"], -np.exp(error) * log_prob)


def test_errors() -> None:
    raises(ValueError, r"expectile must be below 1, got 1\.0", discrete, expectile=1.0)
    with pytest.warns(UserWarning, match="'one-hot' is taken"):
        assert discrete().action_space == "one_hot"
    td = batch()
    td["next", "reward"] = td["next", "reward"][:, 0]
    raises(RuntimeError, "shape", made(), td)
    assert "td_error" not in td
    assert "_log_prob" not in td
