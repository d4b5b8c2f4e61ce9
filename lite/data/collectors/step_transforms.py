"""Entries that are computed step by step while environments run, and start anew with each episode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import Path
from lite._tree.keys import require_path
from lite.kernels._integer import integer
from lite.specs.arrays import ArraySpec
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite

Entries = Mapping[Path, NDArray[Any]]
_ONE = np.ones((), np.int64)  # half the time of a Python number


class StepTransform(ABC):
    """Base of step transforms such as `StepCounter`, which compute entries of a step from its other entries.

    A `Collector` keeps the entries: those of `"next"` are at the root one step later, and where an episode
    starts they are what `initial` said.
    """

    @abstractmethod
    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        """The entries where an episode starts.

        Args:
            batch: (environments,), or () for one alone; all shapes start with it.
        """

    @abstractmethod
    def step(self, entries: Entries, following: Entries) -> None:
        """Write the values that follow `entries` into `following`, the entries of "next".

        Args:
            entries: what `initial` gave, one step after the other; read only.
            following: the same keys, and ("reward",), ("terminated",), ("truncated",) and ("done",) of
                shape (*batch, 1), which may be changed: an environment that is done or truncated starts anew.
        """


class StepCounter(StepTransform):
    """Counts the steps of an episode, and truncates it after a certain number.

    `"step_count"`, int64 of shape (*batch, 1), is 0 at the first step of an episode, and one more in
    `"next"`. Every `Collector` has a counter, unless it is given one.

    Args:
        max_steps: after how many steps an episode is truncated; None for never.
        truncated_key: the entry that is set then, with the shape of the count.
        step_count_key: where the count goes.
        update_done: set `"done"` then, too. An environment that is done or `"truncated"` starts anew.

    Raises:
        ValueError: `max_steps` is below 1, or a key is no string.

    Source:
        torchrl.envs.StepCounter.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, StepCounter
        >>> env = gymnasium.make("CartPole-v1")
        >>> for td in Collector(env, frames_per_batch=6, total_frames=6, transforms=[StepCounter(4)]):
        ...     print(td["step_count"].ravel(), td["next", "truncated"].ravel())
        [0 1 2 3 0 1] [False False False  True False False]
    """

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str | None = "truncated",
        step_count_key: str | None = "step_count",
        update_done: bool = True,
    ) -> None:
        if max_steps is not None and integer("max_steps", max_steps) < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}.")
        for name, key in (("truncated_key", truncated_key), ("step_count_key", step_count_key)):
            if not isinstance(key, str):
                raise ValueError(f"{name} must be a string, got {key!r}.")
        self.max_steps = max_steps
        self.truncated_key = str(truncated_key)
        self.step_count_key = str(step_count_key)
        self.update_done = update_done

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        first: dict[Path, NDArray[Any]] = {(self.step_count_key,): np.zeros((*batch, 1), np.int64)}
        if self.truncated_key != "truncated":
            first[self.truncated_key,] = np.zeros((*batch, 1), np.bool_)
        return first

    def step(self, entries: Entries, following: Entries) -> None:
        count = following[self.step_count_key,]
        np.add(entries[self.step_count_key,], _ONE, out=count)
        if self.max_steps is None:
            return
        late = count >= self.max_steps
        truncated = following[self.truncated_key,]
        if self.truncated_key == "truncated":
            np.logical_or(truncated, late, out=truncated)
        else:
            truncated[...] = late
        if self.update_done:
            done = following["done",]
            np.logical_or(done, late, out=done)


class RewardSum(StepTransform):
    """Sums the rewards of an episode.

    Where it starts the sum is 0; in `"next"` it is the sum so far, with the dtype and shape of the reward.

    Args:
        in_keys: what is summed; `["reward"]` if None.
        out_keys: where the sums go; None for `"episode_"` in front of each of `in_keys`.

    Raises:
        ValueError: the numbers of keys differ.

    Source:
        torchrl.envs.RewardSum.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, RewardSum
        >>> env = gymnasium.make("CartPole-v1")
        >>> for td in Collector(env, frames_per_batch=3, total_frames=3, transforms=[RewardSum()]):
        ...     print(td["episode_reward"].ravel(), td["next", "episode_reward"].ravel())
        [0. 1. 2.] [1. 2. 3.]
    """

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None
    ) -> None:
        self.in_keys = [require_path(key) for key in _as_list(in_keys, ["reward"])]
        self.out_keys = [
            require_path(key)
            for key in _as_list(out_keys, [(*path[:-1], f"episode_{path[-1]}") for path in self.in_keys])
        ]
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(
                f"out_keys must be as many as in_keys, got {len(self.out_keys)} and {len(self.in_keys)}."
            )

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        return {path: np.zeros((*batch, 1), np.float32) for path in self.out_keys}

    def step(self, entries: Entries, following: Entries) -> None:
        for source, path in zip(self.in_keys, self.out_keys, strict=True):
            np.add(entries[path], following[source], out=following[path])


class InitTracker(StepTransform):
    """Marks the first step of each episode: a boolean of shape (*batch, 1), False in `"next"`.

    Args:
        init_key: where it goes.

    Source:
        torchrl.envs.InitTracker.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector, InitTracker
        >>> env = gymnasium.make("CartPole-v1", max_episode_steps=2)
        >>> for td in Collector(env, frames_per_batch=4, total_frames=4, transforms=[InitTracker()]):
        ...     print(td["is_init"].ravel())
        [ True False  True False]
    """

    def __init__(self, init_key: str = "is_init") -> None:
        if not isinstance(init_key, str):
            raise ValueError(f"init_key must be a string, got {init_key!r}.")
        self.init_key = init_key

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        return {(self.init_key,): np.ones((*batch, 1), np.bool_)}

    def step(self, entries: Entries, following: Entries) -> None:
        following[self.init_key,][...] = False


class TensorDictPrimer(StepTransform):
    """Entries that an episode starts with, and that a policy carries on: the states of recurrent policies.

    A policy that reads `"state"` and writes `("next", "state")` finds what it wrote at the next step, and the
    primer's value where an episode starts. What it does not write stays as it is.

    Args:
        primers: specs by key, without the batch.
        random: draw values from the specs, in place of `default_value`.
        default_value: a number for all, or numbers by key (0 for others).
        generator: a seed or a `numpy.random.Generator`, for `random`.
        **specs: specs by key, too.

    Raises:
        ValueError: no specs are given.
        TypeError: a value is not a spec of an array, or `default_value` is not a number.

    Source:
        torchrl.envs.TensorDictPrimer.

    Example:
        >>> import gymnasium
        >>> import numpy as np
        >>> from lite.data import Collector, TensorDictPrimer, Unbounded
        >>> def policy(td):
        ...     return td.update({"action": np.int64(0), ("next", "memory"): td["memory"] + 1})
        >>> env = gymnasium.make("CartPole-v1", max_episode_steps=3)
        >>> primer = TensorDictPrimer(memory=Unbounded((1,)))
        >>> for td in Collector(env, policy, frames_per_batch=5, total_frames=5, transforms=[primer]):
        ...     print(td["memory"].ravel(), td["next", "memory"].ravel())
        [0. 1. 2. 0. 1.] [1. 2. 3. 1. 2.]
    """

    def __init__(
        self,
        primers: Composite | Mapping[Any, Any] | None = None,
        random: bool | None = None,
        default_value: float | Mapping[Any, float] | None = None,
        *,
        generator: np.random.Generator | int | None = None,
        **specs: TensorSpec,
    ) -> None:
        found = Composite(primers)
        found.update(specs)
        self.primers = {require_path(key): spec for key, spec in found.items(True, True)}
        if not self.primers:
            raise ValueError("primers must have at least one spec, got none.")
        for path, spec in self.primers.items():
            if not isinstance(spec, ArraySpec):
                raise TypeError(f"primers must be specs of arrays, got {type(spec).__name__} at {path}.")
        self.random = bool(random)
        self.generator = np.random.default_rng(generator)
        values = (
            default_value
            if isinstance(default_value, Mapping)
            else dict.fromkeys(self.primers, default_value)
        )
        self.default_value = {require_path(key): float(value or 0) for key, value in values.items()}

    def initial(self, batch: tuple[int, ...]) -> dict[Path, NDArray[Any]]:
        if self.random:
            return {path: spec.rand(batch, rng=self.generator) for path, spec in self.primers.items()}
        return {
            path: spec.zero(batch) + np.asarray(self.default_value.get(path, 0.0)).astype(spec.dtype)
            for path, spec in self.primers.items()
        }

    def step(self, entries: Entries, following: Entries) -> None:
        for path in self.primers:
            following[path][...] = entries[path]


belong_to("lite.data", StepTransform, StepCounter, RewardSum, InitTracker, TensorDictPrimer)


def _as_list(keys: Any, default: list[Any]) -> list[Any]:
    if keys is None:
        return default
    return [keys] if isinstance(keys, (str, tuple)) else list(keys)
