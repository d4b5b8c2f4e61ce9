"""Storages of replay buffers: the base class, and lists of objects or TensorDicts."""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lite import LazyStackedTensorDict, NestedKey, TensorDict, lazy_stack, load_memmap
from lite._arrays.device import is_cpu
from lite._arrays.public import belong_to
from lite._arrays.types import Array, Shape, as_array, is_array, stored
from lite._files.mapping import read_file
from lite._files.meta import loads, sealed
from lite.data.replay.columns import is_container

PathLike = str | os.PathLike[str]
MAX_JSON = 1 << 20
METADATA = "storage_metadata.json"


class Position:
    """The position of a ring, in memory; `ring_file.RingFile` is the same in a file.

    Attributes:
        length: rows that hold something.
        cursor: the row that is written next.
        writes: rows written since the storage was emptied, those that are overwritten by now included.
        changes: how many times rows were written that were not added where the ring stands.
    """

    __slots__ = ("changes", "cursor", "length", "writes")

    def __init__(self, length: int = 0, cursor: int = 0, writes: int = 0) -> None:
        self.length, self.cursor, self.writes = length, cursor, writes
        self.changes = 0

    def now(self) -> tuple[int, int, int]:
        """`length`, `cursor` and `writes` of one moment."""
        return self.length, self.cursor, self.writes

    def commit(self, length: int, cursor: int, writes: int) -> None:
        """From now on, the ring stands there."""
        self.length, self.cursor, self.writes = length, cursor, writes


