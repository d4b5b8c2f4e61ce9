"""Writers choose the rows of new elements: a ring, those of the highest values, or none for data sets."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite._arrays.public import belong_to
from lite._arrays.types import stored
from lite._files.meta import damaged
from lite.data.replay.columns import is_container, reduced
from lite.data.replay.storages import PathLike, Storage, read_json, stacked, write_json

_METADATA = "metadata.json"


class Writer(ABC):
    """The base class of writers; a replay buffer registers its storage.

    Source:
        `Writer` of TorchRL, https://github.com/pytorch/rl.
    """

    def __init__(self) -> None:
        self._storage: Any = None

    def register_storage(self, storage: Storage) -> None:
        """Write to `storage` from now on."""
        self._storage = storage

    @abstractmethod
    def add(self, data: Any) -> Any:
        """Write one element; returns its index: an int, or with `ndim` > 1 an array (elements, ndim)."""

    @abstractmethod
    def extend(self, data: Any) -> Any:
        """Write elements; returns their indices, int64 (elements,), or (elements, ndim) with `ndim` > 1."""

    @abstractmethod
    def _empty(self, empty_write_count: bool = True) -> None:
        """Reset the state."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """The state from which another writer can continue."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state of another writer."""

    @property
    def _write_count(self) -> int:
        return 0

    def dumps(self, path: PathLike) -> None:
        """Write the state into the folder `path`, which is created."""
        folder = Path(path)
        folder.mkdir(exist_ok=True, parents=True)
        write_json(folder / _METADATA, {key.lstrip("_"): value for key, value in self.state_dict().items()})

    def loads(self, path: PathLike) -> None:
        """Read what `dumps` wrote.

        Raises:
            ValueError: the file is damaged.
        """
        self._read(path, self.load_state_dict)

    def _read(self, path: PathLike, use: Callable[[dict[str, Any]], None]) -> None:
        file = Path(path) / _METADATA
        state = read_json(file)
        with damaged(file, KeyError, TypeError, ValueError):
            use({f"_{key}": value for key, value in state.items()})

    def _check(self, state_dict: Mapping[str, Any]) -> None:
        """Raise what loading a state of something else would raise."""
        self._writes_in(state_dict)

    def _writes_in(self, state_dict: Mapping[str, Any]) -> int:
        """The rows ever written; before TorchRL 0.14 files did not say it."""
        return int(state_dict.get("_write_count", len(self._storage)))

    def _replicate(self, first: int | NDArray[np.int64]) -> Any:
        """The indices of all elements in the given rows."""
        storage = self._storage
        if storage.ndim == 1:
            return first
        inner = storage.shape[1:]
        rows = np.atleast_1d(np.asarray(first, np.int64))
        mesh = np.indices(inner).reshape(len(inner), -1).T
        left = np.repeat(rows, len(mesh))[:, None]
        return np.concatenate([left, np.tile(mesh, (len(rows), 1))], 1)


class ImmutableDatasetWriter(Writer):
    """A writer of data sets, which raises on every write.

    Source:
        `ImmutableDatasetWriter` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite.data import ImmutableDatasetWriter, ReplayBuffer, TensorStorage
        >>> buffer = ReplayBuffer(storage=TensorStorage(np.arange(5)), writer=ImmutableDatasetWriter())
        >>> buffer.extend(np.arange(2))
        Traceback (most recent call last):
            ...
        RuntimeError: This dataset doesn't allow writing.
    """

    def add(self, data: Any) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError("This dataset doesn't allow writing.")

    def extend(self, data: Any) -> Any:
        """Raise RuntimeError."""
        raise RuntimeError("This dataset doesn't allow writing.")

    def _empty(self, empty_write_count: bool = True) -> None:
        raise RuntimeError("This dataset doesn't allow writing.")

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        return None


