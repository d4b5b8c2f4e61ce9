"""`shown`: batches on their way, with a bar that says how far the collection is and how episodes go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lite._processes.map import ProgressBar


def require_total(progress: bool, total: int, name: str = "total_frames") -> bool:
    """`progress`; ValueError if it is asked for, and there is no end."""
    if progress and total < 0:
        raise ValueError(f"progress needs {name}, got none.")
    return progress


def shown(
    batches: Iterator[Any],
    total: int,
    done: Callable[[], int],
    reward: Callable[[], float | None],
    unit: str = "frames",
) -> Iterator[Any]:
    """The batches, with a bar on stderr: frames, frames per second, and the mean reward of episodes.

    Args:
        batches: what is yielded.
        total: the number of frames.
        done: how many there are by now.
        reward: the mean of the last episodes; None if none has ended.
        unit: what is counted.
    """
    before = done()
    with ProgressBar(total - before, unit=f" {unit}") as bar:
        for batch in batches:
            now, mean = done(), reward()
            bar.step(now - before, "" if mean is None else f", reward {mean:.4g}")
            before = now
            yield batch


class EpisodeRewards:
    """Sums the rewards of trajectories over batches, by their ids, and keeps those that ended last.

    Args:
        kept: how many are kept.
    """

    def __init__(self, kept: int = 100) -> None:
        self._open: dict[int, float] = {}
        self._ended: deque[float] = deque(maxlen=kept)

    def add(self, batch: Any) -> None:
        """Add the steps of a batch; does nothing if it lacks rewards, ends or ids."""
        keys = (("collector", "traj_ids"), ("next", "reward"), ("next", "done"))
        ids, reward, done = (batch.get(key, None) for key in keys)
        if ids is None or reward is None or done is None:
            return
        ids = np.asarray(ids).reshape(-1)
        reward, done = (np.asarray(value).reshape(len(ids), -1)[:, 0] for value in (reward, done))
        found, index = np.unique(ids, return_inverse=True)
        sums = np.bincount(index, weights=reward)
        ended = np.bincount(index, weights=done) > 0
        for i, part, end in zip(found.tolist(), sums.tolist(), ended.tolist(), strict=True):
            total = self._open.pop(i, 0.0) + part
            if i < 0:  # a step that only restarts
                continue
            if end:
                self._ended.append(total)
            else:
                self._open[i] = total

    def mean(self) -> float | None:
        """The mean of those that are kept; None if none has ended."""
        return float(np.mean(self._ended)) if self._ended else None
