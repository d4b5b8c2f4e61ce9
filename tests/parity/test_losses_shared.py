"""Losses whose policy and critic share parameters, against torchrl's: who learns from what."""

import numpy as np
import pytest
import torch
from parity.losses import LITE, TORCH, agree, assert_same, batches, default_dtype, mlp, steps, total
from tensordict import nn as tnn

import lite
from lite import nn


def networks(s):
    """A policy and a critic with a common first part."""
    common = s.TensorDictModule(mlp(s, 4, 5), ["observation"], ["hidden"])
    sequence = nn.TensorDictSequential if s is LITE else tnn.TensorDictSequential
    policy = s.Sequential(
        common,
        s.TensorDictModule(mlp(s, 5, 3), ["hidden"], ["logits"]),
        s.Probabilistic(["logits"], ["action"], distribution_class=s.Categorical, return_log_prob=True),
    )
    critic = sequence(common, s.ValueOperator(s.nn.Linear(5, 1), in_keys=["hidden"]))
    return policy, critic


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss", "A2CLoss", "ReinforceLoss"])
@pytest.mark.parametrize("estimated", [False, True])
def test_values_and_gradients(name, separate, estimated):
    rng = np.random.default_rng(0)
    shape = (2, 5)
    with default_dtype("float64"):
        torch.manual_seed(0)
        theirs, ours = networks(TORCH), networks(LITE)
        for mine, other in zip(ours, theirs, strict=True):
            mine.load_state_dict({key: value.numpy() for key, value in other.state_dict().items()})
        data = steps(rng, "float64", shape, action=rng.integers(0, 3, shape))
        data["action_log_prob"] = rng.normal(-1, 0.2, shape)
        if not estimated:
            data["advantage"], data["value_target"] = rng.normal(size=(2, *shape, 1))
        td, other_td = batches(data, shape)
        reference = getattr(TORCH.losses, name)(*theirs, separate_losses=separate)
        loss = getattr(LITE.losses, name)(*ours, separate_losses=separate)
        expected = reference(other_td)
        with lite.enable_grad():
            results = loss(td)
            total(results).backward()
        assert_same(results.apply(lite.nn.values.detached.detached), expected, 1e-10)
        total(expected).backward()
    grads = {key: parameter.grad for key, parameter in loss.named_parameters()}
    wanted = {
        key: None if parameter.grad is None else parameter.grad.numpy()
        for key, parameter in reference.named_parameters()
    }
    agree(grads, wanted, 1e-10)
    common = ours[0][0].module[0].weight.grad
    assert common is not None
    if separate:
        assert (
            loss.critic_network_params["module", "0", "module", "0", "weight"]
            is ours[0][0].module[0].weight.data
        )
