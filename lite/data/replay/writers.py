"""Writers choose the rows of new elements: a ring, or none for data sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.public import belong_to
from lite.data.replay.columns import is_container
from lite.data.replay.storages import PathLike, Storage, read_json, write_json

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
        file = Path(path) / _METADATA
        state = read_json(file)
        try:
            self.load_state_dict({f"_{key}": value for key, value in state.items()})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged or foreign: {error}.") from error

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

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        cursor, writes = state_dict["_cursor"], state_dict["_write_count"]
        rows = self._storage._rows()
        if not 0 <= cursor < rows or writes < 0:
            raise ValueError(f"a ring of {rows} rows cannot stand at row {cursor} after {writes} writes")
        self._storage._commit(len(self._storage), int(cursor), int(writes))

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


belong_to("lite.data", Writer, ImmutableDatasetWriter, RoundRobinWriter, TensorDictRoundRobinWriter)


def _without_index(data: Any) -> Any:
    node = getattr(data, "_tensordict", data)
    return data.exclude("index") if is_container(data) and node._get_entry("index") is not None else data
