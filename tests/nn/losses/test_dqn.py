"""DQNLoss and DistributionalDQNLoss, computed by hand."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import Returns, linear, transitions

from lite import nn
from lite.data import Categorical
from lite.nn.losses import DistributionalDQNLoss, DQNLoss, SoftUpdate, ValueEstimators


def q(net: Any, observation: Any) -> Any:
    return observation @ net.weight.data.T + net.bias.data


def test_by_hand() -> None:
    net, td = linear(4, 3), transitions(6, action=np.arange(6) % 3)
    loss = DQNLoss(net, action_space="categorical", delay_value=False)
    loss.make_value_estimator(gamma=0.5)
    ahead = q(net, td["next", "observation"]).max(-1) * ~td["next", "terminated"][:, 0]
    error = q(net, td["observation"])[np.arange(6), td["action"]] - td["next", "reward"][:, 0] - 0.5 * ahead
    np.testing.assert_allclose(loss(td)["loss"], (error**2).mean())
    np.testing.assert_allclose(td["td_error"][:, 0], error**2)


def test_double() -> None:
    net, td = linear(4, 3), transitions(6, action=np.arange(6) % 3)
    loss = DQNLoss(net, action_space="categorical", double_dqn=True, reduction="none")
    SoftUpdate(loss, eps=0.9)
    target = linear(4, 3, seed=9)
    other = loss.target_value_network_params["module", "0", "module"]
    other["weight"][...], other["bias"][...] = target.weight.data, target.bias.data
    following = td["next", "observation"]
    best = q(net, following).argmax(-1)
    ahead = q(target, following)[np.arange(6), best] * ~td["next", "terminated"][:, 0]
    error = q(net, td["observation"])[np.arange(6), td["action"]] - td["next", "reward"][:, 0] - 0.99 * ahead
    np.testing.assert_allclose(loss(td)["loss"], error**2, rtol=1e-6)


@each_case(
    ("change", "error", "message"),
    [
        (lambda td: td.pop("action"), KeyError, "DQNLoss reads the entry 'action'"),
        (lambda td: td["next"].pop("reward"), KeyError, "reward"),
        (lambda td: td.set("action", np.zeros(6)), ValueError, "must be integers"),
        (lambda td: td.set("action", np.arange(6) - 4), IndexError, "be from 0 to 1, got -4 to 1"),
        (lambda td: td.set("action", np.arange(6) % 3), IndexError, "be from 0 to 1, got 0 to 2"),
        (lambda td: td.set("action", np.zeros((6, 2), int)), ValueError, r"ids of shape \(6,\)"),
        (lambda td: td.set(("next", "reward"), td["next", "reward"][:, 0]), RuntimeError,
            r"one shape, got values of \(6, 1\) and rewards of \(6,\)"),
        (lambda td: td.set("priority_weight", np.ones((6, 1))), ValueError, "priority weights must have"),
    ],
)  # fmt: skip
def test_errors_leave_the_batch_as_it_was(change: Any, error: Any, message: str) -> None:
    td = transitions(6, action=np.arange(6) % 2)
    change(td)
    before = set(td.keys(True, True))
    loss = DQNLoss(linear(4, 2), action_space="categorical", delay_value=False)
    raises(error, message, lambda: loss(td))
    assert set(td.keys(True, True)) == before


def test_arguments() -> None:
    with pytest.raises(ValueError, match="double_dqn=True needs delay_value=True"):
        DQNLoss(linear(4, 2), action_space="categorical", double_dqn=True, delay_value=False)
    with pytest.warns(UserWarning, match="action_space is not given: 'one-hot' is taken"):
        assert DQNLoss(linear(4, 2)).action_space == "one_hot"
    with pytest.raises(ValueError, match="action_space must be 'one-hot', 'categorical' or a spec"):
        DQNLoss(linear(4, 2), action_space="binary")
    assert DQNLoss(linear(4, 2), action_space=Categorical(2)).action_space == "categorical"
    actor = nn.QValueActor(linear(4, 2), action_space="one-hot")
    assert DQNLoss(actor).action_space == "one_hot"


@each_case(
    ("reward", "shares"),
    [
        (0.5, [0, 0, 0, 1, 0]),  # on an atom
        (0.375, [0, 0, 0.25, 0.75, 0]),  # between two
        (-7.0, [1, 0, 0, 0, 0]),  # below the support, and above it
        (1.0, [0, 0, 0, 0, 1]),
    ],
)
def test_returns_between_two_atoms_are_shared(reward: float, shares: list[float]) -> None:
    td = transitions(2, action=np.array([1, 2]))
    td["next", "terminated"][:] = True
    td["next", "reward"][:] = reward
    loss = DistributionalDQNLoss(Returns(), gamma=0.9, delay_value=False, reduction="none")
    assert {"action", "observation", ("next", "observation"), ("next", "reward")} <= set(loss.in_keys)
    log_probs = Returns()(td.copy())["action_value"]
    chosen = log_probs[np.arange(2), :, [1, 2]]
    np.testing.assert_allclose(loss(td)["loss"], -(chosen * shares).sum(-1), atol=1e-7)
    np.testing.assert_allclose(td["td_error"][:, 0], -(chosen * shares).sum(-1), atol=1e-7)


@each_case("space", ["categorical", "one-hot"])
def test_the_network_chooses_and_its_copy_says_how_much(space: str) -> None:
    td = transitions(3, action=np.zeros(3, int) if space == "categorical" else np.eye(3, dtype=int)[[0] * 3])
    td["next", "terminated"][:] = td["next", "done"][:] = False
    td["next", "reward"][:] = 0
    loss = DistributionalDQNLoss(Returns(space), gamma=0.5, reduction="none")
    SoftUpdate(loss, eps=0.9)
    other = Returns(seed=8)
    for key in ("weight", "bias"):
        path = ("module", "0", "module", "linear", key)
        loss.target_value_network_params[path][...] = getattr(other.module[0].module.linear, key).data
    best = Returns()(td["next"].copy())["action"]
    ahead = np.exp(other(td["next"].copy())["action_value"])[np.arange(3), :, best]
    one = np.eye(5)  # a return halved is another one, or between two
    ahead = ahead @ [one[1], one[1:3].mean(0), one[2], one[2:4].mean(0), one[3]]
    chosen = Returns()(td.copy())["action_value"][:, :, 0]
    np.testing.assert_allclose(loss(td)["loss"], -(ahead * chosen).sum(-1))


def test_what_distributions_need() -> None:
    with pytest.raises(TypeError, match="must be a DistributionalQValueActor, got Linear"):
        DistributionalDQNLoss(linear(4, 3), gamma=0.9)
    loss = DistributionalDQNLoss(Returns("one-hot"), gamma=0.9, delay_value=False)
    with pytest.raises(RuntimeError, match=r"must have one dimension, got the batch size \(2, 3\)"):
        loss(transitions(2, 3, action=np.zeros((2, 3), int)))
    with pytest.raises(ValueError, match=r"must have the shape \(6, 3\), got \(6,\)"):
        loss(transitions(6, action=np.zeros(6, int)))
    ids = DistributionalDQNLoss(Returns("categorical"), gamma=0.9, delay_value=False)
    for wrong in (-1, 3):  # NumPy would take the last action for -1
        td = transitions(6, action=np.full(6, wrong))
        raises(IndexError, f"actions must be from 0 to 2, got {wrong} to {wrong}", ids, td)
    raises(NotImplementedError, "supports TD0", lambda: loss.make_value_estimator(ValueEstimators.TDLambda))
    assert loss.make_value_estimator("td0") is loss
