"""Rollouts with observations, rewards and flags for tests of estimators."""

from typing import Any

import numpy as np

from lite import TensorDict
from lite.nn import TensorDictModule


def rollout(batch: tuple[int, ...] = (3, 8), more: tuple[int, ...] = (1,), **options: Any) -> TensorDict:
    """Episodes that end and are cut off; the next observation of a done step is not the next row's.

    Args:
        more: dimensions of rewards and flags after the batch.
        seed, dtype, rate: of done; half of these terminate.
    """
    rng = np.random.default_rng(options.get("seed", 0))
    dtype = options.get("dtype", np.float32)
    obs = rng.normal(size=(*batch, 4)).astype(dtype)
    done = rng.random((*batch, *more)) < options.get("rate", 0.3)
    last = rng.normal(size=(*batch[:-1], min(1, batch[-1]), 4))
    following = np.concatenate([obs[..., 1:, :], last], -2).astype(dtype)
    ends = done.any(axis=tuple(range(len(batch), done.ndim)))
    following[ends] = rng.normal(size=(int(ends.sum()), 4)).astype(dtype)
    return TensorDict(
        {
            "obs": obs,
            "next": {
                "obs": following,
                "reward": rng.normal(size=(*batch, *more)).astype(dtype),
                "done": done,
                "terminated": done & (rng.random((*batch, *more)) < 0.5),
            },
        },
        batch_size=batch,
    )


def with_values(td: TensorDict, seed: int = 1) -> TensorDict:
    """The same with values of observations and next observations, as a network would write them."""
    rng = np.random.default_rng(seed)
    reward = td["next", "reward"]
    td["state_value"] = rng.normal(size=reward.shape).astype(reward.dtype)
    td["next", "state_value"] = rng.normal(size=reward.shape).astype(reward.dtype)
    return td


class Counted:
    """A linear value of 4 numbers that counts its calls and keeps the batch sizes it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.module = TensorDictModule(self._value, ["obs"], ["state_value"])

    def _value(self, obs: np.ndarray) -> np.ndarray:
        self.seen.append(obs.shape)
        return obs @ np.array([[1.0], [-2.0], [0.5], [3.0]], obs.dtype)
