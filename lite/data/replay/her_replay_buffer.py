"""HERReplayBuffer: hindsight experience replay, batches in which some goals are achieved ones."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite.data.replay.samplers import Sampler
from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer
from lite.data.replay.trajectory_index import values_at

Ints = NDArray[np.int64]


class HindsightStrategy(StrEnum):
    """The step that `HERReplayBuffer` takes a new goal from.

    Source:
        torchrl.data.HindsightStrategy.

    Example:
        >>> from lite.data import HindsightStrategy
        >>> HindsightStrategy("future").name
        'FUTURE'
    """

    FUTURE = "future"
    FINAL = "final"
    EPISODE = "episode"
    RANDOM = "random"


class HERReplayBuffer(TensorDictReplayBuffer):
    """A replay buffer that replaces some goals of a batch by achieved ones (hindsight experience replay).

    The first rows of each batch get as their goal the achieved goal of another step of their episode, and the
    reward of that goal. Stored rows are not changed. Episodes end where `end_key` or "terminated" beside it
    is True, and at the last step that was written; the storage must have one dimension.

    Args:
        reward_fn: computes the rewards, (rows, 1) or (rows,), from a TensorDict of rows with new goals.
        her_ratio: the share of rows that get new goals, from 0 to 1.
        strategy: a `HindsightStrategy` or its value: "future", a step of the episode from this one on;
            "final", its last; "episode", any of it; "random", any step in the buffer.
        goal_key: the entry of goals, also under "next" if it is there.
        achieved_goal_key: the entry of the goal that a step achieved.
        reward_key: the entry of rewards.
        end_key: the entry that is True where an episode ends.
        sampler, **kwargs: those of `TensorDictReplayBuffer`; `generator` draws goals, too.

    Raises:
        ValueError: `her_ratio` is outside [0, 1], or the strategy is unknown.

    Source:
        Andrychowicz et al. (2017), Hindsight experience replay (arXiv:1707.01495);
        torchrl.data.HERReplayBuffer.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import HERReplayBuffer, LazyTensorStorage
        >>> def reward(rows):
        ...     return (rows["achieved_goal"] == rows["desired_goal"]).all(-1).astype(np.float32)
        >>> buffer = HERReplayBuffer(reward, storage=LazyTensorStorage(9), strategy="final", generator=0)
        >>> reached = np.arange(4, dtype=np.float32)[:, None]
        >>> after = {"reward": np.zeros((4, 1), np.float32), "done": reached == 3}
        >>> rows = TensorDict(achieved_goal=reached, desired_goal=reached * 0 + 9, next=after, batch_size=[4])
        >>> index = buffer.extend(rows)
        >>> buffer.sample(5)["desired_goal"].ravel().tolist()
        [3.0, 3.0, 3.0, 3.0, 9.0]
    """

    def __init__(
        self,
        reward_fn: Callable[[Any], Any],
        *,
        her_ratio: float = 0.8,
        strategy: HindsightStrategy | str = "future",
        goal_key: NestedKey = "desired_goal",
        achieved_goal_key: NestedKey = "achieved_goal",
        reward_key: NestedKey = ("next", "reward"),
        end_key: NestedKey = ("next", "done"),
        sampler: Sampler | None = None,
        **kwargs: Any,
    ) -> None:
        if not 0 <= her_ratio <= 1:
            raise ValueError(f"her_ratio must be from 0 to 1, got {her_ratio}.")
        if strategy not in list(HindsightStrategy):
            raise ValueError(f"strategy must be one of {[*map(str, HindsightStrategy)]}, got {strategy!r}.")
        super().__init__(sampler=sampler, **kwargs)
        self.reward_fn = reward_fn
        self.her_ratio = her_ratio
        self.strategy = HindsightStrategy(strategy)
        self.goal_key = goal_key
        self.achieved_goal_key = achieved_goal_key
        self.reward_key = reward_key
        self.end_key = end_key
        self._ends: tuple[Any, Ints] | None = None

    def _sample(self, size: int) -> tuple[Any, dict[Any, Any]]:
        with self._storage.lock:  # until goals are read, as a writer may overwrite the episode
            data, info = super()._sample(size)
            index = info["index"]
            if type(index) is tuple:
                raise NotImplementedError(f"the storage must have one dimension, got {len(index)}.")
            count = int(len(index) * self.her_ratio)
            if not count:
                return data, info
            goals = self._stored(self.achieved_goal_key, self._goal_places(index[:count]))
        data = data.copy()
        following = ("next", *require_path(self.goal_key))
        for key in (self.goal_key, following):
            if key == self.goal_key or data.get(key, None) is not None:
                _write_first(data, key, goals)
        _write_first(data, self.reward_key, self.reward_fn(data[:count]))
        return data, info

    def _stored(self, key: NestedKey, index: Any) -> Any:
        found = values_at(self._storage, key, index)
        if found is None:
            raise KeyError(f"HERReplayBuffer reads the entry {key!r}, which stored elements lack.")
        return found

    def _goal_places(self, index: Ints) -> Ints:
        """For the rows at `index` the rows of their new goals. Rows are numbered from the oldest."""
        length, cursor, _ = self._storage._position.now()
        oldest = cursor if length == self._storage.max_size else 0
        now, ends = (index - oldest) % length, self._ends_of(length, oldest)
        episode = np.searchsorted(ends, now)
        last, first = ends[episode], np.where(episode > 0, ends[episode - 1] + 1, 0)
        if self.strategy is HindsightStrategy.FINAL:
            chosen = last
        elif self.strategy is HindsightStrategy.RANDOM:
            chosen = self._rng.integers(0, length, len(now))
        else:
            first = now if self.strategy is HindsightStrategy.FUTURE else first
            chosen = first + (self._rng.random(len(now)) * (last - first + 1)).astype(np.int64)
        return (chosen + oldest) % length

    def _ends_of(self, length: int, oldest: int) -> Ints:
        """The last rows of all episodes, in the order of time; cached until the next write."""
        written = (*self._storage._position.now(), self._storage._changes)
        if self._ends is None or self._ends[0] != written:
            names = (self.end_key, (*require_path(self.end_key)[:-1], "terminated"))
            flags = [values_at(self._storage, key, slice(0, length)) for key in names]
            known = [flag.reshape(length, -1).any(-1) for flag in flags if flag is not None]
            if not known:
                raise KeyError(f"HERReplayBuffer reads one of {names}; stored elements have neither.")
            is_end = np.roll(np.logical_or.reduce(known), -oldest)
            is_end[-1] = True
            self._ends = written, np.flatnonzero(is_end)
        return self._ends[1]


def _write_first(data: Any, key: NestedKey, values: Any) -> None:
    """Write values to the first rows of a copy of an entry, which replaces it.

    Raises:
        KeyError: the entry is missing.
        ValueError: the values have another shape; only last dimensions of size 1 may be missing.
    """
    entry = data.get(key, None)
    if entry is None:
        raise KeyError(f"HERReplayBuffer writes the entry {key!r}, which stored elements lack.")
    values = np.asarray(values)
    rows = (len(values), *entry.shape[1:])
    if values.size != np.prod(rows):
        raise ValueError(f"{key!r} of new goals must have the shape {rows}, got {values.shape}.")
    entry = entry.copy()
    entry[: len(values)] = values.reshape(rows)
    data.set(key, entry)


belong_to("lite.data", HERReplayBuffer, HindsightStrategy)
