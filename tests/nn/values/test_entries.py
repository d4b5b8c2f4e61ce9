"""What the transforms ask of their input."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, enable_grad, grad, nn
from lite.nn.losses import hold_out_net
from lite.nn.values.entries import require_array, require_time


def test_time_and_arrays() -> None:
    td = TensorDict(next={"reward": np.zeros((2, 3))}, note="x", batch_size=[2])
    require_time(td, "Reader")
    assert require_array(td, ("next", "reward"), "Reader") is td["next", "reward"]


def test_errors_name_the_reader_and_the_entry() -> None:
    raises(TypeError, "Reader needs a TensorDict, got dict", require_time, {}, "Reader")
    with pytest.raises(ValueError, match="Reader needs a TensorDict with a time dimension"):
        require_time(TensorDict(), "Reader")
    raises(KeyError, "Reader reads the entry", require_array, TensorDict(), ("done",), "Reader")
    with pytest.raises(TypeError, match="as an array, got TensorDict"):
        require_array(TensorDict(done={"a": 1}), ("done",), "Reader")


def test_a_network_held_out_has_no_derivatives_by_its_parameters() -> None:
    model, net = nn.Linear(3, 2, rng=0), nn.Sequential(nn.Linear(2, 4, rng=1), nn.BatchNorm1d(4))
    net[0].bias.requires_grad_(False)
    x, before = np.arange(15, dtype=np.float32).reshape(5, 3) ** 2, net[1].running_mean.copy()
    with enable_grad(), hold_out_net(net):
        (net(model(x)) ** 3).sum().backward()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert [parameter.requires_grad for parameter in net.parameters()] == [True, False, True, True]
    assert (net[1].running_mean != before).any()  # its buffers are as without

    def loss(params: TensorDict, held: TensorDict) -> Any:
        with params.to_module(model), held.to_module(net), hold_out_net(net):
            return (net(model(x)) ** 3).sum()

    both = [TensorDict.from_module(one).data.clone() for one in (model, net)]
    by_model, by_net = grad(loss, argnums=(0, 1))(*both)
    np.testing.assert_allclose(by_model["weight"], model.weight.grad, rtol=1e-4)
    assert all((found == 0).all() for found in by_net.values(True, True))
