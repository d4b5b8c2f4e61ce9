"""SACLoss and CrossQLoss."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import Joined, categorical, gaussian, linear, q_network, transitions

from lite import enable_grad, nn
from lite.data import Bounded, Composite
from lite.nn.losses import CrossQLoss, DiscreteSACLoss, SACLoss, SoftUpdate


def made(kind: Any = SACLoss, **options: Any) -> Any:
    options = {"target_entropy": -2.0, "generator": 0, **options}
    loss = kind(gaussian(True), [q_network(), q_network(3)], **options)
    if kind is SACLoss and loss.delay_qvalue:
        SoftUpdate(loss, tau=0.1)
    return loss


def batch(**entries: Any) -> Any:
    rng = np.random.default_rng(2)
    return transitions(6, action=np.tanh(rng.normal(size=(6, 2))), **entries)


def test_a_seed_repeats_the_loss() -> None:
    first, second = made()(batch()), made()(batch())
    for key in first.keys():  # noqa: SIM118
        np.testing.assert_array_equal(first[key], second[key])
    assert first["loss_actor"] != made(generator=1)(batch())["loss_actor"]


def test_the_policy_and_the_critics_are_constants_to_each_other() -> None:
    loss, td = made(), batch()
    with enable_grad():
        loss(td)["loss_actor"].backward()
    grads = {name: parameter.grad is not None for name, parameter in loss.named_parameters()}
    assert {name.split(".")[0] for name, learns in grads.items() if learns} == {"actor_network_params"}
    loss.zero_grad()
    with enable_grad():
        loss(td)["loss_qvalue"].backward()
    grads = {name: parameter.grad is not None for name, parameter in loss.named_parameters()}
    assert {name.split(".")[0] for name, learns in grads.items() if learns} == {"qvalue_network_params"}


def test_states_after_the_end_need_no_observation() -> None:
    td = batch()
    td["next", "observation"][-1] = np.nan
    raises(ValueError, "scale must be positive, got nan", lambda: made()(td))
    td["next", "observation"][-1] = 0
    assert np.isfinite(made(skip_done_states=True)(td)["loss_qvalue"])


def test_outputs_without_reduction() -> None:
    out = made(reduction="none")(batch())
    assert out.batch_size == (6,)
    assert set(out.keys()) == {"loss_actor", "loss_qvalue", "loss_alpha"}
    assert made(CrossQLoss).actor_loss(batch().exclude("action"))[0].shape == ()  # the policy acts anew


@each_case(
    "spec",
    [Bounded(-1, 1, (2,)), Composite({"action": Bounded(-1, 1, (3, 2))}, shape=(3,))],
    ids=["one", "many"],
)
def test_target_entropy(spec: Any) -> None:
    assert float(made(target_entropy="auto", action_spec=spec).target_entropy) == -2
    raises(RuntimeError, "target_entropy='auto' needs an action_spec", lambda: made(target_entropy="auto"))
    with pytest.raises(RuntimeError, match="target_entropy='auto' needs an action_spec"):
        made(target_entropy="auto", action_spec=Composite({"other": Bounded(-1, 1, (2,))}))


def test_errors_leave_the_batch_as_it_was() -> None:
    td = batch()
    td["next", "reward"] = td["next", "reward"][:, 0]
    raises(RuntimeError, "one shape", lambda: made()(td))
    assert "td_error" not in td
    with pytest.raises(TypeError, match="must be a module with get_dist"):
        SACLoss(linear(4, 2), q_network(), target_entropy=-1.0)


def with_values(**options: Any) -> SACLoss:
    values = nn.ValueOperator(linear(4, 1))
    loss = SACLoss(
        gaussian(True), [q_network(), q_network(3)], values, target_entropy=-2.0, generator=0, **options
    )
    SoftUpdate(loss, tau=0.1)
    return loss


def test_a_value_network_learns_alone_from_its_loss() -> None:
    loss, td = with_values(), batch()
    for name, networks in {
        "loss_value": {"value_network_params"},
        "loss_qvalue": {"qvalue_network_params"},
        "loss_actor": {"actor_network_params"},
    }.items():
        loss.zero_grad()
        with enable_grad():
            loss(td)[name].backward()
        assert {
            key.split(".")[0] for key, parameter in loss.named_parameters() if parameter.grad is not None
        } == networks


def test_a_value_is_the_least_of_the_critics_less_the_weighted_log_prob() -> None:
    options: Any = {"alpha_init": 2.0, "loss_function": "l2", "reduction": "none"}
    loss, td = with_values(**options), batch().lock_()
    action, log_prob = with_values()._constant_actions(td, loss.actor_network_params)
    acted = td.clone().set("action", action)
    least = np.minimum(
        *(network(acted.copy())["state_action_value"] for network in (q_network(), q_network(3)))
    )
    expected = (linear(4, 1)(td["observation"]) - (least - 2 * log_prob[:, None]))[:, 0] ** 2
    np.testing.assert_allclose(loss.value_loss(td)[0], expected, rtol=1e-6)
    cost, known = with_values(**options).actor_loss(td)
    np.testing.assert_array_equal(known["log_prob"], log_prob)
    np.testing.assert_allclose(cost, 2 * log_prob - least[:, 0], rtol=1e-6)


def test_critics_share_the_batch_where_there_are_values() -> None:
    raises(RuntimeError, "2 critics need a batch size that 2 divides, got 5", with_values(), batch()[:5])
    raises(RuntimeError, "value_loss needs a value_network, got None", lambda: made().value_loss(batch()))
    assert with_values().out_keys[-1] == "loss_value"


@each_case("kind", [SACLoss, CrossQLoss])
def test_what_follows_is_worth_less_by_the_weighted_log_prob(kind: Any) -> None:
    found = []
    for alpha in (1.0, 2.0, 4.0):
        td = batch()
        td["next", "reward"][:] = 100.0  # so that every error has one sign
        made(kind, alpha_init=alpha, reduction="none")(td)
        found.append(td["td_error"])
    _, log_prob = (loss := made(kind))._constant_actions(batch()["next"], loss.actor_network_params)
    less = 0.99 * ~batch()["next", "terminated"][:, 0] * log_prob
    np.testing.assert_allclose(found[0] - [found[1], found[2]], [less, 3 * less], rtol=1e-5)
    assert np.ptp(less) > 0.1


class _Normed(Joined):
    """A critic with a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1, dtype=np.float64)

    def forward(self, observation: Any, action: Any) -> Any:
        return self.norm(super().forward(observation, action))


