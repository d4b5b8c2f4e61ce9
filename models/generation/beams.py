"""Beams: the most probable responses, or such that are drawn together, as transformers' `generate` has them.

A search of one prompt is arithmetic on float32 scores, and knows nothing of the model; `Beams` keeps it with
the rows of a decoder that its beams are on. Beams that are drawn (`do_sample`) are drawn without replacement,
by the highest of perturbed scores (Gumbel-top-k, see Kool et al., 2019, arXiv 1903.06059).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels import DrawDetails, entropy, masked_log_softmax
from lite.kernels._outcomes import uniform
from lite.models.decoder.protocol import Decoder
from lite.models.decoder.scoring import highest
from lite.models.generation.options import GenerationConfig
from lite.models.generation.processors import Processors
from lite.models.generation.response import Response
from lite.models.generation.sampling import joined
from lite.models.generation.stops import DecodeText, has_stopped


def filtered(scores: NDArray[np.float32], config: GenerationConfig, least: int) -> NDArray[np.float32]:
    """Scores (n, V) at the temperature, -inf where a filter leaves a token out; none for greedy options.

    Args:
        scores: log-probs (n, V) after biases, penalties and bans; they stay as they are.
        config: the options.
        least: tokens that each filter leaves at the least.

    Example:
        >>> scores = np.log(np.array([[0.6, 0.3, 0.1]], np.float32))
        >>> config = GenerationConfig(do_sample=True, top_p=0.5)
        >>> np.exp(filtered(scores, config, least=2)).round(2).tolist()
        [[0.6000000238418579, 0.30000001192092896, 0.0]]
    """
    if config.greedy:
        return scores
    out = scores / np.float32(config.temperature)
    size = out.shape[1]
    least = min(least, size)
    if config.top_k is not None and config.top_k < size:
        count = max(config.top_k, least)
        out[out < -np.partition(-out, count - 1)[:, count - 1 : count]] = -np.inf
    if config.top_p < 1:
        order, probs = _ranked(out, -out)
        before = np.cumsum(probs, 1) - probs
        _drop(out, order, before >= config.top_p, least)
    if config.min_p > 0:
        order, probs = _ranked(out, -out)
        _drop(out, order, probs < config.min_p * probs[:, :1], least)
    if config.typical_p < 1:
        log_probs = np.log(_softmax(out), where=out > -np.inf, out=np.full(out.shape, -np.inf))
        entropy = -np.sum(np.exp(log_probs) * np.where(log_probs > -np.inf, log_probs, 0), 1, keepdims=True)
        order, probs = _ranked(out, np.abs(-log_probs - entropy))
        before = np.cumsum(probs, 1) - probs
        _drop(out, order, before >= config.typical_p, least)
    return out


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    top = scores.max(1, keepdims=True)
    weights = np.exp((scores - np.where(top > -np.inf, top, 0)).astype(np.float64))
    total = weights.sum(1, keepdims=True)
    return weights / np.where(total > 0, total, 1)  # of a row that has nothing left nothing is likely


def _ranked(
    scores: NDArray[np.float32], keys: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The tokens of each row by ascending keys, and their probabilities."""
    order = np.argsort(keys, 1, kind="stable")
    return order, np.take_along_axis(_softmax(scores), order, 1)


def _drop(
    scores: NDArray[np.float32], order: NDArray[np.int64], left_out: NDArray[np.bool_], least: int
) -> None:
    """Leave ranked tokens out, but not the first few."""
    left_out[:, :least] = False
    rows, ranks = np.nonzero(left_out)
    scores[rows, order[rows, ranks]] = -np.inf


_OUT = np.float32(-np.inf)  # the score of a beam that does not count


class Found(NamedTuple):
    """One response that a search has found.

    Attributes:
        tokens: int64 (L,).
        log_probs: float32 (L,), of the raw model distribution.
        finish_reason: `"eos"`, `"stop"` or `"length"`.
        score: the sum of its processed log-probs, by its length to the power of the length penalty.
        details: details of each token, if the options ask for some.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finish_reason: str
    score: float
    details: DrawDetails | None


class _Beams(NamedTuple):
    """Some sequences of one length, the best first.

    Attributes:
        tokens: int64 (n, t).
        log_probs: float32 (n, t), raw.
        sampled: float64 (n, t), of the distribution that options make of the model's; 0 unless asked for.
        parents: int64 (n, t), the beam that each token continued.
        scores: float32 (n,), summed.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    sampled: NDArray[np.float64]
    parents: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def first(cls, count: int) -> _Beams:
        """Beams without a token. All begin alike, so only the first counts."""
        scores = np.zeros(count, np.float32)
        scores[1:] = _OUT
        ids = np.zeros((count, 0), np.int64)
        return cls(ids, np.zeros((count, 0), np.float32), np.zeros((count, 0)), ids, scores)

    def take(self, which: NDArray[np.int64]) -> _Beams:
        return _Beams._make(part[which] for part in self)

    def continued(
        self, parents: NDArray[np.int64], tokens: NDArray[np.int64], log_probs: NDArray[np.float32],
        sampled: NDArray[np.float64], scores: NDArray[np.float32],
    ) -> _Beams:  # fmt: skip
        """Some of these beams, with a token more."""
        before = (part[parents] for part in (self.tokens, self.log_probs, self.sampled, self.parents))
        new = (part[:, None] for part in (tokens, log_probs, sampled, parents))
        longer = (np.concatenate(parts, 1) for parts in zip(before, new, strict=True))
        return _Beams._make([*longer, scores])


