"""Buffers of TensorDicts: batches know their indices, and data its priorities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import NestedKey, TensorDictBase
from lite._arrays.foreign import class_name
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite.data.replay.columns import is_container, reduced
from lite.data.replay.prioritized_sampler import PrioritizedSampler
from lite.data.replay.replay_buffer import ReplayBuffer
from lite.data.replay.storages import ListStorage, Storage
from lite.data.replay.writers import TensorDictRoundRobinWriter, Writer


class TensorDictReplayBuffer(ReplayBuffer):
    """A replay buffer of TensorDicts: each batch has an entry `"index"`, and what else the sampler tells.

    Args:
        priority_key: the entry of the data, and of batches, that has priorities.
        kwargs: see `ReplayBuffer`. The default writer is `TensorDictRoundRobinWriter`.

    Source:
        `TensorDictReplayBuffer` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, TensorDictReplayBuffer
        >>> buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=5, generator=0)
        >>> buffer.extend(TensorDict({"a": np.arange(10) * 2}, [10]))
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        >>> batch = buffer.sample()
        >>> (batch["a"] == 2 * batch["index"]).all()
        np.True_
    """

    def __init__(self, *, priority_key: NestedKey = "td_error", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.priority_key = priority_key

    @staticmethod
    def _default_writer() -> Writer:
        return TensorDictRoundRobinWriter()

    def _write_one(self, data: Any) -> Any:
        index = super()._write_one(data)
        priority = self._priority_in(data) if is_container(data) and index is not None else None
        if priority is not None:
            self._set_priorities(np.atleast_2d(index) if self._storage.ndim > 1 else index, priority)
        return index

    def _write_many(self, data: Any) -> Any:
        index = super()._write_many(data)
        priority = self._priority_in(data) if self._update_priority else None
        if priority is not None:
            if self._dim_extend:
                priority = np.swapaxes(priority, self._dim_extend, 0)
            self._set_priorities(index, priority)
        return index

    def _priority_in(self, data: Any) -> Any:
        key = self.priority_key
        return (
            data._get_entry(key)
            if type(key) is str and isinstance(data, TensorDictBase)
            else data.get(key, None)
        )

    _update_priority = True

    def extend(self, tensordicts: Any, *, update_priority: bool | None = None) -> Any:
        """Write elements; see `ReplayBuffer.extend`.

        Args:
            tensordicts: a TensorDict.
            update_priority: whether the entry `priority_key`, if there is one, gives their priorities.

        Raises:
            ValueError: it is not a TensorDict.
        """
        if not isinstance(tensordicts, TensorDictBase):
            raise ValueError(
                f"{type(self).__name__} takes TensorDicts, got {class_name(tensordicts)}; "
                "TensorDict(entries, batch_size=[rows]) makes one."
            )
        with self._storage.lock:
            self._update_priority = update_priority is not False
            try:
                return super().extend(tensordicts)
            finally:
                self._update_priority = True

    def _set_priorities(self, index: Any, priority: Any) -> None:
        """Set the priorities of elements, with any dimensions after those of the storage."""
        count = 1 if isinstance(index, int) else len(index)
        self.update_priority(
            index, reduced(stored(priority), count, getattr(self._sampler, "reduction", "max"))
        )

    def update_tensordict_priority(self, data: Any) -> None:
        """Give elements the priorities that a batch has for them; nothing without a prioritized sampler.

        Args:
            data: a batch that was drawn, also a row of an ensemble's, with its `"index"` and the entry
                `priority_key`; without the latter, the default priority.
        """
        if not hasattr(self._sampler, "alpha"):
            return
        index = data["index"]
        index = np.asarray(index["index"] if is_container(index) else index)
        ndim = self._storage.ndim
        if ndim == 1:
            # Elements of several dimensions have their index at each place.
            index = index.reshape(data.shape[0], -1)[:, 0] if data.ndim else index.reshape(-1)[:1]
        else:
            index = index.reshape(-1, ndim)
        priority = data.get(self.priority_key, None)
        if priority is None:
            priority = np.full(len(index), self._sampler.default_priority, np.float32)
        self._set_priorities(index, priority)

    def _draw(self, size: int) -> tuple[Any, dict[Any, Any]]:
        """The result of `sample`: the batch with `"index"` and the sampler's information as entries.

        Raises:
            RuntimeError: a transform has changed the batch size, or the batch is not a TensorDict.
        """
        data: Any
        data, info = super()._draw(size)
        if not isinstance(data, TensorDictBase):
            if not is_container(data):
                raise RuntimeError("Cannot include info in non-tensordict data")
            return data, info
        if data.is_locked:
            data = data.copy()
        dense = data._parts() is None
        batch = data.batch_size
        for key, value in info.items():
            if type(value) is tuple:
                value = np.stack(value, -1)
            if value.shape[:1] != batch[:1]:
                raise RuntimeError(
                    f"{key!r} of the sampler has the shape {value.shape}, a transform made the batch "
                    f"{batch}; a ReplayBuffer has no such entries in its batches."
                )
            if -1 in batch:  # trajectories of several lengths
                for row, one in zip(data.unbind(0), value, strict=True):
                    row.set(key, _of_each(one, row.batch_size))
                continue
            value = _of_each(value, batch)
            if type(key) is str and dense:
                data._data[key] = value
            else:
                data.set(key, value)
        return data, info


def _of_each(value: Any, batch: tuple[int, ...]) -> Any:
    """A sampler's value for each row as an entry of the batch: repeated for the steps of a row."""
    missing = len(batch) - value.ndim
    return (
        np.broadcast_to(value.reshape(value.shape + (1,) * missing), batch).copy() if missing > 0 else value
    )


