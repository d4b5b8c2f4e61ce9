"""`EpisodeStatistics`: lengths and returns of the last episodes."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EpisodeStatistics:
    """Sums the rewards of running episodes, and keeps return and length of those that ended last.

    Args:
        batch: (environments,), or () for one alone.
        kept: the number of episodes that are kept.
    """

    def __init__(self, batch: tuple[int, ...], kept: int = 100) -> None:
        self.episodes = 0
        self.returns: deque[float] = deque(maxlen=kept)
        self.lengths: deque[int] = deque(maxlen=kept)
        self.running = np.zeros(batch)
        self.started = np.zeros(batch, np.int64)

    def add(self, reward: Any) -> None:
        """Count the rewards of one step, an array of shape `batch`."""
        np.add(self.running, reward, out=self.running)

    def end(self, ended: NDArray[np.bool_], steps: int) -> None:
        """Record the episodes that end, a mask of shape `batch`; `steps` were taken so far."""
        returns = self.running[ended].tolist()
        self.returns.extend(returns)
        self.lengths.extend([steps - start for start in self.started[ended].tolist()])
        self.episodes += len(returns)

    def start(self, started: NDArray[np.bool_], steps: int) -> None:
        """Reset the sums where `start`, a mask of shape `batch`, marks a new episode."""
        self.running[started] = 0
        self.started[started] = steps

    def summary(self) -> dict[str, int | float]:
        """The number of ended episodes, and the mean return and length of those that are kept."""
        found: dict[str, int | float] = {"episodes": self.episodes}
        if self.returns:
            found["episode_reward_mean"] = float(np.mean(self.returns))
            found["episode_length_mean"] = float(np.mean(self.lengths))
        return found

    def state_dict(self) -> dict[str, Any]:
        """The statistics of ended episodes; running ones cannot be continued."""
        return {"episodes": self.episodes, "returns": list(self.returns), "lengths": list(self.lengths)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.episodes = int(state["episodes"])
        self.returns = deque(state["returns"], maxlen=self.returns.maxlen)
        self.lengths = deque(state["lengths"], maxlen=self.lengths.maxlen)
