"""ReplayBuffer: a storage, a writer that fills it, a sampler that draws from it, and transforms.

Past 600 lines because it is one class, each of whose methods is a few lines and a description.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import lite
from lite import NestedKey, TensorDict
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._files.commit import finish, replace_tree
from lite._files.meta import damaged
from lite._files.payload import if_pickled
from lite._transforms.vmap.running import reads
from lite.data.replay.columns import is_container
from lite.data.replay.mapped_storage import LazyMemmapStorage
from lite.data.replay.samplers import RandomSampler, Sampler, Seed
from lite.data.replay.storages import (
    METADATA,
    ListStorage,
    PathLike,
    Storage,
    copied,
    read_json,
    require_inside,
    stacked,
    write_json,
)
from lite.data.replay.tensor_storage import TensorStorage
from lite.data.replay.transforms import Transforms, as_frames
from lite.data.replay.trees import is_tree, mapped
from lite.data.replay.writers import RoundRobinWriter, TensorDictMaxValueWriter, Writer
from lite.kernels._integer import integer
from lite.kernels._threads import submit

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_ABOUT = "buffer_metadata.json"
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
_MOST = 1 << 16  # elements of a batch that a file may request, if its storage is smaller

_OF_ONE_PROCESS = (
    "a buffer with shared=True is filled by the process that made it: another process would fill a copy. "
    "Give processes a RayReplayBuffer, or give the buffer to MultiSyncCollector or MultiAsyncCollector."
)


class ReplayBuffer:
    """Stores experience, and samples batches of it.

    `extend` and `add` write, `sample` samples, `len` counts, `buffer[index]` reads, iteration yields batches.
    Any number of threads may do all of this at the same time. With a `LazyMemmapStorage` other processes
    may sample, and data survives the process once `extend` or `add` has returned, also the frames that a
    `MultiStepTransform` withholds: a new buffer over the same folder continues with them.

    Args:
        storage: the storage of the data, or a function that makes one. None: a `ListStorage` of 1,000.
        sampler: the sampler of indices. None: `RandomSampler`.
        writer: the writer, which chooses the indices of new data. None: `RoundRobinWriter`.
        collate_fn: makes a batch from elements of the storage. None: stacks lists of TensorDicts or numbers.
        transform, transform_factory: a transform, called with each sampled batch; its `inv`, if any, with the
            data of `extend` and `add` (None stores nothing). Or a function that makes the transform.
        batch_size: the default batch size of `sample`.
        dim_extend: the dimension along which the data of `extend` is added; by default the last one that the
            storage counts, which is time in batches `[envs, time]` for `ndim=2`.
        prefetch: the number of batches that a thread samples ahead of time; needs `batch_size`.
        generator: a seed or generator for a sampler that has none of its own.
        pin_memory, compilable: for TorchRL's signature; NumPy has no such memory, and nothing is compiled.
        shared: True for a buffer that threads and collectors fill, those of several processes included. It
            belongs to its process; what several processes write to themselves is a `RayReplayBuffer`.

    Raises:
        ValueError: `prefetch` without `batch_size`, or a negative `dim_extend`.
        TypeError: both a transform and a factory; or a storage, sampler or writer of another class.

    Source:
        `ReplayBuffer` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import LazyTensorStorage, ReplayBuffer
        >>> buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=4)
        >>> buffer.extend(TensorDict(step=np.arange(3), batch_size=[3]))
        array([0, 1, 2])
        >>> buffer.sample()["step"].shape
        (4,)
    """

    def __init__(
        self,
        *,
        storage: Storage | Callable[[], Storage] | None = None,
        sampler: Sampler | Callable[[], Sampler] | None = None,
        writer: Writer | Callable[[], Writer] | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        transform: Any = None,
        transform_factory: Callable[[], Any] | None = None,
        batch_size: int | None = None,
        dim_extend: int | None = None,
        prefetch: int | None = None,
        generator: Seed = None,
        pin_memory: bool = False,
        compilable: bool = False,
        shared: bool = False,
    ) -> None:
        if transform is not None and transform_factory is not None:
            raise TypeError("transform and transform_factory cannot both be given.")
        if prefetch and batch_size is None:
            raise ValueError("prefetch needs a batch_size, as batches are drawn before they are asked for.")
        if dim_extend is not None and dim_extend < 0:
            raise ValueError(f"dim_extend must be a positive value or 0, got {dim_extend}.")
        self._storage: Storage = _made("storage", storage, Storage, lambda: ListStorage(1000))
        self._sampler: Sampler = _made("sampler", sampler, Sampler, RandomSampler)
        self._writer: Writer = _made("writer", writer, Writer, self._default_writer)
        self._writer.register_storage(self._storage)
        self._storage.attach(self)
        self._owner = os.getpid() if shared else None
        self._batch_size = None if batch_size is None else integer("batch_size", batch_size)
        if batch_size is None and getattr(self._sampler, "drop_last", False):
            raise ValueError("a sampler with drop_last=True needs the batch_size of the buffer.")
        self._dim_extend = self._storage.ndim - 1 if dim_extend is None else dim_extend
        self._collate_fn = collate_fn if collate_fn is not None else _default_collate(self._storage)
        self._rng = np.random.default_rng(generator)
        self._give_generator()
        self._prefetch = prefetch or 0
        self._drawn_ahead: deque[tuple[int, Future[Any]]] = deque()  # with the batch sizes
        self._executor: ThreadPoolExecutor | None = None
        self._ahead_lock = threading.RLock()
        self._warned = False
        self._transforms = Transforms(transform_factory() if transform_factory is not None else transform)
        self._notified = self._takeovers = 0
        self._go_on()

    @staticmethod
    def _default_writer() -> Writer:
        return RoundRobinWriter()

    def _give_generator(self) -> None:
        if self._sampler._rng is None:
            self._sampler._rng = self._rng

    def _go_on(self) -> None:
        """Continue with the existing elements of the storage."""
        storage = self._storage
        length = len(storage)
        if not length and not isinstance(storage, LazyMemmapStorage):
            return
        if length and _listens(self._sampler):
            index = self._writer._replicate(np.arange(storage.shape[0]))
            self._sampler.mark_update(index, storage=storage)
            self._sampler.extend(index)
        if isinstance(storage, LazyMemmapStorage):
            begun = storage._begin()
            self._notified = 0 if begun is None else begun[1]
            if self._transforms.withholds:
                self._transforms.withheld = storage.kept()

    # -- writing ----------------------------------------------------------------------------------

    def add(self, data: Any) -> Any:
        """Write one element; returns its index, or an empty array if a transform withholds it.

        Raises:
            KeyError, RuntimeError, TypeError: its structure differs from that of stored elements; nothing
                changes.
        """
        self._check_process()
        with self._storage.lock:
            if not len(self._transforms):
                return self._write_one(data)
            return self._all_or_nothing(self._through, as_frames(data), self._write_frames)

    def extend(self, data: Any) -> Any:
        """Write elements; returns their indices.

        Args:
            data: a TensorDict, tensorclass or array whose first dimension (see `dim_extend`) is elements; for
                storages of arrays also a tuple or dict of such, nested at will; or a list of elements. The
                transforms' inverses are called with it.

        Returns:
            int64 (elements,), in the order of the data; (elements, ndim) where the storage has `ndim` > 1.
            Empty if a transform withholds everything.

        Raises:
            RuntimeError: there are no elements.
            KeyError, RuntimeError, TypeError: their structure differs from that of stored elements; nothing
                changes.
        """
        self._check_process()
        with self._storage.lock:
            if not len(self._transforms):
                return self._write_many(data)
            return self._all_or_nothing(self._through, data, self._write_many)

    def _check_process(self) -> None:
        if self._owner is not None and self._owner != os.getpid():
            raise RuntimeError(_OF_ONE_PROCESS)

    def flush(self) -> Any:
        """Store the data that transforms withhold, as at the end of a stream; returns the indices."""
        with self._storage.lock:
            return self._all_or_nothing(self._write_rest)

    def _all_or_nothing(self, write: Callable[..., Any], *given: Any) -> Any:
        """Write through the transforms; after an error they withhold the same data as before."""
        self._take_over()
        before = self._transforms.withheld if self._transforms.withholds else None
        try:
            return write(*given)
        except BaseException:
            if self._transforms.withholds:
                self._transforms.withheld = before
            if isinstance(self._storage, LazyMemmapStorage):
                self._storage.keep_nothing_new()
            raise

    def _through(self, data: Any, write: Callable[[Any], Any]) -> Any:
        data = self._transforms.inv(data)
        self._keep(alone=data is None)
        if data is None:
            return self._no_index()
        index = write(data)
        if isinstance(self._storage, LazyMemmapStorage):
            self._storage.keep_rest()
        return index

    def _write_rest(self) -> Any:
        pieces = list(self._transforms.flush())
        self._keep(alone=not pieces)
        return self._write_many(lite.cat(pieces, -1)) if pieces else self._no_index()

    def _take_over(self) -> None:
        """Load the withheld frames of another process that may have written."""
        storage = self._storage
        if self._transforms.withholds and isinstance(storage, LazyMemmapStorage):
            takeovers = storage._take_over()
            if takeovers != self._takeovers and storage.initialized:
                self._transforms.withheld = storage.kept()
            self._takeovers = takeovers

    def _keep(self, alone: bool) -> None:
        """Save the withheld frames together with the rows."""
        if self._transforms.withholds and isinstance(self._storage, LazyMemmapStorage):
            self._storage.keep(self._transforms.withheld, alone)

    def _no_index(self) -> Any:
        ndim = self._storage.ndim
        return np.zeros((0,) if ndim == 1 else (0, ndim), np.int64)

    def _write_one(self, data: Any) -> Any:
        index = self._writer.add(data)
        if index is not None:
            self._tell(index, self._sampler.add)
        return index

    def _write_frames(self, data: Any) -> Any:
        """Write the frames that a single frame became, usually one; returns the result of `add`."""
        if is_container(data) and data.shape[-1] == 1:
            return self._write_one(data.squeeze(-1))
        return self._write_many(data)

    def _write_many(self, data: Any) -> Any:
        if self._dim_extend:
            data = self._transposed(data)
        index = self._writer.extend(data)
        # Elements that the writer discarded have no index.
        written = index[index >= 0] if isinstance(self._writer, TensorDictMaxValueWriter) else index
        self._tell(written, self._sampler.extend)
        return index

    def _tell(self, index: Any, new: Callable[[Any], None]) -> None:
        """Notify the sampler, and the buffers that share the storage, of written rows."""
        storage = self._storage
        self._sampler.mark_update(index, storage=storage)
        new(index)
        if storage.is_shared:
            for other in storage._readers:
                if other is not self:
                    other.mark_update(index)

    def _transposed(self, data: Any) -> Any:
        if is_tree(data):
            return mapped(data, self._transposed)
        if is_container(data):
            return data.transpose(self._dim_extend, 0)
        return np.swapaxes(np.asarray(data), self._dim_extend, 0)

    def mark_update(self, index: Any) -> None:
        """Tell the sampler that the elements at `index` are new."""
        self._sampler.mark_update(index, storage=self._storage)

    def update_priority(self, index: Any, priority: Any) -> None:
        """Set the priorities of the elements at `index`.

        Args:
            index: int64 (elements,), or (elements, ndim), or a tuple of `ndim` arrays.
            priority: (elements,), or one number for all.
        """
        if isinstance(index, tuple):
            index = np.stack(index, -1)
        with self._storage.lock:
            self._sampler.update_priority(index, priority, storage=self._storage)

    def empty(self, empty_write_count: bool = True) -> None:
        """Remove all elements, and the data that transforms withhold.

        Args:
            empty_write_count: set `write_count` to 0, too.
        """
        self._cancel()
        with self._ahead_lock, self._storage.lock:
            self._writer._empty(empty_write_count=empty_write_count)
            self._sampler._empty()
            if self._transforms.withholds:
                self._transforms.withheld = None
                if isinstance(self._storage, LazyMemmapStorage) and self._storage.initialized:
                    self._storage.keep(None, False)
            self._storage._empty(empty_write_count)

    # -- drawing ----------------------------------------------------------------------------------

    def sample(self, batch_size: int | None = None, return_info: bool = False) -> Any:
        """Sample a batch.

        Args:
            batch_size: number of elements; by default that of the buffer.
            return_info: return the sampler's information, too: `"index"`, and weights.

        Returns:
            Copies of the elements, as a TensorDict (batch_size, ...) if TensorDicts are stored; with
            `return_info`, the pair of it and a dict.

        Raises:
            RuntimeError: there is no batch size, or no element.
            TypeError, ValueError: `batch_size` is not an integer, or negative.
            NotImplementedError: while a graph is traced, which would have the batch as a constant.
        """
        size = self._batch_size if batch_size is None else integer("batch_size", batch_size, least=0)
        if size is None:
            raise RuntimeError("batch_size not specified, neither of the buffer nor of sample.")
        if batch_size is not None and self._batch_size not in (None, batch_size) and not self._warned:
            self._warned = True
            warn(
                f"Got conflicting batch_sizes in constructor ({self._batch_size}) and sample ({batch_size});"
                " the latter is used.",
            )
        result = self._draw(size)
        return result if return_info else result[0]

    def _draw(self, size: int) -> tuple[Any, dict[Any, Any]]:
        reads("a replay buffer")
        return self._ahead(size) if self._prefetch else self._sample(size)

    def _sample(self, size: int) -> tuple[Any, dict[Any, Any]]:
        storage = self._storage
        with storage.lock:
            begun = storage._begin()
            if begun is None:
                index, info = self._sampler.sample(storage, size)
                data = storage._read(index)
            else:
                index, info, data = self._sample_of_others(storage, size, begun)
        info["index"] = index
        return self._finished(data, info)

    def _finished(self, data: Any, info: dict[Any, Any]) -> tuple[Any, dict[Any, Any]]:
        if self._collate_fn is not None:
            data = self._collate_fn(data)
            if is_container(data):
                data = data.copy()  # lazy stacks hold the stored elements themselves
        if len(self._transforms):
            data = self._transforms.out(data)
        return data, info

    def _sample_of_others(self, storage: Any, size: int, begun: Any) -> Any:
        """Sample from a storage that another process writes; again if it overwrote the rows meanwhile."""
        end = storage.deadline()
        while True:
            self._tell_of_others(storage, begun)
            index, info = self._sampler.sample(storage, size)
            data = storage._read(index)
            if storage._unchanged(begun, index):
                return index, info, data
            storage.wait(end)
            begun = storage._begin()

    def _tell_of_others(self, storage: Any, begun: Any) -> None:
        """Tell the sampler of rows that another process has added since."""
        cursor, total, _ = begun
        if total == self._notified:
            return
        rows = storage._rows()
        new = min(total - self._notified, storage.shape[0]) if total > self._notified else storage.shape[0]
        self._notified = total
        if new:
            index = self._writer._replicate((cursor - new + np.arange(new)) % rows)
            self._sampler.mark_update(index, storage=storage)
            self._sampler.extend(index)

    def _ahead(self, size: int) -> Any:
        """The next batch that a thread has sampled ahead of time."""
        with self._ahead_lock:
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor  # with logging, 3 ms of a first import

                # One thread: batches come in the order of the generator.
                self._executor = ThreadPoolExecutor(1, "lite-replay")
                _drawing_ahead.add(self)
            queue = self._drawn_ahead
            # Batches of another size wait: without replacement, they hold elements that others do not.
            first = next((job for job in queue if job[0] == size), None)
            if first is not None:
                queue.remove(first)
            out = self._sample(size) if first is None else first[1].result()
            while (
                sum(drawn == size for drawn, _ in queue)
                < min(self._prefetch, self._sampler._remaining_batches)
                and not self._sampler.ran_out
            ):
                future = submit(self._executor, self._sample, size)
                queue.append((size, future))
                if self._sampler._remaining_batches < self._prefetch:
                    future.exception()  # how many are left is known when this one is drawn
            return out

    def _cancel(self) -> None:
        """Discard batches that were sampled ahead of time."""
        with self._ahead_lock:
            for _, future in self._drawn_ahead:
                if not future.cancel():
                    future.exception()  # waits for it
            self._drawn_ahead.clear()

    def __iter__(self) -> Iterator[Any]:
        """Batches without end; for a sampler without replacement, those of one round.

        Raises:
            RuntimeError: the buffer has no batch size.
        """
        if self._batch_size is None:
            raise RuntimeError("Cannot iterate over a replay buffer whose batch_size is not specified.")
        if self._sampler.ran_out:
            self._sampler.ran_out = False  # type: ignore[misc]
        while not self._sampler.ran_out or any(size == self._batch_size for size, _ in self._drawn_ahead):
            yield self.sample()

    # -- elements ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._storage)

    @property
    def write_count(self) -> int:
        """The number of elements written since the buffer was empty, including overwritten ones."""
        return self._writer._write_count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str) or (isinstance(index, tuple) and all(isinstance(i, str) for i in index)):
            return self[:][index]
        reads("a replay buffer")
        if isinstance(index, tuple) and len(index) == 1:
            (index,) = index
        with self._storage.lock:
            if self._dim_extend:
                data = self._transposed(self._storage.get(slice(None)))[index]
            elif isinstance(index, tuple):
                data = self._storage.get(slice(None))[index]
            else:
                data = self._storage.get(index)
        if not isinstance(index, int | np.integer) and self._collate_fn is not None:
            data = self._collate_fn(data)
        if not len(self._transforms):
            return data
        return self._transforms.out(data.copy() if is_container(data) else data)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, str) or (isinstance(index, tuple) and all(isinstance(i, str) for i in index)):
            with self._storage.lock:
                rows = self._storage.get(slice(None)).clone()
                rows.set(index, value)
                self._storage[:] = rows
            return
        if isinstance(index, tuple) and len(index) == 1:
            (index,) = index
        with self._storage.lock:
            if len(self._transforms):
                value = self._transforms.inv(value)
            if self._dim_extend:
                # The first dimension of the index is another dimension of the storage.
                value = value if isinstance(index, int | np.integer) else self._transposed(value)
                index = (slice(None),) * self._dim_extend + (index,)
            self._storage[index] = value

    def set_(self, key: NestedKey, value: Any) -> ReplayBuffer:
        """Write an entry of all elements, in place and without the transforms; returns the buffer."""
        return self._change(slice(None), lambda rows: rows.set_(key, value))

    def set_at_(self, key: NestedKey, value: Any, index: Any) -> ReplayBuffer:
        """Write an entry of the elements at an index, in place and without transforms; returns the buffer."""
        return self._change(index, lambda rows: rows.set_at_(key, value, index))

    def update_(
        self, input_dict_or_td: Any, clone: bool = False, *, keys_to_update: Sequence[NestedKey] | None = None
    ) -> ReplayBuffer:
        """Write entries of all elements, as `TensorDict.update_` does; returns the buffer.

        Raises:
            TypeError: the storage is not one of TensorDicts in arrays.
        """
        return self._change(
            slice(None), lambda rows: rows.update_(input_dict_or_td, clone, keys_to_update=keys_to_update)
        )

    def _change(self, index: Any, write: Callable[[Any], object]) -> ReplayBuffer:
        storage = self._storage
        with storage.lock:
            rows = storage.get(slice(None))
            if not isinstance(storage, TensorStorage) or not is_container(rows):
                raise TypeError(
                    "set_, set_at_ and update_ need rows of TensorDicts in arrays, "
                    f"got {type(rows).__name__} in a {type(storage).__name__}."
                )
            storage._write_into(index, write)
        return self

    # -- parts ------------------------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """The storage of the data."""
        return self._storage

    @property
    def sampler(self) -> Sampler:
        """The sampler of indices."""
        return self._sampler

    @property
    def writer(self) -> Writer:
        """The writer, which chooses the indices of new data."""
        return self._writer

    @property
    def transform(self) -> Transforms:
        """The transforms, a sequence."""
        return self._transforms

    @property
    def batch_size(self) -> int | None:
        """The default batch size of `sample`."""
        return self._batch_size

    @property
    def dim_extend(self) -> int:
        """The dimension along which the data of `extend` is added."""
        return self._dim_extend

    def append_transform(self, transform: Any, *, invert: bool = False) -> ReplayBuffer:
        """Add a transform after the others; returns the buffer.

        Args:
            transform: see `ReplayBuffer`.
            invert: call a function with new data, instead of with samples.

        Raises:
            TypeError: the transform is not callable.
        """
        return self.insert_transform(len(self._transforms), transform, invert=invert)

    def insert_transform(self, index: int, transform: Any, *, invert: bool = False) -> ReplayBuffer:
        """Add a transform before the one at `index`; see `append_transform`."""
        with self._storage.lock:
            self._transforms.insert(index, transform, invert)
            if hasattr(transform, "withheld") and isinstance(self._storage, LazyMemmapStorage):
                self._transforms.withheld = self._storage.kept()
        return self

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> Storage:
        """Use another storage; returns the old one."""
        old, self._storage = self._storage, storage
        self._collate_fn = collate_fn if collate_fn is not None else _default_collate(storage)
        self._writer.register_storage(storage)
        storage.attach(self)
        return old

    def set_writer(self, writer: Writer) -> Writer:
        """Use another writer; returns the old one."""
        writer.register_storage(self._storage)
        old, self._writer = self._writer, writer
        return old

    def set_sampler(self, sampler: Sampler) -> Sampler:
        """Use another sampler; returns the old one."""
        old, self._sampler = self._sampler, sampler
        self._give_generator()
        return old

    def set_rng(self, generator: Seed) -> None:
        """Draw with a seed or a generator from now on."""
        if self._sampler._rng is self._rng:
            self._sampler._rng = None
        self._rng = np.random.default_rng(generator)
        self._give_generator()

    # -- saving -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as copies: a buffer with the same parts continues from it like this one."""
        # The thread that draws ahead needs the lock of the storage: its batches are waited for before.
        with self._ahead_lock:
            ahead = [(*future.result(), size) for size, future in self._drawn_ahead]
            return self._state_dict(ahead)

    def _state_dict(self, ahead: list[Any]) -> dict[str, Any]:
        with self._storage.lock:
            return {
                "_storage": self._storage.state_dict(),
                "_sampler": self._sampler.state_dict(),
                "_writer": self._writer.state_dict(),
                "_transforms": self._transforms.state_dict(),
                "_batch_size": self._batch_size,
                "_rng": self._rng.bit_generator.state,
                "_drawn_ahead": [(copied(data), dict(info), size) for data, info, size in ahead],
            }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`.

        It may be a state of TorchRL's buffer, with tensors; transforms and generators are then not changed.

        Raises:
            KeyError, RuntimeError, ValueError: it is not the state of a buffer with the same parts.
        """
        self._load_state(state_dict)

    def _load_state(self, state_dict: Mapping[str, Any], check: bool = False) -> None:
        """As `load_state_dict`; with `check` only the errors are raised, and nothing changes."""
        of_torchrl, stored = "_drawn_ahead" not in state_dict, state_dict["_storage"]
        if of_torchrl and isinstance(stored.get("_storage"), dict):  # without the numbers of the rows
            stored = {**stored, "_storage": copy.copy(stored["_storage"])}  # with its attribute _metadata
            stored["_storage"].pop("index", None)

        def load_parts() -> None:
            self._load_sampler(self._sampler.load_state_dict, state_dict["_sampler"])
            self._batch_size = state_dict["_batch_size"]
            if not of_torchrl:
                self._transforms.load_state_dict(state_dict["_transforms"])
                self._rng.bit_generator.state = state_dict["_rng"]

        if not check:
            self._cancel()
        with self._ahead_lock, self._storage.lock, self._storage._checking(check):
            self._writer._check(state_dict["_writer"])
            self._check_loading(load_parts)
            self._storage.load_state_dict(stored)
            if check:
                return
            self._writer.load_state_dict(state_dict["_writer"])
            load_parts()
            if not isinstance(self._storage, TensorStorage) or self._storage.initialized:
                self._keep(alone=True)
            from concurrent.futures import Future

            for data, info, *size in state_dict.get("_drawn_ahead", ()):  # older states have no size
                done: Future[Any] = Future()
                done.set_result((copied(data), dict(info)))
                self._drawn_ahead.append((size[0] if size else state_dict["_batch_size"], done))

    def _load_sampler(self, load: Callable[[Any], None], state: Any) -> None:
        try:
            load(state)
        except (FileNotFoundError, *_DAMAGE) as error:
            kind = type(self._sampler).__name__
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"the state of the sampler is not that of a {kind} ({what}).") from error

    def _check_loading(self, load_parts: Callable[[], None]) -> None:
        """Load all parts except rows, and undo it: so a wrong state raises before rows are overwritten."""
        sampler, transforms, size = self._sampler, self._transforms.state_dict(), self._batch_size
        transforms["states"] = {key: state for key, state in transforms["states"].items() if state}
        held, generators = dict(vars(sampler)), {self._rng, sampler._rng} - {None}
        states = [(rng.bit_generator, rng.bit_generator.state) for rng in generators if rng is not None]
        try:
            load_parts()
        finally:
            vars(sampler).clear()
            vars(sampler).update(held)
            for generator, state in states:
                generator.state = state
            self._transforms.load_state_dict(transforms)
            self._batch_size = size

    def dumps(self, path: PathLike, *, checksums: bool = False) -> None:
        """Write the buffer into the folder `path`, as a whole, in place of an earlier dump.

        The subfolder `storage` is one that `TensorDict.memmap` writes; a `LazyMemmapStorage` that lies there
        is not copied. Batches that were sampled ahead of time are not written.

        Args:
            path: the folder.
            checksums: write a checksum of each array of the storage, for `loads(verify=True)`.

        Raises:
            NotImplementedError: a `ListStorage`, or elements that are not TensorDicts.
            ValueError: `checksums` of a storage that is written in place.
            RuntimeError: a storage of arrays has no data yet.
        """
        root = Path(path).absolute()
        with self._storage.lock:
            replace_tree(str(root), lambda stage, _: self._write(Path(stage), root, checksums))

    def _write(self, folder: Path, final: Path, checksums: bool = False) -> None:
        """As `dumps`, into a folder that the caller moves to `final` afterwards."""
        storage = self._storage
        if isinstance(storage, TensorStorage):
            storage.dumps_to(folder / "storage", final / "storage", checksums)
        else:
            storage.dumps(folder / "storage")
        self._sampler.dumps(folder / "sampler")
        self._writer.dumps(folder / "writer")
        state = self._transforms.state_dict()
        content = TensorDict({"states": {k: v for k, v in state["states"].items() if v}}, [])
        if state["withheld"] is not None:
            content["withheld"] = state["withheld"]
        content.memmap(folder / "transforms", copy_existing=True)
        about = {"batch_size": self._batch_size, "rng": _plain(self._rng.bit_generator.state)}
        write_json(folder / _ABOUT, about)

    def loads(self, path: PathLike, *, verify: bool = False) -> None:
        """Read a folder of `dumps`, into a buffer with the same parts.

        The folder may be one of TorchRL's buffer; transforms and generators are then not changed.

        Args:
            path: the folder.
            verify: compare the arrays of the storage with the checksums that `dumps` wrote on request.

        Raises:
            FileNotFoundError, ValueError: the folder was not written by `dumps`, or is damaged.
        """
        self._load_from(Path(path).absolute(), verify=verify)

    def _load_from(self, root: Path, member: str = "", verify: bool = False, check: bool = False) -> None:
        """As `loads`; a `member` of TorchRL's ensemble has a folder of this name in each folder of a part.

        With `check` only the errors are raised, and nothing changes.
        """
        if root.is_file():
            raise ValueError(
                f"{root} is a file, and no folder that dumps wrote{if_pickled(str(root)) or '.'}"
            )
        finish(str(root))
        folders = [root / name / member for name in ("storage", "sampler", "writer", "transforms")]
        require_inside(*folders, *(folder.parent for folder in folders if member))
        storage, sampler, writer, transforms = folders
        about = read_json(root / _ABOUT)
        size = self._batch_size if member else about.get("batch_size", 0)
        most = max(self._storage.max_size, _MOST)
        if size is not None and (type(size) is not int or not 1 <= size <= most):
            raise ValueError(f"{root / _ABOUT} is damaged or foreign: its batch_size is {size!r:.80}.")
        of_torchrl = "rng" not in about
        content: Any = {} if of_torchrl else lite.load_memmap(transforms)

        def load_parts() -> None:
            if not of_torchrl or sampler.exists():  # there samplers without a state write nothing
                self._load_sampler(self._sampler.loads, sampler)
            self._batch_size = size
            if of_torchrl:
                return
            states = content.get("states", {})
            self._transforms.load_state_dict(
                {
                    "states": {key: states[key].to_dict() for key in states.keys()},  # noqa: SIM118
                    "withheld": content.get("withheld", None),
                }
            )
            with damaged(root / _ABOUT, *_DAMAGE):
                self._rng.bit_generator.state = about["rng"]

        if not check:
            self._cancel()
        with self._ahead_lock, self._storage.lock, damaged(root, *_DAMAGE), self._storage._checking(check):
            if type(self._writer).loads is Writer.loads:  # else it has files of its own
                self._writer._read(writer, self._writer._check)
            self._check_loading(load_parts)
            if verify:
                lite.load_memmap(storage / self._storage.rows_file, verify=True)
            if of_torchrl and (storage / "index.memmap").exists():
                self._load_rows(storage)
            else:
                self._storage.loads(storage)
            if check:
                return
            self._writer.loads(writer)
            load_parts()
            if not of_torchrl:
                self._keep(alone=True)

    def _load_rows(self, folder: Path) -> None:
        """Write rows that TorchRL's buffer has numbered, without the numbers: new rows have none here."""
        rows: Any = lite.load_memmap(folder).exclude("index")
        inner = math.prod(rows.shape[1 : self._storage.ndim]) or 1
        length = read_json(folder / METADATA)["len"]
        if type(length) is not int or not 0 <= length <= len(rows) * inner:
            raise ValueError(
                f"{folder / METADATA} is damaged, or of another ndim than {self._storage.ndim}: its len is "
                f"{length!r:.40}, the rows have the shape {tuple(rows.shape)}."
            )
        filled, room = -(length // -inner), -(self._storage.max_size // -inner)
        if len(rows) != room and (filled >= room or filled == len(rows)):
            kind = "a full ring of " if filled == len(rows) else ""
            raise ValueError(
                f"{folder} has {kind}{filled} rows, the storage has room for {room}: load that into a "
                "storage of its size, and extend this one by its rows."
            )
        if self._storage._only_checks:
            return
        self._storage._empty(True)
        self._storage.set(slice(0, filled), rows[:filled])

    save = dumps
    dump = dumps
    load = loads

    def __getstate__(self) -> dict[str, Any]:
        if self._owner is not None:
            raise TypeError(_OF_ONE_PROCESS)
        state = dict(self.__dict__)
        state["_drawn_ahead"], state["_executor"] = deque(), None
        del state["_ahead_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ahead_lock = threading.RLock()
        self._storage.attach(self)

    def __repr__(self) -> str:
        parts = ("storage", "sampler", "writer", "transform", "batch_size")
        inner = "".join(f"    {name}={getattr(self, name)!r},\n" for name in parts)
        return f"{type(self).__name__}(\n{inner})"


belong_to("lite.data", ReplayBuffer)

_drawing_ahead: weakref.WeakSet[ReplayBuffer] = weakref.WeakSet()


def _before_fork() -> None:
    """Wait for the sampling thread: a lock that it holds would stay locked in the child process."""
    for buffer in list(_drawing_ahead):
        for _, future in list(buffer._drawn_ahead):
            future.exception()


def _after_fork() -> None:
    """The thread that draws ahead is the parent's; what it has drawn both have."""
    for buffer in list(_drawing_ahead):
        buffer._executor = None
        buffer._ahead_lock, buffer._storage.lock = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _made(name: str, given: Any, kind: type, default: Callable[[], Any]) -> Any:
    if given is None:
        return default()
    made = given if isinstance(given, kind) or not callable(given) else given()
    if not isinstance(made, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, or a function that makes one, got {made!r:.200}.")
    return made


def _listens(sampler: Sampler) -> bool:
    """Whether a sampler uses notifications of written rows; for a whole data set the list of rows is long."""
    kind = type(sampler)
    return kind.extend is not Sampler.extend or kind.mark_update is not Sampler.mark_update


def _default_collate(storage: Storage) -> Callable[[Any], Any] | None:
    return stacked if isinstance(storage, ListStorage) else None


def _plain(state: Any) -> Any:
    """The state of a generator with lists in place of arrays, as JSON has."""
    if isinstance(state, Mapping):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
