"""OfflineToOnlineReplayBuffer: batches of recorded data and of new data from the running policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lite import cat
from lite._arrays.public import belong_to
from lite.data.datasets.minari_replay import MinariExperienceReplay
from lite.data.replay.columns import is_container
from lite.data.replay.replay_buffer import ReplayBuffer
from lite.data.replay.replay_buffer_ensemble import ReplayBufferEnsemble
from lite.data.replay.samplers import Seed
from lite.data.replay.storages import Storage
from lite.data.replay.tensor_storage import LazyTensorStorage


def _in_a_row(items: Any) -> Any:
    if not is_container(items[0]):
        return np.concatenate(items)
    try:
        return cat(items, 0)
    except KeyError as error:
        raise KeyError(
            f"recorded and added elements must have the same entries: {error.args[0]} Leave out others, by "
            "extend(batch.exclude('collector')) or recorded.append_transform(ExcludeTransform('episode'))."
        ) from error


class OfflineToOnlineReplayBuffer(ReplayBufferEnsemble):
    """Samples a share of each batch from recorded data, and the rest from added data.

    It is an ensemble of two buffers whose batches are flat: `"index"` has `"buffer_ids"`, 0 for recorded
    elements. `extend` writes to the other buffer only; `len` counts the elements of both. Batches have
    recorded elements only until data was added. Both buffers must have the same entries: exclude entries that
    only collectors or only Minari's data sets have, such as "collector" and "episode".

    Args:
        offline_dataset: a buffer of the recorded data, or a name such as "minari:D4RL/door/human-v2" for a
            `MinariExperienceReplay`.
        online_storage: the storage of added data.
        online_capacity: the size of a `LazyTensorStorage` in place of `online_storage`.
        offline_fraction: the share of each batch that is recorded, rounded to elements, above 0 and below 1.
        batch_size: the default batch size of `sample`.
        transform: called with each batch, after the transforms of the buffers.
        generator: a seed or generator for added data; the buffer of recorded data has its own.
        **dataset_kwargs: arguments of `MinariExperienceReplay`, with a name.

    Raises:
        TypeError: `offline_dataset` is neither a buffer nor a name.
        ValueError: not exactly one of `online_storage` and `online_capacity`; a wrong share or name;
            a name without a batch size, or `dataset_kwargs` without a name; recorded data that prefetches.

    Source:
        torchrl.data.OfflineToOnlineReplayBuffer.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, OfflineToOnlineReplayBuffer, ReplayBuffer
        >>> recorded = ReplayBuffer(storage=LazyTensorStorage(50))
        >>> index = recorded.extend(TensorDict(observation=np.zeros((50, 4)), batch_size=[50]))
        >>> both = OfflineToOnlineReplayBuffer(recorded, online_capacity=20, offline_fraction=0.25)
        >>> index = both.extend(TensorDict(observation=np.ones((3, 4)), batch_size=[3]))
        >>> both.sample(8)["observation"].sum(), len(both)
        (np.float64(24.0), 53)
    """

    _joined = staticmethod(_in_a_row)

    def __init__(
        self,
        offline_dataset: str | ReplayBuffer,
        *,
        online_storage: Storage | None = None,
        online_capacity: int | None = None,
        offline_fraction: float = 0.5,
        batch_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        generator: Seed = None,
        **dataset_kwargs: Any,
    ) -> None:
        if (online_storage is None) == (online_capacity is None):
            raise ValueError("one of online_storage and online_capacity must be given.")
        if not 0 < offline_fraction < 1:
            raise ValueError(f"offline_fraction must be above 0 and below 1, got {offline_fraction}.")
        if isinstance(offline_dataset, str):
            kind, _, name = offline_dataset.partition(":")
            size = dataset_kwargs.pop("batch_size", batch_size)
            if kind != "minari":
                raise ValueError(
                    f"offline_dataset must be a buffer or begin with 'minari:', got {offline_dataset!r}."
                )
            if size is None:
                raise ValueError("batch_size must be given with the name of a data set.")
            offline_dataset = MinariExperienceReplay(name, size, **dataset_kwargs)
        elif dataset_kwargs:
            raise ValueError(f"{sorted(dataset_kwargs)} are for a data set that is given by its name.")
        if getattr(offline_dataset, "_prefetch", 0):
            raise ValueError("offline_dataset must not prefetch: what is drawn ahead has the size of before.")
        if online_storage is None:
            online_storage = LazyTensorStorage(online_capacity)  # type: ignore[arg-type]  # checked above
        self._base_offline_fraction = self._offline_fraction = offline_fraction
        super().__init__(
            offline_dataset,
            ReplayBuffer(storage=online_storage),
            transform=transform,
            batch_size=batch_size,
            generator=generator,
        )

    def set_rng(self, generator: Seed) -> None:
        """Sample added data with a seed or a generator from now on."""
        super().set_rng(generator)
        self.online_buffer.set_rng(self._rng)

    def extend(self, data: Any) -> Any:
        """Write new elements; returns their indices. See `ReplayBuffer.extend`."""
        return self.online_buffer.extend(data)

    def anneal(self, step: int, total_steps: int) -> None:
        """Set the share of recorded elements for a step: a line that reaches 0 at `total_steps`."""
        self._offline_fraction = self._base_offline_fraction * max(0.0, 1.0 - step / total_steps)

    def _shares(self, size: int) -> list[tuple[int, int]]:
        offline = round(self._offline_fraction * size) if len(self.online_buffer) else size
        return [(i, count) for i, count in enumerate((offline, size - offline)) if count or not size]

    @property
    def offline_fraction(self) -> float:
        """The share of recorded elements now."""
        return self._offline_fraction

    @property
    def offline_buffer(self) -> ReplayBuffer:
        """The recorded data."""
        return self[0]

    @property
    def online_buffer(self) -> ReplayBuffer:
        """The buffer of the rows that were added."""
        return self[1]

    def __len__(self) -> int:
        return len(self.offline_buffer) + len(self.online_buffer)

    def _own_state(self) -> dict[str, Any]:
        return {**super()._own_state(), "_offline_fraction": self._offline_fraction}

    def _load_own(self, state: Mapping[str, Any]) -> None:
        super()._load_own(state)
        self._offline_fraction = float(state["_offline_fraction"])


belong_to("lite.data", OfflineToOnlineReplayBuffer)
