"""`EnvRollout`: the loop of a collector over an `EnvBase`, a TensorDict for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import maybe_dense_stack
from lite.data.collectors.episode_statistics import EpisodeStatistics
from lite.envs.base import EnvBase
from lite.envs.environments import EnvError, Environments
from lite.envs.gym import GymWrapper
from lite.envs.transforms.compose import Compose
from lite.envs.transforms.step_transforms import StepTransform
from lite.envs.transforms.transformed_env import TransformedEnv
from lite.kernels._install import install, needed
from lite.specs.composite import Composite


class EnvRollout:
    """Steps an `EnvBase` with a policy, and stacks what happens. `Rollout` has the same attributes.

    Args:
        env: the environment.
        transforms: entries that are computed besides.
        time: frames of each environment in a batch.
        traj_ids: write ("collector", "traj_ids").
    """

    skipped = 0

    def __init__(
        self, env: EnvBase, transforms: Sequence[StepTransform], time: int, *, traj_ids: bool
    ) -> None:
        # Their entries are the environment's from here on.
        self.env = TransformedEnv(env, Compose(*transforms), auto_unwrap=False) if transforms else env
        self.done_keys = self.env.done_keys
        self.time = time
        self.traj_ids = traj_ids
        self.statistics = EpisodeStatistics(env.batch_size)
        self.steps = self.filled = self.next_traj = 0
        self.stale = True
        self.seed: Any = None
        self._ids = np.zeros(env.batch_size, np.int64)
        self._td: Any = None
        self._steps: list[Any] = []
        self._id_rows: list[NDArray[np.int64]] = []
        self._unset: dict[Any, NDArray[Any]] = {}  # what a policy writes besides actions, as zeros

    def run(self, policy: Callable[[Any], Any], turn: int, *, only_actions: bool = False) -> Any:
        """Collect a batch; see `Rollout.run`. It has memory of its own, so `turn` changes nothing."""
        self._steps, self._id_rows, self.filled = [], [], 0
        try:
            if self.stale:
                self.start_all()
            for _ in range(self.time):
                self._step(policy, only_actions)
        except EnvError as error:
            self.stale = True
            error.frames = self.batch(turn) if self.filled else None
            raise
        except BaseException:
            self.stale = True
            raise
        return self.batch(turn)

    def batch(self, turn: int) -> Any:
        """The frames of this batch so far."""
        dim = self.env.ndim
        out = maybe_dense_stack(self._steps, dim)
        if self.traj_ids:
            out.set(("collector", "traj_ids"), np.stack(self._id_rows, dim))
        return out.refine_names(..., "time")

    def start_all(self) -> None:
        """Start an episode in all environments."""
        seed, self.seed = self.seed, None
        if seed is not None:
            self.env.set_seed(seed)
        self._td = self.env.reset()
        self._start(np.ones(self.env.batch_size, np.bool_))
        self.stale = False

    def probe(self, policy: Callable[[Any], Any]) -> None:
        """Call the policy once, without taking its actions, to learn what else it writes."""
        if self.stale:
            self.start_all()
        before = set(self._td.keys(True, True))
        out = policy(self._td.clone())
        known = before | set(self.env.action_keys)
        self._unset = {key: np.zeros_like(value) for key, value in out.items(True, True) if key not in known}

    def _step(self, policy: Callable[[Any], Any], only_actions: bool) -> None:
        env, td = self.env, self._td
        out = policy(td)
        if out is not td:
            td.update(out)
        if only_actions:
            for key, value in self._unset.items():
                td.set(key, value.copy())
        stepped, following = env.step_and_maybe_reset(td)
        reached, ids = stepped.get("next"), self._ids
        ended = self._ended(reached)
        self._steps.append(stepped)
        self._id_rows.append(ids.copy())
        self._td = following
        self.filled += 1
        self.steps += 1
        keys = env.reward_keys
        reward = reached.get(keys[0]) if keys else np.zeros(ids.shape)
        each = reward.size == ids.size
        self.statistics.add(reward.reshape(ids.shape) if each else reward.reshape(*ids.shape, -1).sum(-1))
        if np.count_nonzero(ended):
            self.statistics.end(ended, self.steps)
            self._start(ended)

    def _ended(self, td: Any) -> NDArray[np.bool_]:
        batch = self._ids.shape
        ended = self.env.done_states.ended(td)
        if ended is None:  # its done entries are below the root: an episode ends with all of them
            done = [td.get(key).reshape(*batch, -1).all(-1) for key in self.env.done_keys if "done" in key]
            return np.logical_and.reduce(done)
        return np.asarray(ended.reshape(batch))

    def _start(self, started: NDArray[np.bool_]) -> None:
        """Give ids where episodes start."""
        self.statistics.start(started, self.steps)
        count = int(np.count_nonzero(started))
        self._ids[started] = np.arange(self.next_traj, self.next_traj + count)
        self.next_traj += count


class EnvFace:
    """The interface of an `EnvBase` that a collector uses besides steps; see `Environments`."""

    skips, resets_some = False, True

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.batch, self.count = env.batch_size, env.numel()
        self.observation = _Specs(env.full_observation_spec)
        self.action = _Specs(env.full_action_spec)

    def close(self) -> None:
        """Close the environment, unless it is."""
        if not self.env.is_closed:
            self.env.close()


def environments_of(env: Any, timeout: float | None) -> Any:
    """The environments of a collector: the arrays of gymnasium's where possible, else an `EnvFace`.

    Raises:
        ImportError: without gymnasium, where `env` is not an EnvBase.
        ValueError: a timeout for an EnvBase.
    """
    if isinstance(env, EnvBase):
        if timeout is not None:
            raise ValueError("timeout is for gymnasium's environments, got an EnvBase.")
        # Without anything around it a GymWrapper needs no TensorDict at each step.
        encoded = env.encoded if isinstance(env, GymWrapper) else None
        return EnvFace(env) if encoded is None else encoded
    needed("gymnasium", "Collector needs gymnasium", install("gym"))
    return Environments(env, timeout)


class _Specs:
    def __init__(self, specs: Composite) -> None:
        self._specs = specs

    def spec(self, batch: tuple[int, ...]) -> Composite:
        """The specs by key; they have the batch already."""
        return self._specs
