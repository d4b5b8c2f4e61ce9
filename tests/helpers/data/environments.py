"""Environments whose trajectories are known beforehand, and such that fail.

Importing this needs gymnasium.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

LENGTHS = [(3, 5), (4,), (1, 2, 6), (40,)]


class Counting(gymnasium.Env):
    """Observes (its own number, which episode, which step); rewards 10 * episode + step.

    Episodes have `lengths` in turn; every second one of an environment is truncated, the others terminate.
    """

    def __init__(self, number: int = 0, lengths: Sequence[int] = (4,)) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.number, self.lengths = number, lengths
        self.episode, self.count = -1, 0

    def observe(self) -> np.ndarray:
        return np.array([self.number, self.episode, self.count], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        ended = self.count >= self.lengths[self.episode % len(self.lengths)]
        truncates = self.episode % 2 == 1
        return (
            self.observe(), 10.0 * self.episode + self.count, ended and not truncates, ended and truncates,
            {},
        )  # fmt: skip


def transitions(number: int, lengths: Sequence[int], frames: int) -> dict[str, np.ndarray]:
    """The first frames of a `Counting` environment, without one."""
    rows = []
    episode = count = 0
    for _ in range(frames):
        length = lengths[episode % len(lengths)]
        ended = count + 1 == length
        rows.append(
            (
                episode, count, 10.0 * episode + count + 1, ended and episode % 2 == 0,
                ended and episode % 2 == 1,
            )
        )  # fmt: skip
        episode, count = (episode + 1, 0) if ended else (episode, count + 1)
    episodes, counts, reward, terminated, truncated = (np.array(column) for column in zip(*rows, strict=True))
    here = np.stack([np.full(frames, number), episodes, counts], -1).astype(np.float32)
    return {
        "observation": here, "next_observation": here + np.array([0, 0, 1], np.float32),
        "reward": reward.astype(np.float32)[:, None], "terminated": terminated[:, None],
        "truncated": truncated[:, None], "step_count": counts[:, None], "episode": episodes,
    }  # fmt: skip


def makers(lengths: Sequence[Sequence[int]] = LENGTHS) -> list[Callable[[], Counting]]:
    return [lambda i=i, of=of: Counting(i, of) for i, of in enumerate(lengths)]


class NativeCounting(VectorEnv):
    """`Counting` environments that step as one, and know nothing of resetting some of them."""

    def __init__(self, mode: AutoresetMode, lengths: Sequence[Sequence[int]] = LENGTHS) -> None:
        self.envs_of_mine = [make() for make in makers(lengths)]
        self.num_envs = len(lengths)
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = self.envs_of_mine[0].observation_space
        self.single_action_space = self.envs_of_mine[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.ended = np.zeros(self.num_envs, bool)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        assert not options
        self.ended[:] = False
        return np.stack([env.reset()[0] for env in self.envs_of_mine]), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        same = self.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        last = np.zeros(self.observation_space.shape, np.float32)
        obs, rewards = last.copy(), np.zeros(self.num_envs)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        for i, env in enumerate(self.envs_of_mine):
            if self.ended[i] and not same:
                obs[i] = env.reset()[0]
                continue
            obs[i], rewards[i], terminated[i], truncated[i], _ = env.step(actions[i])
            if same and (terminated[i] or truncated[i]):
                last[i] = obs[i]
                obs[i] = env.reset()[0]
        self.ended = terminated | truncated
        info = {"final_obs": last, "_final_obs": self.ended.copy()} if same and self.ended.any() else {}
        return obs, rewards, terminated, truncated, info


class Faulty(Counting):
    """A `Counting` environment that goes wrong at one step (of all its episodes).

    `fault`: "raise", "nan", "nan reward", "shape", or "hang", which ends when `released` is set.
    """

    released = threading.Event()

    def __init__(self, number: int, fault: str, at: int, lengths: Sequence[int] = (100,)) -> None:
        super().__init__(number, lengths)
        self.fault, self.at, self.steps = fault, at, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.steps == self.at:
            if self.fault == "raise":
                raise OSError("the motor is off")
            if self.fault == "nan":
                obs[1] = np.nan
            if self.fault == "nan reward":
                reward = float("nan")
            if self.fault == "shape":
                obs = obs[:2]
            if self.fault == "hang":
                self.released.wait(60)
            if self.fault == "sleep":
                time.sleep(60)
        return obs, reward, terminated, truncated, info


class Spaces(gymnasium.Env):
    """Observes what its space draws, and keeps the actions it gets."""

    def __init__(self, observation: spaces.Space, action: spaces.Space) -> None:
        self.observation_space, self.action_space = observation, action
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        # gymnasium's vectors give numbers for arrays of no dimension, and warn of them.
        assert self.action_space.contains(
            np.asarray(action) if isinstance(action, np.floating) else action
        ), action
        self.taken.append(action)
        return self.observation_space.sample(), 1.0, len(self.taken) % 5 == 0, False, {}
