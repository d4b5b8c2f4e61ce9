"""A storage as samplers see one, filled in a ring, with nothing of the real ones in it."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict


class RingStorage:
    """`rows` rows with the shape `more`; `write` goes over the oldest.

    Args:
        entries: names below `"next"` and their types.
    """

    def __init__(self, rows: int, *more: int, **entries: Any) -> None:
        self._rows = (rows, *more)
        self.max_size = rows * int(np.prod(more, dtype=int))
        self.ndim = 1 + len(more)
        self.entries = {("next", key): np.zeros((rows, *more, 1), dtype) for key, dtype in entries.items()}
        self.filled = self.cursor = self.writes = 0
        self.read = self._changes = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.filled, *self._rows[1:])

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    @property
    def _position(self) -> Any:
        return SimpleNamespace(now=lambda: (len(self), self.cursor, self.writes))

    def entry(self, key: Any) -> NDArray[Any] | None:
        self.read += 1
        return self.entries.get(key)

    def get(self, index: Any) -> TensorDict:
        return TensorDict({key: array[: self.filled][index] for key, array in self.entries.items()})

    def write(self, count: int, **values: Any) -> NDArray[np.int64]:
        """Write `count` rows of `(count, *more)` values; their places."""
        places = (self.cursor + np.arange(count)) % self._rows[0]
        for key, array in values.items():
            self.entries["next", key][places] = np.reshape(array, (count, *self._rows[1:], 1))
        self.cursor = (self.cursor + count) % self._rows[0]
        self.filled = min(self.filled + count, self._rows[0])
        self.writes += count
        return places

    def trajectories(self, key: str) -> list[list[tuple[int, ...]]]:
        """The indices of each trajectory, lane by lane, found by looking at every row."""
        values = self.entries["next", key][..., 0]
        rows = [(self.cursor - self.filled + i) % self._rows[0] for i in range(self.filled)]
        found: list[list[tuple[int, ...]]] = []
        for lane in np.ndindex(self._rows[1:]):
            open_one: list[tuple[int, ...]] = []
            for i, row in enumerate(rows):
                open_one.append((row, *lane))
                value = values[(row, *lane)]
                following = values[(rows[i + 1], *lane)] if i + 1 < len(rows) else None
                ended = bool(value) if values.dtype == bool else following != value
                if ended or following is None:
                    found.append(open_one)
                    open_one = []
        return found


def filled(*shape: int) -> RingStorage:
    storage = RingStorage(*shape)
    storage.write(shape[0])
    return storage


def elements(index: Any) -> list[tuple[int, ...]]:
    parts = index if isinstance(index, tuple) else (index,)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def pieces(index: Any, info: Any) -> list[list[tuple[int, ...]]]:
    """A batch cut where it says so."""
    rows, stops = elements(index), np.flatnonzero(info["next", "truncated"]) + 1
    assert stops[-1] == len(rows)
    return [rows[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def check_state(sampler: Any, other: Any, folder: Path, storage: Any, size: int) -> None:
    """A sampler and those with its state draw alike; `other` makes one of another state."""
    sampler.dumps(folder)
    others = [other(), other(), pickle.loads(pickle.dumps(sampler))]
    others[0].load_state_dict(sampler.state_dict())
    others[1].loads(folder)
    for _ in range(6):
        index, info = sampler.sample(storage, size)
        for again, more in [one.sample(storage, size) for one in others]:
            np.testing.assert_array_equal(index, again)
            assert info.keys() == more.keys()
            for key, value in info.items():
                np.testing.assert_array_equal(value, more[key])
        if "priority_weight" in info:
            for one in (sampler, *others):
                one.update_priority(index[:10], 2.0)
