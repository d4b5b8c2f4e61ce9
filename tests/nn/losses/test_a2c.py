"""A2CLoss."""

import numpy as np
from helpers.cases import each_case, raises
from helpers.nn.transitions import categorical, critic, gaussian, linear, transitions

from lite import enable_grad, nn
from lite.nn.losses import A2CLoss, ReinforceLoss, SoftUpdate


def test_by_hand() -> None:
    policy, value = gaussian(), critic()
    rng = np.random.default_rng(0)
    td = transitions(
        6, action=rng.normal(size=(6, 2)), advantage=rng.normal(size=(6, 1)), value_target=np.ones((6, 1))
    )
    out = A2CLoss(policy, value, loss_critic_type="l2", critic_coeff=0.5, entropy_coeff=0.25)(td)
    dist = policy.get_dist(td.copy())
    expected = -(dist.log_prob(td["action"]) * td["advantage"][:, 0]).mean()
    np.testing.assert_allclose(out["loss_objective"], expected)
    np.testing.assert_allclose(out["loss_entropy"], -0.25 * dist.entropy().mean())
    state_value = value(td.copy())["state_value"]
    np.testing.assert_allclose(out["loss_critic"], 0.5 * ((state_value - 1) ** 2).mean())


def test_options_and_errors() -> None:
    loss = A2CLoss(categorical(), critic(), entropy_coeff=0.0, critic_coeff=None)
    assert loss.out_keys == ["loss_objective"]
    td = transitions(6, action=np.zeros(6, int), advantage=np.ones(6), value_target=np.ones((6, 1)))
    raises(ValueError, r"a last dimension of 1, got \(6,\) and log-probs", lambda: loss(td))
    raises(TypeError, "actor_network and critic_network must be given", lambda: A2CLoss(categorical()))
    for kind in (A2CLoss, ReinforceLoss):
        policy, values = categorical(), critic()
        loss = kind(categorical(), actor=policy, critic=values)
        assert (loss.actor_network, loss.critic_network) == (policy, values)
    clipping = A2CLoss(categorical(), critic(), clip_value=0.1)
    td["advantage"] = np.ones((6, 1))
    raises(KeyError, "reads the entry 'state_value'", lambda: clipping(td))


def test_the_critic_s_share_of_a_clipped_loss() -> None:
    rng = np.random.default_rng(0)
    td = transitions(6, action=rng.normal(size=(6, 2)), advantage=np.ones((6, 1)))
    td.update({"value_target": np.ones((6, 1)), "state_value": rng.normal(size=(6, 1))})
    loss = A2CLoss(gaussian(), critic(), clip_value=0.1)
    out = loss(td)
    assert 0 <= out["value_clip_fraction"] <= 1
    value, fraction = loss.loss_critic(td)
    np.testing.assert_allclose(value.mean(), out["loss_critic"])
    np.testing.assert_array_equal(fraction, out["value_clip_fraction"])


def test_by_hand_of_reinforce() -> None:
    policy = categorical()
    td = transitions(6, action=np.arange(6) % 3, advantage=np.ones((6, 1)), value_target=np.ones((6, 1)))
    out = ReinforceLoss(policy, critic(), reduction="sum")(td)
    np.testing.assert_allclose(out["loss_actor"], -policy.get_dist(td.copy()).log_prob(td["action"]).sum())


def test_defaults() -> None:
    policy, value = categorical(), critic()
    td = transitions(6, action=np.arange(6) % 3, advantage=np.ones((6, 1)), value_target=np.full((6, 1), 1.0))
    loss = ReinforceLoss(policy, value)
    distance = np.abs(value(td.copy())["state_value"] - 1)
    assert (distance < 1).any()
    assert (distance > 1).any()
    out = loss(td)
    expected = np.where(distance < 1, distance**2 / 2, distance - 0.5).mean()  # smooth_l1
    np.testing.assert_allclose(out["loss_value"], expected)
    assert list(out.keys()) == ["loss_actor", "loss_value"]
    assert (
        loss.target_critic_network_params["module", "weight"]
        is loss.critic_network_params["module", "weight"].data
    )


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


@each_case("options", [{}, {"separate_losses": True}])
def test_a_shared_network_learns_from_values_unless_losses_are_separate(options: dict[str, bool]) -> None:
    shared = nn.TensorDictModule(linear(4, 4), ["observation"], ["hidden"])
    logits = nn.TensorDictModule(linear(4, 3), ["hidden"], ["logits"])
    value = nn.TensorDictSequential(shared, nn.ValueOperator(linear(4, 1), in_keys=["hidden"]))
    policy = nn.ProbabilisticTensorDictSequential(shared, logits, categorical()[1])
    td = transitions(6, action=np.arange(6) % 3, advantage=np.ones((6, 1)), value_target=np.ones((6, 1)))
    with enable_grad():
        ReinforceLoss(policy, value, **options)(td)["loss_value"].backward()
    assert (shared.module.weight.grad is None) is bool(options)


def test_clipped_values() -> None:
    td = transitions(6, action=np.arange(6) % 3, advantage=np.ones((6, 1)), value_target=np.ones((6, 1)))
    td["state_value"] = critic()(td.copy())["state_value"] + np.linspace(0, 1, 6)[:, None]
    out = ReinforceLoss(categorical(), critic(), clip_value=0.3)(td)
    np.testing.assert_allclose(out["value_clip_fraction"], 4 / 6)
