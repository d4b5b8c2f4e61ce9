"""PPOLoss, ClipPPOLoss, MAPPOLoss and IPPOLoss, computed by hand."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import critic, gaussian, linear, transitions

from lite import TensorDict, nn
from lite.nn.losses import ClipPPOLoss, IPPOLoss, KLPENPPOLoss, MAPPOLoss, PPOLoss, SoftUpdate
from lite.nn.losses.ppo import _normalized, clip_bounds, effective_sample_size, fitting


def acted(*shape: int) -> TensorDict:
    """A batch in which another policy acted."""
    rng = np.random.default_rng(1)
    shape = shape or (6,)
    return transitions(
        *shape, action=rng.normal(size=(*shape, 2)), action_log_prob=rng.normal(-2, 0.3, shape),
        advantage=rng.normal(size=(*shape, 1)), value_target=rng.normal(size=(*shape, 1)),
    )  # fmt: skip


def test_by_hand() -> None:
    td, policy, value = acted(), gaussian(), critic()
    out = ClipPPOLoss(policy, value, clip_epsilon=0.1, entropy_coeff=0.5)(td)
    dist = policy.get_dist(td.copy())
    ratio = np.exp(dist.log_prob(td["action"]) - td["action_log_prob"])
    advantage = td["advantage"][:, 0]
    gain = np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage)
    np.testing.assert_allclose(out["loss_objective"], -gain.mean(), rtol=1e-6)
    np.testing.assert_allclose(out["clip_fraction"], np.mean((ratio < 0.9) | (ratio > 1.1)))
    np.testing.assert_allclose(out["loss_entropy"], -0.5 * dist.entropy().mean())
    np.testing.assert_allclose(out["ESS"], ratio.sum() ** 2 / (ratio**2).sum() / 6)
    np.testing.assert_allclose(out["kl_approx"], -np.log(ratio).mean())
    left = np.var(td["value_target"] - value(td.copy())["state_value"]) / np.var(td["value_target"])
    np.testing.assert_allclose(out["explained_variance"], [1 - left])
    unclipped = PPOLoss(policy, value)(td)
    np.testing.assert_allclose(unclipped["loss_objective"], -(ratio * advantage).mean())


@each_case("cls", [PPOLoss, ClipPPOLoss, KLPENPPOLoss])
def test_a_proximal_policy_and_a_limit_of_weights(cls: type[PPOLoss]) -> None:
    """Ratios are to the policy of the last update; what acted has weights of at most 1.1."""
    td, policy = acted(), gaussian()
    loss = cls(policy, critic(), delay_actor=True, max_importance_ratio=1.1, entropy_bonus=False)
    SoftUpdate(loss, eps=0.9)
    for leaf in loss.target_actor_network_params.values(True, True):
        leaf *= 1.1
    now = policy.get_dist(td.copy()).log_prob(td["action"])
    with loss.target_actor_network_params.to_module(policy):
        before = policy.get_dist(td.copy()).log_prob(td["action"])
    ratio, weight = np.exp(now - before), np.exp(before - td["action_log_prob"])
    assert set(ratio * weight > 1.1) == {False, True}
    weight = np.minimum(weight, 1.1 / ratio)
    gain = ratio * weight * td["advantage"][:, 0]
    if cls is ClipPPOLoss:
        gain = np.minimum(gain, np.clip(ratio, 0.8, 1.2) * weight * td["advantage"][:, 0])
    out = loss(td)
    penalty = out["kl"].mean() if cls is KLPENPPOLoss else 0
    np.testing.assert_allclose(out["loss_objective"], penalty - gain.mean(), rtol=1e-6)
    np.testing.assert_allclose(out["kl_approx"], -np.log(ratio).mean())


def test_advantages_are_normalised_by_those_that_are_valid() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    valid = np.arange(12).reshape(3, 4) % 3 > 0
    found = _normalized(x, (-1,), valid)
    each = x[valid]
    np.testing.assert_allclose(found[valid], (each - each.mean(0)) / each.std(0), rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(_normalized(x, (0, 1, 2), None), x)


@each_case(
    ("advantage", "ratios", "expected"),
    [
        ((6, 1), (6, 1), (6, 1)),
        ((6, 2), (6, 1), (6, 2)),  # several objectives
        ((6, 1), (6, 3, 1), (6, 1, 1)),  # one for all actions of a step
        ((6,), (6, 1), None),
        ((1, 1), (6, 1), None),
        ((6, 6, 1), (6, 1), None),
        ((3, 1), (6, 3, 1), None),
    ],
)
def test_shapes_of_advantages(advantage: Any, ratios: Any, expected: Any) -> None:
    if expected is None:
        with pytest.raises(
            ValueError, match="An advantage has the shape of the log-probs and a last dimension"
        ):
            fitting(np.zeros(advantage), np.zeros(ratios))
    else:
        assert fitting(np.zeros(advantage), np.zeros(ratios)).shape == expected


@each_case(
    ("change", "error", "message"),
    [
        (lambda td: td.pop("action"), KeyError, "ClipPPOLoss reads the entry 'action'"),
        (lambda td: td.pop("action_log_prob"), KeyError, "reads the entry 'action_log_prob'"),
        (lambda td: td.pop("value_target"), KeyError, "reads the entry 'value_target'"),
        (lambda td: td.set("advantage", np.ones(6)), ValueError, r"advantage has the shape \(6,\)"),
        (lambda td: td.set("action_log_prob", np.ones((6, 1))), ValueError,
            r"the shape \(6,\), got \(6, 1\)"),
        (lambda td: td.set("value_target", np.ones(6)), RuntimeError,
            "values and targets must have one shape"),
        (lambda td: td.set("advantage", np.full((6, 1), np.nan)), ValueError,
            r"NaN in the entries \['advantage'\]"),
    ],
)  # fmt: skip
def test_errors(change: Any, error: Any, message: str) -> None:
    td = acted()
    change(td)
    raises(error, message, lambda: ClipPPOLoss(gaussian(), critic())(td))


def test_arguments() -> None:
    raises(TypeError, "actor_network and, unless critic_coeff is None, critic_network", PPOLoss)
    raises(TypeError, "must be a module with get_dist", lambda: PPOLoss(linear(4, 2), critic()))
    with pytest.raises(ValueError, match="max_importance_ratio must be positive, got -1"):
        PPOLoss(gaussian(), critic(), max_importance_ratio=-1)
    with pytest.raises(ValueError, match=r"clip_value=True needs one clip_epsilon, got \(0\.1, 0\.2\)"):
        ClipPPOLoss(gaussian(), critic(), clip_epsilon=(0.1, 0.2), clip_value=True)
    with pytest.raises(RuntimeError, match="has no 'advantage', and the loss no critic"):
        ClipPPOLoss(gaussian())(acted().exclude("advantage"))
    policy, values = gaussian(), critic()
    ours, other = ClipPPOLoss(policy, values), ClipPPOLoss(actor=policy, critic=values)
    assert ours(acted())["loss_critic"] == other(acted())["loss_critic"]
    np.testing.assert_allclose(ours._clip_bounds, np.log([0.8, 1.2]))
    for wrong in (-0.1, (0.1, -0.1), 1.0, (0.1, 0.2, 0.3)):
        raises(ValueError, "clip_epsilon must", clip_bounds, wrong)


def test_limits_can_be_scheduled() -> None:
    one, two = ClipPPOLoss(gaussian(), critic()), ClipPPOLoss(gaussian(), critic(), clip_epsilon=(0.1, 0.3))
    one.clip_epsilon = 0.5
    two.clip_epsilon_high = 0.25
    assert (float(one.clip_epsilon), float(two.clip_epsilon_high)) == (0.5, 0.25)
    with pytest.raises(AttributeError, match="this loss has clip_epsilon, which can be set"):
        one.clip_epsilon_low = 0.1
    with pytest.raises(AttributeError, match="it has no clip_epsilon"):
        two.clip_epsilon = 0.1


def test_a_mean_over_agents_warns() -> None:
    td = acted(6)
    td["advantage"] = np.random.default_rng(0).normal(size=(6, 2))
    loss = ClipPPOLoss(gaussian(), critic(), normalize_advantage=True)
    with pytest.warns(UserWarning, match="normalize_advantage_exclude_dims keeps agents or objectives apart"):
        loss(td)
    one = acted(1)  # which has no deviation
    found = [ClipPPOLoss(gaussian(), normalize_advantage=on)(one)["loss_objective"] for on in (True, False)]
    np.testing.assert_array_equal(*found)
    td = acted(6)
    shift = td.copy().set("advantage", 3 * td["advantage"] + 1)
    loss = ClipPPOLoss(gaussian(), normalize_advantage=True)
    np.testing.assert_allclose(loss(shift)["loss_objective"], loss(td)["loss_objective"], rtol=1e-4)


def test_advantages_are_normalised_apart() -> None:
    valid = np.array([[True, True, False], [False, False, False]])
    found = _normalized(np.array([[1.0, 3, 9], [5, 5, 5]]), (0,), valid)
    np.testing.assert_allclose(found, [[-1, 1, 7], [5e4, 5e4, 5e4]])
    np.testing.assert_array_equal(_normalized(np.ones((2, 1)), (0,), None), np.zeros((2, 1)))  # one each


def test_effective_sample_sizes() -> None:
    assert effective_sample_size(np.zeros(5)) == 5
    np.testing.assert_allclose(effective_sample_size(np.array([1000.0, 0.0])), 1)


def test_parts_without_a_coefficient() -> None:
    loss = ClipPPOLoss(gaussian(), critic(), entropy_coeff={"other_log_prob": 0.1})
    parts = TensorDict({"a_entropy": np.ones((6, 1)), "b_entropy": np.full((6, 1), 2)}, batch_size=[6, 1])
    both = ClipPPOLoss(gaussian(), critic(), entropy_coeff={"a_log_prob": 0.1, "b": 0.5})
    np.testing.assert_allclose(both._weighted(parts, 2), -np.full((6, 1), 1.1))
    one = ClipPPOLoss(gaussian(), critic(), entropy_coeff=0.1)
    np.testing.assert_allclose(one._weighted(parts, 2), -np.full((6, 1), 0.3))
    raises(KeyError, "entropy_coeff has no number for 'a_log_prob'", lambda: loss._weighted(parts, 2))


@each_case("cls", [MAPPOLoss, IPPOLoss])
def test_agents(cls: type[MAPPOLoss]) -> None:
    """Each agent's advantages have mean 0; the critic's errors are in deviations of the returns."""
    td = TensorDict({key: entry for key, entry in acted(4, 5, 3).items() if key != "next"}, batch_size=[4, 5])
    norm = nn.PopArtValueNorm(shape=1, beta=0.5)
    plain = {"loss_critic_type": "l2", "entropy_bonus": False}
    out = cls(gaussian(), critic(), value_norm=norm, **plain)(td)
    same = nn.PopArtValueNorm(shape=1, beta=0.5)
    same.update(td["value_target"])
    error = (critic()(td.copy())["state_value"] - td["value_target"]) / same.scale()
    np.testing.assert_allclose(out["loss_critic"], (error**2).mean(), rtol=1e-6)
    np.testing.assert_array_equal(norm.scale(), same.scale())
    advantage = td["advantage"]
    scaled = (advantage - advantage.mean((0, 1))) / advantage.std((0, 1), ddof=1)
    td["advantage"] = scaled
    again = cls(gaussian(), critic(), normalize_advantage=False, **plain)(td)
    np.testing.assert_allclose(out["loss_objective"], again["loss_objective"], rtol=1e-6)


def test_a_seed_is_of_all_calls() -> None:
    td, loss = acted(), PPOLoss(gaussian(bounded=True), critic(), generator=0)
    first, second = loss(td)["entropy"], loss(td)["entropy"]
    assert first != second
    np.testing.assert_array_equal(
        PPOLoss(gaussian(bounded=True), critic(), generator=0)(td)["entropy"], first
    )
