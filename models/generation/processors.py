"""What the options of a response do to the scores of its next token, before it is drawn.

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
"""Different ids, and what is added to the score of each."""

_NONE: Changes = np.zeros(0, np.int64), np.zeros(0, np.float32)


class Processors:
    """What the options of one response do to scores.

    Args:
        config: the options.
        prompt_length: how many of the ids are the prompt.
        vocab_size: V.

    Attributes:
        matcher: of the grammar, if there is one.
        whole: whether only `apply` can tell what becomes of the scores.

    Raises:
        ImportError: there is a grammar, but not llguidance.
        ValueError: the grammar is none.
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
        ]
        self._always = _summed(
            [ids[0] for ids, _ in runs if len(ids) == 1], [value for ids, value in runs if len(ids) == 1]
        )
        self._after = [_columns(list(group)) for _, group in groupby(sorted(runs, key=_length), key=_length)]
        self._after = [columns for columns in self._after if columns[0].shape[1]]

    @staticmethod
    def needed(config: GenerationConfig) -> bool:
        """Whether options do anything that the kernel does not do by itself."""
        return bool(
            config.logit_bias
            or config.sequence_bias
            or config.bad_words_ids
            or config.no_repeat_ngram_size
            or (config.min_new_tokens and config.eos_token_ids)
            or config.presence_penalty
            or config.frequency_penalty
            or config.grammar
            or config.logits_processor
        )

    def fork(self) -> Processors:
        """The same for another response that begins as this one."""
        other = object.__new__(Processors)
        other.__dict__.update(self.__dict__)
        other.matcher = None if self.matcher is None else self.matcher.fork()
        return other

    def changes(self, ids: NDArray[np.int64]) -> Changes:
        """What is added to scores of the token after `ids` (L,), prompt and response.

        Without the repetition penalty, the grammar and the user's functions.
        """
        added = [*self._biases(ids), self._penalties(ids)]
        some = [part for part in added if len(part[0])]
        if len(some) <= 1:
            return some[0] if some else _NONE
        return _summed(np.concatenate([part[0] for part in some]), np.concatenate([part[1] for part in some]))

    def allowed(self, ids: NDArray[np.int64]) -> NDArray[np.int32] | None:
        """The ids that the grammar allows next, see `Matcher.allowed`; None without a grammar."""
        return None if self.matcher is None else self.matcher.allowed(ids[self.prompt_length :])

    def apply(
        self, scores: NDArray[np.float32], ids: NDArray[np.int64], *, bans: bool = True
    ) -> NDArray[np.float32]:
        """Change scores (V,) of the token after `ids` (L,) in place, and return what is then in their place.

        Without `bans` nothing is ruled out, and the functions of the user, which may do that, are not called.

        Raises:
            ValueError: a function of the user gave no scores.
            Exception: whatever a function of the user raises.
        """
        for where, value in self._biases(ids):
            scores[where] += value if bans else np.where(value > -np.inf, value, 0)
        penalty = np.float32(self.config.repetition_penalty)
        if penalty != 1:
            seen = np.unique(ids)
            found = scores[seen]
            scores[seen] = np.where(found < 0, found * penalty, found / penalty)
        where, value = self._penalties(ids)
        scores[where] += value
        if not bans:
            return scores
        words = self.allowed(ids)
        if words is not None:
            scores[~unpacked(words, self.vocab_size)] = -np.inf
        for function in self.config.logits_processor:
            scores = _called(function, ids, scores)
        return scores

    def _biases(self, ids: NDArray[np.int64]) -> list[Changes]:
        """Before the repetition penalty, which does not change that something is banned."""
        added = [self._always]
        for before, last, values in self._after:
            length = before.shape[1]
            if length <= len(ids):
                matches = (before == ids[-length:]).all(1)
                if matches.any():
                    added.append(_summed(last[matches], values[matches]))
        size = self.config.no_repeat_ngram_size
        if 0 < size <= len(ids):
            begins = len(ids) - size + 1  # of runs of that size
            same = np.ones(begins, np.bool_)
            for i, last in enumerate(ids[begins:]):
                same &= ids[i : i + begins] == last
            if same.any():
                again = np.unique(ids[size - 1 :][same])
                added.append((again, np.full(len(again), -np.inf, np.float32)))
        if len(ids) - self.prompt_length < self.config.min_new_tokens:
            added.append((self._ends, np.full(len(self._ends), -np.inf, np.float32)))
        return added

    def _penalties(self, ids: NDArray[np.int64]) -> Changes:
        if not self._counts:
            return _NONE
        tokens, counts = np.unique(ids[self.prompt_length :], return_counts=True)
        config = self.config
        return tokens, -(config.frequency_penalty * counts + config.presence_penalty).astype(np.float32)


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


def _summed(ids: object, values: object) -> Changes:
    """Values of equal ids as one."""
    given = np.asarray(ids, np.int64)
    different, of = np.unique(given, return_inverse=True)
    total = np.zeros(len(different), np.float32)
    np.add.at(total, of, np.asarray(values, np.float32))
    return different, total