class Storage(ABC):
    """The base of storages.

    Args:
        max_size: how many elements there can be.

    Source:
        `Storage` of TorchRL, https://github.com/pytorch/rl.
    """

    ndim: int = 1
    max_size: int
    rows_file: str = (
        "."  # what `load_memmap` opens of the folder that `dumps` writes: itself, or a file of it
    )

    def __init__(self, max_size: int) -> None:
        self.max_size = _count("max_size", max_size)
        self.lock = threading.RLock()
        self._readers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_shared = False  # whether several buffers have been attached

    # -- what samplers and buffers read -----------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int:
        """How many elements there are."""

    @abstractmethod
    def get(self, index: Any) -> Any:
        """The elements at an index: an int, a slice, an array, or a tuple of these with `ndim` > 1."""

    @abstractmethod
    def set(self, cursor: Any, data: Any) -> None:
        """Write elements at an int, a slice, a range or an array of ints, and count those that are new."""

    def entry(self, key: NestedKey) -> Array | None:
        """The array of a key, with a row for each place of the storage, uncopied; None without one."""
        return None

    @property
    def shape(self) -> Shape:
        """The shape of the part that is filled."""
        return (len(self),)

    def contains(self, item: Any) -> Any:
        """Whether there is an element at an index; for an array, one answer for each of its items."""
        index = np.asarray(item)
        found = (index < len(self)) & (index >= -len(self))
        return found if found.ndim else bool(found)

    def __contains__(self, item: Any) -> bool:
        return bool(np.all(self.contains(item)))

    def __getitem__(self, index: Any) -> Any:
        return self.get(index)

    def __setitem__(self, index: Any, data: Any) -> None:
        self._replace(index, data)

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    # -- what writers do --------------------------------------------------------------------------

    @abstractmethod
    def _append(self, data: Any, count: int | None) -> int:
        """Write `count` rows where the ring stands, None for one row alone; gives the first one.

        All of it counts at once, or nothing, if this raises.
        """

    @abstractmethod
    def _write_rows(self, index: Any, data: Any, written: int) -> None:
        """Write elements to different places, and count `written` of them. All counts at once, or nothing."""

    def _commit(self, length: int, cursor: int, writes: int) -> None:
        """From now on, the ring stands there."""
        self._position.commit(length, cursor, writes)

    @abstractmethod
    def _replace(self, index: Any, data: Any) -> None:
        """Write over elements that are there."""

    @property
    @abstractmethod
    def _position(self) -> Position: ...

    @property
    def _changes(self) -> int:
        return self._position.changes

    def _take_over(self) -> int:
        """Make this process the one that writes; how many times it has become so."""
        return 0

    def _length_of(self, data: Any) -> int:
        """How many elements `extend` got: the size of the first dimension, which has to be there."""
        try:
            count = len(data)
        except TypeError as error:
            raise TypeError(
                f"extend needs elements along a first dimension, got {data!r:.200}; "
                "add(data) stores one element."
            ) from error
        if not count and is_container(data) and not data.batch_size:
            raise RuntimeError(
                "Expected at least one element in extend. Got data of batch size (), which is one element: "
                "add(data) stores it."
            )
        return count

    def _rows(self) -> int:
        """The length of the ring: how many elements there can be along the first dimension."""
        return self.max_size

    def _rows_for(self, data: Any, many: bool) -> int:
        """The same, where it depends on the first data."""
        return self._rows()

    def _read(self, index: Any) -> Any:
        """As `get`, for an index of a sampler, which is known to be in range."""
        return self.get(index)

    def _begin(self) -> Any:
        """The state of writes before a batch is drawn, which `_unchanged` compares with."""
        return None

    def _unchanged(self, begun: Any, index: Any) -> bool:
        """Whether nothing at `index` was written over since `_begin`; only other processes can do that."""
        return True

    @abstractmethod
    def _empty(self, empty_write_count: bool = True) -> None:
        """Forget all elements."""

    def attach(self, buffer: Any) -> None:
        """Tell `buffer`, by `mark_update(index)`, of elements that other buffers write into this storage."""
        self._readers.add(buffer)
        self.is_shared = len(self._readers) > 1

    # -- saving -----------------------------------------------------------------------------------

    _only_checks = False  # whether loading ends before something changes

    @contextmanager
    def _checking(self, only: bool) -> Iterator[None]:
        """With `only`, loading raises what it would raise, and changes nothing."""
        self._only_checks = only
        try:
            yield
        finally:
            self._only_checks = False

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Copies of the elements, and where the ring stands."""

    @abstractmethod
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""

    @abstractmethod
    def dumps(self, path: PathLike) -> None:
        """Write the elements into the folder `path`, which is made."""

    @abstractmethod
    def loads(self, path: PathLike) -> None:
        """Read what `dumps` wrote."""

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["lock"], state["_readers"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = threading.RLock()
        self._readers = weakref.WeakSet()


class ListStorage(Storage):
    """A list of any objects; of results of gradients, their values.

    Args:
        max_size: how many there can be; no limit unless given.
        compilable: for TorchRL's signature.

    Source:
        `ListStorage` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> from lite.data import ListStorage
        >>> storage = ListStorage(10)
        >>> storage.set(range(3), ["a", 1, None])
        >>> len(storage), storage.get(1), storage.get([2, 0])
        (3, 1, [None, 'a'])
    """

    def __init__(self, max_size: int | None = None, *, compilable: bool = False, device: Any = None) -> None:
        if device is not None and not is_cpu(device):
            raise ValueError(f"device must be None or 'cpu', got {device!r}.")
        super().__init__(sys.maxsize if max_size is None else max_size)
        self._storage: list[Any] = []
        self._place = Position()

    @property
    def _position(self) -> Position:
        return self._place

    def __len__(self) -> int:
        return len(self._storage)

    def get(self, index: Any) -> Any:
        """The element at an int, or a list of those at a slice or a sequence of ints."""
        if isinstance(index, tuple):
            if len(index) != 1:
                raise RuntimeError(f"ListStorage has one dimension, got an index of {len(index)}.")
            (index,) = index
        if isinstance(index, int | np.integer | slice):
            return self._storage[index]
        array = np.asarray(index)
        if array.dtype == bool:
            array = np.flatnonzero(array)
        if not array.ndim:
            return self._storage[int(array)]
        return [self._storage[i] for i in array.tolist()]

    def set(self, cursor: Any, data: Any) -> None:
        """Write one element at an int, or one for each item of a sequence of ints.

        Raises:
            RuntimeError: an index is more than one beyond the last element, or beyond `max_size`.
            ValueError: there are not as many elements as places.
        """
        if isinstance(cursor, int | np.integer):
            places, items = [int(cursor)], [_values(data)]
        else:
            found = range(*cursor.indices(len(self))) if isinstance(cursor, slice) else cursor
            whole = is_container(data) or is_array(data)
            items = list(_values(data)) if whole else [_values(item) for item in data]
            places = [int(i) for i in found]
        if len(places) != len(items):
            raise ValueError(f"{len(items)} elements do not fit {len(places)} places.")
        end = len(self)
        for place in places:
            if place > end or not 0 <= place < self.max_size:
                raise RuntimeError(
                    f"Cannot write the element {place} of a storage that has {end} of {self.max_size}."
                )
            end = max(end, place + 1)
        for place, item in zip(places, items, strict=True):
            if place == len(self._storage):
                self._storage.append(item)
            else:
                self._storage[place] = item

    def _append(self, data: Any, count: int | None) -> int:
        place, n = self._place, 1 if count is None else count
        start = place.cursor
        self.set(start if count is None else [(start + i) % self.max_size for i in range(n)], data)
        place.commit(len(self._storage), (start + n) % self.max_size, place.writes + n)
        return start

    def _write_rows(self, index: Any, data: Any, written: int) -> None:
        self.set(index, data)
        length = len(self._storage)
        self._place.commit(length, length % self.max_size, self._place.writes + written)

    def _replace(self, index: Any, data: Any) -> None:
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        self.set(index, data)

    def _empty(self, empty_write_count: bool = True) -> None:
        self._storage = []
        self._place.commit(0, 0, 0 if empty_write_count else self._place.writes)

    def state_dict(self) -> dict[str, Any]:
        return {"_storage": [copied(item) for item in self._storage]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        if not isinstance(state_dict["_storage"], list | tuple):
            raise ValueError("state_dict must be of a list of elements, got one of arrays.")
        items = [copied(item) for item in state_dict["_storage"]]
        if len(items) > self.max_size:
            raise RuntimeError(f"a storage of max_size={self.max_size} cannot hold {len(items)} elements.")
        if self._only_checks:
            return
        self._place.commit(len(items), len(items) % self.max_size, len(items))
        self._storage = items

    def dumps(self, path: PathLike) -> None:
        """Refuse: any object would have to be pickled, and a file is not to be trusted with that.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "a ListStorage holds any object, as no file does; pickle the buffer, or use LazyTensorStorage."
        )

    def loads(self, path: PathLike) -> None:
        """Refuse, as `dumps` does."""
        self.dumps(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(len={len(self)}, max_size={self.max_size})"


class LazyStackStorage(ListStorage):
    """A list of TensorDicts that gives several as a lazy stack, so that their shapes may differ.

    Args:
        max_size: how many there can be; no limit unless given.
        compilable: for TorchRL's signature.
        stack_dim: the dimension along which they are stacked; negative ones count from the end.

    Source:
        `LazyStackStorage` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> from lite.data import LazyStackStorage, ReplayBuffer
        >>> buffer = ReplayBuffer(storage=LazyStackStorage(10), batch_size=3)
        >>> _ = buffer.extend(lazy_stack([TensorDict(tokens=np.arange(n)) for n in (2, 5)]))
        >>> buffer[:].get("tokens", as_padded_tensor=True).shape
        (2, 5)
    """

    def __init__(
        self, max_size: int | None = None, *, compilable: bool = False, stack_dim: int = 0, device: Any = None
    ) -> None:
        super().__init__(max_size, device=device)
        self.stack_dim = stack_dim

    rows_file = "rows.tdz"

    def dumps(self, path: PathLike) -> None:
        """Write the rows into the folder `path`, as one file; there may be none.

        Raises:
            NotImplementedError: an element is not a TensorDict.
        """
        if not all(is_container(item) for item in self._storage):
            super().dumps(path)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        rows = lazy_stack(self._storage) if self._storage else TensorDict(batch_size=[0])
        write_json(folder / METADATA, {"len": len(self), "device": rows.device})
        rows.memmap(folder / self.rows_file, copy_existing=True)

    def loads(self, path: PathLike) -> None:
        """Read what `dumps` wrote.

        Raises:
            FileNotFoundError, ValueError: the folder was not written by `dumps`, or is damaged.
            RuntimeError: there are more rows than `max_size`.
        """
        device = read_json(Path(path) / METADATA).get("device")
        rows = load_memmap(Path(path) / self.rows_file).unbind(0)
        if device is None:  # mapped rows are on the CPU, and stack with those that come only on theirs
            rows = [row.clone().clear_device_() for row in rows]
        self.load_state_dict({"_storage": rows})

    def get(self, index: Any) -> Any:
        """The element at an int, or a lazy stack of those at a slice or a sequence of ints."""
        found = super().get(index)
        if not isinstance(found, list) or not found:
            return found
        if not is_container(found[0]):
            return stacked(found)
        return lazy_stack(found, self.stack_dim % (found[0].ndim + 1))


belong_to("lite.data", Storage, ListStorage, LazyStackStorage)


def stacked(items: Any) -> Any:
    """A list of elements as a batch, if they are TensorDicts, arrays or numbers.

    Raises:
        RuntimeError: arrays of different shapes.
    """
    if not isinstance(items, list) or not items:
        return items
    if all(is_container(item) for item in items):
        return LazyStackedTensorDict.maybe_dense_stack(items, 0)  # lazy where rows have different shapes
    if not all(is_array(item) or isinstance(item, np.generic | int | float | bool) for item in items):
        return items
    arrays = [as_array(item) for item in items]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise RuntimeError(
            f"arrays of different shapes {sorted(shapes)} make no batch; TensorDicts that hold them do."
        )
    return np.stack(arrays)


def copied(data: Any) -> Any:
    """A copy of an element or batch; objects are shared."""
    if is_container(data):
        return data.clone()
    return data.copy() if is_array(data) else data


def _values(item: Any) -> Any:
    """An element without derivatives: these would keep all that it was computed from."""
    if is_container(item):
        return item.detach()
    return stored(item) if is_array(item) else item


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small file, with a checksum of it."""
    path.write_bytes(sealed(json.dumps(content).encode()))


def read_json(path: Path) -> dict[str, Any]:
    """Read a small file; ValueError if it is damaged, or no JSON object."""
    return loads(read_file(str(path), MAX_JSON), str(path))


def require_inside(*folders: Path) -> None:
    """Raise ValueError for a folder of a dump that is a symbolic link, as it may show any other."""
    for folder in folders:
        if folder.is_symlink():
            raise ValueError(f"refusing to follow the symbolic link {folder}.")


def _count(name: str, value: Any) -> int:
    size = int(value)
    if size < 1:
        raise ValueError(f"{name} must be at least 1, got {value}.")
    return size
