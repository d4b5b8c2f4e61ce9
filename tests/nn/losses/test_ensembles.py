"""Networks of one form, called at once."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.nn.transitions import q_network, transitions

from lite import from_modules, grad
from lite.nn.losses.ensembles import values_of_each


@pytest.mark.parametrize("loop", [False, True])
def test_each_network_sees_the_same_data(loop: bool) -> None:
    nets = [q_network(seed) for seed in (1, 2, 3)]
    td = transitions(5, action=np.random.default_rng(0).normal(size=(5, 2)))
    params = from_modules(*nets, as_module=True)
    before = set(td.keys(True, True))
    found = values_of_each(nets[0], params, td, "state_action_value", loop=loop)
    expected = [net(td.copy())["state_action_value"] for net in nets]
    np.testing.assert_allclose(found, expected)
    assert set(td.keys(True, True)) == before


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
