"""Decoders in Python, whose logits depend on everything a row holds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 23


class PythonDecoder:
    """A `Decoder` whose rows are lists of ids; `logits` of what a row holds is what is left to define."""

    vocab_size = VOCABULARY
    context_length: int | None = None
    rows_per_run = 8
    config = None

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}

    def logits(self, row: Sequence[int]) -> NDArray[np.float32]:
        raise NotImplementedError

    def check_ids(self, ids: Any) -> NDArray[np.int64]:
        row = np.asarray(ids, np.int64)
        if not len(row):
            raise ValueError("ids must hold at least one token")
        if self.context_length is not None and len(row) > self.context_length:
            raise ValueError(f"ids has {len(row)} tokens, the model's context is {self.context_length}")
        return row

    def acquire(self, count: int) -> list[int]:
        taken = [row for row in range(len(self.rows) + count) if row not in self.rows][:count]
        self.rows |= {row: [] for row in taken}
        return taken

    def release(self, rows: Sequence[int]) -> None:
        for row in rows:
            del self.rows[row]

    def reserve(self, length: int, rows: int = 1) -> None: ...

    def chunk_length(self, rows: int = 1) -> int:
        return 64

    def reset(self, row: int) -> None:
        self.rows[row] = []

    def fork(self, source: int, target: int) -> None:
        self.rows[target] = self.rows[source].copy()

    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[Any]) -> NDArray[np.float32]:
        for row, prompt in zip(rows, prompts, strict=True):
            self.rows[row] = list(map(int, prompt))
        return np.stack([self.logits(self.rows[row]) for row in rows])

    def extend(self, rows: Sequence[int], ids: Sequence[Any]) -> list[NDArray[np.float32]]:
        pairs = zip(rows, ids, strict=True)
        return [np.stack([self._append(row, token) for token in new]) for row, new in pairs]

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> NDArray[np.float32]:
        return np.stack([self._append(row, token) for row, token in zip(rows, tokens, strict=True)])

    def _append(self, row: int, token: Any) -> NDArray[np.float32]:
        self.rows[row].append(int(token))
        return self.logits(self.rows[row])


class ScriptedDecoder(PythonDecoder):
    """One that goes back, counts what it runs, and fails where it is misused.

    Mostly the last two tokens decide what comes next, so that texts repeat themselves and guesses are often
    right; the rest of the row changes every logit a little, so that wrong rows show. Tokens that were read
    under an adapter are others.
    """

    adapter: str | None = None

    def __init__(
        self,
        *,
        context_length: int | None = 96,
        rows_per_run: int = 1,
        bytes_per_token: int = 10,
        chunk: int = 64,
        noise: float = 0.3,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.rows_per_run = rows_per_run
        self.bytes_per_token = bytes_per_token
        self.chunk = chunk
        self.noise = noise
        self.free: list[int] = []
        self.steps = 0
        self.run_tokens = 0  # outside of steps
        self.most_rows = 0  # with anything in them
        self.fail_in = -1  # runs until one fails

    def logits(self, row: Sequence[int]) -> NDArray[np.float32]:
        told = np.random.default_rng((*row[-2:], 0)).normal(0, 3, VOCABULARY)
        held = np.random.default_rng(zlib.crc32(np.array([*row, 0]).tobytes()))
        return (told + held.normal(0, self.noise, VOCABULARY)).astype(np.float32)

    def check_ids(self, ids: Any) -> NDArray[np.int64]:
        row = np.asarray(ids, np.int64)
        if not len(row) or row.min() < 0 or row.max() >= VOCABULARY:
            raise ValueError(f"ids must be tokens, got {row}")
        return super().check_ids(row)

    def acquire(self, count: int) -> list[int]:
        taken = [self.free.pop() if self.free else len(self.rows) + i for i in range(count)]
        assert not set(taken) & set(self.rows)
        self.rows |= {row: [] for row in taken}
        return taken

    def release(self, rows: Sequence[int]) -> None:
        super().release(rows)
        self.free += rows

    def fork(self, source: int, target: int) -> None:
        assert self.rows[source]
        assert source != target
        assert target in self.rows
        super().fork(source, target)
        self._ran()

    def truncate(self, row: int, length: int) -> None:
        assert 0 <= length <= len(self.rows[row])
        del self.rows[row][length:]

    def settle(self, row: int) -> int:
        assert self.rows[row]
        return self.bytes_per_token * len(self.rows[row])

    def prefill_rows(self, rows: Sequence[int], prompts: Sequence[Any]) -> NDArray[np.float32]:
        for row in rows:
            self.rows[row] = []
        return self.continue_rows(rows, prompts)

    def continue_rows(self, rows: Sequence[int], ids: Sequence[Any]) -> NDArray[np.float32]:
        return np.stack([logits[-1] for logits in self.extend(rows, ids)])

    def extend(self, rows: Sequence[int], ids: Sequence[Any]) -> list[NDArray[np.float32]]:
        assert len(set(rows)) == len(rows)
        out = super().extend(rows, ids)
        self.run_tokens += sum(map(len, ids))
        self._ran()
        return out

    def decode_unchecked(self, tokens: NDArray[np.int64], rows: list[int]) -> NDArray[np.float32]:
        self.steps += 1
        assert len(set(rows)) == len(rows)
        logits = super().decode_unchecked(tokens, rows)
        self._ran()
        return logits

    def chunk_length(self, rows: int = 1) -> int:
        return self.chunk

    def _append(self, row: int, token: Any) -> NDArray[np.float32]:
        adapted = 0 if self.adapter is None else VOCABULARY * (1 + zlib.crc32(self.adapter.encode()))
        assert self.context_length is None or len(self.rows[row]) < self.context_length
        return super()._append(row, int(token) + adapted)

    def _ran(self) -> None:
        self.most_rows = max(self.most_rows, sum(bool(row) for row in self.rows.values()))
        self.fail_in -= 1
        if self.fail_in == 0:
            raise RuntimeError("the model fails")
