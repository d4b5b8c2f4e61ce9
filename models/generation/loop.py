"""The token loop: prompts in, sampled or greedy tokens and their log-probs out."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels import DrawDetails
from lite.models.decoder.protocol import Decoder
from lite.models.generation.beams import search
from lite.models.generation.options import GenerationConfig
from lite.models.generation.response import AHEAD, Response
from lite.models.generation.sampling import Sampler, joined
from lite.models.generation.stops import DecodeText, has_stopped

_ENDLESS = 2**31  # stands for any larger limit


@dataclass(frozen=True)
class Generated:
    """One response.

    Attributes:
        tokens: int64 (L,), the closing eos id included if there is one.
        log_probs: float32 (L,), of each token under the raw model distribution: no temperature, no filter,
            no penalty.
        finish_reason: `"eos"`, `"stop"` (a stop sequence) or `"length"`.
        score: of a beam search: the sum of its log-probs after biases, penalties and bans, divided by its
            length to the power of `length_penalty`; otherwise None.
        details: of each token, what the options `logprobs`, `sampled_log_probs`, `kept_ids` and `entropy` ask
            for; None if they ask for nothing.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finish_reason: str
    score: float | None = None
    details: DrawDetails | None = None


@dataclass(frozen=True)
class Step:
    """What one step of `stream` gave.

    Attributes:
        index: number of the step, from 0.
        rows: int64 (n,), the responses that were still open, `prompt * num_samples + sample`.
        tokens: int64 (n,), their new tokens.
        log_probs: float32 (n,), of the raw model distribution.
        finished: the responses that ended with this step, and why.
        details: of these tokens, if the options of any response ask for some.
    """

    index: int
    rows: NDArray[np.int64]
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finished: dict[int, str] = field(default_factory=dict)
    details: DrawDetails | None = None


