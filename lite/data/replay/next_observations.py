"""Observations that are kept once: what follows a row is read from the row after it.

A table keeps, beside its plain entries, a container `_next` of as many rows:

    ("_next", "at")   int64 (rows,): -1 where the next observation is what the following row has at its root,
                      else the number of the place where it is kept apart
    ("_next", key)    (rows, 2, ...): the places, two for each row, in row-major order; most are never written

which is all that a reader of the folder needs to know. A place is used again once the row that it belongs
to has been written over, or has got a follower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict
from lite._arrays.types import Array, Path
from lite.data.replay.columns import Columns, Pairs, is_container

APART = "_next"
_AT = "at"
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class NextObservations:
    """The next observations of a table's rows.

    Args:
        table: as `example` describes it.
    """

    def __init__(self, table: Any) -> None:
        self.plain = table.exclude(APART)
        apart = table[APART]
        self.at: NDArray[np.int64] = apart[_AT]
        self._paths: list[Path] = [
            key if isinstance(key, tuple) else (key,) for key in apart.keys(True, True) if key != _AT
        ]
        self._roots: list[Array] = [table[path] for path in self._paths]
        self._apart: list[Array] = [apart[path] for path in self._paths]
        self._places: list[Array] = [_flat(array) for array in self._apart]
        self._rows = len(self.at)
        self._free: deque[int] = deque()
        self._high = 0
        self._space: Any = None
        # What becomes free when the rows that are being written count.
        self._freed: list[int] = []
        self._linked: tuple[int, int] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._places = [_flat(array) for array in self._apart]  # a copy has the arrays, not their views

    @staticmethod
    def example(data: Any) -> Any:
        """The rows of a table that keeps rows like `data`.

        Raises:
            TypeError: `data` is not a TensorDict.
            KeyError: nothing in `"next"` is also at the root.
        """
        node = getattr(data, "_tensordict", data)
        if not is_container(data) or node is not data:
            raise TypeError(f"compress_next needs a TensorDict, got {type(data).__name__}.")
        data = data.detach()
        paths = shared_paths(data)
        if not paths:
            raise KeyError(
                "compress_next needs an entry that is in 'next' and at the root, with equal shapes."
            )
        count = data.shape[0]
        apart = TensorDict({_AT: np.zeros(count, np.int64)}, [count])
        for path in paths:
            leaf = data[path]
            apart.set(path, np.broadcast_to(leaf[:, None], (count, 2, *leaf.shape[1:])))
        return data.exclude(*(("next", *path) for path in paths)).set(APART, apart)

    # -- writing ----------------------------------------------------------------------------------

    def pairs(self, columns: Columns, data: Any, many: bool, count: int, start: int, length: int) -> Pairs:
        """As `Columns.pairs`, for rows from `start` on of a ring of which `length` are filled."""
        node = (data if many else data.unsqueeze(0)).detach()
        following, roots = [], []
        for path in self._paths:
            value, root = node.get(("next", *path), None), node.get(path, None)
            if value is None or root is None:
                raise KeyError(f"the data lacks {path} or {('next', *path)}, which was stored first.")
            if value.shape != root.shape or value.dtype != root.dtype:
                raise RuntimeError(f"{path} and {('next', *path)} must have the same shape and dtype.")
            following.append(value)
            roots.append(root)
        pairs = columns.pairs(node.exclude(*(("next", *path) for path in self._paths)), True)
        skipped = max(0, count - self._rows)  # rows that this call itself writes over
        same = np.zeros(count - skipped, bool)
        same[:-1] = True
        for value, root in zip(following, roots, strict=True):
            same[:-1] &= _equal(value[skipped:-1], root[skipped + 1 :])
        ends = np.flatnonzero(~same)
        at = np.full(count, -1, np.int64)
        at[skipped + ends] = places = self._allocate(len(ends))
        if self._grown and self._space is not None:
            self._space.reserve(self._high, self._high + self._grown, 2 * self._rows)
        for array, value in zip(self._places, following, strict=True):
            array[places] = value[skipped + ends]
        self._will_free(start, count, length, roots)
        out = [*pairs, (self.at, at)]
        return out if many else [(array, value[0, ...]) for array, value in out]

    def use_space(self, space: Callable[[list[Array], int], Any]) -> None:
        """Ask the disk for blocks ahead of places, by a class such as `DiskSpace`."""
        self._space = space(self._places, self._high)

    def _allocate(self, count: int) -> NDArray[np.int64]:
        free = min(count, len(self._free))
        taken = [self._free[i] for i in range(free)]
        self._taken = free
        self._grown = count - free
        return np.array([*taken, *range(self._high, self._high + count - free)], np.int64)

    def _will_free(self, start: int, count: int, length: int, roots: list[Array]) -> None:
        """Note whose places are no longer needed once the rows are written."""
        rows = self._rows
        self._linked = None
        over = (start + np.arange(min(count, rows))) % rows
        old = self.at[over[over < length]]
        self._freed = old[old >= 0].tolist()
        before = (start - 1) % rows
        place = int(self.at[before])
        if length and count < rows and place >= 0 and before < length:
            kept = zip(self._places, roots, strict=True)
            if all(_equal(array[place : place + 1], root[:1])[0] for array, root in kept):
                self._linked = before, place

    def link(self) -> None:
        """The rows are written: let the row before them follow its observation there."""
        if self._linked is not None:
            self.at[self._linked[0]] = -1

    def undo_link(self) -> tuple[int, int]:
        """The row before those that are written, and what it has in "at"; (-1, -1) if it is left alone."""
        return (-1, -1) if self._linked is None else self._linked

    def committed(self) -> None:
        """The rows count: what was freed may be used from now on."""
        for _ in range(self._taken):
            self._free.popleft()
        self._high += self._grown
        self._free.extend(self._freed)
        if self._linked is not None:
            self._free.append(self._linked[1])
        self._linked, self._freed, self._taken, self._grown = None, [], 0, 0

    def forget(self) -> None:
        """No row is filled."""
        self._free.clear()
        self._high = 0

    def find_free(self, length: int) -> None:
        """Find out which places are used by the first `length` rows, after these were loaded.

        Raises:
            ValueError: a row names a place that there is not, or one of another row.
        """
        used = self.at[:length]
        used = np.sort(used[used >= 0])
        if used.size and (used[-1] >= 2 * self._rows or (np.diff(used) == 0).any()):
            raise ValueError(
                "the storage is damaged: rows name places of next observations that cannot be theirs."
            )
        self._high = int(used[-1]) + 1 if used.size else 0
        free = np.ones(self._high, bool)
        free[used] = False
        self._free = deque(np.flatnonzero(free).tolist())

    # -- reading ----------------------------------------------------------------------------------

    def add(self, td: Any, index: NDArray[np.int64]) -> Any:
        """Put the next observations of the rows at `index` into `td`, which holds the rest."""
        after = index + 1
        after[after == self._rows] = 0
        while True:
            at = self.at.take(index)
            apart = at >= 0
            some = apart.any()
            for path, root, places in zip(self._paths, self._roots, self._places, strict=True):
                value = root.take(after, 0)
                if some:
                    value[apart] = places.take(at[apart], 0)
                td.set(("next", *path), value)
            # A process that writes may have linked a row, and used its place for another one.
            if np.array_equal(at, self.at.take(index)):
                return td


def shared_paths(data: Any) -> list[Path]:
    """The arrays that `data` has both at the root and in `"next"`, with equal shapes and dtypes."""
    following = data.get("next", None)
    if following is None or not is_container(following):
        return []
    found = []
    for key in following.keys(True, True):
        path = key if isinstance(key, tuple) else (key,)
        value, root = following.get(path), data.get(path, None)
        both = isinstance(value, np.ndarray) and isinstance(root, np.ndarray) and value.dtype != object
        if both and value.shape == root.shape and value.dtype == root.dtype and path[0] != _AT:
            found.append(path)
    return found


def _flat(places: Array) -> Array:
    """(rows, 2, ...) as (2 * rows, ...), a view."""
    return places.reshape(-1, *places.shape[2:])


def _equal(a: Array, b: Array) -> NDArray[np.bool_]:
    """Which rows have the same bits, so that -0.0 is not 0.0 and NaN is NaN."""
    kind = _UNSIGNED.get(a.dtype.itemsize)
    if kind is None:
        a, b = (np.ascontiguousarray(x)[..., None].view(np.uint8) for x in (a, b))
    else:
        a, b = a.view(kind), b.view(kind)
    same: NDArray[np.bool_] = a == b
    return np.all(same, tuple(range(1, same.ndim)))
