"""`generate`, `generate_each` and `stream`: from prompts to tokens and their log-probs."""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels import DrawDetails
from lite.kernels._integer import integer
from lite.models.decoder.protocol import Decoder, checked_row, refuse_path, with_adapter
from lite.models.generation.options import GenerationConfig
from lite.models.generation.prefix_cache import PrefixCache
from lite.models.generation.response import Response
from lite.models.generation.run import Round, Run
from lite.models.generation.sampling import joined
from lite.models.generation.speculation import Speculation
from lite.models.generation.stops import DecodeText

_ENDLESS = 2**31  # stands for any larger limit
Out = TypeVar("Out")


class Streamer(Protocol):
    """The protocol of streamers, to which `generate` sends tokens; those of transformers implement it."""

    def put(self, value: Any, /) -> object:
        """Take the ids of the prompt, then each token: int64 (n,)."""

    def end(self) -> object:
        """No more tokens come."""


@dataclass(frozen=True)
class Generated:
    """One response.

    Attributes:
        tokens: int64 (L,), the closing eos id included if there is one.
        log_probs: float32 (L,), of each token under the raw model distribution: no temperature, no filter,
            no penalty.
        finish_reason: `"eos"`, `"stop"` (a stop sequence) or `"length"`.
        drafted: number of drafted tokens (prompt lookup or an assistant model).
        accepted: number of drafted tokens that were accepted, each of which saved a step.
        score: of a beam search: the sum of its log-probs after biases, penalties and bans, divided by its
            length to the power of `length_penalty`; otherwise None.
        details: the details of each token that the options `logprobs`, `sampled_log_probs`, `kept_ids` and
            `entropy` request; None without them.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finish_reason: str
    drafted: int = 0
    accepted: int = 0
    score: float | None = None
    details: DrawDetails | None = None


@dataclass(frozen=True)
class Step:
    """The result of one step of `stream`.

    Attributes:
        index: number of the step, from 0.
        rows: int64 (n,), the responses that were still open, `prompt * num_samples + sample`.
        tokens: int64 (n,), their new tokens.
        log_probs: float32 (n,), of the raw model distribution.
        finished: the responses that ended with this step, and why.
        details: details of these tokens, if the options of any response ask for some.
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
    max_rows: int | None = None,
    prefix_cache: PrefixCache | None = None,
    assistant_model: Decoder | None = None,
    streamer: Streamer | None = None,
) -> list[Generated]:
    """Generate responses to prompts.

    A prompt is run once for all of its samples, and a common prefix once for all prompts. Responses that end
    leave the batch, and with `max_rows` the next ones take their place. A response depends only on its
    prompt, options and seed, not on the batch or the arguments below.

    Args:
        decoder: the model; rows that are in use are not changed.
        prompts, config: integer arrays (L,) of token ids; the options, of all prompts or one for each.
        seeds: uint64 (len(prompts) * num_samples,), one per response; default: fresh entropy. Beams that are
            drawn (`num_beams` with `do_sample`) use the first one of their prompt.
        num_samples: responses per prompt; of a beam search, the best ones, the best first.
        decode_text: decodes tokens (L,); needed for stop sequences.
        max_rows: the number of responses that are generated at a time, which bounds the memory; default: all.
            A beam search counts as its beams, and runs alone if it has more.
        prefix_cache: keeps the cache of prompts and responses for later calls.
        assistant_model: a smaller model of the same vocabulary that drafts tokens for this one to verify
            (`num_assistant_tokens` of the options), for speed. Not for beams.
        streamer: gets the prompt of one response and each token at once, such as a `TextStreamer`, and is
            told the end, also when this raises. What its `put` raises ends the response, which cancels it.

    Returns:
        The responses, prompt by prompt: response s of prompt p is number `p * num_samples + s`. For no
            prompts, none. Where a search finds fewer, the others are empty and have the score -inf.

    Raises:
        ValueError: a prompt is empty, longer than the context or holds unknown ids; not one seed per
            response; stop sequences without `decode_text`; more samples than beams; unknown ids in options;
            a `prefix_cache` or `assistant_model` of another model; a `streamer` for several responses.
        TypeError: the decoder is to guess and is no `RewindableDecoder`.

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
    try:
        responses = _checked(decoder, prompts, config, seeds, num_samples, decode_text)
        run = _run(decoder, responses, max_rows, decode_text, prefix_cache, assistant_model)
        rounds = run.rounds() if streamer is None else _streamed(run.rounds(), responses, streamer)
        with with_adapter(decoder, getattr(decoder, "adapter", None)):  # whatever is chosen meanwhile
            ended = dict(_results(rounds))
    finally:
        if streamer is not None:
            streamer.end()  # whatever failed, as a reader in another thread waits for it
    return [ended[number] for number in range(len(prompts) * num_samples)]


def generate_each(
    decoder: Decoder,
    prompts: Iterable[ArrayLike],
    config: GenerationConfig | Iterable[GenerationConfig],
    *,
    seeds: Iterable[int] | None = None,
    num_samples: int = 1,
    decode_text: DecodeText | None = None,
    max_rows: int = 8,
    prefix_cache: PrefixCache | None = None,
    assistant_model: Decoder | None = None,
) -> Generator[tuple[int, Generated]]:
    """Generate responses to any number of prompts, and yield each as soon as it has ended.

    A prompt is read when a row is free, so `prompts` may be endless, and memory is that of `max_rows`
    responses. A response that ends is replaced at once; responses do not depend on the others in their batch.
    The results of a beam search come together when it ends, the best first.

    Args:
        decoder: the model; see `generate` for the arguments that are not listed here.
        prompts: token ids, one integer array (L,) per prompt.
        config: the options, of all prompts or one for each, read along with the prompts.
        seeds: one integer of 64 bits per response, read along with the prompts (`itertools.count(7)`, say);
            default: drawn from the operating system.
        max_rows: the number of responses that are generated at a time.

    Yields:
        The number of a response, `p * num_samples + s` for sample s of prompt p, and the response, in the
            order in which they end.

    Raises:
        ValueError: as `generate`; for a prompt, when it is read. The decoder's rows are released then, and
            when the iterator is closed, as that of `stream` is.

    Example:
        >>> import itertools
        >>> from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, generate_each
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> prompts = ([10, i] for i in range(5))
        >>> config = [GenerationConfig(max_new_tokens=n) for n in (3, 1, 1, 2, 1)]
        >>> [i for i, _ in generate_each(decoder, prompts, config, seeds=itertools.count(7), max_rows=2)]
        [1, 2, 3, 4, 0]
    """
    _check_count("num_samples", num_samples)
    refuse_path(decoder, "decoder")
    responses = _responses(decoder, prompts, config, seeds, num_samples, decode_text)
    run = _run(decoder, responses, max_rows, decode_text, prefix_cache, assistant_model)
    return _Closable(decoder, _results(run.rounds()))


def stream(
    decoder: Decoder,
    prompts: Sequence[ArrayLike],
    config: GenerationConfig | Sequence[GenerationConfig],
    *,
    seeds: NDArray[np.uint64] | None = None,
    num_samples: int = 1,
    decode_text: DecodeText | None = None,
    max_rows: int | None = None,
    prefix_cache: PrefixCache | None = None,
    assistant_model: Decoder | None = None,
) -> Generator[Step]:
    """Generate as `generate` does, and yield a `Step` for each token of the batch.

    Arguments are checked by the call, before the first step. The decoder's rows are released when the
    iterator ends or is closed. Any thread may call its ``close``: a step that another one computes is the
    last then, is not yielded, and ends the iteration there. With `max_rows`, the first tokens of responses
    that replace others are a step of their own; accepted draft tokens are consecutive steps. A response that
    has no room for a token, as its prompt fills the context, is in no step; its reason would be "length".

    Example:
        >>> from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, stream
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> for step in stream(decoder, [[10, 20], [30]], GenerationConfig(max_new_tokens=2)):
        ...     print(step.index, step.tokens.shape, step.finished)
        0 (2,) {}
        1 (2,) {0: 'length', 1: 'length'}
    """
    responses = _checked(decoder, prompts, config, seeds, num_samples, decode_text, beams=False)
    run = _run(decoder, responses, max_rows, decode_text, prefix_cache, assistant_model)
    return _Closable(decoder, _steps(run.rounds()))


class _Closable(Generator[Out]):
    """A generator that any thread may close, also while it runs: it ends behind that step then.

    All steps run with the adapter that the decoder has now.
    """

    def __init__(self, decoder: Decoder, generator: Generator[Out]) -> None:
        self._adapted = functools.partial(with_adapter, decoder, getattr(decoder, "adapter", None))
        self._generator = generator
        self._running = threading.Lock()
        self._closed = False

    def send(self, value: None) -> Out:
        if not self._running.acquire(blocking=False):
            if self._closed:  # at this moment
                raise StopIteration
            raise ValueError("the iterator runs already, in another thread or in what calls it")
        try:
            with self._adapted():
                found = self._generator.send(value)
        finally:
            self._running.release()
        if self._closed:  # meanwhile
            self.close()
            raise StopIteration
        return found

    def throw(self, *error: Any) -> Out:
        with self._adapted():
            return self._generator.throw(*error)

    def close(self) -> None:
        self._closed = True  # first: if the lock is taken, whoever has it looks next
        if self._running.acquire(blocking=False):
            try:
                with self._adapted():
                    self._generator.close()
            finally:
                self._running.release()


def _steps(rounds: Generator[Round]) -> Generator[Step]:
    index, last, numbers = 0, None, np.empty(0, np.int64)
    with closing(rounds):  # at once, whatever a traceback holds
        for responses, drawn, ended in rounds:
            if drawn is None:
                continue
            if responses is not last:
                last, numbers = responses, np.array([response.number for response in responses])
            finished = {response.number: response.reason or "" for response in ended if response.count}
            yield Step(index, numbers, drawn.tokens, drawn.log_probs, finished, drawn.details)
            index += 1


def _streamed(
    rounds: Generator[Round], responses: Sequence[Response], streamer: Streamer
) -> Generator[Round]:
    """The rounds of one response, whose tokens are streamed."""
    if len(responses) != 1 or responses[0].config.num_beams > 1:
        raise ValueError(
            f"streamer takes one response and no beams, got {len(responses)} responses with num_beams="
            f"{[response.config.num_beams for response in responses]}"
        )
    streamer.put(responses[0].prompt)
    with closing(rounds):
        for turn in rounds:
            if turn.drawn is not None:
                streamer.put(turn.drawn.tokens)
            yield turn


def _results(rounds: Generator[Round]) -> Generator[tuple[int, Generated]]:
    """Responses by their numbers, as soon as they have ended."""
    with closing(rounds):
        for turn in rounds:
            for response in turn.ended:
                if response.config.num_beams == 1:
                    yield response.number, _generated(response)
                else:
                    yield from enumerate(_searched(response), response.number)


def _generated(response: Response) -> Generated:
    log_probs = [drawn.log_probs[place] for drawn, place in response.draws]
    details = [(drawn.details, place) for drawn, place in response.draws]
    return Generated(
        response.tokens.copy(),
        np.array(log_probs, np.float32),
        response.reason or "length",
        response.drafted,
        response.accepted,
        details=joined(details, response.config),
    )


def _searched(response: Response) -> list[Generated]:
    """The best results of a beam search, as many as requested; empty ones if there are fewer."""
    none = Generated(
        np.zeros(0, np.int64),
        np.zeros(0, np.float32),
        "length",
        score=-np.inf,
        details=joined([], response.config),
    )
    found = [
        Generated(beam.tokens, beam.log_probs, beam.finish_reason, score=beam.score, details=beam.details)
        for beam in response.found[: response.samples]
    ]
    return found + [none] * (response.samples - len(found))


def _checked(
    decoder: Decoder, prompts: Sequence[ArrayLike], config: GenerationConfig | Sequence[GenerationConfig],
    seeds: NDArray[np.uint64] | None, num_samples: int, decode_text: DecodeText | None, *, beams: bool = True,
) -> list[Response]:  # fmt: skip
    """All responses of a call, with checked arguments; beam searches are allowed if `beams`."""
    refuse_path(decoder, "decoder")
    _check_count("num_samples", num_samples)
    count = len(prompts) * num_samples
    _check_config(config, GenerationConfig | Sequence)
    if not isinstance(config, GenerationConfig) and len(config) != len(prompts):
        raise ValueError(
            f"config must be one or one per prompt, got {len(config)} for {len(prompts)} prompts"
        )
    given: NDArray[Any] | None = None if seeds is None else np.asarray(seeds)
    if given is not None and (given.shape != (count,) or given.dtype.kind not in "iu"):
        raise ValueError(
            f"seeds must be {count} integers, one per response, got {given.dtype} of shape {given.shape}"
        )
    return list(_responses(decoder, prompts, config, given, num_samples, decode_text, beams=beams))


def _responses(
    decoder: Decoder, prompts: Iterable[ArrayLike], config: GenerationConfig | Iterable[GenerationConfig],
    seeds: Iterable[Any] | None, num_samples: int, decode_text: DecodeText | None, *, beams: bool = True,
) -> Iterator[Response]:  # fmt: skip
    """The responses, made lazily; a beam search is one response for all its samples."""
    room = decoder.context_length or _ENDLESS
    configs = repeat(config) if isinstance(config, GenerationConfig) else iter(config)
    numbers = _random_seeds() if seeds is None else iter(seeds)
    for p, prompt in enumerate(prompts):
        # A copy, as the caller may write to the prompt meanwhile.
        ids = np.array(checked_row(decoder, f"prompt {p}", prompt))
        own = next(configs, None)
        if own is None:
            raise ValueError(f"config must be one or one per prompt, there is none for prompt {p}")
        _check_config(own, GenerationConfig)
        check_options(own, decoder, decode_text, num_samples, beams=beams)
        first = p * num_samples
        for number in range(first, first + num_samples):
            seed = next(numbers, None)
            if seed is None:
                raise ValueError(f"seeds must be one integer per response, there is none for number {number}")
            if own.num_beams == 1 or number == first:
                samples = 1 if own.num_beams == 1 else num_samples
                yield Response(number, ids, own, np.uint64(operator.index(seed) % 2**64), room, samples)


def _check_config(given: Any, kind: Any) -> None:
    if not isinstance(given, kind):
        raise TypeError(
            "config must be a GenerationConfig, or one for each prompt, got"
            f" {given!r}; GenerationConfig.from_kwargs makes one of a mapping"
        )


def check_options(
    config: GenerationConfig, decoder: Decoder, decode_text: DecodeText | None, num_samples: int, *,
    beams: bool = True,
) -> None:  # fmt: skip
    """Raise ValueError if options do not fit the model or the call; `beams` says if it allows a search."""
    if config.stop_sequences and decode_text is None:
        raise ValueError("stop_sequences need decode_text, the function that turns tokens into text")
    if config.num_beams > 1 and not beams:
        raise ValueError("num_beams must be 1: what a search finds is known at its end, see `generate_each`")
    if 1 < config.num_beams < num_samples:
        raise ValueError(f"num_samples must be at most num_beams, got {num_samples} and {config.num_beams}")
    config.check(decoder.vocab_size)


def _random_seeds() -> Iterator[int]:
    words = np.random.SeedSequence()
    while True:
        yield from words.spawn(1)[0].generate_state(64, np.uint64).tolist()


def _check_count(name: str, count: int | None) -> None:
    if count is not None and integer(name, count) < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")


def _run(
    decoder: Decoder, responses: Iterable[Response], max_rows: int | None, decode_text: DecodeText | None,
    prefix_cache: PrefixCache | None, assistant_model: Decoder | None,
) -> Run:  # fmt: skip
    """The run of responses; for a list, their number and greatest length are known in advance."""
    _check_count("max_rows", max_rows)
    if prefix_cache is not None and prefix_cache.decoder is not decoder:
        raise ValueError("prefix_cache must be one of this decoder: it holds rows of another")
    longest, guesses, rows = 0, assistant_model is not None, max_rows or 0
    if isinstance(responses, list):
        count = sum([response.config.num_beams for response in responses])
        rows = min(count, max_rows or count)
        longest = max([response.longest for response in responses], default=0)
        guesses |= any(r.config.prompt_lookup_num_tokens is not None for r in responses)
    return Run(
        decoder,
        iter(responses),
        max_rows=rows,
        longest=longest,
        decode_text=decode_text,
        cache=prefix_cache,
        speculation=Speculation(decoder, assistant_model, rows) if guesses else None,
    )
