"""A2CLoss."""

import numpy as np
from helpers.cases import raises
from helpers.nn.transitions import categorical, critic, gaussian, transitions

from lite.nn.losses import A2CLoss


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
