"""Where a ring of rows in mapped files stands: a small file that one process writes and others read.

The file `%ring`, in the folder of the rows, is an array of int64, little-endian. What another program needs:

    words[0], words[1]   the letters "literbuf", and 1, the version
    words[2], words[3]   rows of the table, elements in each row
    s = words[64]        the sequence number: which of the two states below counts
    words[128 + 64 * (s % 2) :]   a state: elements filled, row that is written next, elements written since
                         the storage was emptied, rows written ever, and what `kept_file` keeps beside it
    words[256]           rows written ever, those that are being written included
    words[257]           changes other than rows that are added; odd while one is being made

A state is written beside the one that counts, and then counts from the moment that the sequence number is
stored, which is one aligned store of 8 bytes. So a killed writer leaves the state before or the one after.

Rows that hold something and are to be written over are copied into the file `%undo` first. The copies
are of use as long as the sequence number is the one they were made under: then the writer has died before
its rows counted, and the next writer restores the old ones.

A reader compares words[256] and words[257] before and after: if rows that it took were written meanwhile,
it takes others.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._files.commit import COMMIT, flush, new_file, waits_for_disk
from lite._files.mapping import FileMap, open_regular, open_to_map, source_of, write_zeros
from lite._files.system import lock_file
from lite._files.system import remove as remove_file
from lite.data.replay.storages import Position

NAME = "%ring"
_UNDO = "%undo"
_LOCK = "%writer"
_MAGIC = int.from_bytes(b"literbuf", "little")
_VERSION = 1
_WORDS = 512
_SEQUENCE, _STATES, _APART = 64, 128, 64
_BEGUN, _CHANGES = 256, 257
_UNDO_AT = 320  # sequence number it is for, rows, capacity of the file, row before, its next observation
_STATE = struct.Struct("<6q")
_NONE = -1
_fence = threading.Lock()
_open_locks: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """A lock, so that one process alone writes; the system releases it if that process dies.

    Attributes:
        file_name: name of the file that is locked, in the folder.
    """

    file_name = _LOCK

    def __init__(self, folder: str) -> None:
        self.state: tuple[int, ...] | None = None  # what counts, as this process stored it last
        self._descriptor = -1
        self._path = path = f"{folder}/{_LOCK}"
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(path, flags, 0o666)
        if not lock_file(descriptor):
            os.close(descriptor)
            raise RuntimeError(f"another process, or another storage, writes to {folder}.")
        self._descriptor = descriptor
        _open_locks.add(self)

    @property
    def held(self) -> bool:
        """False in a process that was forked from the one that holds it."""
        return self._descriptor >= 0

    def require_file(self) -> None:
        """FileNotFoundError if the files were deleted: what is written to them now is lost."""
        if not os.fstat(self._descriptor).st_nlink and not os.path.lexists(self._path):
            folder = os.path.dirname(self._path)
            raise FileNotFoundError(f"{folder} was deleted; a new storage makes another one.")

    def close(self, end: Any = os.close) -> None:
        """Unlock the file for other writers; `end` as the name `os` may be gone when Python ends."""
        self.state = None
        if self._descriptor >= 0:
            end(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def _after_fork() -> None:
    # The lock is the parent's; a descriptor left open here would keep it when the parent is gone.
    for lock in list(_open_locks):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class RingFile(Position):
    """The position of a ring in a memory-mapped file, for one writer and any number of readers.

    Args:
        folder: that of the rows.
        rows: number of rows of the table.
        inner: elements in each row.
        length: elements that are filled, if the file has to be made.

    Raises:
        ValueError: the file is damaged, or is that of another table.
    """

    __slots__ = ("_bytes", "_map", "_waits", "_words", "folder", "inner", "lock", "rows", "undo")

    def __init__(self, folder: str, rows: int, inner: int, length: int) -> None:
        self.folder, self.rows, self.inner = folder, rows, inner
        self.lock: WriterLock | None = None
        self.undo: _Undo | None = None
        path = f"{folder}/{NAME}"
        if not os.path.lexists(path):
            _create(path, rows, inner, length)
        descriptor, private, status = open_to_map(path)
        try:
            if status.st_size != 8 * _WORDS:
                raise ValueError(f"{path} is damaged or foreign: it has {status.st_size} bytes.")
            array = FileMap(descriptor, 8 * _WORDS, private, path, status.st_ino).array(
                np.dtype(np.int64), (_WORDS,)
            )
        finally:
            os.close(descriptor)
        self._map = array
        self._words: memoryview[int] = memoryview(array.data)
        self._bytes = self._words.cast("B")
        self._waits = False
        if array[0] != _MAGIC or array[1] != _VERSION:
            raise ValueError(f"{path} is damaged or foreign.")
        if (array[2], array[3]) != (rows, inner):
            raise ValueError(
                f"{path} belongs to a table of {array[2]} rows of {array[3]} elements, not {rows} of {inner}."
            )
        self._load()

    # -- the state --------------------------------------------------------------------------------

    def _load(self) -> tuple[int, ...]:
        """The state that counts; ValueError if it cannot be one."""
        lock = self.lock
        if lock is not None and lock.state is not None:
            return lock.state
        words = self._words
        while True:
            sequence = words[_SEQUENCE]
            at = _STATES + _APART * (sequence & 1)
            state = tuple(words[at : at + 6])
            if words[_SEQUENCE] == sequence:
                break
        length, cursor, writes, total, place, size = state
        whole = self.rows * self.inner
        if not (
            0 <= length <= whole and 0 <= cursor < self.rows and writes >= 0 <= total and place in (0, 1)
        ):
            raise ValueError(
                f"{self.folder}/{NAME} is damaged: a ring of {self.rows} rows in the state {state}."
            )
        if size < 0:
            raise ValueError(f"{self.folder}/{NAME} is damaged: {size} bytes are kept.")
        return state

    @property
    def length(self) -> int:  # type: ignore[override]
        """Elements that are filled."""
        return self._load()[0]

    @property
    def cursor(self) -> int:  # type: ignore[override]
        """The row that is written next."""
        return self._load()[1]

    @property
    def writes(self) -> int:  # type: ignore[override]
        """Elements written since the storage was emptied."""
        return self._load()[2]

    @property
    def changes(self) -> int:  # type: ignore[override]
        """Changes by any process other than rows that are added; odd while one is being made."""
        return self._words[_CHANGES]

    def now(self) -> tuple[int, int, int]:
        """`length`, `cursor` and `writes` of one moment."""
        return self._load()[:3]  # type: ignore[return-value]

    @property
    def is_new(self) -> bool:
        """Whether nothing has ever counted."""
        return not self._words[_SEQUENCE]

    @property
    def is_torn(self) -> bool:
        """Whether rows are being written, or were when the writer died."""
        words = self._words
        return bool(words[_CHANGES] & 1) or words[_BEGUN] != self._load()[3]

    @property
    def kept(self) -> tuple[int, int]:
        """Which of the two places of `%kept` counts, and its size in bytes; 0 for nothing."""
        return self._load()[4:6]  # type: ignore[return-value]

    # -- writing ----------------------------------------------------------------------------------

    def become_writer(self, arrays: list[Array], before: Array | None) -> bool:
        """Acquire the lock, and undo the unfinished write of a dead writer; True if there was one.

        Args:
            arrays: those of the rows, first dimension rows.
            before: what `undo_link` of next observations refers to, if there are any.

        Raises:
            RuntimeError: another process writes, or the files may not be written.
        """
        if self._map.base is not None and _is_private(self._map):
            raise RuntimeError(f"{self.folder} may not be written by this process.")
        self.lock = WriterLock(self.folder)
        self.undo = _Undo(self.folder, arrays)
        self._waits = waits_for_disk()
        return self.roll_back(before)

    def roll_back(self, before: Array | None) -> bool:
        """Undo an unfinished write; True if there was one. See `become_writer`."""
        words, lock, undo = self._words, self.lock, self.undo
        assert lock is not None
        assert undo is not None
        lock.state = None
        state = self._load()
        armed, count, capacity, row, at = words[_UNDO_AT : _UNDO_AT + 5]
        undone = armed == words[_SEQUENCE]
        if undone:
            if not 0 <= count <= capacity <= self.rows:
                raise ValueError(f"{self.folder}/{NAME} is damaged: it undoes {count} of {capacity} rows.")
            undo.put_back(count, capacity, self.rows)
            if before is not None and 0 <= row < self.rows:
                before[row] = at
            if self._waits:
                undo.flush_rows()
            words[_UNDO_AT] = _NONE
        words[_BEGUN] = state[3]
        if words[_CHANGES] & 1:
            words[_CHANGES] += 1
        lock.state = state
        return bool(undone)

    def begin(self, index: Array | None, count: int, link: tuple[int, int] = (-1, -1)) -> None:
        """Rows are about to be written.

        Args:
            index: those of them that hold something.
            count: how many are added where the ring stands; 0 for rows anywhere.
            link: a row whose next observation is about to change, and which it has.
        """
        words, undo, lock = self._words, self.undo, self.lock
        assert undo is not None
        assert lock is not None
        lock.require_file()
        if (index is not None and len(index)) or link[0] >= 0:
            capacity, used = undo.save(np.zeros(0, np.int64) if index is None else index, self.rows)
            words[_UNDO_AT + 1] = used
            words[_UNDO_AT + 2] = capacity
            words[_UNDO_AT + 3], words[_UNDO_AT + 4] = link
            if self._waits:
                flush(undo.path)
                flush(f"{self.folder}/{NAME}")
            with _fence:  # other processes see earlier stores before later ones
                pass
            words[_UNDO_AT] = words[_SEQUENCE]
            if self._waits:
                flush(f"{self.folder}/{NAME}")
        if count:
            words[_BEGUN] += count
        else:
            words[_CHANGES] += 1
        with _fence:
            pass

    def commit(
        self, length: int, cursor: int, writes: int, added: int = 0, kept: tuple[int, int] | None = None,
        paths: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Make the written rows valid, by one atomic store.

        Args:
            length, cursor, writes: the new state.
            added: rows that were added.
            kept: see the property; as it was unless given.
            paths: files that were written, for power failures.
        """
        words = self._words
        if self._waits:
            for path in paths or ():
                flush(path)
        sequence = words[_SEQUENCE]
        lock = self.lock
        assert lock is not None
        *_, total, place, size = self._load()
        if kept is not None:
            place, size = kept
        state = (length, cursor, writes, total + added, place, size)
        _STATE.pack_into(self._bytes, 8 * (_STATES + _APART * (sequence + 1 & 1)), *state)
        if self._waits:
            flush(f"{self.folder}/{NAME}")
        with _fence:
            pass
        words[_SEQUENCE] = sequence + 1
        lock.state = state
        if words[_CHANGES] & 1:
            words[_CHANGES] += 1
        if self._waits:
            flush(f"{self.folder}/{NAME}")

    # -- reading, while another process writes ------------------------------------------------------

    def begun(self) -> tuple[int, ...]:
        """The state that `touched` compares with: the row written next, rows written ever, other changes."""
        words = self._words
        changes = words[_CHANGES]
        state = self._load()
        return state[1], state[3], changes

    def touched(self, begun: tuple[int, ...], index: Array) -> bool:
        """Whether rows at `index` may have been written since `begun`."""
        with _fence:
            pass
        words = self._words
        cursor, total, changes = begun
        if words[_CHANGES] != changes or changes & 1:
            return True
        count = words[_BEGUN] - total
        if not count:
            return False
        return bool((((index - cursor) % self.rows) < count).any())


