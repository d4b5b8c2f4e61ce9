"""Beam search: the most probable responses, as transformers' `generate` finds them.

A search of one prompt is arithmetic on float32 scores, and knows nothing of the model; `search` runs
those of several prompts side by side over a decoder.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels import masked_log_softmax
from lite.models.decoder.protocol import Decoder
from lite.models.generation.options import GenerationConfig
from lite.models.generation.processors import Processors
from lite.models.generation.response import AHEAD, Response
from lite.models.generation.stops import DecodeText, has_stopped

_OUT = np.float32(-np.inf)  # the score of a beam that does not count


class Found(NamedTuple):
    """One response that a search has found.

    Attributes:
        tokens: int64 (L,).
        log_probs: float32 (L,), of the raw model distribution.
        finish_reason: `"eos"`, `"stop"` or `"length"`.
        score: the sum of its processed log-probs, by its length to the power of the length penalty.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finish_reason: str
    score: float


class _Beams(NamedTuple):
    """Some sequences of one length, the best first.

    Attributes:
        tokens: int64 (n, t).
        log_probs: float32 (n, t), raw.
        scores: float32 (n,), summed.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    scores: NDArray[np.float32]

    def take(self, which: NDArray[np.int64]) -> _Beams:
        return _Beams(self.tokens[which], self.log_probs[which], self.scores[which])


class Search:
    """The beams of one prompt.

    Args:
        prompt: int64 (L,).
        config: `num_beams` and the rest.
        limit: most tokens of a response, at least 1.
        vocab_size: V.
        decode_text: turns ids into text, for stop sequences.

    Attributes:
        done: whether the search is over.
    """

    def __init__(
        self,
        prompt: NDArray[np.int64],
        config: GenerationConfig,
        limit: int,
        vocab_size: int,
        decode_text: DecodeText | None,
    ) -> None:
        self.prompt = prompt
        self.config = config
        self.limit = limit
        self.done = False
        self._decode_text = decode_text
        count = config.num_beams
        scores = np.zeros(count, np.float32)
        scores[1:] = _OUT  # all begin alike, so only the first counts
        self._running = _Beams(np.zeros((count, 0), np.int64), np.zeros((count, 0), np.float32), scores)
        self._best: list[tuple[np.float32, Found]] = []
        needed = Processors.needed(config) or config.repetition_penalty != 1
        self._processors = [Processors(config, len(prompt), vocab_size)] * count if needed else None

    def step(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take the logits after each beam, and choose the beams to go on with.

        Args:
            logits: float32 (num_beams, V).

        Returns:
            The beams that those to go on with continue, int64 (num_beams,), and their new tokens.
        """
        config, count = self.config, self.config.num_beams
        raw = masked_log_softmax(logits)
        scores = self._processed(raw) + self._running.scores[:, None]
        keep = max(2, 1 + len(config.eos_token_ids)) * count
        chosen = _highest(scores.reshape(-1), min(keep, scores.size))
        parents, tokens = np.divmod(chosen, logits.shape[1])
        candidates = _Beams(
            np.concatenate([self._running.tokens[parents], tokens[:, None]], 1),
            np.concatenate([self._running.log_probs[parents], raw[parents, tokens][:, None]], 1),
            scores.reshape(-1)[chosen],
        )
        reasons = [self._reason(sequence) for sequence in candidates.tokens]
        ended = np.array([reason is not None for reason in reasons])
        left = np.where(ended, _OUT, candidates.scores)
        going = _highest(left, count)
        self._running = candidates.take(going)._replace(scores=left[going])
        self._finish(candidates, reasons)
        self.done = not self._goes_on()
        if self._processors is not None:
            self._processors = _followed(self._processors, parents[going].tolist())
        return parents[going], tokens[going]

    @property
    def found(self) -> list[Found]:
        """The best responses so far, the best first."""
        return [one for _, one in self._best]

    def _processed(self, raw: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._processors is None:
            return raw
        out = raw.copy()
        for i, score in enumerate(self._running.scores):
            if score > _OUT:  # what does not count may be what a grammar refuses
                ids = np.concatenate([self.prompt, self._running.tokens[i]])
                out[i] = self._processors[i].apply(out[i], ids)
        return out

    def _reason(self, tokens: NDArray[np.int64]) -> str | None:
        if tokens[-1] in self.config.eos_token_ids:
            return "eos"
        stops = self.config.stop_sequences
        if stops and self._decode_text is not None and has_stopped(tokens, stops, self._decode_text):
            return "stop"
        return "length" if len(tokens) >= self.limit else None

    def _finish(self, candidates: _Beams, reasons: Sequence[str | None]) -> None:
        """Those of the first candidates that have ended compete with the best so far."""
        length = candidates.tokens.shape[1]
        scores = candidates.scores / np.float32(float(length) ** self.config.length_penalty)
        for i, reason in enumerate(reasons[: self.config.num_beams]):
            if reason is not None and scores[i] > _OUT:
                one = Found(candidates.tokens[i], candidates.log_probs[i], reason, float(scores[i]))
                self._best.append((scores[i], one))
        self._best.sort(key=lambda entry: -entry[0])  # stable: of equal ones the older first
        del self._best[self.config.num_beams :]

    def _goes_on(self) -> bool:
        config, length = self.config, self._running.tokens.shape[1]
        if self._running.scores[0] == _OUT:
            return False
        if len(self._best) < config.num_beams:
            return True
        if config.early_stopping is True:
            return False
        if config.early_stopping == "never" and config.length_penalty > 0:
            length = self.limit
        possible = self._running.scores[0] / np.float32(float(length) ** config.length_penalty)
        return bool(possible > self._best[-1][0])


def search(
    decoder: Decoder,
    responses: Sequence[Response],
    max_rows: int | None = None,
    decode_text: DecodeText | None = None,
) -> list[list[Found]]:
    """Search for the most probable responses; those to one prompt do not depend on the others.

    Args:
        decoder: the model; rows that are in use stay as they are.
        responses: a prompt with its options each, which say how many beams; they stay as they are.
        max_rows: most beams at a time, though all of a prompt's in any case; None for any number.
        decode_text: turns ids into text, for stop sequences.

    Returns:
        The responses to each prompt, `num_beams` of them or fewer if there are no more, the best first.
    """
    searches = [
        Search(one.prompt, one.config, one.limit, decoder.vocab_size, decode_text) for one in responses
    ]
    waiting = [one for one in searches if one.limit > 0]
    while waiting:
        rows = itertools.accumulate(one.config.num_beams for one in waiting)
        fit = len(waiting) if max_rows is None else sum(count <= max_rows for count in rows)
        _run(decoder, waiting[: max(fit, 1)])
        del waiting[: max(fit, 1)]
    return [one.found for one in searches]


def _run(decoder: Decoder, live: list[Search]) -> None:
    held = decoder.acquire(sum(one.config.num_beams for one in live))
    try:
        decoder.reserve(max(len(one.prompt) + min(one.limit, AHEAD) for one in live), len(held))
        rows: list[list[int]] = []
        for one in live:
            at = sum(map(len, rows))
            rows.append(held[at : at + one.config.num_beams])
        first = np.asarray(decoder.prefill_rows([own[0] for own in rows], [one.prompt for one in live]))
        logits = [np.repeat(row[None], len(own), 0) for row, own in zip(first, rows, strict=True)]
        begun = False
        while True:
            tokens: list[NDArray[np.int64]] = []
            for i, one in enumerate(live):
                parents, new = one.step(logits[i])
                tokens.append(new)
                if not one.done:  # at first only one row of each prompt has been filled
                    rows[i] = _moved(decoder, rows[i], parents.tolist() if begun else [0] * len(parents))
            begun = True
            for one, own in zip(live, rows, strict=True):
                if one.done:
                    for row in own:
                        decoder.reset(row)
            going = [i for i, one in enumerate(live) if not one.done]
            if not going:
                return
            live, rows, tokens = ([each[i] for i in going] for each in (live, rows, tokens))  # type: ignore[assignment]
            on = [row for own in rows for row in own]
            flat = np.asarray(decoder.decode_unchecked(np.concatenate(tokens), on))
            logits = np.split(flat, np.cumsum([len(own) for own in rows])[:-1])
    finally:
        decoder.release(held)


def _moved(decoder: Decoder, rows: list[int], parents: list[int]) -> list[int]:
    """The rows of beams that continue others: the first to continue one keeps its row, the rest copy it."""
    free = [row for beam, row in enumerate(rows) if beam not in parents]
    out: list[int] = []
    taken: set[int] = set()
    for parent in parents:
        if parent in taken:
            row = free.pop()
            decoder.fork(rows[parent], row)
        else:
            row = rows[parent]
            taken.add(parent)
        out.append(row)
    return out


def _followed(processors: Sequence[Processors], parents: Sequence[int]) -> list[Processors]:
    """The processors of beams that continue others; what has read nothing else may be shared."""
    if processors[0].matcher is None:
        return list(processors)
    return [processors[parent].fork() for parent in parents]


def _highest(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Where the highest values are, the highest first, of equal ones the first."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    chosen = np.concatenate([above, np.flatnonzero(values == least)[: count - len(above)]])
    if len(chosen) < count:  # NaN is neither above nor equal
        raise ValueError("logits contain NaN")
    return chosen[np.argsort(-values[chosen], kind="stable")]
