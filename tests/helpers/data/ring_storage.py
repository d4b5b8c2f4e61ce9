"""A storage as samplers see one, filled in a ring, with nothing of the real ones in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class RingStorage:
    """`rows` rows of `shape[1:]`; `write` overwrites the oldest."""

    def __init__(self, rows: int, *more: int, **dtypes: Any) -> None:
        self.max_size = rows * int(np.prod(more, dtype=int))
        self.ndim = 1 + len(more)
        self._shape = (rows, *more)
        self.entries = {key: np.zeros((rows, *more, 1), dtype) for key, dtype in dtypes.items()}
        self.written = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (min(self.written, self._shape[0]), *self._shape[1:])

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    def entry(self, key: Any) -> NDArray[Any] | None:
        return self.entries.get(key if isinstance(key, str) else key[-1])

    def get(self, index: Any) -> dict[str, NDArray[Any]]:
        return {key: array[index] for key, array in self.entries.items()}

    @property
    def last_cursor(self) -> int | None:
        return (self.written - 1) % self._shape[0] if self.written else None

    def write(self, **values: Any) -> NDArray[np.int64]:
        """Write rows; every value is (rows, *more). The rows written."""
        count = len(next(iter(values.values()))) if values else 0
        rows = (self.written + np.arange(count)) % self._shape[0]
        for key, array in values.items():
            self.entries[key][rows] = np.reshape(array, (count, *self._shape[1:], 1))
        self.written += count
        return rows

    def fill(self, count: int) -> None:
        self.written = count
