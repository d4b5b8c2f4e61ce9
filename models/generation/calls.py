"""Calls of a model by wrappers: responses, scores and logits of rows, from any number of threads."""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels._integer import integer
from lite.models.decoder.choices import ChoiceScores, checked_choices, score_choices
from lite.models.decoder.protocol import Decoder, checked_row, with_adapter
from lite.models.decoder.scoring import checked_sampling, full_logits, score
from lite.models.generation.batching import Batcher, BatchSizes
from lite.models.generation.loop import Generated, check_options, generate
from lite.models.generation.options import GenerationConfig
from lite.models.generation.pool import Pool
from lite.models.generation.prefix_cache import PrefixCache, forget_rows
from lite.models.generation.stops import DecodeText

Task = Hashable
"""What to do with rows: "score", "choices", "relative choices", "logits", or to generate.

Only rows with equal ones can share a run.
"""


class _Row(NamedTuple):
    ids: NDArray[np.int64]
    seeds: Any = None  # uint64 (num_samples,)
    config: GenerationConfig = GenerationConfig()
    temperature: float = 1.0
    support: Any = None
    choices: Sequence[NDArray[np.int64]] = ()


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
        max_rows: most responses that each of them writes at a time; None for all.
        prefix_cache: bytes of keys and values that are kept from call to call, by all of them together; None
            for none.
        assistant_model: guesses tokens.

    Raises:
        ValueError: `max_rows`, `prefix_cache` or a size is out of range.
        TypeError: the model cannot keep rows (it is no `RewindableDecoder`), or is to run several times.
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
        max_rows: int | None = None,
        prefix_cache: int | None = None,
        assistant_model: Decoder | None = None,
    ) -> None:
        if max_rows is not None and integer("max_rows", max_rows) < 1:
            raise ValueError(f"max_rows must be at least 1, got {max_rows}")
        kept = 0 if prefix_cache is None else prefix_cache
        if isinstance(kept, bool) or integer("prefix_cache", kept) < 0:
            raise ValueError(f"prefix_cache must be a number of bytes of at least 0, got {prefix_cache!r}")
        self.model = model
        self.num_samples = num_samples
        self.decode_text = decode_text
        self.equal_lengths = equal_lengths
        self.adapter = adapter
        self.sessions = sessions
        self.max_rows = max_rows
        self.assistant_model = assistant_model
        self.pool = Pool.of(model, sessions)  # that of all wrappers of the model
        self._kept_bytes = kept // sessions
        self._caches: dict[Decoder, PrefixCache] = {}
        if kept:
            self._caches[model] = PrefixCache(model, self._kept_bytes)  # type: ignore[arg-type]  # it checks
        batcher = Batcher(self._run, sizes or BatchSizes(1, None), timeout)  # checks the timeout
        self.batcher: Batcher[_Row, Any] | None = None if sizes is None else batcher

    def generate(
        self,
        prompts: Sequence[NDArray[np.int64]],
        config: GenerationConfig | Sequence[GenerationConfig],
        seeds: NDArray[np.uint64],
    ) -> list[Generated]:
        """Responses, as `lite.models.generate` gives them."""
        n = self.num_samples
        own = [seeds[i * n : (i + 1) * n] for i in range(len(prompts))]
        configs = [config] * len(prompts) if isinstance(config, GenerationConfig) else config
        rows = self._call(_task_of(configs), [_Row(*row) for row in zip(prompts, own, configs, strict=True)])
        return [response for row in rows for response in row]

    def score(
        self,
        rows: Sequence[NDArray[np.int64]],
        temperatures: Sequence[float] | None = None,
        supports: Sequence[Any] | None = None,
    ) -> list[NDArray[np.float32]]:
        """Log-probs, as `lite.models.score` gives them."""
        warmths = [1.0] * len(rows) if temperatures is None else temperatures
        kept = [None] * len(rows) if supports is None else supports
        checked_sampling(warmths, kept, [len(row) for row in rows], self.model.vocab_size)
        own = zip(rows, warmths, kept, strict=True)
        return self._call("score", [_Row(ids, temperature=t, support=k) for ids, t, k in own])

    def score_choices(
        self,
        prompts: Sequence[NDArray[np.int64]],
        choices: Sequence[Sequence[NDArray[np.int64]]],
        *,
        relative: bool = False,
    ) -> ChoiceScores:
        """Log-probs of each prompt's choices, as `lite.models.score_choices` gives them."""
        own = checked_choices(self.model, prompts, choices) if len(prompts) else []
        rows = [_Row(ids, choices=lists) for ids, lists in zip(prompts, own, strict=True)]
        task = "relative choices" if relative else "choices"
        return ChoiceScores.of(self._call(task, rows) if rows else [])

    def full_logits(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Logits, as `lite.models.full_logits` gives them."""
        return self._call("logits", [_Row(ids) for ids in rows])

    def update_weights_(self, weights: Mapping[str, Any]) -> None:
        """Run with other weights from now on; waits for the calls that run now, and drops cached prefixes.

        Optional inputs of the graph among them are values of the adapter.

        Raises:
            ValueError: there are values for an adapter, and these calls run without one.
            TypeError: the model's weights cannot be changed.
        """
        if not hasattr(self.model, "update_weights_"):
            raise TypeError(f"a {type(self.model).__name__} has no update_weights_, as an OnnxDecoder has")
        optional = set(self.model.spec.optional)  # type: ignore[attr-defined]
        adapter = {name: value for name, value in weights.items() if name in optional}
        if adapter and self.adapter is None:
            raise ValueError(f"weights: {min(adapter)!r} is of an adapter, and none is used here")
        others = {name: value for name, value in weights.items() if name not in optional}
        with self.pool.alone() as decoders:
            if others:
                for decoder in decoders:
                    forget_rows(decoder)
                self.model.update_weights_(others)
            if adapter:
                self.model.set_adapter(self.adapter, adapter)  # type: ignore[attr-defined]

    def learn_adapter(self, name: str, values: Mapping[str, Any], projections: Collection[str]) -> None:
        """Run with a new adapter from now on, for which the graph gets inputs where it has none."""
        model: Any = self.model
        with self.pool.alone() as decoders:
            if not values.keys() <= set(model.spec.optional):
                for decoder in decoders:
                    forget_rows(decoder)
                model.add_adapter_inputs(projections)
            model.set_adapter(name, values)
            self.adapter = name

    def prefix_cache_state(self) -> dict[str, int]:
        """The counters of `PrefixCache`, of all sessions together."""
        states = [cache.state() for cache in list(self._caches.values())]
        return {name: sum(state[name] for state in states) for name in (states[0] if states else ())}

    def clear_prefix_cache(self) -> None:
        """Return the cached rows to the model."""
        for cache in list(self._caches.values()):
            cache.clear()

    def _call(self, task: Task, rows: list[_Row]) -> list[Any]:
        alone = self.batcher is None or self.pool.is_running_here()  # company would wait for this run
        batcher = None if alone else self.batcher
        if batcher is None and self.sessions == 1:
            return self._run(task, rows)
        name = "row" if task in ("score", "logits") else "prompt"
        for i, row in enumerate(rows):  # a bad one is its caller's alone, who knows it by its place
            checked_row(self.model, f"{name} {i}", row.ids)
            check_options(row.config, self.model, self.decode_text, self.num_samples)
        return self._run(task, rows) if batcher is None else batcher(task, rows)

    def _run(self, task: Task, rows: Sequence[_Row]) -> list[Any]:
        return self.pool.run(functools.partial(self._on, task), rows, most=self.sessions)

    def _on(self, task: Task, model: Decoder, rows: Sequence[_Row]) -> list[Any]:
        """The results of rows by a decoder, which other wrappers and threads use with other adapters."""
        with with_adapter(model, self.adapter):
            return self._with_adapter(task, model, rows)

    def _with_adapter(self, task: Task, model: Decoder, rows: Sequence[_Row]) -> list[Any]:
        """The results of a task for rows that share the adapter which `model` has now, one for each row."""
        ids = [row.ids for row in rows]
        if task == "score":
            return score(
                model,
                ids,
                temperature=[row.temperature for row in rows],
                supports=[row.support for row in rows],
                equal_lengths=self.equal_lengths,
            )
        if task in ("choices", "relative choices"):
            relative = task == "relative choices"
            return score_choices(model, ids, [row.choices for row in rows], relative=relative).token_log_probs
        if task == "logits":
            return full_logits(model, ids, equal_lengths=self.equal_lengths)
        responses = generate(
            model,
            ids,
            [row.config for row in rows],
            seeds=np.concatenate([row.seeds for row in rows]) if rows else None,
            num_samples=self.num_samples,
            decode_text=self.decode_text,
            max_rows=self.max_rows,
            prefix_cache=self._cache_of(model),
            assistant_model=self.assistant_model,
        )
        n = self.num_samples
        return [responses[i * n : (i + 1) * n] for i in range(len(rows))]

    def _cache_of(self, model: Decoder) -> PrefixCache | None:
        if self._caches and model not in self._caches and len(self._caches) < self.sessions:
            self._caches[model] = PrefixCache(model, self._kept_bytes)  # type: ignore[arg-type]
        return self._caches.get(model)  # none on decoders that the pool has for wrappers with more sessions


def _task_of(configs: Sequence[GenerationConfig]) -> Task:
    """The properties that rows must share to run together.

    Options may differ. But grammars and functions of the user may fail while a response is written, and that
    fails all rows of the run: they share it with rows of the same options only.
    """
    if not any(config.grammar or config.logits_processor for config in configs):
        return "generate"
    return configs[0] if len(set(configs)) == 1 else object()
