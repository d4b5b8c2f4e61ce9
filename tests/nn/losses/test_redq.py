"""REDQLoss."""

from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.nn.transitions import gaussian, q_network, transitions

from lite import TensorDict, enable_grad, nn
from lite.nn import TensorDictModule
from lite.nn.losses import REDQLoss


def made(**options: Any) -> REDQLoss:
    options = {"target_entropy": -2.0, "num_qvalue_nets": 4, "delay_qvalue": False, "generator": 0, **options}
    return REDQLoss(gaussian(True), [q_network(seed) for seed in range(4)], **options)


def batch() -> TensorDict:
    return transitions(6, action=np.tanh(np.random.default_rng(2).normal(size=(6, 2))))


def test_terminal_steps_learn_their_reward() -> None:
    td = batch()
    td["next", "terminated"][:] = td["next", "done"][:] = True
    out = made(loss_function="l2", reduction="none")(td)
    values = np.stack([q_network(seed)(td.copy())["state_action_value"][:, 0] for seed in range(4)])
    error = values - td["next", "reward"][:, 0]
    np.testing.assert_allclose(out["loss_qvalue"], error**2)
    np.testing.assert_allclose(td["td_error"], (error**2).max(0))
    assert out["loss_alpha"].shape == (2, 6)
    assert "alpha" not in out


def test_a_few_critics_value_next_states() -> None:
    """The fewer they are, the greater is the least of them."""
    seen = [made(sub_sample_len=n)(batch())["next.state_value"].mean() for n in (1, 3)]
    assert seen[0] > seen[1]
    assert made(sub_sample_len=9).sub_sample_len == 3
    one, two = (made(alpha_init=alpha, reduction="none")(batch()) for alpha in (1.0, 2.0))
    log_prob, ahead = 2 - one["loss_alpha"]
    np.testing.assert_allclose(one["next.state_value"] - two["next.state_value"], ahead, rtol=1e-5)
    np.testing.assert_allclose(two["loss_actor"], 2 * log_prob - two["state_action_value_actor"], rtol=1e-5)
    assert len({float(made(generator=n, sub_sample_len=1)(batch())["loss_qvalue"]) for n in range(9)}) > 1


def test_a_few_critics_of_agents_with_parameters_of_their_own() -> None:
    net = nn.MultiAgentMLP(3, 1, 3, centralised=True, share_params=False, num_cells=[4], rng=0)
    critic = TensorDictModule(net, ["observation", "action"], ["state_action_value"])
    options = {"num_qvalue_nets": 4, "sub_sample_len": 2, "target_entropy": -2.0, "generator": 0}
    loss = REDQLoss(gaussian(True), critic, **options)
    key = ("module", "params", "0", "weight")
    few, known = loss._some(loss.target_qvalue_network_params), loss.target_qvalue_network_params[key]
    assert few["module", "params"].batch_size == (2, 3)
    assert sum(bool((one == other).all()) for one in few[key] for other in known) == 2


def test_alpha_learns_at_its_limits_where_it_is_not_moved_to() -> None:
    loss = made(alpha_init=20.0)
    with enable_grad():
        out = loss(batch())
        out["loss_alpha"].backward()
    np.testing.assert_allclose([out["alpha"], loss.alpha], 10, rtol=1e-6)
    np.testing.assert_allclose(np.exp(loss.log_alpha.data), 20, rtol=1e-6)
    np.testing.assert_allclose(loss.log_alpha.grad, 10 * (out["entropy"] + 2), rtol=1e-6)


def test_noise_that_depends_on_the_state_is_zero() -> None:
    loss = made(gSDE=True)
    read: list[Any] = []
    inner = loss.actor_network.get_dist
    loss.actor_network.get_dist = lambda td: read.append(td["_eps_gSDE"]) or inner(td)
    loss(batch())
    assert [entry.shape for entry in read] == [(6,), (6,)]
    assert not np.any(read)


def test_errors() -> None:
    raises(RuntimeError, "target_entropy='auto' needs an action_spec", made, target_entropy="auto")
    raises(RuntimeError, "5 networks are needed, got 4", made, num_qvalue_nets=5)
