"""The token loop: prompts in, sampled or greedy tokens and their log-probs out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels import sample_tokens
from lite.models.decoder.protocol import Decoder
from lite.models.generation.options import GenerationConfig

_AHEAD = 1024  # tokens of a response that memory is taken for at once; longer ones make it grow
_ENDLESS = 2**31  # stands for any larger limit

DecodeText = Callable[[NDArray[np.int64]], str]


@dataclass(frozen=True)
class Generated:
    """One response.

    Attributes:
        tokens: int64 (L,), the closing eos id included if there is one.
        log_probs: float32 (L,), of each token under the raw model distribution: no temperature, no filter,
            no penalty.
        finish_reason: `"eos"`, `"stop"` (a stop sequence) or `"length"`.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finish_reason: str


@dataclass(frozen=True)
class Step:
    """What one step of `stream` gave.

    Attributes:
        index: number of the step, from 0.
        rows: int64 (n,), the responses that were still open, `prompt * num_samples + sample`.
        tokens: int64 (n,), their new tokens.
        log_probs: float32 (n,), of the raw model distribution.
        finished: the responses that ended with this step, and why.
    """

    index: int
    rows: NDArray[np.int64]
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finished: dict[int, str] = field(default_factory=dict)


def generate(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    config: GenerationConfig,
    *,
    seeds: NDArray[np.uint64] | None = None,
    num_samples: int = 1,
    decode_text: DecodeText | None = None,
) -> list[Generated]:
    """Generate responses to prompts.

    A prompt is run once for all of its samples, and responses that end leave the batch. A row's response
    depends on its prompt and its seed only, not on the batch.

    Args:
        decoder: the model; rows that are in use stay as they are.
        prompts: token ids, one integer array (L,) per prompt.
        config: the options.
        seeds: uint64 (len(prompts) * num_samples,), one per response; default: drawn from the operating
            system.
        num_samples: responses per prompt.
        decode_text: turns tokens (L,) into text; needed for `config.stop_sequences`.

    Returns:
        The responses, prompt by prompt: response s of prompt p is number `p * num_samples + s`. For no
            prompts, none.

    Raises:
        ValueError: if a prompt is empty, longer than the context or holds unknown ids, if there is not one
            seed per response, or for stop sequences without `decode_text`.

    Example:
        >>> import numpy as np
        >>> from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, generate
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> config = GenerationConfig.from_kwargs({"max_new_tokens": 5, "temperature": 0.7})
        >>> seeds = np.arange(4, dtype=np.uint64)
        >>> responses = generate(decoder, [[10, 20, 30]], config, num_samples=4, seeds=seeds)
        >>> len(responses), responses[0].tokens.shape, responses[0].finish_reason
        (4, (5,), 'length')
    """
    steps = list(
        stream(decoder, prompts, config, seeds=seeds, num_samples=num_samples, decode_text=decode_text)
    )
    count = len(prompts) * num_samples
    tokens = np.zeros((count, len(steps)), np.int64)
    log_probs = np.zeros((count, len(steps)), np.float32)
    lengths = np.zeros(count, np.int64)
    reasons = ["length"] * count  # also of a prompt that leaves no room for a response
    for step in steps:
        tokens[step.rows, step.index] = step.tokens
        log_probs[step.rows, step.index] = step.log_probs
        lengths[step.rows] += 1
        for row, reason in step.finished.items():
            reasons[row] = reason
    return [
        Generated(tokens[row, :length].copy(), log_probs[row, :length].copy(), reasons[row])
        for row, length in enumerate(lengths)
    ]


def stream(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    config: GenerationConfig,
    *,
    seeds: NDArray[np.uint64] | None = None,
    num_samples: int = 1,
    decode_text: DecodeText | None = None,
) -> Iterator[Step]:
    """Generate as `generate` does, and yield one `Step` per token as soon as it is there.

    Arguments are checked at once, before the first step is asked for. The decoder's rows are given back
    when the iterator ends or is closed.

    Example:
        >>> from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, stream
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> for step in stream(decoder, [[10, 20], [30]], GenerationConfig(max_new_tokens=2)):
        ...     print(step.index, step.tokens.shape, step.finished)
        0 (2,) {}
        1 (2,) {0: 'length', 1: 'length'}
    """
    if operator.index(num_samples) < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}")
    if config.stop_sequences and decode_text is None:
        raise ValueError("stop_sequences need decode_text, the function that turns tokens into text")
    ids = [decoder.check_ids(prompt) for prompt in prompts]
    count = len(ids) * num_samples
    given: NDArray[Any] = (
        np.random.SeedSequence().generate_state(max(count, 1), np.uint64)[:count]
        if seeds is None
        else np.asarray(seeds)
    )
    if given.shape != (count,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"seeds must be {count} integers, one per response, got {given.dtype} of shape {given.shape}"
        )
    batch = _Batch(decoder, ids, config, given.astype(np.uint64), num_samples, decode_text)
    return batch.steps()


