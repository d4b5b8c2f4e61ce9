"""Samplers decide which entries of a storage make the next batch: the base, and those that draw uniformly.

A sampler is told of every write (`extend`, `add`, `mark_update`) and asked for indices (`sample`). It is not
safe to call from several threads at once: a replay buffer holds its lock around each of these calls.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDict
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite.kernels._integer import integer

EMPTY = "Cannot sample from an empty storage."
Index = NDArray[np.int64] | tuple[NDArray[np.int64], ...]
Seed = np.random.Generator | int | None


class StorageView(Protocol):
    """The interface of a storage for samplers."""

    max_size: int

    @property
    def ndim(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def get(self, index: Any) -> Any: ...

    def entry(self, key: NestedKey) -> NDArray[Any] | None:
        """The array of a key, with a row for each place of the storage; None without one."""

    @property
    def _changes(self) -> int:
        """The number of writes to other rows than those after the cursor."""

    @property
    def _position(self) -> Any:
        """Where the ring of rows stands: `length` of the storage, `cursor`, and `writes`, the rows ever
        written."""


class Sampler(ABC):
    """The base of samplers.

    Args:
        generator: a seed, or a generator that is advanced by every draw. None: the replay buffer's, or one
            of the sampler's own that is seeded by the operating system.

    Source:
        `Sampler` of TorchRL, https://github.com/pytorch/rl.
    """

    # Batches left before a sampler without replacement has shown everything; others have no end.
    _remaining_batches = int(np.iinfo(np.int64).max)

    def __init__(self, *, generator: Seed = None) -> None:
        self._rng = None if generator is None else np.random.default_rng(generator)
        self._seeded = generator is not None

    @abstractmethod
    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        """Indices into the storage, int64 `(batch_size,)`; a tuple of them if it has several dimensions.

        The dictionary has what the batch gets beside the entries of the storage.

        Raises:
            RuntimeError: the storage is empty.
        """

    def add(self, index: Any) -> None:  # noqa: B027
        """Called when the entry at `index` was written."""

    def extend(self, index: Any) -> None:  # noqa: B027
        """Called when the entries at `index` were written, in this order."""

    def update_priority(
        self, index: Any, priority: Any, *, storage: StorageView | None = None
    ) -> dict[str, Any] | None:
        """Warn that this sampler has no priorities."""
        warn(
            f"update_priority has no effect: {type(self).__name__} is not a prioritized sampler.",
            UserWarning,
        )
        return None

    def mark_update(self, index: Any, *, storage: StorageView | None = None) -> None:  # noqa: B027
        """Called when the entries at `index` are new."""

    def can_sample(self, storage: StorageView, batch_size: int) -> bool:
        """Whether `sample` would give a batch."""
        return len(storage) > 0

    @property
    def default_priority(self) -> float:
        """The priority of an entry that has been given none."""
        return 1.0

    @property
    def ran_out(self) -> bool:
        """Whether everything has been shown since this was last False; samplers with replacement never do."""
        return False

    def state_dict(self) -> dict[str, Any]:
        """The state from which a sampler with the same arguments continues.

        The state of the generator is in it if the sampler was given one; the buffer's is kept by the buffer.
        """
        if not self._seeded or self._rng is None:
            return {}
        return {"rng": json.dumps(self._rng.bit_generator.state)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state of another sampler.

        Raises:
            KeyError: something is missing.
        """
        if "rng" in state_dict:
            rng = self._rng if self._seeded and self._rng is not None else np.random.default_rng()
            rng.bit_generator.state = json.loads(state_dict["rng"])
            self._rng, self._seeded = rng, True  # a generator of its own: the other is the buffer's

    def dumps(self, path: Any) -> None:
        """Write `state_dict` to the folder `path`, as the memory-mapped TensorDict that torch reads, too."""
        TensorDict(self.state_dict()).memmap(path)

    def loads(self, path: Any) -> None:
        """Restore the state that `dumps` wrote to the folder `path`."""
        self.load_state_dict(TensorDict.load_memmap(path).to_dict())

    @abstractmethod
    def _empty(self) -> None:
        """Forget everything about the entries."""

    def _generator(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng()
        return self._rng

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomSampler(Sampler):
    """Draw uniformly, with replacement.

    Args:
        generator: see `Sampler`.

    Source:
        `RandomSampler` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite.data import ListStorage, RandomSampler
        >>> storage = ListStorage(10)
        >>> storage.set(range(3), ["a", "b", "c"])
        >>> index, info = RandomSampler(generator=0).sample(storage, 5)
        >>> index.tolist()
        [1, 0, 0, 0, 2]
    """

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        rng = self._rng or self._generator()
        if storage.ndim == 1:
            length = len(storage)
            if not length:
                raise RuntimeError(EMPTY)
            # Faster than integers(); a draw of 53 bits is uniform to a part in 10^7 over 10^9 entries.
            return (rng.random(batch_size) * length).astype(np.int64), {}
        if not len(storage):
            raise RuntimeError(EMPTY)
        return tuple(rng.integers(0, length, batch_size) for length in storage.shape), {}

    def _empty(self) -> None:
        pass


class SamplerWithoutReplacement(Sampler):
    """Draw every entry once before any is drawn again.

    The order is redrawn when all have been shown, and when the number of entries has changed. The last
    batch of a round is shorter where the batch size does not divide the number of entries.

    Args:
        drop_last: leave out the last batch of a round if it would be shorter.
        shuffle: whether the order is random; False: that of the storage.
        generator: see `Sampler`.

    Source:
        `SamplerWithoutReplacement` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite.data import ListStorage, SamplerWithoutReplacement
        >>> storage = ListStorage(10)
        >>> storage.set(range(5), ["a", "b", "c", "d", "e"])
        >>> sampler = SamplerWithoutReplacement(generator=0)
        >>> [sampler.sample(storage, 2)[0].tolist() for _ in range(3)]
        [[2, 4], [3, 0], [1]]
        >>> sampler.ran_out
        True
    """

    def __init__(self, drop_last: bool = False, shuffle: bool = True, *, generator: Seed = None) -> None:
        super().__init__(generator=generator)
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.len_storage = 0
        self._sample_list: NDArray[np.int64] | None = None
        self._ran_out = False

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        """Indices into the storage; see `Sampler.sample`.

        Raises:
            RuntimeError: the storage is empty.
            ValueError: it has fewer entries than one batch, with `drop_last`.
        """
        index = self._next(len(storage), batch_size)
        if storage.ndim > 1:
            return tuple(np.unravel_index(index, storage.shape)), {}
        return index, {}

    def _next(self, length: int, batch_size: int) -> NDArray[np.int64]:
        """The next batch of indices below `length`."""
        if not length:
            raise RuntimeError(EMPTY)
        if self.drop_last and length < batch_size:
            raise ValueError(
                f"batch_size must be at most the number of entries with drop_last=True, got {batch_size} "
                f"of {length}."
            )
        left = self._sample_list
        if left is None or length != self.len_storage:
            left = self._order(length)
        self.len_storage = length
        index, left = left[:batch_size], left[batch_size:]
        self._remaining_batches = self._batches(left.size, batch_size)
        self._ran_out = not self._remaining_batches
        if self._ran_out:
            left = self._order(length)
            self._remaining_batches = self._batches(length, batch_size)
        self._sample_list = left
        return index

    def _order(self, length: int) -> NDArray[np.int64]:
        return self._generator().permutation(length) if self.shuffle else np.arange(length)

    def _batches(self, entries: int, batch_size: int) -> int:
        return entries // batch_size if self.drop_last else -(entries // -batch_size)

    def can_sample(self, storage: StorageView, batch_size: int) -> bool:
        return len(storage) >= batch_size if self.drop_last else len(storage) > 0

    @property
    def ran_out(self) -> bool:
        return self._ran_out

    @ran_out.setter
    def ran_out(self, value: bool) -> None:
        self._ran_out = value

    def _empty(self) -> None:
        self._sample_list = None
        self.len_storage = 0
        self._ran_out = False

    def state_dict(self) -> dict[str, Any]:
        left = self._sample_list
        return super().state_dict() | {
            "len_storage": self.len_storage,
            "_sample_list": np.zeros(0, np.int64) if left is None else left.copy(),
            "drop_last": self.drop_last,
            "_ran_out": self._ran_out,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        # TorchRL's has None before the first draw.
        begun = state_dict["_sample_list"] is not None
        left = np.asarray(state_dict["_sample_list"] if begun else []).astype(np.int64)
        length = int(state_dict["len_storage"]) if begun else 0
        drop_last, ran_out = bool(state_dict["drop_last"]), bool(state_dict["_ran_out"])
        if left.ndim != 1 or left.size > length or (left.size and not 0 <= left.min() <= left.max() < length):
            raise ValueError(
                f"_sample_list must hold at most len_storage={length} indices below it, got the shape "
                f"{left.shape}."
            )
        super().load_state_dict(state_dict)
        self.len_storage, self._sample_list = length, left if left.size else None
        self.drop_last, self._ran_out = drop_last, ran_out

    def __repr__(self) -> str:
        left = 0 if self._sample_list is None else self._sample_list.size
        shown = 100 * left / self.len_storage if left else 0.0
        return f"{type(self).__name__}({shown: 4.4f}% sampled)"


class StalenessAwareSampler(Sampler):
    """Draw fresh entries more often than stale ones, and none that are too stale.

    The staleness of an entry is `consumer_version`, which the learner increments, minus the entry's version:
    that of the policy that collected it, which a `Collector` with `track_policy_version` writes. Batches have
    it as `"staleness"`, float32.

    Args:
        max_staleness: the largest staleness of entries that are drawn; -1 for any.
        staleness_weight_fn: from staleness, float32, to weights; 1 / (staleness + 1) if None.
        version_key: the entry that has the versions.
        generator: see `Sampler`.

    Source:
        `StalenessAwareSampler` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, ReplayBuffer, StalenessAwareSampler
        >>> sampler = StalenessAwareSampler(max_staleness=2)
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(9), sampler=sampler, batch_size=5)
        >>> _ = buffer.extend(TensorDict({"policy_version": np.arange(9)}, [9]))
        >>> sampler.consumer_version = 8
        >>> bool((buffer.sample()["policy_version"] >= 6).all())
        True
    """

    def __init__(
        self,
        max_staleness: int = -1,
        staleness_weight_fn: Callable[[Any], Any] | None = None,
        version_key: NestedKey = "policy_version",
        *,
        generator: Seed = None,
    ) -> None:
        super().__init__(generator=generator)
        if integer("max_staleness", max_staleness) < -1:
            raise ValueError(f"max_staleness must be from -1 on, got {max_staleness}.")
        if staleness_weight_fn is not None and not callable(staleness_weight_fn):
            raise TypeError(f"staleness_weight_fn must be callable, got {staleness_weight_fn!r}.")
        self.consumer_version = 0
        self.max_staleness = max_staleness
        self._weights = staleness_weight_fn or (lambda staleness: 1 / (staleness + 1))
        self._version_key = version_key

    def increment_consumer_version(self) -> None:
        """Count one version more."""
        self.consumer_version += 1

    def sample(self, storage: StorageView, batch_size: int) -> tuple[Index, dict[Any, Any]]:
        """Indices into the storage, different ones if there are enough; see `Sampler.sample`.

        Raises:
            RuntimeError: the storage is empty, all entries are too stale, or weights are negative, not finite
                or too often 0.
            KeyError: there are no versions.
        """
        length = len(storage)
        if not length:
            raise RuntimeError(EMPTY)
        key = self._version_key
        versions = storage.entry(key)
        if versions is None:
            rows = storage.get(slice(None))
            versions = np.asarray([row[key] for row in rows] if isinstance(rows, list) else rows[key])
        staleness = np.float32(self.consumer_version) - versions.reshape(-1)[:length].astype(np.float32)
        fresh = np.arange(length)
        if self.max_staleness >= 0:
            fresh = np.flatnonzero(staleness <= self.max_staleness)
        if not fresh.size:
            raise RuntimeError(
                f"all {length} entries are staler than max_staleness={self.max_staleness} at "
                f"consumer_version={self.consumer_version}."
            )
        weights = self._checked_weights(staleness[fresh], batch_size)
        drawn = self._generator().choice(fresh, batch_size, batch_size > fresh.size, weights / weights.sum())
        index = drawn if storage.ndim == 1 else tuple(np.unravel_index(drawn, storage.shape))
        return index, {"staleness": staleness[drawn]}

    def _checked_weights(self, staleness: Any, batch_size: int) -> Any:
        weights = np.asarray(self._weights(staleness), np.float64)
        if weights.shape != staleness.shape:
            raise RuntimeError(
                f"staleness_weight_fn must give a weight for each entry, got an array of shape "
                f"{weights.shape}, expected {staleness.shape}."
            )
        wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if wrong.size:
            raise RuntimeError(
                f"staleness_weight_fn must give finite weights from 0 on, got {weights[wrong[0]]} for a "
                f"staleness of {staleness[wrong[0]]}; versions above consumer_version have one below 0."
            )
        above, wanted = np.count_nonzero(weights), batch_size if batch_size <= weights.size else 1
        if above < wanted:
            raise RuntimeError(
                f"{above} of {weights.size} entries have a weight above 0, and batch_size is {batch_size}."
            )
        return weights

    def _empty(self) -> None:
        self.consumer_version = 0

    def state_dict(self) -> dict[str, Any]:
        versions = {"consumer_version": self.consumer_version, "max_staleness": self.max_staleness}
        return super().state_dict() | versions

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        consumer, most = int(state_dict["consumer_version"]), int(state_dict["max_staleness"])
        super().load_state_dict(state_dict)
        self.consumer_version, self.max_staleness = consumer, most

    def __repr__(self) -> str:
        versions = f"consumer_version={self.consumer_version}, max_staleness={self.max_staleness}"
        return f"{type(self).__name__}({versions})"


belong_to("lite.data", Sampler, RandomSampler, SamplerWithoutReplacement, StalenessAwareSampler)
