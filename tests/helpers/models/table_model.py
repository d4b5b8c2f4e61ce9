"""A decoder whose logits are rows of a table, chosen by all ids so far: exact on every library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def table_key(ids: Any, size: int) -> int:
    """Which row of a table of that size follows some ids."""
    return int((np.asarray(ids) * np.arange(1, len(ids) + 1)).sum()) % size


class TableModel:
    """A `Decoder` over a table (rows, V) of logits."""

    rows_per_run = 8
    config = None

    def __init__(self, table: NDArray[np.float32], context_length: int | None = None) -> None:
        self.table = table
        self.vocab_size = table.shape[1]
        self.context_length = context_length
        self.rows: dict[int, list[int]] = {}
        self.runs: list[int] = []
        self.forks = 0

    @classmethod
    def random(cls, seed: int, rows: int = 31, vocab_size: int = 12, spread: float = 2.0) -> TableModel:
        rng = np.random.default_rng(seed)
        return cls((rng.normal(size=(rows, vocab_size)) * spread).astype(np.float32))

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.table[table_key(ids, len(self.table))]
        return row

    def check_ids(self, ids: Any) -> NDArray[np.int64]:
        return np.asarray(ids, np.int64)

    def acquire(self, count: int) -> list[int]:
        free = [row for row in range(len(self.rows) + count) if row not in self.rows][:count]
        self.rows.update({row: [] for row in free})
        return free

    def release(self, rows: Sequence[int]) -> None:
        for row in rows:
            del self.rows[row]

    def reserve(self, length: int, rows: int = 1) -> None: ...

    def chunk_length(self, rows: int = 1) -> int:
        return 64

    def reset(self, row: int) -> None:
        self.rows[row] = []

    def fork(self, source: int, target: int) -> None:
        self.forks += 1
        self.rows[target] = list(self.rows[source])

    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[Any]) -> NDArray[np.float32]:
        for row, prompt in zip(rows, prompts, strict=True):
            self.rows[row] = list(map(int, prompt))
        return np.stack([self.logits(self.rows[row]) for row in rows])

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> NDArray[np.float32]:
        self.runs.append(len(rows))
        for row, token in zip(rows, tokens.tolist(), strict=True):
            self.rows[row].append(token)
        return np.stack([self.logits(self.rows[row]) for row in rows])

    def extend(self, rows: Sequence[int], ids: Sequence[Any]) -> list[NDArray[np.float32]]:
        out = []
        for row, new in zip(rows, ids, strict=True):
            logits = []
            for token in new:
                self.rows[row].append(int(token))
                logits.append(self.logits(self.rows[row]))
            out.append(np.stack(logits))
        return out