class _Batch:
    """The state of one call: which responses are open, on which rows of the decoder, and what they hold."""

    def __init__(
        self,
        decoder: Decoder,
        prompts: list[NDArray[np.int64]],
        config: GenerationConfig,
        seeds: NDArray[np.uint64],
        num_samples: int,
        decode_text: DecodeText | None,
    ) -> None:
        self.decoder = decoder
        self.config = config
        self.seeds = seeds
        self.num_samples = num_samples
        self.decode_text = decode_text
        self.prompts = prompts
        room = decoder.context_length or _ENDLESS
        limits = [min(config.max_new_tokens, room - len(p)) for p in prompts]
        self.limits = np.repeat(np.array(limits, np.int64), num_samples)
        self.starts = np.repeat(np.array([len(p) for p in prompts], np.int64), num_samples)
        longest = max(
            (len(p) + min(limit, _AHEAD) for p, limit in zip(prompts, limits, strict=True)), default=0
        )
        # prompt and response of each row, for the repetition penalty; -1 where there is nothing yet
        self.history = np.full((len(self.limits), longest), -1, np.int64)
        for row, start in enumerate(self.starts):
            self.history[row, :start] = prompts[row // num_samples]

    def steps(self) -> Iterator[Step]:
        live = np.flatnonzero(self.limits > 0)
        if not len(live):
            return
        held = self.decoder.acquire(len(self.limits))
        rows = np.array(held)
        try:
            logits, on = self._prefill(rows, live), rows[live].tolist()
            for t in range(int(self.limits.max())):
                tokens, log_probs = self._sample(logits, live, t)
                self._remember(live, tokens, t)
                finished = self._finished(live, tokens, t)
                yield Step(t, live, tokens, log_probs, finished)
                for row in finished:
                    self.decoder.reset(int(rows[row]))
                if finished:
                    going = np.array([row not in finished for row in live.tolist()])
                    live, tokens = live[going], tokens[going]
                    if not len(live):
                        return
                    on = rows[live].tolist()
                logits = self.decoder.decode_unchecked(tokens, on)
        finally:
            self.decoder.release(held)

    def _prefill(self, rows: NDArray[np.int64], live: NDArray[np.int64]) -> NDArray[np.float32]:
        """Run each prompt once and give every sample its cache; returns the logits of the live rows."""
        self.decoder.reserve(self.history.shape[1], len(live))
        first = live[live % self.num_samples == 0]
        prompts = [self.prompts[row // self.num_samples] for row in first]
        logits = self.decoder.prefill_rows(rows[first].tolist(), prompts)
        for row in live:
            source = row - row % self.num_samples
            if source != row:
                self.decoder.fork(int(rows[source]), int(rows[row]))
        return np.repeat(logits, self.num_samples, axis=0)

    def _remember(self, live: NDArray[np.int64], tokens: NDArray[np.int64], step: int) -> None:
        at = self.starts[live] + step
        if (missing := int(at.max()) + 1 - self.history.shape[1]) > 0:
            more = np.full((len(self.history), max(missing, self.history.shape[1])), -1, np.int64)
            self.history = np.concatenate([self.history, more], axis=1)
        self.history[live, at] = tokens

    def _sample(
        self, logits: NDArray[np.float32], live: NDArray[np.int64], step: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        config = self.config
        penalised = config.repetition_penalty != 1
        return sample_tokens(
            logits,
            self.seeds[live],
            step=step,
            temperature=0.0 if config.greedy else config.temperature,
            top_k=config.top_k or 0,
            top_p=config.top_p,
            min_p=config.min_p,
            repetition_penalty=config.repetition_penalty,
            previous=self.history[live] if penalised else None,
        )

    def _finished(self, live: NDArray[np.int64], tokens: NDArray[np.int64], step: int) -> dict[int, str]:
        finished: dict[int, str] = {}
        full = (self.limits[live] == step + 1).tolist()
        for row, token, last in zip(live.tolist(), tokens.tolist(), full, strict=True):
            if token in self.config.eos_token_ids:
                finished[row] = "eos"
            elif self.config.stop_sequences and self._stopped(row, step):
                finished[row] = "stop"
            elif last:
                finished[row] = "length"
        return finished

    def _stopped(self, row: int, step: int) -> bool:
        """Whether a stop sequence has just been completed.

        A sequence of m bytes spans at most m tokens that stand for any text, so only the tail needs
        decoding; the few more are for special tokens and for decoders that treat the first token of a text
        differently.
        """
        assert self.decode_text is not None  # checked by `stream`
        tail = max(len(stop.encode()) for stop in self.config.stop_sequences) + 8
        end = int(self.starts[row]) + step + 1
        text: Any = self.decode_text(self.history[row, max(int(self.starts[row]), end - tail) : end])
        return any(stop in text for stop in self.config.stop_sequences)
