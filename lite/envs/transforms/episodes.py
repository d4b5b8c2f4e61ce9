"""Numbering and ending episodes: `TrajCounter`, `EndOfLifeTransform`, `RandomTruncationTransform`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase, unravel_key
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite.envs.transforms.base import EnvironmentTransform
from lite.kernels._integer import integer
from lite.specs.arrays import Bounded, Unbounded
from lite.specs.classes import Categorical
from lite.specs.composite import Composite


class EndOfLifeTransform(EnvironmentTransform):
    """Marks the steps that cost a life, as in Atari games; the episode goes on.

    Args:
        eol_key: the entry to write, True where a life is lost or the episode is done.
        lives_key: the entry for the number of lives, int64.
        done_key: the done entry.
        eol_attribute: path of the environment's attribute, or method, with the number of lives.

    Raises:
        RuntimeError: the transform is not in an environment.
        KeyError: there is no done entry.

    Source:
        torchrl.envs.EndOfLifeTransform.
    """

    _needs_environment = RuntimeError, "which has lives"

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
        for name in self.eol_attribute:  # an attribute of a SerialEnv is a list, with one of each environment
            several = isinstance(value, list)
            value = [getattr(each, name) for each in value] if several else getattr(value, name)
        if isinstance(value, list):
            value = [each() if callable(each) else each for each in value]
        return np.asarray(value() if callable(value) else value, np.int64)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        lives = self._lives()
        done = self._read(next_tensordict, self.done_key)
        lost = np.asarray(tensordict.get(self.lives_key)) > lives
        lost = lost.reshape((*lost.shape, *(1,) * (done.ndim - lost.ndim)))
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
        """Set the keys of a loss or an advantage estimator, so that episodes end where a life is lost."""
        loss_or_advantage.set_keys(done=self.eol_key, terminated=self.eol_key)


class TrajCounter(EnvironmentTransform):
    """Numbers episodes in the order of their starts, through all environments of the batch.

    State dicts have the next number, which clones share. Each process has a counter of its own, so a
    `ParallelEnv` needs the transform around it, not in its environments.

    Args:
        out_key: the entry for the number, int64 with the shape of the done entry beside it.

    Raises:
        KeyError: there is no done entry beside `out_key`.
        RuntimeError: the transform is called without an environment, or before a reset.

    Source:
        torchrl.envs.TrajCounter.

    Example:
        >>> from lite.envs import Compose, GymEnv, StepCounter, TrajCounter, TransformedEnv
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), Compose(StepCounter(2), TrajCounter()))
        >>> env.rollout(5, break_when_any_done=False)["next", "traj_count"].ravel().tolist()
        [0, 0, 1, 1, 2]
    """

    _needs_environment = RuntimeError, "whose episodes it numbers"

    def __init__(self, out_key: NestedKey = "traj_count") -> None:
        super().__init__([], [out_key])
        self.register_buffer("traj_count", np.zeros((), np.int64))

    def _beside(self, keys: Iterable[NestedKey]) -> NestedKey:
        """The first of the keys that is in the same nested TensorDict as `out_key`."""
        node = require_path(self.out_keys[0])[:-1]
        for key in keys:
            if require_path(key)[:-1] == node:
                return key
        raise KeyError(f"there must be a done entry beside {self.out_keys[0]!r}, got {list(keys)}.")

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        key = self.out_keys[0]
        mask = tensordict.get(self._beside(self.parent.reset_keys), None)
        if mask is None:
            mask = np.ones(self.container.full_observation_spec[key].shape, np.bool_)
        count = self._tensor("traj_count")
        numbers = np.zeros(mask.shape, np.int64)
        numbers[mask] = count + np.arange(mask.sum())
        count += mask.sum()
        return tensordict_reset.set(key, numbers)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        key = self.out_keys[0]
        if tensordict.get(key, None) is None:
            raise RuntimeError("the first step must come after a reset, which numbers the episodes.")
        return next_tensordict.set(key, tensordict.get(key))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        shape = self.parent.full_done_spec[self._beside(self.parent.done_keys)].shape
        observation_spec = observation_spec.clone()
        observation_spec[self.out_keys[0]] = Bounded(0, np.iinfo(np.int64).max, shape, dtype=np.int64)
        return observation_spec


class RandomTruncationTransform(EnvironmentTransform):
    """Truncates episodes after random numbers of steps, so that environments do not start together.

    It needs a `StepCounter` before it. The first episode of an environment has from 1 to `max_horizon` steps.
    Later ones have a random number of steps, from `min_horizon` on, with probability `prob`, else
    `max_horizon`.

    Args:
        min_horizon: the smallest number of steps, at least 1.
        max_horizon: the largest number of steps.
        prob: the probability of a random number of steps.
        first_episode_prob: this probability for the second episode of each environment; `prob` if None.
        step_count_key: the entry of the counter. A string also finds a nested entry of that name.
        truncated_key: the entry to set at the end of an episode; a string is an entry beside the count.
        done_key: another such entry.
        generator: a seed or a `numpy.random.Generator`.

    Raises:
        ValueError: a probability or a horizon is out of range.
        RuntimeError: there is no counter before it.
        NotImplementedError: the transform is called without an environment.

    Source:
        torchrl.envs.RandomTruncationTransform.

    Example:
        >>> from lite.envs import Compose, GymEnv, RandomTruncationTransform, StepCounter, TransformedEnv
        >>> transform = Compose(StepCounter(), RandomTruncationTransform(1, 9))
        >>> len(TransformedEnv(GymEnv("Pendulum-v1"), transform).rollout(100)) <= 9
        True
    """

    _needs_environment = NotImplementedError, "whose episodes it ends"

    def __init__(
        self,
        min_horizon: int,
        max_horizon: int,
        prob: float = 0.0,
        first_episode_prob: float | None = None,
        *,
        step_count_key: NestedKey = "step_count",
        truncated_key: NestedKey = "truncated",
        done_key: NestedKey = "done",
        generator: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__()
        first = prob if first_episode_prob is None else first_episode_prob
        for name, value in (("prob", prob), ("first_episode_prob", first)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {value}.")
        if not 1 <= integer("min_horizon", min_horizon) <= integer("max_horizon", max_horizon):
            raise ValueError(f"min_horizon must be from 1 to max_horizon, {max_horizon}, got {min_horizon}.")
        self.min_horizon, self.max_horizon = min_horizon, max_horizon
        self.prob, self.first_episode_prob = prob, first
        self.step_count_key = unravel_key(step_count_key)
        self.truncated_key, self.done_key = unravel_key(truncated_key), unravel_key(done_key)
        self.generator = np.random.default_rng(generator)
        self._horizons: Any = None  # steps of the present episodes, of the shape of the count
        self._first: Any = None  # whether the present episodes are the first ones

    def _count_key(self, keys: Any) -> Any:
        own, found = self.step_count_key, list(keys.keys(True, True))
        alike = [key for key in found if key == own or (isinstance(key, tuple) and key[-1] == own)]
        return own if own in alike else next(iter(alike), None)

    def _end_keys(self, keys: Any) -> list[NestedKey]:
        """The keys of the entries that are set at the end of an episode."""
        node = require_path(self._count_key(keys))[:-1]
        ends = (self.truncated_key, self.done_key)
        return [unravel_key((*node, key)) if isinstance(key, str) else key for key in ends]

    def set_container(self, container: Any) -> None:
        super().set_container(container)
        parent = self.parent
        if parent is not None and self._count_key(parent.full_observation_spec) is None:
            raise RuntimeError(f"a StepCounter must come before, which writes {self.step_count_key!r}.")

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._horizons is not None:
            late = next_tensordict.get(self._count_key(next_tensordict)) >= self._horizons
            for key in self._end_keys(next_tensordict):
                next_tensordict.set(key, next_tensordict.get(key, False) | late)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        shape, most = tensordict_reset.get(self._count_key(tensordict_reset)).shape, self.max_horizon
        truncated, done = self._end_keys(tensordict_reset)
        tensordict_reset.set(truncated, np.zeros_like(tensordict_reset.get(done)))
        if self._horizons is None:
            self._horizons = self.generator.integers(1, most + 1, shape)
            self._first = np.ones(shape, np.bool_)
            return tensordict_reset
        node = require_path(truncated)[:-1]
        mask = tensordict.get((*node, "_reset"), tensordict.get("_reset", None))
        if mask is not None:
            mask = mask.reshape(shape)
            chance = np.where(self._first, self.first_episode_prob, self.prob)
            drawn = self.generator.integers(self.min_horizon, most + 1, shape)
            drawn = np.where(self.generator.random(shape) < chance, drawn, most)
            self._horizons = np.where(mask, drawn, self._horizons)
            self._first = self._first & ~mask
        return tensordict_reset

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        done_spec = done_spec.clone()
        truncated, done = self._end_keys(self.parent.full_observation_spec)
        if truncated not in done_spec:
            done_spec[truncated] = Categorical(2, done_spec[done].shape, dtype=np.bool_)
        return done_spec


belong_to("lite.envs", EndOfLifeTransform, TrajCounter, RandomTruncationTransform)
