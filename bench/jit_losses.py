"""Whole updates of DQN, PPO and SAC for `bench/test_jit.py`, beside TorchRL's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict
import torch
from jit_networks import RATE, numbers, same
from jit_steps import Alternatives, with_and_without
from tensordict import nn as tnn
from torchrl import modules as rl
from torchrl import objectives

from lite import TensorDict, nn, optim, value_and_grad
from lite.nn import distributions, losses


def _torch_batch(batch: TensorDict) -> Any:
    return tensordict.TensorDict(batch.to_dict(), batch_size=batch.batch_size).apply(torch.as_tensor)


def _transitions(count: int, features: int, **entries: Any) -> TensorDict:
    flag = np.random.default_rng(0).random((count, 1)) < 0.1
    after = {"observation": numbers(count, features, seed=2), "reward": numbers(count, 1, seed=3)}
    after |= {"done": flag, "terminated": flag}
    return TensorDict({"observation": numbers(count, features), **entries, "next": after}, batch_size=[count])


def _same_weights(mine: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(mine, theirs, strict=True):
        one.load_state_dict({key: value.detach() for key, value in other.state_dict().items()})


def _mlp(lib: Any, inputs: int, outputs: int, cells: int, activation: Any) -> Any:
    return lib.MLP(
        in_features=inputs, out_features=outputs, num_cells=[cells, cells], activation_class=activation
    )


def _torch_updates(
    given: Any,
    batch: Any,
    parts: tuple[str, ...] = ("loss",),
    tau: float | None = None,
    max_norm: float | None = None,
) -> Alternatives:
    """TorchRL's update as its scripts have it; with torch's fastest Adam; the same under torch.compile."""

    def learning(**how: bool) -> Callable[[], Any]:
        loss = copy.deepcopy(given)
        adam = torch.optim.Adam(loss.parameters(), lr=RATE, **how)
        target = None if tau is None else objectives.SoftUpdate(loss, tau=tau)

        def call() -> Any:
            found = loss(batch)
            value = sum(found[part] for part in parts)
            value.backward()
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(loss.parameters(), max_norm)
            adam.step()
            adam.zero_grad()
            if target is not None:
                target.step()
            return value

        return call

    fused, compiled = learning(fused=True), torch.compile(learning(fused=True))
    return {"torchrl": learning(), "torchrl, fused Adam": fused, "torchrl, torch.compile": compiled}


def dqn(threads: int) -> Alternatives:
    """DQN of 4-128-128-2 with double targets, Adam and the soft update, batches of 64."""
    torch_net, net = _mlp(rl, 4, 2, 128, torch.nn.ReLU), _mlp(nn, 4, 2, 128, nn.ReLU)
    _same_weights([net], [torch_net])
    loss = losses.DQNLoss(nn.QValueActor(net, action_space="categorical"), double_dqn=True)
    actor = rl.QValueActor(torch_net, in_keys=["observation"], action_space="categorical")
    torch_loss = objectives.DQNLoss(actor, double_dqn=True, action_space="categorical", delay_value=True)
    torch_loss.make_value_estimator(gamma=0.99)
    batch = _transitions(64, 4, action=np.random.default_rng(0).integers(2, size=64))
    torch_batch = _torch_batch(batch)
    adam = optim.Adam(RATE)
    everything = TensorDict.from_module(loss)

    def update(params: Any, state: Any, targets: Any, batch: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(loss), targets.to_module(loss):
                return loss(batch)["loss"]

        value, grads = value_and_grad(objective)(params)
        params, state = adam.update(params, grads, state)
        optim.soft_update(targets["target_value_network_params"], params["value_network_params"], 0.01)
        return value, params, state

    params = everything.select("value_network_params")
    targets = everything.select("target_value_network_params")
    ours = with_and_without(update, params, adam, batch, threads=threads, targets=targets)
    theirs = _torch_updates(torch_loss, torch_batch, tau=0.01)
    return same({**ours, **theirs})


def _gaussian(side: Any, net: Any, distribution: Any, extractor: Any) -> Any:
    return side.ProbabilisticTensorDictSequential(
        side.TensorDictModule(net, ["observation"], ["params"]),
        side.TensorDictModule(extractor, ["params"], ["loc", "scale"]),
        side.ProbabilisticTensorDictModule(
            ["loc", "scale"], ["action"], distribution_class=distribution, return_log_prob=True
        ),
    )


def ppo(threads: int) -> Alternatives:
    """Clipped PPO of 4-64-64-2 and its critic, gradients clipped by their norm, batches of 64."""
    torch_nets = [_mlp(rl, 4, 4, 64, torch.nn.Tanh), _mlp(rl, 4, 1, 64, torch.nn.Tanh)]
    nets = [_mlp(nn, 4, 4, 64, nn.Tanh), _mlp(nn, 4, 1, 64, nn.Tanh)]
    _same_weights(nets, torch_nets)
    actor = _gaussian(nn, nets[0], distributions.IndependentNormal, nn.NormalParamExtractor())
    torch_actor = _gaussian(tnn, torch_nets[0], rl.IndependentNormal, rl.NormalParamExtractor())
    critic = nn.ValueOperator(nets[1], in_keys=["observation"])
    torch_critic = rl.ValueOperator(torch_nets[1], in_keys=["observation"])
    loss = losses.ClipPPOLoss(actor, critic)
    torch_loss = objectives.ClipPPOLoss(torch_actor, torch_critic)
    names = {name: numbers(64, 1, seed=k) for k, name in enumerate(("advantage", "value_target"), 4)}
    log_prob = -np.abs(numbers(64, seed=6)) - 2
    batch = _transitions(64, 4, action=numbers(64, 2, seed=7), action_log_prob=log_prob, **names)
    torch_batch = _torch_batch(batch)
    adam = optim.Adam(RATE)
    parts = ("loss_objective", "loss_critic", "loss_entropy")

    def update(params: Any, state: Any, batch: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(loss):
                found = loss(batch)
                return sum(found[part] for part in parts)

        value, grads = value_and_grad(objective)(params)
        grads, _ = optim.clip_grad_norm(grads, 0.5)
        return value, *adam.update(params, grads, state)

    everything = TensorDict.from_module(loss)  # with the coefficients, which neither side learns

    params = everything.select("actor_network_params", "critic_network_params")
    ours = with_and_without(update, params, adam, batch, threads=threads)
    theirs = _torch_updates(torch_loss, torch_batch, parts, max_norm=0.5)
    return same({**ours, **theirs})


def sac(cells: int, count: int, threads: int) -> Alternatives:
    """SAC of 8 features and 2 actions, two critics, temperature, Adam and the soft update."""
    torch_nets = [_mlp(rl, 8, 4, cells, torch.nn.ReLU)] + [
        _mlp(rl, 10, 1, cells, torch.nn.ReLU) for _ in "12"
    ]
    nets = [_mlp(nn, 8, 4, cells, nn.ReLU)] + [_mlp(nn, 10, 1, cells, nn.ReLU) for _ in "12"]
    _same_weights(nets, torch_nets)
    keys = ["observation", "action"]
    loss = losses.SACLoss(
        _gaussian(nn, nets[0], distributions.TanhNormal, nn.NormalParamExtractor()),
        [nn.ValueOperator(net, in_keys=keys) for net in nets[1:]],
        target_entropy=-2.0,
        generator=np.random.default_rng(0),
    )
    torch_loss = objectives.SACLoss(
        _gaussian(tnn, torch_nets[0], rl.TanhNormal, rl.NormalParamExtractor()),
        [rl.ValueOperator(net, in_keys=keys) for net in torch_nets[1:]],
        target_entropy=-2.0,
    )
    torch_loss.make_value_estimator(gamma=0.99)
    batch = _transitions(count, 8, action=np.tanh(numbers(count, 2, seed=7)))
    torch_batch = _torch_batch(batch)
    adam = optim.Adam(RATE)
    everything = TensorDict.from_module(loss)
    trained = ["actor_network_params", "qvalue_network_params", "log_alpha"]
    parts = ("loss_actor", "loss_qvalue", "loss_alpha")

    def update(params: Any, state: Any, targets: Any, batch: Any) -> Any:
        def objective(params: Any) -> Any:
            with params.to_module(loss), targets.to_module(loss):
                found = loss(batch)
                return sum(found[part] for part in parts)

        value, grads = value_and_grad(objective)(params)
        params, state = adam.update(params, grads, state)
        optim.soft_update(targets["target_qvalue_network_params"], params["qvalue_network_params"], 0.005)
        return value, params, state

    params, targets = everything.select(*trained), everything.select("target_qvalue_network_params")
    ours = with_and_without(update, params, adam, batch, threads=threads, targets=targets)
    theirs = _torch_updates(torch_loss, torch_batch, parts, tau=0.005)
    return {**ours, **theirs}