class RoundRobinWriter(Writer):
    """Write elements as a ring: after the last row the first one is overwritten (first in, first out).

    The storage holds the position of the ring together with the data, so that both change at once.

    Source:
        `RoundRobinWriter` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite.data import ListStorage, RoundRobinWriter
        >>> storage, writer = ListStorage(3), RoundRobinWriter()
        >>> writer.register_storage(storage)
        >>> writer.extend(["a", "b"]), writer.extend(["c", "d"])
        (array([0, 1]), array([2, 0]))
        >>> storage.get(slice(None))
        ['d', 'b', 'c']
    """

    @property
    def _cursor(self) -> int:
        return self._storage._position.cursor

    @property
    def _write_count(self) -> int:
        return self._storage._position.writes

    def add(self, data: Any) -> Any:
        index = self._storage._append(data, None)
        return index if self._storage.ndim == 1 else self._replicate(index)

    def extend(self, data: Any) -> Any:
        """Write elements; see `Writer.extend`.

        Raises:
            RuntimeError: there are none, or no batch dimension of elements.
            TypeError: data without a first dimension.
        """
        storage = self._storage
        count = storage._length_of(data)
        if not count:
            raise RuntimeError(f"Expected at least one element in extend. Got {data!r:.200}.")
        start = storage._append(data, count)
        index = np.arange(start, start + count)
        rows = storage._rows()
        if start + count > rows:
            index %= rows
        return index if storage.ndim == 1 else self._replicate(index)

    def _empty(self, empty_write_count: bool = True) -> None:
        """Does nothing: the storage holds the position, and resets it."""

    def state_dict(self) -> dict[str, Any]:
        place = self._storage._position
        return {"_cursor": place.cursor, "_write_count": place.writes}

    def _check(self, state_dict: Mapping[str, Any]) -> None:
        super()._check(state_dict)
        int(state_dict["_cursor"])

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        cursor, writes = state_dict["_cursor"], self._writes_in(state_dict)
        rows = self._storage._rows()
        if not 0 <= cursor < rows or writes < 0:
            raise ValueError(f"a ring of {rows} rows cannot stand at row {cursor} after {writes} writes")
        self._storage._commit(len(self._storage), int(cursor), writes)

    def __repr__(self) -> str:
        where = f"cursor={self._cursor}" if self._storage is not None else ""
        return f"{type(self).__name__}({where})"


class TensorDictRoundRobinWriter(RoundRobinWriter):
    """As `RoundRobinWriter`, for TensorDicts: the entry `"index"` of samples is not written.

    Source:
        `TensorDictRoundRobinWriter` of TorchRL, https://github.com/pytorch/rl.
    """

    def add(self, data: Any) -> Any:
        return super().add(_without_index(data))

    def extend(self, data: Any) -> Any:
        """Write elements; see `Writer.extend`. An empty batch is allowed."""
        if not self._storage._length_of(data):
            ndim = self._storage.ndim
            return np.zeros((0,) if ndim == 1 else (0, ndim), np.int64)
        return super().extend(_without_index(data))


def _without_index(data: Any) -> Any:
    node = getattr(data, "_tensordict", data)
    return data.exclude("index") if is_container(data) and node._get_entry("index") is not None else data


_REDUCTIONS = ("sum", "max", "min", "mean", "median")


