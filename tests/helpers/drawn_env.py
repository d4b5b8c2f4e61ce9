"""An environment that can be drawn: each image is of one number, that of the step."""

from typing import Any

import numpy as np

from lite import TensorDict
from lite.data import Bounded, Unbounded
from lite.envs import EnvBase

Array = np.ndarray[Any, Any]


class DrawnEnv(EnvBase):
    """Ends after `length` steps; `render` gives an image, or one for each environment of the batch."""

    def __init__(self, batch: tuple[int, ...] = (), length: int = 4, one_image: bool = False) -> None:
        super().__init__(batch_size=batch)
        self.length, self.one_image = length, one_image
        self.observation_spec = Unbounded((*batch, 1))
        self.action_spec = Bounded(-1, 1, (*batch, 1))
        self.reward_spec = Unbounded((*batch, 1))
        self.count = np.zeros((*batch, 1), np.float32)

    def render(self, bright: int = 0, **kwargs: Any) -> Array:
        image = np.zeros((*(() if self.one_image else self.batch_size), 6, 8, 3), np.uint8)
        count = self.count.max() if self.one_image else self.count[..., None, None]
        image[...] = count + bright
        return image

    def draw(self, tensordict: Any) -> Array:
        return np.broadcast_to(tensordict["observation"].astype(np.uint8)[..., None, None], (6, 8, 3)).copy()

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        self.count = np.zeros_like(self.count)
        return TensorDict({"observation": self.count}, self.batch_size)

    def _step(self, tensordict: Any) -> TensorDict:
        self.count = self.count + 1
        entries = {
            "observation": self.count,
            "reward": tensordict["action"],
            "done": self.count >= self.length,
        }
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass
