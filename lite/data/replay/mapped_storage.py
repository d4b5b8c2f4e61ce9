"""A storage of rows in memory-mapped files, with one writing process and any number of readers."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import lite
from lite import TensorDict, is_non_tensor
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._files.commit import PROCESS, finish, is_writing, make_folder, waiting_for_disk
from lite._files.mapping import source_of, write_zeros
from lite.data.replay import ring_file
from lite.data.replay.columns import Columns, blank
from lite.data.replay.kept_file import KeptFile
from lite.data.replay.ring_file import RingFile, WriterLock
from lite.data.replay.storages import METADATA, PathLike, Position, write_json
from lite.data.replay.tensor_storage import SINGLE, LazyTensorStorage, rows_at
from lite.data.replay.trees import is_tree

# Bytes that all files together get beyond the rows that are about to be written: a call that writes them
# takes a millisecond longer, which a loop that controls something can bear.
AHEAD = 1 << 22


class DiskSpace:
    """Asks the disk for blocks ahead of the rows that are written, and fills them with zeros.

    A write into a mapped page for which there is no block left kills the process. Asked for before, it is an
    error that leaves everything as it was. Zeros that are written in long pieces bring pages into memory in
    large groups, which takes a quarter of the time of one fault for each page. Systems without `pwrite` go
    without either.

    Args:
        arrays: mapped arrays, first dimension rows.
        rows: how many rows have been written, and so have theirs.
    """

    def __init__(self, arrays: Sequence[Array], rows: int) -> None:
        found = [(source_of(array), array.nbytes // len(array)) for array in arrays]
        self._files = [(source.path, size) for source, size in found if source is not None and size]
        self._ahead = AHEAD // max(1, sum(size for _, size in self._files))
        self._rows = rows if hasattr(os, "pwrite") else len(arrays[0]) if arrays else 0

    def reserve(self, filled: int, rows: int, most: int) -> None:
        """Have blocks for the first `rows` rows of `most`, of which the first `filled` hold something.

        Raises:
            OSError: the disk has no room for them.
        """
        if rows <= self._rows:
            return
        start = max(self._rows, filled)  # rows beyond those reserved may have been written
        end = max(start, min(most, rows + self._ahead))
        for path, size in self._files:
            write_zeros(path, [(start * size, end * size)], f"no room for {end:,} rows")
        self._rows = end


_PATIENCE = 10.0  # seconds


class LazyMemmapStorage(LazyTensorStorage):
    """Rows in mapped files: a folder in the format of tensordict's `memmap`, which torch opens without lite.

    What `extend` and `add` of a buffer have returned from is there when the process is killed, and with
    `LITE_FSYNC=1` in the environment after a power failure, too (each call then waits for the disk). A
    process that starts again with the same folder and `existsok=True` goes on where the last one stood:
    nothing of a call that did not return is there, nothing of those that did is missing or twice.

    One process writes; it is the first that does. Others may open the folder at the same time with
    `existsok=True`, and sample: rows that are written over meanwhile are noticed, and others drawn. The
    files take space as they are filled. `ring_file` says what they hold beside the rows.

    Args:
        max_size: see `LazyTensorStorage`. With a folder that is there, its size.
        scratch_dir: the folder; one of its own that goes with the storage, unless given.
        device: "cpu", the only one, or None.
        ndim: see `LazyTensorStorage`.
        existsok: whether a table may be in the folder; then the storage goes on with its rows: all of them,
            where another program wrote the table, as TorchRL does without a note of how many are filled.
        compress_next, compilable: see `LazyTensorStorage`.

    Raises:
        ValueError: a damaged folder, or one of another `max_size`, `ndim` or `compress_next`.
        RuntimeError: when it is written to: a table is there and must not be, or another process writes.
        TypeError: when it is written to: an entry that is not an array of numbers.
        OSError: when it is written to: the disk is full, or the folder was deleted; nothing has changed.

    Source:
        `LazyMemmapStorage` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import tempfile, numpy as np
        >>> from lite import TensorDict, is_non_tensor
        >>> from lite.data import LazyMemmapStorage, TensorDictReplayBuffer
        >>> folder = tempfile.mkdtemp() + "/frames"
        >>> buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(100, scratch_dir=folder))
        >>> index = buffer.extend(TensorDict({"obs": np.ones((5, 3))}, [5]))
        >>> again = TensorDictReplayBuffer(storage=LazyMemmapStorage(100, scratch_dir=folder, existsok=True))
        >>> len(again), TensorDict.load_memmap(folder)["obs"].shape
        (5, (100, 3))
    """

    def __init__(
        self,
        max_size: int,
        *,
        scratch_dir: PathLike | None = None,
        device: Any = "cpu",
        ndim: int = 1,
        existsok: bool = False,
        compress_next: bool = False,
        compilable: bool = False,
    ) -> None:
        super().__init__(max_size, device=device, ndim=ndim, compress_next=compress_next)
        self.existsok = existsok
        own = scratch_dir is None
        folder = _own_folder() if scratch_dir is None else scratch_dir
        self.scratch_dir = os.path.abspath(os.fspath(folder))
        self._file: RingFile | None = None
        self._paths: list[str] = []
        self._added = 0
        self._to_keep: tuple[Any] | None = None
        self._takeovers = 0
        self._began = False  # whether this storage wrote the first file of the folder
        self._cleanup = weakref.finalize(self, _remove, self.scratch_dir, os.getpid()) if own else None
        if existsok:
            self._find()

    # -- opening ----------------------------------------------------------------------------------

    def _find(self) -> None:
        """Open the table if it has been created meanwhile."""
        folder = self.scratch_dir
        if self._columns is not None or not self.existsok or not ring_file.is_table(folder):
            return
        with self.lock:  # as `len` asks here while another thread opens it, or writes the first rows
            if self._columns is not None:
                return
            table: Any = lite.load_memmap(folder)
            if not isinstance(table, TensorDict):
                raise ValueError(f"{folder} holds a {type(table).__name__}, not a table of rows.")
            self._open(table)

    def _open(self, table: Any) -> Columns:
        folder = self.scratch_dir
        where = f"{folder} has the shape {table.shape}"
        inner = math.prod(table.shape[1 : self.ndim])
        if table.ndim < self.ndim or not table.shape[0]:
            raise ValueError(f"{where}, not that of a storage with ndim={self.ndim}.")
        if -(self.max_size // -inner) != table.shape[0]:
            raise ValueError(f"{where}, not that of a storage of max_size={self.max_size}.")
        if (table.get("_next", None) is not None) != self.compress_next:
            raise ValueError(f"{folder} was made with compress_next={not self.compress_next}.")
        path = Path(folder)
        found = os.path.lexists(path / ring_file.NAME)
        # A table that others wrote has no such file, and all of its rows count.
        self._file = None if not found else RingFile(folder, table.shape[0], inner, 0)
        if not found:
            self._ring.commit(table.shape[0] * inner, 0, table.shape[0] * inner)
        if set(table.keys()) == {SINGLE}:
            table = table[SINGLE]
        return self._use(table)

    def _arrays(self, example: Any, rows: int) -> Any:
        folder = self.scratch_dir
        self._check_folder()
        single = isinstance(example, np.ndarray)
        like: Any = TensorDict({SINGLE: example}, [len(example)]) if single else example
        like = blank(like, rows, lambda shape, dtype: np.broadcast_to(np.zeros((), dtype), shape))
        objects = [key for key, value in like.items(True) if is_non_tensor(value)]
        if objects:
            raise TypeError(
                f"mapped files hold numbers alone; at {', '.join(map(repr, objects))} are objects: "
                "exclude them, store dates as dates.astype(np.int64), or use LazyTensorStorage."
            )
        inner = math.prod(like.shape[1 : self.ndim])
        with waiting_for_disk(self._cleanup is None):  # once, so that it opens after a power failure
            make_folder(folder)
            ring_file.remove(Path(folder))
            self._file = RingFile(folder, rows, inner, 0)
            table = like.memmap_like(folder)
        return table[SINGLE] if single else table

    def _as_rows(self, data: Any, many: bool) -> Any:
        if is_tree(data):
            raise TypeError(
                "mapped files hold a TensorDict or one array, got a tuple or dict. LazyTensorStorage has it; "
                "TensorDict.from_any(data, auto_batch_size=True) makes a TensorDict of it."
            )
        return super()._as_rows(data, many)

    def _start(self, data: Any, many: bool) -> Columns:
        if self._columns is None:
            self._find()
        columns = super()._start(data, many)
        if self._file is None or self._file.lock is None or not self._file.lock.held:
            self._become_writer()
        return columns

    def _become_writer(self) -> None:
        columns = self._columns
        assert columns is not None
        if self._file is None:
            self._file = RingFile(
                self.scratch_dir, self._rows(), self.max_size // self._rows(), self._ring.length
            )
        at = None if self._next is None else self._next.at
        arrays = columns.arrays if at is None else [*columns.arrays, at]
        self._file.become_writer(arrays, at)
        finish(self.scratch_dir)  # of a table whose first writer was killed before all files had their places
        self._takeovers += 1
        if self._next is not None:
            self._next.find_free(len(self))
            self._next.use_space(DiskSpace)
        self._paths = _files_of(self._table)
        self._space = DiskSpace(arrays, self._filled_rows())

    def close(self) -> None:
        """Unlock the files for other writers, until the next write."""
        if self._file is not None and self._file.lock is not None:
            self._file.lock.close()

    def _take_over(self) -> int:
        if not self.is_writer and self.initialized:
            self._become_writer()
        return self._takeovers

    def _roll_back(self) -> None:
        file = self._file
        if file is not None and self.is_writer:
            file.roll_back(None if self._next is None else self._next.at)
        super()._roll_back()

    @property
    def is_writer(self) -> bool:
        """Whether this process has written, so that no other one may."""
        return self._file is not None and self._file.lock is not None and self._file.lock.held

    # -- the ring ---------------------------------------------------------------------------------

    @property
    def _position(self) -> Position:
        return self._ring if self._file is None else self._file

    def __len__(self) -> int:
        if self._columns is None and self.existsok:
            self._find()
        return self._position.length

    @property
    def initialized(self) -> bool:
        """Whether the arrays exist, so that the structure of the data is known."""
        self._find()
        return self._columns is not None

    def _require_columns(self) -> Columns:
        if self._columns is None:
            self._find()
        return super()._require_columns()

    def _append(self, data: Any, count: int | None) -> int:
        if not self.is_writer:
            self._find()
            if self._columns is not None:
                self._become_writer()
        return super()._append(data, count)

    def _before(self, first: int, count: int, length: int) -> None:
        file = self._file
        assert file is not None
        rows = file.rows
        filled = -(length // -file.inner)
        index = None
        if first < filled or first + count > rows:
            index = np.arange(first, first + count)
            if first + count > rows:
                index %= rows
            if filled < rows:
                index = index[index < filled]
        self._space.reserve(filled, min(first + count, rows), rows)
        self._added = count
        file.begin(index, count, (-1, -1) if self._next is None else self._next.undo_link())

    def _before_anywhere(self, index: Array) -> None:
        if not self.is_writer:
            self._become_writer()
        file = self._file
        assert file is not None
        filled = self._filled_rows()
        over = index[index < filled]
        self._added = 0
        if over.size < index.size:
            self._space.reserve(filled, int(index.max()) + 1, file.rows)
        file.begin(np.unique(over), 0)

    def _commit(self, length: int, cursor: int, writes: int) -> None:
        file = self._file
        if file is None:
            super()._commit(length, cursor, writes)
            return
        if not self.is_writer:
            self._become_writer()
        kept = None
        if self._to_keep is not None:
            kept = KeptFile(self.scratch_dir).write(self._to_keep[0], file.kept)
        first = file.is_new
        file.commit(length, cursor, writes, self._added, kept, self._paths)
        self._to_keep, self._added = None, 0
        if first:
            KeptFile(self.scratch_dir).forget_first()

    def _empty(self, empty_write_count: bool = True) -> None:
        if not self.initialized:
            return
        self._before_anywhere(np.zeros(0, np.int64))
        super()._empty(empty_write_count)

    # -- frames that transforms withhold ------------------------------------------------------------

    def keep(self, content: Any, alone: bool) -> None:
        """Replace the withheld frames by a container or None, together with the next write of rows.

        Args:
            content: the container.
            alone: no rows are written.

        Raises:
            RuntimeError: what another buffer kept is in the folder, and must not be.
        """
        self._find()
        self._to_keep = (content,)
        if not alone:
            return
        if self._columns is not None:
            if not self.is_writer:
                self._become_writer()
            self._commit(*self._position.now())
            return
        self._check_folder()
        os.makedirs(self.scratch_dir, exist_ok=True)
        KeptFile(self.scratch_dir).write_first(content)
        self._to_keep, self._began = None, True

    def keep_rest(self) -> None:
        """If no row was written after `keep`, keep it now."""
        if self._to_keep is not None:
            self.keep(self._to_keep[0], True)

    def keep_nothing_new(self) -> None:
        """Discard the withheld frames of a write that failed."""
        self._to_keep = None

    def kept(self) -> Any:
        """The withheld frames."""
        self._find()
        file, kept = self._file, KeptFile(self.scratch_dir)
        if file is None or file.is_new:
            return kept.read_first() if self.existsok or self._began else None
        return kept.read(file.kept)

    def _check_folder(self) -> None:
        folder = self.scratch_dir
        if ring_file.is_table(folder) or (
            not self.existsok and not self._began and KeptFile(folder).has_first
        ):
            raise RuntimeError(f"{folder} holds a table already; existsok=True goes on with it.")

    # -- while another process writes ---------------------------------------------------------------

    def _begin(self) -> Any:
        file = self._file
        if file is None or (file.lock is not None and file.lock.held):
            return None
        return file.begun()

    def _unchanged(self, begun: Any, index: Any) -> bool:
        if begun is None:
            return True
        file = self._file
        assert file is not None
        rows = index[0] if isinstance(index, tuple) else index
        return not file.touched(begun, rows)

    def get(self, index: Any) -> Any:
        """As in `LazyTensorStorage`; copies in a process that does not write, as rows may be written over."""
        if self.is_writer or (self._file is None and not self.existsok):
            return super().get(index)
        end = self.deadline()
        while True:
            begun = self._begin()
            found = super().get(index)
            if begun is None:
                return found
            if not isinstance(found, np.generic):
                found = found.copy() if isinstance(found, np.ndarray) else found.clone()
            touched = rows_at(index[0] if isinstance(index, tuple) else index, self._filled_rows())
            if self._unchanged(begun, touched):
                return found
            self.wait(end)

    @staticmethod
    def deadline() -> float:
        """Until when `wait` waits, from now."""
        return time.monotonic() + _PATIENCE

    def wait(self, end: float) -> None:
        """Give a writer time; undo what it left if it died.

        Raises:
            RuntimeError: it is later than `end`.
        """
        if time.monotonic() > end:
            raise RuntimeError(f"rows of {self.scratch_dir} were written over whenever they were read.")
        time.sleep(0.0002)
        file = self._file
        if file is not None and file.is_torn and time.monotonic() > end - _PATIENCE + 0.05:
            with suppress(RuntimeError):  # the writer is alive, or the files may not be written
                self._become_writer()
                self.close()

    # -- saving -----------------------------------------------------------------------------------

    def dumps_to(self, folder: Path, final: Path, checksums: bool = False) -> None:
        """As `dumps`, into a folder that is going to be moved to `final`; where the rows lie, they stay."""
        if self._columns is None or str(final) != self.scratch_dir:
            begun = self._begin()
            super().dumps_to(folder, final, checksums)
            self._require_still(begun)
            return
        if checksums:
            raise ValueError(
                f"the rows in {final} are written in place, so that no checksum of them would stay true."
            )
        folder.mkdir(exist_ok=True)
        write_json(folder / METADATA, {"metadata": {}, "is_pytree": False, "len": len(self)})

    def state_dict(self) -> dict[str, Any]:
        begun = self._begin()
        state = super().state_dict()
        self._require_still(begun)
        return state

    def _require_still(self, begun: Any) -> None:
        """RuntimeError if another process has written since."""
        if begun is not None and (self._begin() != begun or (self._file is not None and self._file.is_torn)):
            raise RuntimeError(f"another process wrote to {self.scratch_dir} while it was saved.")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_table", None)
        return state | {"_columns": None, "_next": None, "_file": None, "_cleanup": None, "existsok": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._find()


_OWN = "lite-replay-"
_left: list[str] = []  # folders that Windows did not remove, as their files were mapped still


def _own_folder() -> str:
    """A new folder; what is left of storages that are gone, of this process and of dead ones, is removed."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        pid, _, rest = name.removeprefix(_OWN).partition("-")
        if name.startswith(_OWN) and pid.isdigit() and not is_writing(int(pid), rest):
            folder = os.path.join(place, name)
            with suppress(OSError, RuntimeError):  # a process of another container may write there
                WriterLock(folder).close()
                shutil.rmtree(folder, True)
    for folder in _left:
        shutil.rmtree(folder, True)
    _left[:] = filter(os.path.isdir, _left)
    return tempfile.mkdtemp(prefix=f"{_OWN}{os.getpid()}-{PROCESS}")


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # not in a process that was forked from the one that made it
        shutil.rmtree(folder, True)
        if os.path.isdir(folder):
            _left.append(folder)


def _files_of(table: Any) -> list[str]:
    """The files of the arrays of a table."""
    arrays = [table] if isinstance(table, np.ndarray) else list(table.values(True, True))
    sources = [source_of(array) for array in arrays]
    return [source.path for source in sources if source is not None]


belong_to("lite.data", LazyMemmapStorage)
