"""Arguments that objects keep under their names for users, and that no part of lite reads again."""

from typing import Any

import gymnasium
import numpy as np
from helpers.counting_env import CountingEnv
from helpers.nn.transitions import critic, gaussian, q_network

from lite import data, envs, nn
from lite.nn import losses, values

ESTIMATOR = {"value_network": None, "gamma": 0.9, "time_dim": -2, "deactivate_vmap": True}
KEPT: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (nn.MLP, {"in_features": 3, "out_features": 2, "num_cells": [4, 5]}, {"depth": 2}),
    (nn.MultiAgentMLP, {"n_agent_inputs": 3, "n_agent_outputs": 2, "n_agents": 2, "centralized": True}, {}),
    (nn.DuelingMlpDQNet, {"out_features": 3, "out_features_value": 2}, {}),
    (nn.gSDEModule, {"action_dim": 2, "state_dim": 3}, {}),
    (envs.gSDENoise, {"action_dim": 2, "state_dim": 3}, {}),
    (nn.Transformer, {"d_model": 4, "nhead": 2}, {}),
    (nn.TransformerEncoder, {"num_layers": 1, "enable_nested_tensor": False, "mask_check": False}, {}),
    (nn.AdditiveGaussianModule, {"spec": data.Bounded(-1, 1, (1,)), "safe": True}, {}),
    (nn.OrnsteinUhlenbeckProcessModule, {"spec": data.Bounded(-1, 1, (1,)), "safe": False}, {}),
    (nn.MaskedCategorical, {"padding_value": 7, "use_cross_entropy": False, "padding_side": "right"}, {}),
    (nn.TensorDictModule, {"method": "get", "method_kwargs": {"a": 1}, "strict": True}, {}),
    (values.GAE, {**ESTIMATOR, "lmbda": 0.5, "vectorized": False}, {}),
    (values.TDLambdaEstimator, {**ESTIMATOR, "lmbda": 0.5, "vectorized": False}, {}),
    (values.TD1Estimator, ESTIMATOR, {}),
    (losses.SACLoss, {"fixed_alpha": True, "delay_value": False, "target_entropy": -2.0}, {}),
    (losses.IQLLoss, {"num_qvalue_nets": 3}, {}),
    (envs.CatTensors, {"in_keys": ["a"], "unsqueeze_if_oor": True}, {}),
    (envs.ActionDiscretizer, {"num_intervals": 3, "out_action_key": "fine"}, {}),
    (envs.SerialEnv, {"num_workers": 1, "create_env_fn": CountingEnv, "shutdown_timeout": 3.0}, {}),
    (data.SliceSampler, {"slice_len": 2, "cache_values": True, "traj_key": "episode"}, {}),
    (data.MultiStepTransform, {"n_steps": 2, "gamma": 0.9, "shift_done": True, "mask_key": "mask"}, {}),
]
GIVEN: dict[Any, dict[str, Any]] = {
    nn.MaskedCategorical: {"logits": np.zeros((1, 3)), "indices": [[0, 1]]},
    nn.TensorDictModule: {"module": {}, "in_keys": ["a"], "out_keys": ["b"]},
    nn.MultiAgentMLP: {"share_params": False},
    nn.TransformerEncoder: {"encoder_layer": nn.TransformerEncoderLayer(4, 2, 8)},
    losses.SACLoss: {"actor_network": gaussian(), "qvalue_network": q_network(), "value_network": critic()},
    losses.IQLLoss: {"actor_network": gaussian(), "qvalue_network": q_network(), "value_network": critic()},
}
OTHERS = {"spec", "centralized", "create_env_fn", "value_network", "gamma", "lmbda", "target_entropy"}
REPRS: list[tuple[Any, str]] = [
    (
        data.PrioritizedSliceSampler(10, 0.7, 0.9, slice_len=3),
        "span=(False, False), alpha=0.7, beta=0.9, eps=1e-08)",
    ),
    (envs.GymWrapper(gymnasium.make("CartPole-v1")), "CartPoleEnv<CartPole-v1>>>>>, batch_size=())"),
    (
        envs.TensorDictPrimer(a=data.Unbounded((1,)), default_value=1.0),
        "default_value={('a',): 1.0}, random=False)",
    ),
]


def test_what_objects_show() -> None:
    for made, end in REPRS:
        assert end in repr(made)


def test_arguments_are_attributes() -> None:
    for kind, arguments, more in KEPT:
        made = kind(**GIVEN.get(kind, {}), **arguments)
        for name, value in {**arguments, **more}.items():
            if name not in OTHERS:
                assert getattr(made, name) == value, (kind, name)
