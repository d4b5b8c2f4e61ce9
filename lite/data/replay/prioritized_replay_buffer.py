"""Replay buffers with a prioritized sampler from the start."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import NestedKey
from lite._arrays.public import belong_to
from lite.data.replay.prioritized_sampler import PrioritizedSampler
from lite.data.replay.replay_buffer import ReplayBuffer
from lite.data.replay.storages import ListStorage, Storage
from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer


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


belong_to("lite.data", PrioritizedReplayBuffer, TensorDictPrioritizedReplayBuffer)
