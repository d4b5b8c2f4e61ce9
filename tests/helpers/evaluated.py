"""Policies and environments that evaluators are given, also in processes."""

import os
import time
from typing import Any

import numpy as np
from helpers.drawn_env import DrawnEnv

from lite import nn


class Always(nn.Module):
    """A policy whose action is its parameter; a negative one fails, and -2 ends the process."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(np.array([value], np.float32))
        self.modes: list[bool] = []

    def forward(self, observation: Any) -> Any:
        self.modes.append(self.training)
        value = np.asarray(self.value)
        if value == -2:
            os._exit(3)
        if value < 0:
            raise ArithmeticError("a negative action")
        return np.broadcast_to(value, observation.shape).copy()


def policy(value: float = 0.5) -> nn.TensorDictModule:
    return nn.TensorDictModule(Always(value), ["observation"], ["action"])


def policy_of(env: Any) -> nn.TensorDictModule:
    return policy(float(len(env.action_keys)))


class Sleeping(DrawnEnv):
    """Its first reset takes a minute."""

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        time.sleep(60)
        return super()._reset(tensordict, **kwargs)