class _Undo:
    """Copies of rows that are being written over."""

    def __init__(self, folder: str, arrays: list[Array]) -> None:
        self.path = f"{folder}/{_UNDO}"
        self._arrays = arrays
        self._capacity = self._reserved = 0
        self._index: Array = np.zeros(0, np.int64)
        self._copies: list[Array] = []
        self._places: list[tuple[int, int]] = []  # where index and copies begin, and the size of a row there

    def save(self, index: Array, rows: int) -> tuple[int, int]:
        """Copy the rows at `index`; gives the capacity of the file, and how many rows are in it."""
        count = len(index)
        if count > self._capacity or not self._capacity:
            self._open(min(rows, max(64, 1 << (count - 1).bit_length())) if count else 1, True)
        if not count:
            return self._capacity, 0
        if count > self._reserved:
            self._reserve(count)
        self._index[:count] = index
        first = int(index[0])
        if count == 1:
            for copy, array in zip(self._copies, self._arrays, strict=True):
                copy[0] = array[first]
            return self._capacity, 1
        where = slice(first, first + count) if index[-1] - first == count - 1 else index
        for copy, array in zip(self._copies, self._arrays, strict=True):
            copy[:count] = array[where]
        return self._capacity, count

    def _reserve(self, count: int) -> None:
        """Have blocks for the copies of `count` rows; OSError if the disk has no room for them."""
        parts = [(place, place + count * size) for place, size in self._places]
        write_zeros(self.path, parts, f"no room to copy {count:,} rows that are written over")
        self._reserved = count

    def put_back(self, count: int, capacity: int, rows: int) -> None:
        """Write the copies where they came from."""
        if not count:
            return
        self._open(capacity, False)
        index = self._index[:count].copy()
        if index.min() < 0 or index.max() >= rows:
            raise ValueError(f"{self.path} is damaged: it holds rows that there are not.")
        for copy, array in zip(self._copies, self._arrays, strict=True):
            array[index] = copy[:count]

    def flush_rows(self) -> None:
        """Wait until the rows are on the disk, as the copies are of no use from then on."""
        for source in map(source_of, self._arrays):
            if source is not None:
                flush(str(source.path))

    def _open(self, capacity: int, new: bool) -> None:
        """Map the file, with room for so many rows."""
        places, size = [], 8 * capacity
        for array in self._arrays:
            places.append(size)
            size += -(-array[:1].nbytes * capacity // 64) * 64
        sizes = [8, *(array[:1].nbytes for array in self._arrays)]
        self._places = list(zip([0, *places], sizes, strict=True))
        self._capacity = self._reserved = 0  # until all is done
        if new:
            with suppress(FileNotFoundError):
                remove_file(self.path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(self.path, flags, 0o666)
            os.ftruncate(descriptor, size)
            if waits_for_disk():
                flush(os.path.dirname(self.path))
        else:
            descriptor, status = open_regular(self.path, os.O_RDWR)
            if status.st_size != size:
                os.close(descriptor)
                raise ValueError(f"{self.path} is damaged: it has {status.st_size} bytes, expected {size}.")
        try:
            memory = FileMap(descriptor, size, False, self.path, os.fstat(descriptor).st_ino)
            self._index = memory.array(np.dtype(np.int64), (capacity,))
            self._copies = [
                memory.array(array.dtype, (capacity, *array.shape[1:]), place, _strides(array))
                if array[:1].nbytes
                else np.empty((capacity, *array.shape[1:]), array.dtype)
                for array, place in zip(self._arrays, places, strict=True)
            ]
        finally:
            os.close(descriptor)
        self._capacity = capacity


def _strides(array: Array) -> tuple[int, ...]:
    """The strides of rows like those of `array`, in row-major order."""
    return np.empty((1, *array.shape[1:]), array.dtype).strides


def _is_private(array: Array) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return bool(getattr(base, "private", False))


def _create(path: str, rows: int, inner: int, length: int) -> None:
    words = np.zeros(_WORDS, "<i8")
    words[:4] = _MAGIC, _VERSION, rows, inner
    words[_STATES : _STATES + 3] = length, -(length // -inner) % rows, length
    words[_UNDO_AT] = _NONE
    with new_file(path) as file:
        file.write(words.tobytes())


def is_table(folder: str) -> bool:
    """Whether there is a table of rows in a folder."""
    return os.path.isfile(f"{folder}/meta.json") or os.path.isdir(f"{folder}/{COMMIT}")


def remove(folder: Path) -> None:
    """Forget where the ring of a folder stands."""
    for name in (NAME, _UNDO, _LOCK):
        with suppress(FileNotFoundError, PermissionError):  # Windows keeps the lock that somebody holds
            remove_file(f"{folder}/{name}")
