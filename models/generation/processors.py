"""Changes of the scores of the next token by the options of a response, before the token is drawn.

In the order of transformers: biases, repetition penalty (then OpenAI's penalties, as vLLM has them), what is
banned, the grammar, and the functions of the user. Temperature and filters come after that, in the kernel.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lite.models.generation.grammar import Matcher
from lite.models.generation.options import GenerationConfig, LogitsProcessor

Changes = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Ids, and what is added to the score of each: different ids with finite values, then bans, -inf."""

_NO_IDS = np.zeros(0, np.int64)
_NONE: Changes = _NO_IDS, np.zeros(0, np.float32)


class Processors:
    """The changes of scores by the options of one response.

    Args:
        config: the options.
        prompt_length: how many of the ids are the prompt.
        vocab_size: V.

    Attributes:
        matcher: matcher of the grammar, if there is one.
        whole: whether only `apply` can tell what becomes of the scores.

    Raises:
        ImportError: there is a grammar, but not llguidance.
        ValueError: the grammar is malformed.
    """

    def __init__(self, config: GenerationConfig, prompt_length: int, vocab_size: int) -> None:
        self.config = config
        self.prompt_length = prompt_length
        self.vocab_size = vocab_size
        grammar = config.grammar
        self.matcher = None if grammar is None else Matcher(grammar, vocab_size, config.eos_token_ids)
        self._counts = bool(config.presence_penalty or config.frequency_penalty)
        biased = bool(config.logit_bias or config.sequence_bias)  # the kernel adds after its penalty
        self.whole = bool(config.logits_processor) or (biased and config.repetition_penalty != 1)
        self._ends = np.array(sorted({i for i in config.eos_token_ids if i < vocab_size}), np.int64)
        ends = {(i,) for i in config.eos_token_ids}
        runs = [
            *((ids, value) for ids, value in config.sequence_bias),
            *(((i,), value) for i, value in config.logit_bias),
            *((ids, -np.inf) for ids in config.bad_words_ids if ids not in ends),  # as the reference
            *(((i,), -np.inf) for i in config.suppress_tokens),
        ]
        after = [_columns(list(group)) for _, group in groupby(sorted(runs, key=_length), key=_length)]
        self._always = _parted(after.pop(0)[1:]) if after and not after[0][0].shape[1] else (_NONE, _NO_IDS)
        self._after = after

    @staticmethod
    def needed(config: GenerationConfig) -> bool:
        """Whether options do anything that the kernel does not do by itself."""
        return bool(
            config.logit_bias
            or config.sequence_bias
            or config.bad_words_ids
            or config.suppress_tokens
            or config.no_repeat_ngram_size
            or (config.min_new_tokens and config.eos_token_ids)
            or config.presence_penalty
            or config.frequency_penalty
            or config.grammar
            or config.logits_processor
        )

    def fork(self) -> Processors:
        """A copy for another response with the same beginning."""
        other = object.__new__(Processors)
        other.__dict__.update(self.__dict__)
        other.matcher = None if self.matcher is None else self.matcher.fork()
        return other

    def changes(self, ids: NDArray[np.int64]) -> Changes:
        """The bias of the scores of the token after `ids` (L,), prompt and response.

        Without the repetition penalty, the grammar and the user's functions.
        """
        added, banned = self._biases(ids)
        added.append(self._penalties(ids))
        some = [part for part in added if len(part[0])]
        if len(some) > 1:
            some = [_summed(*_joined(some))]
        if len(banned):
            some.append((banned, np.full(len(banned), -np.inf, np.float32)))
        return _joined(some)

    def allowed(self, ids: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """The ids that the grammar allows next, see `Matcher.allowed`; None without a grammar."""
        return None if self.matcher is None else self.matcher.allowed(ids[self.prompt_length :])

    def apply(self, scores: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Change scores (V,) of the token after `ids` (L,) in place.

        Returns:
            Which tokens may be drawn, (V,). The others have the score that they had before they were ruled
            out: the share of the probability that is left is told by it.

        Raises:
            ValueError: a function of the user gave no scores.
            Exception: whatever a function of the user raises.
        """
        added, banned = self._biases(ids)
        for where, value in added:
            scores[where] += value
        penalty = np.float32(self.config.repetition_penalty)
        if penalty != 1:
            seen = np.unique(ids)
            found = scores[seen]
            scores[seen] = np.where(found < 0, found * penalty, found / penalty)
        where, value = self._penalties(ids)
        scores[where] += value
        words = self.allowed(ids)
        kept = np.ones(self.vocab_size, np.bool_) if words is None else unpacked(words, self.vocab_size)
        kept[banned] = False
        if self.config.logits_processor:
            own = np.where(kept, scores, np.float32(-np.inf))
            for function in self.config.logits_processor:
                own = _called(function, ids, own)
            kept = own > -np.inf
            np.copyto(scores, own, where=kept)
        return kept

    def _biases(self, ids: NDArray[np.int64]) -> tuple[list[Changes], NDArray[np.int64]]:
        """The biases that are added before the repetition penalty, and the ids that are banned."""
        always, never = self._always
        added, banned = [always], [never]
        for before, last, values in self._after:
            length = before.shape[1]
            if length <= len(ids):
                matches = (before == ids[-length:]).all(1)
                if matches.any():
                    finite, bans = _parted((last[matches], values[matches]))
                    added.append(finite)
                    banned.append(bans)
        size = self.config.no_repeat_ngram_size
        if 0 < size <= len(ids):
            begins = len(ids) - size + 1  # of runs of that size
            same = np.ones(begins, np.bool_)
            for i, last in enumerate(ids[begins:]):
                same &= ids[i : i + begins] == last
            if same.any():
                banned.append(np.unique(ids[size - 1 :][same]))
        if len(ids) - self.prompt_length < self.config.min_new_tokens:
            banned.append(self._ends)
        return added, np.concatenate(banned)

    def _penalties(self, ids: NDArray[np.int64]) -> Changes:
        if not self._counts:
            return _NONE
        tokens, counts = np.unique(ids[self.prompt_length :], return_counts=True)
        config = self.config
        return tokens, -(config.frequency_penalty * counts + config.presence_penalty).astype(np.float32)


def packed(flags: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Booleans (size,) as bits (ceil(size / 32),), the lowest first."""
    return np.packbits(np.pad(flags, (0, -len(flags) % 32)), bitorder="little").view("<i4").astype(np.int32)


def unpacked(words: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    """Bits (..., ceil(size / 32)), the lowest first, as booleans (..., size)."""
    bits = np.unpackbits(words.astype("<i4", copy=False).view(np.uint8), axis=-1, bitorder="little")
    return bits[..., :size].view(np.bool_)


def _called(
    function: LogitsProcessor, ids: NDArray[np.int64], scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    name = getattr(function, "__name__", type(function).__name__)
    shown = ids.view()
    shown.flags.writeable = False
    try:
        given = function(shown, scores)
    except Exception as error:
        error.add_note(f"raised by the logits_processor {name} after {len(ids)} tokens")
        raise
    if given is None:
        given = scores
    result = np.asarray(given)
    if result.shape != scores.shape or result.dtype.kind != "f":
        raise ValueError(
            f"logits_processor {name} must give scores of the shape {scores.shape}, float32, or None,"
            f" got {result.dtype} of shape {result.shape}"
        )
    result = np.ascontiguousarray(result, np.float32)
    if not -np.inf < result.max() < np.inf:
        raise ValueError(f"logits_processor {name} must leave a finite score, and none infinite or NaN")
    return result


def _length(run: tuple[tuple[int, ...], float]) -> int:
    return len(run[0])


def _columns(
    runs: list[tuple[tuple[int, ...], float]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Runs of one length as arrays: what comes before the last id (m, length - 1), the last ids, values."""
    ids = np.array([ids for ids, _ in runs], np.int64)
    return ids[:, :-1], ids[:, -1], np.array([value for _, value in runs], np.float32)


def _joined(parts: list[Changes]) -> Changes:
    if len(parts) < 2:
        return parts[0] if parts else _NONE
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([values for _, values in parts])


def _parted(changes: Changes) -> tuple[Changes, NDArray[np.int64]]:
    """The finite ones, summed, and the ids of the others."""
    ids, values = changes
    finite = values > -np.inf
    return _summed(ids[finite], values[finite]), np.unique(ids[~finite])


def _summed(ids: object, values: object) -> Changes:
    """Values of equal ids as one."""
    given = np.asarray(ids, np.int64)
    different, of = np.unique(given, return_inverse=True)
    total = np.zeros(len(different), np.float32)
    np.add.at(total, of, np.asarray(values, np.float32))
    return different, total
