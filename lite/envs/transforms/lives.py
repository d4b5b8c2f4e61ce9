"""`EndOfLifeTransform`: where a life is lost, and the episode goes on."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Transform
from lite.specs.arrays import Unbounded
from lite.specs.composite import Composite


class EndOfLifeTransform(Transform):
    """Marks the steps that cost a life, as Atari games have them; episodes do not end there.

    Args:
        eol_key: where to write it, a boolean that is True where the episode is done, too.
        lives_key: where to write the number of lives.
        done_key: the done entry.
        eol_attribute: where the environment has the number of lives, or a method that gives it.

    Raises:
        RuntimeError: it is in no environment.
        KeyError: there is no done entry.

    Source:
        torchrl.envs.EndOfLifeTransform.
    """

    def __init__(
        self,
        eol_key: NestedKey = "end-of-life",
        lives_key: NestedKey = "lives",
        done_key: NestedKey = "done",
        eol_attribute: str = "unwrapped.ale.lives",
    ) -> None:
        super().__init__([done_key], [eol_key, lives_key])
        self.eol_key, self.lives_key, self.done_key = eol_key, lives_key, done_key
        self.eol_attribute = eol_attribute.split(".")

    def _lives(self) -> Any:
        parent = self.parent
        if parent is None:
            raise RuntimeError("EndOfLifeTransform needs an environment, which has lives.")
        value: Any = parent.base_env
        for name in self.eol_attribute:
            value = getattr(value, name)
        return np.asarray(value() if callable(value) else value, np.int64)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        lives = self._lives()
        done = next_tensordict.get(self.done_key, None)
        if done is None:
            raise KeyError(f"EndOfLifeTransform reads {self.done_key!r}, which is missing.")
        lost = np.asarray(tensordict.get(self.lives_key)) > lives
        lost = lost.reshape(*lost.shape, *(1,) * (done.ndim - lost.ndim))
        next_tensordict.set(self.eol_key, lost | done)
        return next_tensordict.set(self.lives_key, lives)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        lives = self._lives()
        shape = self.parent.full_done_spec[self.done_key].shape
        tensordict_reset.set(self.eol_key, np.zeros(shape, np.bool_))
        return tensordict_reset.set(self.lives_key, lives)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec = observation_spec.clone()
        parent = self.parent
        observation_spec[self.eol_key] = parent.full_done_spec[self.done_key].clone()
        observation_spec[self.lives_key] = Unbounded(parent.batch_size, dtype=np.int64)
        return observation_spec

    def register_keys(self, loss_or_advantage: Any) -> None:
        """Let a loss, or an estimator of advantages, end episodes where lives are lost."""
        loss_or_advantage.set_keys(done=self.eol_key, terminated=self.eol_key)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Not without an environment: raises RuntimeError."""
        raise RuntimeError("EndOfLifeTransform needs an environment, which has lives.")


belong_to("lite.envs", EndOfLifeTransform)
