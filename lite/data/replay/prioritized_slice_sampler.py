"""PrioritizedSliceSampler: slices of trajectories that start at entries drawn by priority."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.data.replay.prioritized_sampler import Floats, PrioritizedSampler
from lite.data.replay.samplers import Index, Seed, StorageView
from lite.data.replay.slice_sampler import SliceSampler, Span
from lite.data.replay.trajectory_index import Ints, Seen, TrajectoryIndex
from lite.kernels import sum_tree, update_min_tree, update_sum_tree


class PrioritizedSliceSampler(SliceSampler, PrioritizedSampler):
    """Draw slices of trajectories by the priorities of their first steps.

    The probability is proportional to (priority + eps) ** alpha. A slice starts at steps that are followed by
    enough steps of their trajectory; without `strict_length` also at the first step of a shorter trajectory,
    which gives a shorter slice. The batch gets the flags of `SliceSampler` and, for each step, the weight
    that `PrioritizedSampler` gives its slice.

    The steps that may start a slice are updated as rows are written, for one length of slices; a batch of
    another length reads all rows once.

    Args:
        max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer: see
            `PrioritizedSampler`.
        span: see `SliceSampler`; only the end of a slice may lie outside of its trajectory.

    The other arguments and the errors are those of `SliceSampler`.

    Raises:
        RuntimeError: the storage is larger than `max_capacity`.

    Source:
        `PrioritizedSliceSampler` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import PrioritizedSliceSampler, TensorStorage
        >>> storage = TensorStorage(TensorDict({"episode": np.repeat([7, 8], 4)}, [8]))
        >>> sampler = PrioritizedSliceSampler(8, alpha=1.0, beta=1.0, slice_len=3, generator=0)
        >>> sampler.update_priority(np.arange(8), [0, 9, 99, 99, 0, 1, 99, 99])
        >>> index, info = sampler.sample(storage, 6)
        >>> index.tolist()
        [1, 2, 3, 1, 2, 3]
    """

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: DTypeLike = np.float32,
        reduction: str = "max",
        *,
        num_slices: int | None = None,
        slice_len: int | None = None,
        end_key: NestedKey | None = None,
        end_keys: Sequence[NestedKey] | None = None,
        traj_key: NestedKey | None = None,
        cache_values: bool = False,
        truncated_key: NestedKey | None = ("next", "truncated"),
        init_key: NestedKey | None = "is_init",
        strict_length: bool = True,
        span: Span = False,
        max_priority_within_buffer: bool = False,
        generator: Seed = None,
    ) -> None:
        SliceSampler.__init__(
            self, num_slices=num_slices, slice_len=slice_len, end_key=end_key, end_keys=end_keys,
            traj_key=traj_key, cache_values=cache_values, truncated_key=truncated_key, init_key=init_key,
            strict_length=strict_length, span=span,
        )  # fmt: skip
        if self.span[0]:
            warnings.warn(
                "slices by priority start at the step that was drawn: span counts at the end alone.",
                stacklevel=2,
            )
            self.span = (False, self.span[1])
        PrioritizedSampler.__init__(
            self,
            max_capacity,
            alpha,
            beta,
            eps,
            dtype,
            reduction,
            max_priority_within_buffer,
            generator=generator,
        )

    def _empty(self) -> None:
        SliceSampler._empty(self)
        PrioritizedSampler._empty(self)
        # The sum tree holds 0 where no slice may start; these are the priorities of all steps.
        self._raw: Floats = np.zeros(self._max_capacity, self.dtype)
        self._may_start: NDArray[np.bool_] = np.zeros(self._max_capacity, np.bool_)
        self._required_length = 0

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        length, count = self._slices(batch_size)
        _, after = self._over(length)
        trajectories = self._follow(storage, length)
        rows, lanes = trajectories.rows, trajectories.lanes
        if not self._sum_tree[1] > 0:
            raise RuntimeError(f"no trajectory in the storage has the {length - after} steps of a slice.")
        place, weight = self._draw(storage, count)
        oldest = trajectories.oldest
        first, lane = oldest + (place // lanes - oldest) % rows, place % lanes
        taken: int | Ints = length
        if after or not self.strict_length:
            taken = trajectories.lengths_from(storage, first, lane, length)
        index, info = self._batch(storage, trajectories, first, taken, lane, length)
        return index, {"priority_weight": np.repeat(weight, taken), **info}

    def _shortest(self, length: int) -> int:
        return length - self._over(length)[1] if self.strict_length else 1

    def _follow(self, storage: StorageView, length: int, seen: Seen | None = None) -> TrajectoryIndex:
        if storage.max_size > self._max_capacity:
            raise RuntimeError(
                f"max_capacity must be that of the storage, {storage.max_size}, got {self._max_capacity}."
            )
        required = length - self._over(length)[1]
        if self._trajectories is not None and required != self._required_length:
            self._trajectories.forget()
        self._required_length = required
        trajectories = SliceSampler._follow(self, storage, length, self._update_starts)
        if not self.strict_length:
            lanes = trajectories.lanes
            self._add_starts(trajectories.oldest % trajectories.rows * lanes + np.arange(lanes))
        return trajectories

    def _update_starts(self, start: int, starts: Ints, void: bool) -> None:
        """Update the rows that may start a slice after rows were written; see `TrajectoryIndex.follow`."""
        trajectories = self._trajectories
        assert trajectories is not None
        rows, lanes = trajectories.rows, trajectories.lanes
        if void:
            self._may_start[:] = False
            self._sum_tree = sum_tree(self._max_capacity, self.dtype)
        count = len(starts)
        new = np.arange(start, start + count)[:, None]
        # Each new row is the last one of a slice, whose first row must be of the same trajectory.
        candidate = new - (self._required_length - 1)
        long_enough = (starts <= candidate) & (candidate >= start + count - rows)
        inner = np.arange(lanes)
        written = (new % rows * lanes + inner).reshape(-1)
        self._may_start[written] = False
        allowed = (candidate % rows * lanes + inner)[long_enough]
        self._may_start[allowed] = True
        if not self.strict_length:
            first = (new % rows * lanes + inner)[starts == new]
            self._may_start[first] = True
        changed = np.concatenate((written, allowed))
        update_sum_tree(self._sum_tree, changed, np.where(self._may_start[changed], self._raw[changed], 0))

    def _add_starts(self, places: Ints) -> None:
        """Let the oldest rows start a slice, as the first rows of their trajectories were overwritten."""
        missing = places[~self._may_start[places]]
        if missing.size:
            self._may_start[missing] = True
            update_sum_tree(self._sum_tree, missing, self._raw[missing])

    def _leaves(self) -> Floats:
        return self._raw

    def _set_leaves(self, places: Ints, leaves: Floats) -> None:
        update_min_tree(self._min_tree, places, leaves)
        self._raw[places] = leaves
        update_sum_tree(self._sum_tree, places, np.where(self._may_start[places], leaves, 0))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        PrioritizedSampler.load_state_dict(self, state_dict)
        self._raw = np.array(state_dict["_leaves"], self.dtype)
        self._trajectories = None  # which steps may start a slice is read from the storage again

    def __repr__(self) -> str:
        return (
            SliceSampler.__repr__(self)[:-1] + f", alpha={self._alpha}, beta={self._beta}, eps={self._eps})"
        )


belong_to("lite.data", PrioritizedSliceSampler)
