"""An environment for tests of transforms."""

from typing import Any

import numpy as np

from lite import TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import EnvBase


class Steps(EnvBase):
    """Observes the number of its steps, which are rewards, too, until an episode of some length is done.

    Attributes:
        x: the number of steps, of shape (1,).
        sign: factors of what is observed, by the number of the step; None for ones.
    """

    def __init__(self, length: int) -> None:
        super().__init__()
        self.observation_spec = Composite(x=Unbounded((1,)))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        self.length = length
        self.x = np.zeros(1, np.float32)
        self.sign: Any = None

    def _seen(self) -> TensorDict:
        factor = 1 if self.sign is None else self.sign[int(self.x[0])]
        return TensorDict(x=self.x * np.float32(factor))

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        self.x = np.zeros(1, np.float32)
        return self._seen()

    def _step(self, tensordict: Any) -> TensorDict:
        self.x = self.x + np.float32(1)
        return self._seen().update({"reward": self.x, "done": self.x >= self.length})

    def _set_seed(self, seed: int | None) -> None:
        pass
