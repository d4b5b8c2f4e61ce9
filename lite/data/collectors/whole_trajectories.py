"""Trajectories put together from batches, and given when their episodes have ended."""

from __future__ import annotations

import numpy as np

from lite import TensorDictBase, cat
from lite.data.trajectories.split_trajectories import split_trajectories
from lite.kernels._integer import integer

_IDS = ("collector", "traj_ids")


class WholeTrajectories:
    """Takes batches of a collector, and gives whole trajectories in the order in which they ended.

    Those that ended in one batch come in the order of their ids. Steps are copied.
    """

    def __init__(self) -> None:
        self._open: dict[int, list[TensorDictBase]] = {}
        self._whole: list[TensorDictBase] = []

    def __len__(self) -> int:
        """How many trajectories are whole."""
        return len(self._whole)

    def add(self, batch: TensorDictBase) -> None:
        """Add the steps of a batch, whose last dimension is time."""
        flat = batch.reshape(-1)
        ids = flat[_IDS].reshape(-1)
        order = np.argsort(ids, kind="stable")
        order = order[np.searchsorted(ids[order], 0) :]  # a step that only restarts has the id -1
        if not order.size:
            return
        steps, ids = flat[order], ids[order]
        done = steps["next", "done"].reshape(-1)
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
            pieces = self._open.setdefault(int(ids[start]), [])
            pieces.append(steps[start:stop])
            if done[stop - 1]:
                del self._open[int(ids[start])]
                self._whole.append(cat(pieces, 0))

    def forget(self) -> None:
        """Forget the trajectories that are not whole: their episodes do not go on."""
        self._open.clear()

    def take(self, count: int, padded: bool) -> TensorDictBase:
        """The oldest `count` trajectories, one after the other, or as rows with a mask."""
        taken, self._whole = self._whole[:count], self._whole[count:]
        joined = cat(taken, 0)
        return split_trajectories(joined, prefix="collector") if padded else joined


def assembler(
    trajs_per_batch: int | None, trajs_per_write: int | None, traj_format: str | None, splittable: bool
) -> WholeTrajectories | None:
    """The assembler of trajectories for a `Collector` with these arguments; None if they ask for none."""
    for name, count in (("trajs_per_batch", trajs_per_batch), ("trajs_per_write", trajs_per_write)):
        if count is not None and integer(name, count) < 1:
            raise ValueError(f"{name} must be at least 1, got {count}.")
    if traj_format not in (None, "padded", "cat"):
        raise ValueError(f"traj_format must be 'padded' or 'cat', got {traj_format!r}.")
    if trajs_per_batch is None:
        if trajs_per_write is not None or traj_format is not None:
            raise ValueError("trajs_per_write and traj_format need trajs_per_batch.")
        return None
    if not splittable:
        raise ValueError("trajs_per_batch needs track_traj_ids=True and split_trajs=False.")
    return WholeTrajectories()