def generate(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    config: GenerationConfig | Sequence[GenerationConfig],
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
        config: the options, of all prompts or one for each.
        seeds: uint64 (len(prompts) * num_samples,), one per response; default: drawn from the operating
            system.
        num_samples: responses per prompt; of a beam search, the best ones, the best first.
        decode_text: turns tokens (L,) into text; needed for stop sequences.

    Returns:
        The responses, prompt by prompt: response s of prompt p is number `p * num_samples + s`. For no
            prompts, none. Where a search finds fewer, the others are empty and have the score -inf.

    Raises:
        ValueError: if a prompt is empty, longer than the context or holds unknown ids, if there is not one
            seed per response, for stop sequences without `decode_text`, or more samples than beams.

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
    configs = _one_each(config, len(prompts))
    if any(own.num_beams > 1 for own in configs):
        return _with_beams(decoder, prompts, configs, seeds, num_samples, decode_text)
    steps = list(
        stream(decoder, prompts, configs, seeds=seeds, num_samples=num_samples, decode_text=decode_text)
    )
    count = len(prompts) * num_samples
    tokens = np.zeros((count, len(steps)), np.int64)
    log_probs = np.zeros((count, len(steps)), np.float32)
    lengths = np.zeros(count, np.int64)
    reasons = ["length"] * count  # also of a prompt that leaves no room for a response
    draws: list[list[tuple[Step, int]]] = [[] for _ in range(count)]
    for step in steps:
        tokens[step.rows, step.index] = step.tokens
        log_probs[step.rows, step.index] = step.log_probs
        lengths[step.rows] += 1
        for i, row in enumerate(step.rows.tolist()):
            draws[row].append((step, i))
        for row, reason in step.finished.items():
            reasons[row] = reason
    return [
        Generated(
            tokens[row, :length].copy(),
            log_probs[row, :length].copy(),
            reasons[row],
            details=joined(draws[row], configs[row // num_samples]),
        )
        for row, length in enumerate(lengths)
    ]


def stream(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    config: GenerationConfig | Sequence[GenerationConfig],
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
    configs = _one_each(config, len(prompts))
    if any(own.num_beams > 1 for own in configs):
        raise ValueError("num_beams must be 1: what a search finds is known at its end, see `generate`")
    _check_configs(decoder, configs, decode_text)
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
    room = decoder.context_length or _ENDLESS
    responses = [
        Response(
            number, ids[number // num_samples], configs[number // num_samples], np.uint64(given[number]), room
        )
        for number in range(count)
    ]
    return _Batch(decoder, responses, num_samples, decode_text).steps()


def _one_each(config: GenerationConfig | Sequence[GenerationConfig], count: int) -> list[GenerationConfig]:
    configs = [config] * count if isinstance(config, GenerationConfig) else list(config)
    if len(configs) != count:
        raise ValueError(f"config must be one or one per prompt, got {len(configs)} for {count} prompts")
    return configs


def _check_configs(
    decoder: Decoder, configs: Sequence[GenerationConfig], decode_text: DecodeText | None
) -> None:
    if decode_text is None and any(own.stop_sequences for own in configs):
        raise ValueError("stop_sequences need decode_text, the function that turns tokens into text")
    for own in dict.fromkeys(configs):
        own.check_vocabulary(decoder.vocab_size)


def _with_beams(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    configs: list[GenerationConfig],
    seeds: NDArray[np.uint64] | None,
    num_samples: int,
    decode_text: DecodeText | None,
) -> list[Generated]:
    """`generate` where some prompts are to be searched: these first, and then the others."""
    searched = [i for i, own in enumerate(configs) if own.num_beams > 1]
    fewest = min(configs[i].num_beams for i in searched)
    if num_samples > fewest:
        raise ValueError(f"num_samples must be at most num_beams, got {num_samples} and {fewest}")
    _check_configs(decoder, configs, decode_text)
    ids = [decoder.check_ids(prompt) for prompt in prompts]
    others = [i for i in range(len(prompts)) if i not in set(searched)]
    by_prompt = None if seeds is None else np.asarray(seeds).reshape(len(prompts), num_samples)
    rest = generate(
        decoder,
        [ids[i] for i in others],
        [configs[i] for i in others],
        seeds=None if by_prompt is None else by_prompt[others].ravel(),
        num_samples=num_samples,
        decode_text=decode_text,
    )
    room = decoder.context_length or _ENDLESS
    found = search(
        decoder,
        [ids[i] for i in searched],
        [configs[i] for i in searched],
        [min(configs[i].max_new_tokens, room - len(ids[i])) for i in searched],
        decode_text,
    )
    none = Generated(np.zeros(0, np.int64), np.zeros(0, np.float32), "length", -np.inf)  # there is no other
    out = [none] * (len(prompts) * num_samples)
    for at, i in enumerate(others):
        out[i * num_samples : (i + 1) * num_samples] = rest[at * num_samples : (at + 1) * num_samples]
    for i, responses in zip(searched, found, strict=True):
        for s, response in enumerate(responses[:num_samples]):
            out[i * num_samples + s] = Generated(*response)
    return out


class _Batch:
    """The state of one call: which responses are open, and on which rows of the decoder."""

    def __init__(
        self, decoder: Decoder, responses: list[Response], num_samples: int, decode_text: DecodeText | None
    ) -> None:
        self.decoder = decoder
        self.responses = responses
        self.num_samples = num_samples
        self.decode_text = decode_text
        self.sampler = Sampler()

    def steps(self) -> Iterator[Step]:
        live = [response for response in self.responses if response.limit > 0]
        if not live:
            return
        held = self.decoder.acquire(len(self.responses))
        try:
            logits, on = self._prefill(held, live), [held[response.number] for response in live]
            for t in itertools.count():
                drawn = self.sampler.draw(logits, live)
                finished = self._remember(live, drawn.tokens)
                numbers = np.array([response.number for response in live])
                yield Step(t, numbers, drawn.tokens, drawn.log_probs, finished, drawn.details)
                tokens = drawn.tokens
                if finished:
                    for number in finished:
                        self.decoder.reset(held[number])
                    going = np.array([response.number not in finished for response in live])
                    live, tokens = [live[i] for i in np.flatnonzero(going)], tokens[going]
                    if not live:
                        return
                    on = [held[response.number] for response in live]
                logits = self.decoder.decode_unchecked(tokens, on)
        finally:
            self.decoder.release(held)

    def _prefill(self, held: Sequence[int], live: Sequence[Response]) -> NDArray[np.float32]:
        """Run each prompt once and give every sample its cache; returns the logits of the live rows."""
        self.decoder.reserve(max(len(r.prompt) + min(r.limit, AHEAD) for r in live), len(live))
        first = [response for response in live if response.number % self.num_samples == 0]
        logits = self.decoder.prefill_rows([held[r.number] for r in first], [r.prompt for r in first])
        for number in (response.number for response in live):
            source = number - number % self.num_samples
            if source != number:
                self.decoder.fork(held[source], held[number])
        return np.repeat(logits, self.num_samples, axis=0)

    def _remember(self, live: Sequence[Response], tokens: NDArray[np.int64]) -> dict[int, str]:
        """Append the new tokens; which responses end with them, and why."""
        finished: dict[int, str] = {}
        for response, token in zip(live, tokens.tolist(), strict=True):
            response.append(token)
            if token in response.config.eos_token_ids:
                finished[response.number] = "eos"
            elif response.config.stop_sequences and self._stopped(response):
                finished[response.number] = "stop"
            elif response.count == response.limit:
                finished[response.number] = "length"
        return finished

    def _stopped(self, response: Response) -> bool:
        """Whether a stop sequence has just been completed."""
        assert self.decode_text is not None  # checked by `stream`
        return has_stopped(response.tokens, response.config.stop_sequences, self.decode_text)
