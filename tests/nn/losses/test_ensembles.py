"""Networks of one form, called at once."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.transitions import q_network, transitions

import lite
from lite import TensorDict, from_modules, grad, nn
from lite.nn import TensorDictModule
from lite.nn.losses import TD3Loss
from lite.nn.losses.ensembles import values_of_each


@each_case("loop", [False, True])
def test_each_network_sees_the_same_data(loop: bool) -> None:
    nets = [q_network(seed) for seed in (1, 2, 3)]
    td = transitions(5, action=np.random.default_rng(0).normal(size=(5, 2)))
    params = from_modules(*nets, as_module=True)
    before = set(td.keys(True, True))
    found = values_of_each(nets[0], params, td, "state_action_value", loop=loop)
    expected = [net(td.copy())["state_action_value"] for net in nets]
    np.testing.assert_allclose(found, expected)
    assert set(td.keys(True, True)) == before


def test_a_single_network_is_an_ensemble_of_one() -> None:
    net, td = q_network(), transitions(5, action=np.ones((5, 2)))
    found = values_of_each(net, from_modules(net, as_module=True)[0], td, "state_action_value")
    np.testing.assert_allclose(found, net(td.copy())["state_action_value"][None])
    with pytest.raises(KeyError, match='"action_value" not found'):
        values_of_each(net, from_modules(net, as_module=True), td, "action_value")


@pytest.mark.parametrize("loop", [False, True])
def test_gradients_of_the_data(loop: bool) -> None:
    nets = [q_network(seed) for seed in (1, 2)]
    td = transitions(5)
    params = from_modules(*nets)

    def least(action: object) -> object:
        data = td.copy().set("action", action)
        return values_of_each(nets[0], params, data, "state_action_value", loop=loop).min(0).sum()

    action = np.random.default_rng(0).normal(size=(5, 2))
    found = grad(least)(action)
    values = np.stack([net(td.copy().set("action", action))["state_action_value"] for net in nets])
    chosen = values.argmin(0)[:, 0]
    weights = np.stack([net.module.linear.weight.data[0, 4:] for net in nets])
    np.testing.assert_allclose(found, weights[chosen])


def test_critics_of_agents_with_parameters_of_their_own() -> None:
    options = {"centralised": True, "share_params": False, "num_cells": [4]}
    actor = TensorDictModule(nn.MultiAgentMLP(1, 2, 3, **options, rng=0), ["observation"], ["action"])
    net = nn.MultiAgentMLP(3, 1, 3, **options, rng=1)
    critic = TensorDictModule(net, ["observation", "action"], ["state_action_value"])
    loss = TD3Loss(actor, critic, bounds=(-1.0, 1.0), generator=0)
    params, rng = loss.qvalue_network_params, np.random.default_rng(0)
    assert params["module", "params"].batch_size == (2, 3)
    td = TensorDict(observation=rng.normal(size=(5, 3, 1)), action=rng.normal(size=(5, 3, 2)), batch_size=[5])
    found, expected = (
        values_of_each(critic, params, td, "state_action_value", loop=loop) for loop in (False, True)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.shape == (2, 5, 3, 1)


class _Critic(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(6, 64), inner, nn.Linear(64, 1)

    def forward(self, observation: object, action: object) -> object:
        return self.last(self.inner(self.first(np.concatenate([observation, action], -1))))


def _td3(inner: nn.Module) -> TD3Loss:
    actor = TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"])
    critic = TensorDictModule(_Critic(inner), ["observation", "action"], ["state_action_value"])
    loss = TD3Loss(actor, critic, bounds=(-1.0, 1.0), delay_actor=False, delay_qvalue=False)
    loss.make_value_estimator()
    return loss


@each_case("inner", [nn.Dropout(0.5), nn.BatchNorm1d(64)], ids=["Dropout", "BatchNorm1d"])
def test_critics_that_draw_or_track(inner: nn.Module) -> None:
    loss = _td3(inner)
    before = loss.qvalue_network_params.data.clone()
    with lite.enable_grad():
        out = loss(transitions(8, action=np.random.default_rng(0).normal(size=(8, 2))))
        (out["loss_qvalue"] + out["loss_actor"]).backward()
    assert all(
        (p.grad != 0).any() for p in loss.qvalue_network_params.values(True, True) if hasattr(p, "grad")
    )
    if isinstance(inner, nn.BatchNorm1d):
        mean = ("module", "inner", "running_mean")
        assert (loss.qvalue_network_params.data[mean] != before[mean]).any()


def test_what_critics_draw() -> None:
    loss = _td3(nn.Dropout(0.5))
    assert (loss.vmap_randomness, _td3(nn.ReLU()).vmap_randomness) == ("different", "error")
    params = lite.stack([loss.qvalue_network_params.data[0]] * 2)
    td = transitions(8, action=np.ones((8, 2)))

    def values() -> object:
        return loss._values(params, td.select("observation", "action"))

    assert (values()[0] != values()[1]).any()
    loss.set_vmap_randomness("same")
    first, second = values()
    np.testing.assert_array_equal(first, second)
    loss.set_vmap_randomness("error")
    raises(RuntimeError, "random draw", values)
    raises(ValueError, "'error', 'same' or 'different', got 'other'", loss.set_vmap_randomness, "other")