def test_crossq_values_both_steps_at_once() -> None:
    td = batch()
    td["next", "terminated"][:] = td["next", "done"][:] = True
    critics = [nn.ValueOperator(_Normed(), in_keys=["observation", "action"]) for _ in range(2)]
    loss = CrossQLoss(gaussian(True), critics, target_entropy=-2.0, loss_function="l2", generator=0)
    found = loss(td)["loss_qvalue"]
    # The batch norm's mean is that of the values of the actions in the batch and of the policy's next ones.
    of_batch = q_network()(td.copy())["state_action_value"]
    mean = loss.qvalue_network_params["module", "norm", "running_mean"][0] / 0.1
    assert abs(mean - of_batch.mean()) > 0.01
    var = (loss.qvalue_network_params["module", "norm", "running_var"][0] - 0.9) / 0.1 * 11 / 12
    error = (of_batch - mean) / np.sqrt(var + 1e-5) - td["next", "reward"]
    np.testing.assert_allclose(found, 2 * (error**2).mean(), rtol=1e-5)
    assert loss.qvalue_network.training
    with pytest.raises(RuntimeError, match="target_entropy='auto' needs an action_spec"):
        CrossQLoss(gaussian(True), q_network())


def test_parts_are_those_of_the_whole() -> None:
    loss = SACLoss(gaussian(), q_network(), target_entropy=-2.0)
    td = batch()
    value, known = loss.qvalue_loss(td)
    assert known["td_error"].shape == td.batch_size
    assert np.isfinite(value)
    share, known = loss.actor_loss(td)
    assert known["log_prob"].shape == td.batch_size
    assert np.isfinite(share)
    raises(RuntimeError, "needs a value_network, got None", lambda: loss.value_loss(td))


def made_discrete_sac(**options: Any) -> DiscreteSACLoss:
    critics = [nn.TensorDictModule(linear(4, 3, seed), ["observation"], ["action_value"]) for seed in (4, 5)]
    options = {"action_space": "categorical", "num_actions": 3, "delay_qvalue": False, **options}
    return DiscreteSACLoss(categorical(), critics, **options)


def test_by_hand() -> None:
    td = transitions(6, action=np.arange(6) % 3)
    out = made_discrete_sac(alpha_init=0.5, reduction="sum")(td)
    dist = categorical().get_dist(td.copy())
    values = np.stack([linear(4, 3, seed)(td["observation"]) for seed in (4, 5)])
    expected = (dist.probs * (0.5 * dist.logits - values.min(0))).sum()
    np.testing.assert_allclose(out["loss_actor"], expected, rtol=1e-6)
    np.testing.assert_allclose(out["entropy"], dist.entropy().mean())
    assert td["td_error"].shape == (6,)


def test_errors() -> None:
    with pytest.warns(UserWarning, match="action_space is not given: 'one-hot' is taken"):
        assert made_discrete_sac(action_space=None).action_space == "one_hot"
    raises(
        ValueError, "num_actions must be given for target_entropy='auto'", made_discrete_sac, num_actions=None
    )
    td = transitions(6, action=np.zeros((6, 3)))
    raises(ValueError, "the actions must be ids", made_discrete_sac(), td)
    assert "td_error" not in td