class PrioritizedReplayBuffer(ReplayBuffer):
    """A replay buffer whose sampler is a `PrioritizedSampler`.

    Args:
        alpha: how much priorities matter; 0: not at all.
        beta: exponent of the importance weights.
        eps: added to priorities, so that none is 0.
        dtype: dtype of priorities and weights.
        storage: see `ReplayBuffer`.
        kwargs: see `ReplayBuffer`.

    Source:
        Schaul et al. (2015), Prioritized experience replay; `PrioritizedReplayBuffer` of TorchRL.

    Example:
        >>> import numpy as np
        >>> from lite.data import LazyTensorStorage, PrioritizedReplayBuffer
        >>> buffer = PrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(10))
        >>> buffer.update_priority(buffer.extend(np.arange(4)), np.array([0.0, 0.0, 1.0, 0.0]))
        >>> buffer.sample(3)
        array([2, 2, 2])
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: DTypeLike = np.float32,
        storage: Storage | None = None,
        **kwargs: Any,
    ) -> None:
        storage = ListStorage(1000) if storage is None else storage
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, dtype)
        super().__init__(storage=storage, sampler=sampler, **kwargs)


class TensorDictPrioritizedReplayBuffer(TensorDictReplayBuffer):
    """A `TensorDictReplayBuffer` whose sampler is a `PrioritizedSampler`.

    Args:
        alpha: how much priorities matter; 0: not at all.
        beta: exponent of the importance weights.
        priority_key: see `TensorDictReplayBuffer`.
        eps: added to priorities, so that none is 0.
        storage: see `ReplayBuffer`.
        reduction: what becomes of several priorities for one element.
        kwargs: see `ReplayBuffer`.

    Source:
        Schaul et al. (2015), Prioritized experience replay; `TensorDictPrioritizedReplayBuffer` of TorchRL.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer
        >>> buffer = TensorDictPrioritizedReplayBuffer(
        ...     alpha=1.0, beta=1.0, storage=LazyTensorStorage(10), batch_size=3, generator=0
        ... )
        >>> error = np.array([0.0, 0.0, 1.0, 0.0])
        >>> _ = buffer.extend(TensorDict({"a": np.arange(4), "td_error": error}, [4]))
        >>> batch = buffer.sample()
        >>> batch["a"], batch["priority_weight"].shape
        (array([2, 2, 2]), (3,))
        >>> batch["td_error"] = np.zeros(3)
        >>> buffer.update_tensordict_priority(batch)
    """

    def __init__(
        self,
        *,
        alpha: float,
        beta: float,
        priority_key: NestedKey = "td_error",
        eps: float = 1e-8,
        storage: Storage | None = None,
        reduction: str = "max",
        **kwargs: Any,
    ) -> None:
        storage = ListStorage(1000) if storage is None else storage
        sampler = PrioritizedSampler(storage.max_size, alpha, beta, eps, reduction=reduction)
        super().__init__(priority_key=priority_key, storage=storage, sampler=sampler, **kwargs)


belong_to("lite.data", TensorDictReplayBuffer, PrioritizedReplayBuffer, TensorDictPrioritizedReplayBuffer)
