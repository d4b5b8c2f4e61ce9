"""What a wrapper asks of its model: responses, scores and logits of rows, for any number of threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.protocol import Decoder
from lite.models.decoder.scoring import full_logits, score
from lite.models.generation.batching import Batcher, BatchSizes
from lite.models.generation.loop import Generated, generate
from lite.models.generation.options import GenerationConfig
from lite.models.generation.pool import Pool
from lite.models.generation.stops import DecodeText

Task = GenerationConfig | Literal["generate", "score", "logits"]
"""What to do with rows; only rows of equal tasks can share a run. "generate": each under its own options."""


class _Row(NamedTuple):
    ids: NDArray[np.int64]
    seeds: NDArray[np.uint64] | None = None  # one per sample
    config: GenerationConfig | None = None


class ModelCalls:
    """Runs a model for one thread at a time, and rows of several threads together if sizes are given.

    The result of a row is the same either way: seeds are drawn before rows are put together, and padding
    is the caller's.

    Args:
        model: the decoder.
        num_samples: responses per prompt.
        decode_text: turns ids into text, for stop sequences.
        equal_lengths: score only rows of equal length in one run, without any padding.
        sizes: rows per run, for batching; None runs what each caller gives.
        timeout: seconds that a row waits for others.
        sessions: how many parts of a call may run at the same time.
        adapter: the decoder's adapter to run with, None for the model as it is.
    """

    def __init__(
        self,
        model: Decoder,
        *,
        num_samples: int = 1,
        decode_text: DecodeText | None = None,
        equal_lengths: bool = False,
        sizes: BatchSizes | None = None,
        timeout: float = 10.0,
        sessions: int = 1,
        adapter: str | None = None,
    ) -> None:
        self.model = model
        self.num_samples = num_samples
        self.decode_text = decode_text
        self.equal_lengths = equal_lengths
        self.adapter = adapter
        self.sessions = sessions
        self.pool = Pool.of(model, sessions)  # that of all wrappers of the model
        batcher = Batcher(self._run, sizes or BatchSizes(1, None), timeout)  # checks the timeout
        self.batcher: Batcher[_Row, Any] | None = None if sizes is None else batcher

    def generate(
        self,
        prompts: Sequence[NDArray[np.int64]],
        configs: Sequence[GenerationConfig],
        seeds: NDArray[np.uint64] | None,
    ) -> list[Generated]:
        """Responses, as `lite.models.generate` gives them, to prompts with options of their own."""
        n = self.num_samples
        own = [None if seeds is None else seeds[i * n : (i + 1) * n] for i in range(len(prompts))]
        shared = set(configs)
        task: Task = shared.pop() if len(shared) == 1 else "generate"
        rows = self._call(task, [_Row(*row) for row in zip(prompts, own, configs, strict=True)])
        return [response for row in rows for response in row]

    def score(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Log-probs, as `lite.models.score` gives them."""
        return self._call("score", [_Row(ids) for ids in rows])

    def full_logits(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Logits, as `lite.models.full_logits` gives them."""
        return self._call("logits", [_Row(ids) for ids in rows])

    def _call(self, task: Task, rows: list[_Row]) -> list[Any]:
        if self.batcher is None:
            return self._run(task, rows)
        for row in rows:  # a bad row is its caller's alone
            self.model.check_ids(row.ids)
        return self.batcher(task, rows)

    def _run(self, task: Task, rows: Sequence[_Row]) -> list[Any]:
        return self.pool.run(functools.partial(self._on, task), rows, most=self.sessions)

    def _on(self, task: Task, model: Decoder, rows: Sequence[_Row]) -> list[Any]:
        with _using(model, self.adapter):
            return self._with_adapter(task, model, rows)

    def _with_adapter(self, task: Task, model: Decoder, rows: Sequence[_Row]) -> list[Any]:
        ids = [row.ids for row in rows]
        if task == "score":
            return score(model, ids, equal_lengths=self.equal_lengths)
        if task == "logits":
            return full_logits(model, ids, equal_lengths=self.equal_lengths)
        seeds = [row.seeds for row in rows if row.seeds is not None]
        responses = generate(
            model,
            ids,
            [row.config for row in rows if row.config is not None],
            seeds=np.concatenate(seeds) if seeds else None,
            num_samples=self.num_samples,
            decode_text=self.decode_text,
        )
        n = self.num_samples
        return [responses[i * n : (i + 1) * n] for i in range(len(rows))]


@contextmanager
def _using(model: Any, adapter: str | None) -> Iterator[None]:
    """Have a model run with an adapter, or without one; whoever shares it has set another, perhaps."""
    before = getattr(model, "adapter", None)
    if before == adapter:
        yield
        return
    model.adapter = adapter
    try:
        yield
    finally:
        model.adapter = before
