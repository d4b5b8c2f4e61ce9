"""Every loss gives the numbers and gradients of its plain form as a graph, for any size of the batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.nn.transitions import categorical, critic, gaussian, linear, q_network, transitions

import lite
from lite import TensorDict, nn
from lite.nn import losses

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")

Made = tuple[Any, Callable[[int], TensorDict]]
RNG = np.random.default_rng(0)


def actions(n: int, **entries: Any) -> TensorDict:
    rng = np.random.default_rng(n)
    return transitions(n, action=np.tanh(rng.normal(size=(n, 2))), **entries)


def choices(n: int, **entries: Any) -> TensorDict:
    return transitions(n, action=np.random.default_rng(n).integers(3, size=n), **entries)


def estimated(n: int, make: Callable[..., TensorDict] = choices) -> TensorDict:
    rng = np.random.default_rng(n)
    names = ("advantage", "value_target", "state_value")
    return make(n, action_log_prob=-rng.random(n), **{name: rng.normal(size=(n, 1)) for name in names})


def deterministic() -> nn.TensorDictModule:
    return nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])


LOSSES: dict[str, Callable[[], Made]] = {
    "dqn": lambda: (losses.DQNLoss(linear(4, 3), action_space="categorical"), choices),
    "double dqn": lambda: (
        losses.DQNLoss(linear(4, 3), action_space="categorical", double_dqn=True, loss_function="smooth_l1"),
        choices,
    ),
    "ddpg": lambda: (losses.DDPGLoss(deterministic(), q_network(), delay_actor=True), actions),
    "td3": lambda: (losses.TD3Loss(deterministic(), q_network(), bounds=(-1.0, 1.0), generator=RNG), actions),
    "sac": lambda: (losses.SACLoss(gaussian(True), q_network(), target_entropy=-2.0, generator=RNG), actions),
    "discrete sac": lambda: (
        losses.DiscreteSACLoss(
            categorical(),
            nn.ValueOperator(linear(4, 3), ["observation"], ["action_value"]),
            num_actions=3,
            action_space="categorical",
            target_entropy=-0.5,
        ),
        choices,
    ),
    "reinforce": lambda: (losses.ReinforceLoss(categorical(), critic()), estimated),
    "a2c": lambda: (losses.A2CLoss(categorical(), critic()), estimated),
    "ppo": lambda: (losses.PPOLoss(categorical(), critic()), estimated),
    "clipped ppo": lambda: (losses.ClipPPOLoss(categorical(), critic(), normalize_advantage=True), estimated),
    "clipped ppo of numbers": lambda: (
        losses.ClipPPOLoss(gaussian(), critic(), clip_value=True),
        lambda n: estimated(n, actions),
    ),
    "kl ppo": lambda: (
        losses.KLPENPPOLoss(categorical(), critic()),
        lambda n: estimated(n).set("logits", np.random.default_rng(n).normal(size=(n, 3))),
    ),
    "behaviour cloning": lambda: (losses.BCLoss(deterministic()), actions),
}


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss, make = LOSSES[name]()
        params = TensorDict.from_module(loss).clone().data

        def both(params: TensorDict, batch: TensorDict) -> Any:
            def total(params: TensorDict) -> Any:
                with params.to_module(loss):
                    found = loss(batch)
                    parts = {key: found[key] for key in found.keys(True, True)}
                return sum(x for key, x in parts.items() if str(key).startswith("loss")), parts

            return lite.value_and_grad(total, has_aux=True)(params)

        step = lite.jit(both, donate="params", threads=1)
        for n in (6, 5):
            batch, same = make(n), make(n)
            before = RNG.bit_generator.state
            (value, parts), grads = both(params, batch)
            RNG.bit_generator.state = before
            (got, found), slopes = step(params.clone(), same)
            np.testing.assert_allclose(got, value, rtol=1e-9)
            for key, part in parts.items():
                np.testing.assert_allclose(found[key], part, rtol=1e-9, atol=1e-12)
            for key, part in grads.items(True, True):
                np.testing.assert_allclose(slopes[key], part, rtol=1e-8, atol=1e-11, err_msg=str(key))
            for key, part in batch.items(True, True):
                np.testing.assert_allclose(same[key], part, rtol=1e-9, atol=1e-12)
