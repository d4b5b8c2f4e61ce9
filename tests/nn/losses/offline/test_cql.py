"""CQLLoss and DiscreteCQLLoss."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import gaussian, linear, q_network, transitions

from lite import enable_grad
from lite.nn.losses import CQLLoss, DiscreteCQLLoss, SoftUpdate


def made(**options: Any) -> CQLLoss:
    options = {"target_entropy": -2.0, "generator": 0, "num_random": 4, "delay_qvalue": False, **options}
    return CQLLoss(gaussian(True), [q_network(2), q_network(3)], **options)


def batch(*shape: int) -> Any:
    shape = shape or (6,)
    return transitions(*shape, action=np.tanh(np.random.default_rng(2).normal(size=(*shape, 2))))


@each_case("shape", [(6,), (2, 3)])
def test_values_of_other_actions_less_those_of_the_data(shape: tuple[int, ...]) -> None:
    td = batch(*shape)
    out = made(min_q_weight=3.0, temperature=0.5)(td)
    values = np.stack([q_network(seed)(td.copy())["state_action_value"] for seed in (2, 3)])
    np.testing.assert_allclose([td["pred_q1"], td["pred_q2"]], values)
    of_each = np.stack([td["cql_q1_loss"], td["cql_q2_loss"]])
    assert of_each.shape == (2, *shape, 24)
    np.testing.assert_allclose(out["loss_cql"], of_each.sum(0).mean())
    others = of_each / 3 + values  # of each number of actions, whatever the step
    np.testing.assert_allclose(others, np.broadcast_to(others[:, :1], others.shape))


def test_importance_weights() -> None:
    """Of critics that value everything alike, importance weights estimate the volume of the actions."""
    loss = made(num_random=9000)
    for _, leaf in loss.qvalue_network_params.items(True, True):
        leaf.data[...] = 0
    td = batch()
    loss(td)
    # Three estimates of the integral over [-1, 1]^2, which is 4.
    np.testing.assert_allclose(np.exp(td["cql_q1_loss"]).mean(), 3 * 4, rtol=0.05)


def test_targets() -> None:
    td = batch()
    td["next", "terminated"][:] = False
    plain = made()._target(td)
    values = (plain - td["next", "reward"][:, 0]) / 0.99
    following = td["next"].copy()
    rng = np.random.default_rng(0)
    dist = gaussian(True).get_dist(following.copy())
    following["action"], log_prob = dist.rsample_and_log_prob((), rng=rng)
    least = np.minimum(*(q_network(n)(following.copy())["state_action_value"][:, 0] for n in (2, 3)))
    np.testing.assert_allclose(values, least, rtol=1e-6)
    soft = (made(deterministic_backup=False)._target(td) - td["next", "reward"][:, 0]) / 0.99
    np.testing.assert_allclose(soft, least - log_prob, rtol=1e-6)
    values = np.stack([q_network(n)(td.copy())["state_action_value"][:, 0] for n in (2, 3)])
    np.testing.assert_allclose(made().q_loss(td.copy())[1]["td_error"], (values - plain) ** 2)
    most = made(max_q_backup=True, num_random=50)._target(td)
    assert (most > plain).mean() > 0.5


def test_cloning_costs_what_the_actions_of_the_data_are_unlikely() -> None:
    td, dist = batch(), gaussian(True).get_dist(batch())
    _, log_prob = dist.rsample_and_log_prob((), rng=np.random.default_rng(0))
    cloned = dist.log_prob(td["action"])
    loss, known = made(alpha_init=2.0).actor_bc_loss(td)
    np.testing.assert_allclose([loss, known["bc_log_prob"]], [(2 * log_prob - cloned).mean(), cloned.mean()])


def test_a_learned_weight_keeps_the_gap() -> None:
    loss = made(with_lagrange=True, lagrange_thresh=2.0)
    assert loss.out_keys[-1] == "loss_alpha_prime"
    with enable_grad():
        out = loss(batch())
        out["loss_alpha_prime"].backward()
    np.testing.assert_allclose(loss.log_alpha_prime.grad, 0.5 * (4 - out["loss_cql"].detach()), rtol=1e-6)


def test_each_loss_teaches_its_own_parameters() -> None:
    loss = made()
    names = ("actor", "actor_bc", "qvalue", "cql", "alpha")
    learnt = {}
    for name in names:
        loss.zero_grad()
        with enable_grad():
            loss(batch())[f"loss_{name}"].backward()
        learnt[name] = {key.split(".")[0] for key, leaf in loss.named_parameters() if leaf.grad is not None}
    actor, critics = {"actor_network_params"}, {"qvalue_network_params"}
    expected = (actor, actor, critics, critics, {"log_alpha"})
    assert learnt == dict(zip(names, expected, strict=True))


def test_parts_in_the_wrong_order() -> None:
    loss = made(with_lagrange=True)
    raises(KeyError, "reads the entry 'pred_q1'", lambda: loss.cql_loss(batch()))
    raises(KeyError, "reads the entry 'cql_q1_loss'", lambda: loss.alpha_prime_loss(batch()))
    with pytest.raises(KeyError, match="reads the entry 'pred_val'"):
        DiscreteCQLLoss(linear(4, 3), action_space="categorical").cql_loss(batch())


def test_discrete_by_hand() -> None:
    net, other = linear(4, 3), linear(4, 3, 7)
    loss = DiscreteCQLLoss(net, action_space="categorical", reduction="none")
    SoftUpdate(loss, eps=0.9)
    for key in ("weight", "bias"):
        path = ("module", "0", "module", key)
        loss.target_value_network_params[path][...] = getattr(other, key).data
    td = transitions(6, action=np.arange(6) % 3)
    out = loss(td)
    values = net(td["observation"])
    chosen = values[np.arange(6), td["action"]]
    np.testing.assert_allclose(out["loss_cql"], np.log(np.exp(values).sum(-1)) - chosen)
    ahead = other(td["next", "observation"]).max(-1) * ~td["next", "terminated"][:, 0]
    error = chosen - td["next", "reward"][:, 0] - 0.99 * ahead
    np.testing.assert_allclose(out["loss_qvalue"], error**2 / 2, rtol=1e-6)
    np.testing.assert_allclose(td["td_error"][:, 0], error**2, rtol=1e-6)
    np.testing.assert_array_equal(td["pred_val"], values)


def test_large_values_do_not_overflow() -> None:
    net = linear(4, 3)
    net.weight.data[...] *= 1e5
    assert np.isfinite(
        DiscreteCQLLoss(net, action_space="categorical", delay_value=False)(
            transitions(6, action=np.arange(6) % 3)
        )["loss_cql"]
    )