class Search:
    """The beams of one prompt.

    Args:
        prompt: int64 (L,).
        config: `num_beams` and the rest.
        limit: most tokens of a response, at least 1.
        seed: seed of the draws, where beams are drawn.
        vocab_size: V.
        decode_text: turns ids into text, for stop sequences.

    Attributes:
        done: whether the search is over.
    """

    def __init__(
        self, prompt: NDArray[np.int64], config: GenerationConfig, limit: int, seed: np.uint64,
        vocab_size: int, decode_text: DecodeText | None,
    ) -> None:  # fmt: skip
        self.prompt = prompt
        self.config = config
        self.limit = limit
        self.done = False
        self._seed = seed
        self._decode_text = decode_text
        count = config.num_beams
        self._running = _Beams.first(count)
        self._draws: list[DrawDetails] = []  # of each step, an entry per beam
        self._best: list[tuple[np.float32, Found]] = []
        needed = Processors.needed(config) or config.repetition_penalty != 1
        self._processors = [Processors(config, len(prompt), vocab_size)] * count if needed else None

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens of the beams so far, (num_beams, t)."""
        return self._running.tokens

    @property
    def found(self) -> list[Found]:
        """The best responses so far, the best first."""
        return [one for _, one in self._best]

    def step(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Choose the next beams from the logits after each beam.

        Args:
            logits: float32 (num_beams, V).

        Returns:
            The beams that those to go on with continue, int64 (num_beams,), and their new tokens.
        """
        config, count = self.config, self.config.num_beams
        raw = masked_log_softmax(logits)
        free, processed = self._processed(raw)
        least = max(2, 1 + len(config.eos_token_ids))
        left = filtered(processed, config, least)
        scores = (left + self._running.scores[:, None]).reshape(-1)
        chosen = self._chosen(scores, min(least * count, scores.size))
        parents, tokens = np.divmod(chosen, logits.shape[1])
        sampled = np.zeros(len(chosen))
        if config.wants_details:
            told, own = self._details(logits, raw, free, left)
            self._draws.append(told)
            sampled = own[parents, tokens]
        candidates = self._running.continued(parents, tokens, raw[parents, tokens], sampled, scores[chosen])
        reasons = [self._reason(sequence) for sequence in candidates.tokens]
        ended = np.array([reason is not None for reason in reasons])
        open_scores = np.where(ended, _OUT, candidates.scores)
        going = highest(open_scores, count)
        self._running = candidates.take(going)._replace(scores=open_scores[going])
        self._finish(candidates, reasons)
        self.done = not self._goes_on()
        if self._processors is not None:
            self._processors = _followed(self._processors, parents[going].tolist())
        return parents[going], tokens[going]

    def _processed(self, raw: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores changed by the options, and the same with -inf for excluded tokens."""
        if self._processors is None:
            return raw, raw
        free = raw.copy()
        kept = np.ones(raw.shape, np.bool_)
        for i, score in enumerate(self._running.scores):
            if score > _OUT:  # what does not count may be what a grammar refuses
                ids = np.concatenate([self.prompt, self._running.tokens[i]])
                kept[i] = self._processors[i].apply(free[i], ids)
        return free, np.where(kept, free, _OUT)

    def _chosen(self, scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """The best continuations, or such that are drawn without replacement; those of high scores first."""
        if self.config.greedy:
            return highest(scores, count)
        drawn = highest(scores + _gumbel(self._seed, self._running.tokens.shape[1], scores), count)
        return drawn[np.argsort(-scores[drawn], kind="stable")]

    def _details(
        self,
        logits: NDArray[np.float32],
        raw: NDArray[np.float32],
        free: NDArray[np.float32],
        left: NDArray[np.float32],
    ) -> tuple[DrawDetails, NDArray[np.float64]]:
        """The statistics of each beam's distribution, and its log-probs (num_beams, V)."""
        config, count = self.config, len(raw)
        warm = free.astype(np.float64) / (1.0 if config.greedy else config.temperature)
        kept = left > _OUT
        own = np.where(kept, warm, -np.inf)
        total = np.logaddexp.reduce(own, 1)
        offsets = ids = top_ids = top_log_probs = None
        if config.kept_ids:
            rows = [np.zeros(0, np.int32) if row.all() else np.flatnonzero(row) for row in kept]
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            ids = np.concatenate(rows).astype(np.int32)
        if config.logprobs:
            most = min(config.logprobs, raw.shape[1])
            top_ids = np.stack([highest(row, most) for row in logits])
            exact = masked_log_softmax(logits.astype(np.float64))
            top_log_probs = np.take_along_axis(exact, top_ids, 1)
        known = DrawDetails(
            sampled_log_probs=np.zeros(count),  # is of tokens, not of beams
            kept_log_mass=np.minimum(total - np.logaddexp.reduce(warm, 1), 0),
            entropy=entropy(logits.astype(np.float64)),
            kept_offsets=offsets,
            kept_ids=ids,
            top_ids=top_ids,
            top_log_probs=top_log_probs,
        )
        return known, own - total[:, None]

    def _reason(self, tokens: NDArray[np.int64]) -> str | None:
        if tokens[-1] in self.config.eos_token_ids:
            return "eos"
        stops = self.config.stop_sequences
        if stops and self._decode_text is not None and has_stopped(tokens, stops, self._decode_text):
            return "stop"
        return "length" if len(tokens) >= self.limit else None

    def _finish(self, candidates: _Beams, reasons: Sequence[str | None]) -> None:
        """Keep the best of the ended responses: the first candidates that have ended join those so far."""
        length = candidates.tokens.shape[1]
        scores = candidates.scores / np.float32(float(length) ** self.config.length_penalty)
        for i, reason in enumerate(reasons[: self.config.num_beams]):
            if reason is not None and scores[i] > _OUT:
                self._best.append((scores[i], self._found(candidates, i, reason, float(scores[i]))))
        self._best.sort(key=lambda entry: -entry[0])  # stable: of equal ones the older first
        del self._best[self.config.num_beams :]

    def _found(self, beams: _Beams, i: int, reason: str, score: float) -> Found:
        details = joined(list(zip(self._draws, beams.parents[i].tolist(), strict=False)), self.config)
        if details is not None:
            details = replace(details, sampled_log_probs=beams.sampled[i])
        return Found(beams.tokens[i], beams.log_probs[i], reason, score, details)

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


class Beams:
    """The search for a response, and the rows of a decoder that its beams are on.

    Args:
        response: a prompt with its options; it gets what is found.
        rows: `num_beams` rows, of which the first holds the prompt.
        vocab_size, decode_text: as for `Search`.

    Attributes:
        response, rows: as given; the rows change places as beams do.
        tokens: what is to run next, int64 (num_beams,).
    """

    def __init__(
        self, response: Response, rows: list[int], vocab_size: int, decode_text: DecodeText | None
    ) -> None:
        self.response = response
        self.rows = rows
        self.tokens = np.empty(0, np.int64)
        self._search = Search(
            response.prompt, response.config, response.limit, response.seed, vocab_size, decode_text
        )
        self._held = self._search.tokens  # what rows hold beside the prompt

    def step(self, decoder: Decoder, logits: NDArray[np.float32]) -> None:
        """Extend the beams by a token; if the search is over, the response gets the results.

        Args:
            decoder: where the rows are.
            logits: after each beam, (num_beams, V), or (1, V) after the prompt.
        """
        begins, count = len(logits) < len(self.rows), len(self.rows)
        self._held = self._search.tokens  # at first the prompt alone, in the first row
        parents, self.tokens = self._search.step(np.repeat(logits, count, 0) if begins else logits)
        if self._search.done:
            self.response.found = self._search.found
            self.response.reason = "found"
        else:
            self.rows = _moved(decoder, self.rows, [0] * count if begins else parents.tolist())
            self._held = self._search.tokens[:, :-1]

    def holds(self) -> tuple[int, NDArray[np.int64]]:
        """A row, and the ids that it holds: that of the beam that is closest to the best response."""
        row = 0
        if self.response.found:
            best = self.response.found[0].tokens[: self._held.shape[1]]
            same = self._held[:, : len(best)] == best
            row = int(np.logical_and.accumulate(same, 1).sum(1).argmax())
        return self.rows[row], np.concatenate([self.response.prompt, self._held[row]])


def _gumbel(seed: np.uint64, step: int, scores: NDArray[np.float32]) -> NDArray[np.float64]:
    """Gumbel noise (n,) for scores (n,), which depends on a score's place and not on the others."""
    noise = np.zeros(len(scores))
    some = np.flatnonzero(scores != _OUT)  # what is left out needs none
    counters = some.astype(np.uint64) + np.uint64((step + 1) << 40)  # none that a token's draw has
    noise[some] = -np.log(-np.log(uniform(np.array([seed], np.uint64), counters) + 2.0**-54))
    return noise


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
