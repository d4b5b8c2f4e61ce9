"""Where trajectories start and end in a ring of rows, kept while rows are written.

Rows are counted from the first one ever written, so that they rise with time, whatever place of the ring a
row is in; row r is at the place r % rows. Rows have one entry for each lane, such as an environment, and all
lanes are written together. So one list, in the order of the trajectories' ends, has all that were
finished: new ones come at its end, and those that the ring has written over are at its start.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase
from lite.data.replay.samplers import Index, StorageView

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Seen = Callable[[int, Ints, bool], None]

_CHUNK = 1 << 20  # rows that are read at a time where a whole storage is
_VIEWS = 8  # lengths of slices that are remembered


class Signal(NamedTuple):
    """The entries that distinguish trajectories."""

    keys: tuple[NestedKey, ...]
    by_id: bool
    """Whether trajectories have numbers; else one of the entries is True in the last row of each."""


def values_at(storage: StorageView, key: NestedKey, index: Any) -> NDArray[Any] | None:
    """The entry of the storage under a key at an index, or None.

    Raises:
        RuntimeError: the elements have no keys.
    """
    entry = storage.entry(key)
    if entry is not None:
        return entry[index]
    found = storage.get(index)  # a storage may keep entries in another form
    if not isinstance(found, TensorDictBase):
        raise RuntimeError(f"slices need a storage of TensorDicts, got elements of {type(found).__name__}.")
    value = found.get(key, None)
    return value if isinstance(value, np.ndarray) else None


class _Finished:
    """Trajectories in the order of their ends: appended to, and dropped from the start."""

    def __init__(self) -> None:
        self._memory = np.empty((3, 64), np.int64)
        self._start, self._stop = 0, 0
        self.dropped = 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def columns(self) -> Ints:
        """First rows, last rows and lanes, (3, number)."""
        return self._memory[:, self._start : self._stop]

    def append(self, columns: Ints) -> None:
        count = columns.shape[1]
        if self._stop + count > self._memory.shape[1]:
            kept = self.columns
            room = 2 * (len(self) + count)  # so that each is moved a few times at most
            self._memory = np.empty((3, max(room, 64)), np.int64)
            self._memory[:, : kept.shape[1]] = kept
            self._start, self._stop = 0, kept.shape[1]
        self._memory[:, self._stop : self._stop + count] = columns
        self._stop += count

    def drop_before(self, row: int) -> None:
        """Forget what ends before `row`."""
        if self._start < self._stop and self._memory[1, self._start] < row:
            gone = int(np.searchsorted(self._memory[1, self._start : self._stop], row))
            self._start += gone
            self.dropped += gone


class _View:
    """The finished trajectories of some length, and how many of all finished ones were looked at."""

    def __init__(self) -> None:
        self.finished = _Finished()
        self.looked_at = 0


class TrajectoryIndex:
    """The trajectories in a storage.

    Args:
        storage: it must hold something.
        signal: the entries that tell trajectories apart.

    Raises:
        KeyError: the storage has none of them.
        RuntimeError: one has more than one value for each element.
    """

    def __init__(self, storage: StorageView, signal: Signal) -> None:
        self.signal = signal
        self._storage = weakref.ref(storage)
        self._stored: dict[NestedKey, bool] = {}
        self.lanes = math.prod(storage.shape[1:])
        self.rows = storage.max_size // self.lanes
        self._clear(0)
        self.forget()

    def _clear(self, row: int) -> None:
        """Discard all information about rows before `row`."""
        self.written = row
        self._since = np.full(self.lanes, row, np.int64)  # first rows of the trajectories that go on
        self._last_ids: NDArray[Any] | None = None
        self._finished = _Finished()
        self._views: dict[int, _View] = {}

    @property
    def oldest(self) -> int:
        """The first row that is still there."""
        return max(self.written - self.rows, 0)

    def is_of(self, storage: StorageView) -> bool:
        return self._storage() is storage

    def values(self, storage: StorageView, keys: tuple[NestedKey, ...], index: Any) -> list[Any]:
        """Copies of the entries of the storage under some keys at an index: an array or None for each."""
        found: list[Any] = []
        elements: Any = None
        for key in keys:
            stored = self._stored.get(key)
            if stored is None:  # which keys there are stays as it is
                stored = self._stored[key] = values_at(storage, key, slice(0, 1)) is not None
            entry = storage.entry(key) if stored else None
            if stored and entry is None:
                elements = storage.get(index) if elements is None else elements
                found.append(np.array(elements.get(key)))
            else:
                found.append(None if entry is None else entry[index])
        return found

    def forget(self) -> None:
        """Read the whole storage again the next time."""
        self._position, self._changes = (-1, -1, -1), -1

    def follow(self, storage: StorageView, seen: Seen | None = None) -> None:
        """Take note of the rows written since the last time: of those alone, if they continue the ring.

        Args:
            storage: that of the index.
            seen: is called with pieces of the new rows: the first one, the rows (rows, lanes) at which the
                trajectories of each start, and whether all that was told before is void.
        """
        changes, now = storage._changes, storage._position.now()
        if now == self._position and changes == self._changes:
            return
        new = now[2] - self._position[2]
        written = self.written + new
        continues = (
            changes == self._changes
            and new > 0
            and written % self.rows == now[1]
            and min(written, self.rows) * self.lanes == now[0]
        )
        void = not continues or new > self.rows
        if void:
            filled = now[0] // self.lanes
            # A full ring begins where it is written next, and anything else at its first row; that is no
            # longer row 0 where it was written over.
            first = (now[1] or self.rows * (now[2] > filled)) if filled == self.rows else 0
            self._clear(first)
            written = first + filled
        self.forget()  # where reading fails, all of it is read the next time
        for start in range(self.written, written, _CHUNK):
            self._append(self._rows(storage, start, min(start + _CHUNK, written)), seen, void)
            void = False
        self._finished.drop_before(self.oldest)
        self._position, self._changes = now, changes

    def _rows(self, storage: StorageView, start: int, stop: int) -> NDArray[Any]:
        """The values of the signal in the rows from `start` to `stop`, (rows, lanes)."""
        place, count = start % self.rows, stop - start
        if place + count <= self.rows:
            return self._values(storage, slice(place, place + count), (count, self.lanes))
        return self._values(storage, np.arange(start, stop) % self.rows, (count, self.lanes))

    def _values(self, storage: StorageView, index: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """The values of the signal at an index, in `shape`."""
        found = None
        for key in self.signal.keys:
            value = values_at(storage, key, index)
            if value is None:
                continue
            if value.size != math.prod(shape):
                raise RuntimeError(
                    f"{key!r} must have one value for each element of the storage, got the shape "
                    f"{value.shape} for {math.prod(shape)} elements."
                )
            value = value.reshape(shape)
            if not self.signal.by_id and value.dtype != np.bool_:
                value = value != 0
            found = value if found is None else found | value
        if found is None:
            raise KeyError(f"the storage has no entry {self.signal.keys}, which tell trajectories apart.")
        return found

    def _append(self, values: NDArray[Any], seen: Seen | None, void: bool) -> None:
        """Take note of rows by their values of the signal."""
        start, count = self.written, len(values)
        if self.signal.by_id:  # that a trajectory has ended is seen in the row after its last
            before = values[:1] if self._last_ids is None else self._last_ids
            ends: Flags = np.concatenate((before, values[:-1])) != values
            first_end, starts_here = start - 1, ends
            self._last_ids = values[-1:].copy()
        else:
            ends = values
            first_end = start
            starts_here = np.concatenate((np.zeros((1, self.lanes), np.bool_), ends[:-1]))
        if seen is not None:
            rows = np.arange(start, start + count)[:, None]
            starts = np.where(starts_here, rows, self._since)
            seen(start, np.maximum.accumulate(starts, axis=0), void)
        self.written += count
        row, lane = np.nonzero(ends)
        if not row.size:
            return
        last = row + first_end
        by_lane = np.argsort(lane, kind="stable")
        first = np.empty_like(last)
        first[by_lane[1:]] = last[by_lane[:-1]] + 1
        lanes = lane[by_lane]
        leads = np.flatnonzero(np.concatenate(([True], lanes[1:] != lanes[:-1])))
        first[by_lane[leads]] = self._since[lanes[leads]]
        self._since[lane] = last + 1  # of several ends in a lane the last one stays
        self._finished.append(np.stack((first, last, lane)))

    def eligible(self, length: int) -> tuple[Ints, Ints]:
        """The trajectories of at least `length` rows that are still there.

        Returns:
            First rows, last rows and lanes, (3, finished ones), where first rows may be older than the
            oldest that is there; and the lanes whose unfinished trajectory is as long.
        """
        view = self._views.get(length)
        if view is None:
            if len(self._views) >= _VIEWS:
                del self._views[next(iter(self._views))]
            view = self._views[length] = _View()
        everything = self._finished
        total = everything.dropped + len(everything)
        if view.looked_at < total:
            found = everything.columns[:, max(view.looked_at - everything.dropped, 0) :]
            if length > 1:
                found = found[:, found[1] - found[0] >= length - 1]
            view.finished.append(found)
            view.looked_at = total
        view.finished.drop_before(self.oldest + length - 1)
        going_on = self.written - np.maximum(self._since, self.oldest) >= length
        return view.finished.columns, np.flatnonzero(going_on)

    def pick(self, length: int, which: Ints) -> tuple[Ints, Ints, Ints]:
        """First rows, lengths and lanes of trajectories, by their numbers among those `eligible`."""
        finished, lanes = self.eligible(length)
        count = finished.shape[1]
        if not lanes.size:
            first, last, lane = finished[:, which]
        elif not count:
            lane = lanes[which]
            first, last = self._since[lane], self.written - 1
        else:
            ended = which < count
            first, last, lane = finished[:, np.where(ended, which, 0)]
            at = lanes[np.where(ended, 0, which - count)]
            first = np.where(ended, first, self._since[at])
            last = np.where(ended, last, self.written - 1)
            lane = np.where(ended, lane, at)
        first = np.maximum(first, self.oldest)
        return first, last - first + 1, lane

    def places(self, storage: StorageView, row: Ints, lane: Ints) -> Index:
        """The index of elements in the storage."""
        place = row % self.rows
        return place if storage.ndim == 1 else (place, *np.unravel_index(lane, storage.shape[1:]))

    def lengths_from(self, storage: StorageView, first: Ints, lane: Ints, limit: int) -> Ints:
        """How many rows the trajectories at some rows go on for, at most `limit`."""
        rows = first[:, None] + np.arange(limit)
        index = self.places(storage, rows.reshape(-1), np.repeat(lane, limit))
        values = self._values(storage, index, rows.shape)
        if self.signal.by_id:  # the first that differs follows the last row
            stops = np.concatenate(
                (values[:, 1:] != values[:, :1], np.ones((len(first), 1), np.bool_)), axis=1
            )
        else:
            stops = values.copy()
            stops[:, -1:] = True
        return np.minimum(stops.argmax(axis=1) + 1, self.written - first).astype(np.intp, copy=False)