class TensorDictMaxValueWriter(Writer):
    """Fill the storage, then replace the element of the lowest rank by elements of higher rank.

    Args:
        rank_key: the entry that ranks an element. None: `("next", "reward")`.
        reduction: what makes one number of it: "sum", "max", "min", "mean" or "median" (the
            lower one of two).

    Raises:
        ValueError: an unknown reduction; or, when registered, a storage with `ndim` > 1.

    Source:
        `TensorDictMaxValueWriter` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, TensorDictMaxValueWriter, TensorDictReplayBuffer
        >>> buffer = TensorDictReplayBuffer(
        ...     storage=LazyTensorStorage(2), writer=TensorDictMaxValueWriter(rank_key="score")
        ... )
        >>> buffer.extend(TensorDict({"score": np.array([3.0, 1.0, 2.0])}, [3]))
        array([ 0, -1,  1])
        >>> buffer[:]["score"]
        array([3., 2.])
    """

    def __init__(self, rank_key: NestedKey | None = None, reduction: str = "sum") -> None:
        super().__init__()
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be one of {[*_REDUCTIONS]}, got {reduction!r}.")
        self._rank_key = ("next", "reward") if rank_key is None else rank_key
        self._reduction = reduction
        self._heap: list[tuple[float, int]] = []
        self._takeovers = 0

    def register_storage(self, storage: Storage) -> None:
        if storage.ndim > 1:
            raise ValueError(f"TensorDictMaxValueWriter needs a storage with ndim=1, got {storage.ndim}.")
        super().register_storage(storage)
        self._rank_what_is_there()

    def _rank_what_is_there(self) -> None:
        """Empty, as ranks are computed from the stored elements."""
        count = len(self._storage)
        ranks = self._ranks(stacked(self._storage.get(slice(None)))) if count else np.zeros(0)
        self._heap = list(zip(ranks.tolist(), range(count), strict=True))
        heapq.heapify(self._heap)

    def _ranks(self, data: Any) -> NDArray[Any]:
        """One number for each row of `data`."""
        if not is_container(data):
            raise RuntimeError(f"TensorDictMaxValueWriter needs a TensorDict, got {type(data).__name__}.")
        entry = data.get(self._rank_key, None)
        if entry is None:
            raise KeyError(f"Rank key {self._rank_key} not found in data.")
        return reduced(stored(entry), data.shape[0], self._reduction)

    def get_insert_index(self, data: Any) -> int | None:
        """The index that one element would be written to; None if it would be discarded. Nothing changes."""
        place = self._places(data.unsqueeze(0), self._heap.copy())[0]
        return None if place < 0 else int(place)

    def _places(self, data: Any, heap: list[tuple[float, int]]) -> NDArray[np.int64]:
        """The index for each row of `data`, -1 for discarded rows; updates `heap`."""
        size = self._storage.max_size
        ranks = self._ranks(data)
        places = np.full(len(ranks), -1, np.int64)
        full = max(0, size - len(heap))
        for row, rank in enumerate(ranks[:full].tolist()):
            places[row] = len(heap)
            heapq.heappush(heap, (rank, len(heap)))
        rest = ranks[full:]
        # The lowest stored rank only rises, so rows that do not exceed it now never will.
        for row in np.flatnonzero(rest > heap[0][0]).tolist() if heap else ():
            rank = rest[row].item()
            if rank > heap[0][0]:
                places[full + row] = heap[0][1]
                heapq.heapreplace(heap, (rank, heap[0][1]))
        return places

    def add(self, data: Any) -> int | None:
        """Write one element, if its rank is high enough; gives its index, or None."""
        index = int(self.extend(data.unsqueeze(0))[0])
        return None if index < 0 else index

    def extend(self, data: Any) -> NDArray[np.int64]:
        """Write the elements whose rank is high enough; gives their indices, -1 for those left out.

        Raises:
            KeyError: the entry of ranks is missing.
            RuntimeError: `data` is not a TensorDict, or has no batch dimension.
        """
        if not is_container(data):
            raise RuntimeError(f"TensorDictMaxValueWriter needs a TensorDict, got {type(data).__name__}.")
        if not self._storage._length_of(data):
            return np.zeros(0, np.int64)
        data = data.exclude("index")
        takeovers = self._storage._take_over()
        if takeovers != self._takeovers:  # another process may have written
            self._rank_what_is_there()
        self._takeovers = takeovers
        heap = self._heap.copy()
        places = self._places(data, heap)
        # Of several that go to one place, the last one stays.
        kept, last = np.unique(places[::-1], return_index=True)
        rows = len(places) - 1 - last[kept >= 0]
        if len(rows):
            self._storage._write_rows(places[rows], data[rows], int((places >= 0).sum()))
        self._heap = heap
        lost = np.ones(len(places), bool)
        lost[rows] = False
        places[lost] = -1
        return places

    @property
    def _write_count(self) -> int:
        return self._storage._position.writes

    def _empty(self, empty_write_count: bool = True) -> None:
        self._heap = []

    def state_dict(self) -> dict[str, Any]:
        return {"_cursor": len(self._heap) % self._storage.max_size, "_write_count": self._write_count}

    def dumps(self, path: PathLike) -> None:
        """Write the state into the folder `path`, and the ranks, which torchrl's writer reads."""
        super().dumps(path)
        file, ranks = Path(path) / _METADATA, np.array(self._heap, "<f8").reshape(-1, 2)
        file.with_name("current_top_values.memmap").write_bytes(ranks.tobytes())
        about = {"rank_key": self._rank_key, "dtype": "torch.float64", "shape": ranks.shape}
        write_json(file, {**read_json(file), **about})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        length = len(self._storage)
        self._storage._commit(length, length % self._storage.max_size, self._writes_in(state_dict))
        self._rank_what_is_there()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank_key={self._rank_key}, reduction={self._reduction!r})"


belong_to(
    "lite.data", Writer, ImmutableDatasetWriter, RoundRobinWriter, TensorDictRoundRobinWriter,
    TensorDictMaxValueWriter,
)  # fmt: skip
