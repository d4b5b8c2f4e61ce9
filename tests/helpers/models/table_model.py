"""A decoder whose logits are rows of a table, chosen by all ids so far: exact on every library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from helpers.models.scripted_decoder import PythonDecoder
from numpy.typing import NDArray


def table_key(ids: Any, size: int) -> int:
    """Which row of a table of that size follows some ids."""
    return int((np.asarray(ids) * np.arange(1, len(ids) + 1)).sum()) % size


class TableModel(PythonDecoder):
    """One over a table (rows, V) of logits."""

    def __init__(self, table: NDArray[np.float32], context_length: int | None = None) -> None:
        super().__init__()
        self.table = table
        self.vocab_size = table.shape[1]
        self.context_length = context_length
        self.runs: list[int] = []
        self.forks = 0

    @classmethod
    def random(cls, seed: int, rows: int = 31, vocab_size: int = 12, spread: float = 2.0) -> TableModel:
        rng = np.random.default_rng(seed)
        return cls((rng.normal(size=(rows, vocab_size)) * spread).astype(np.float32))

    def logits(self, row: Sequence[int]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self.table[table_key(row, len(self.table))]
        return found

    def fork(self, source: int, target: int) -> None:
        self.forks += 1
        super().fork(source, target)

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> NDArray[np.float32]:
        self.runs.append(len(rows))
        return super().decode_unchecked(tokens, rows)
