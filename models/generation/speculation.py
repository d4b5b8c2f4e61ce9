"""Tokens that are guessed, so that one run of the model checks several.

A guess never shows in the results: what is drawn is drawn from the model's own logits, under the seed and the
step of its place, and a guess counts only if it is what was drawn. So greedy responses are the same, samples
are the same for the same seed, and penalties, filters and log-probs are exact.

Prompt lookup: Saxena, 2023 (github.com/apoorvumang/prompt-lookup-decoding). Draft models: Leviathan et al.,
2023 (arXiv 2211.17192), with the draws of both models coupled by their seed in place of rejection sampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.device_logits import Logits, merged
from lite.models.decoder.protocol import Decoder, RewindableDecoder, require_rewindable
from lite.models.generation.options import GenerationConfig
from lite.models.generation.prefix_cache import Rows, common_length
from lite.models.generation.response import RESERVED, Response
from lite.models.generation.sampling import Sampler

# what a run costs beside a step of one row
TOKEN_COST = 1 / 8  # each further token: a twentieth for float weights, a third for int4 on two cores
DRAFT_COST = 1 / 5  # each token that a draft model guesses
FIRST_LENGTH = 4  # tokens to guess first
SURPRISE = 0.3  # how much of the expected rate the last guess makes
RECOVERY = 0.005  # what each guess that is left out adds to it, so that there is another try now and then
CONFIDENCE = math.log(0.4)  # a draft ends with a token less probable than this, as in Hugging Face's
_NONE = np.empty(0, np.int64)
_TO_GUESS = " to guess tokens with"


class Speculation:
    """Guesses for the responses of one call, as many as pay.

    Responses whose options have `prompt_lookup_num_tokens` find guesses in what they have so far; for the
    others the assistant makes them, if there is one. How many are guessed follows what came of earlier
    guesses: twice as many after all were right, few after some were wrong, and none while that costs more
    than it saves.

    Args:
        decoder: the model that checks.
        assistant: a smaller model of the same vocabulary.
        max_rows: most responses at a time.

    Raises:
        TypeError: one of the models cannot go back (it is no `RewindableDecoder`).
        ValueError: their vocabularies differ.
    """

    def __init__(self, decoder: Decoder, assistant: Decoder | None, max_rows: int) -> None:
        self.decoder = require_rewindable(decoder, "decoder", _TO_GUESS)
        together: bool = getattr(decoder, "continues_together", decoder.rows_per_run > 1)
        self._one_by_one = not together
        self._paces: dict[Response, _Pace] = {}
        self._lookups: dict[Response, Lookup] = {}
        self._assistant: _Assistant | None = None
        if assistant is None:
            return
        if assistant.vocab_size != decoder.vocab_size:
            raise ValueError(
                f"assistant_model must have the vocabulary of the model, {decoder.vocab_size} tokens, "
                f"got {assistant.vocab_size}"
            )
        self._assistant = _Assistant(require_rewindable(assistant, "assistant_model", _TO_GUESS), max_rows)

    def guesses(self, live: Sequence[Response]) -> list[NDArray[np.int64]] | None:
        """Tokens (k,) that may follow those of each response; None if guesses do not pay now."""
        most = self.decoder.chunk_length(len(live)) - 1
        paces = [self._paces.setdefault(response, _Pace()) for response in live]
        found = [_NONE] * len(live)
        drafts = [0] * len(live)  # of the assistant
        for i, (response, pace) in enumerate(zip(live, paces, strict=True)):
            config = response.config
            room = min(response.limit - response.count - 1, most, pace.length)
            if room <= 0:
                continue
            if config.prompt_lookup_num_tokens is not None:
                found[i] = self._lookup(response).find(min(room, config.prompt_lookup_num_tokens))
            elif self._assistant is not None:
                drafts[i] = self._assistant.most(response, min(room, config.num_assistant_tokens))
        lengths = [max(len(guess), count) for guess, count in zip(found, drafts, strict=True)]
        if not any(lengths):
            return None
        if not self._pays(lengths, paces, max(drafts)):
            for pace, length in zip(paces, lengths, strict=True):
                pace.rate += RECOVERY * (length > 0) * (1 - pace.rate)
            return None
        if self._assistant is not None and any(drafts):
            for i, guess in self._assistant.guess(live, drafts).items():
                found[i] = guess
        return found

    def learn(self, response: Response, guessed: int, accepted: int) -> None:
        """The outcome of a guess."""
        if guessed:
            response.drafted += guessed
            response.accepted += accepted
            self._paces[response].learn(guessed, accepted)

    def forget(self, response: Response) -> None:
        """A response has ended."""
        self._paces.pop(response, None)
        self._lookups.pop(response, None)
        if self._assistant is not None:
            self._assistant.forget(response)

    def release(self) -> None:
        """Give the assistant's rows back."""
        if self._assistant is not None:
            self._assistant.release()

    def _lookup(self, response: Response) -> Lookup:
        lookup = self._lookups.get(response)
        if lookup is None:
            lookup = self._lookups[response] = Lookup(response.config.max_matching_ngram_size)
        lookup.read(response.ids)
        return lookup

    def _pays(self, lengths: Sequence[int], paces: Sequence[_Pace], drafts: int) -> bool:
        """Whether a run that checks guesses of these lengths gives more tokens for its time than a step."""
        rows = len(lengths)
        expected = rows + sum(length * pace.rate for length, pace in zip(lengths, paces, strict=True))
        runs, tokens = (rows, rows + sum(lengths)) if self._one_by_one else (1, rows * (1 + max(lengths)))
        cost = runs + TOKEN_COST * (tokens - runs) + DRAFT_COST * drafts
        return expected * (1 + TOKEN_COST * (rows - 1)) > rows * cost


class _Pace:
    """How many tokens to guess for a response.

    Attributes:
        length: most to guess next.
        rate: the share of guesses that is expected to be right.
    """

    def __init__(self) -> None:
        self.length = FIRST_LENGTH
        self.rate = 1.0

    def learn(self, guessed: int, accepted: int) -> None:
        self.length = 2 * max(guessed, self.length) if accepted == guessed else accepted + 1
        self.rate += SURPRISE * (accepted / guessed - self.rate)


class Lookup:
    """Finds where the last tokens of a sequence have come before, to guess that it goes on as there.

    Args:
        longest: most tokens that are looked up; if they have not come before, fewer are.

    Example:
        >>> lookup = Lookup(2)
        >>> lookup.read(np.array([5, 6, 7, 8, 5, 6]))
        >>> lookup.find(3)
        array([7, 8, 5])
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._ids: list[int] = []
        self._ends: dict[
            tuple[int, ...], int
        ] = {}  # n tokens -> where what follows them the last time begins

    def read(self, ids: NDArray[np.int64]) -> None:
        """Know more of the sequence, which is given whole."""
        known = len(self._ids)
        self._ids += ids[known:].tolist()
        for end in range(max(known, 1), len(self._ids)):  # the last tokens have nothing that follows
            for count in range(1, min(self._longest, end) + 1):
                self._ends[tuple(self._ids[end - count : end])] = end

    def find(self, most: int) -> NDArray[np.int64]:
        """The tokens that followed the last occurrence, (k,) with k <= `most`; a repetition is continued."""
        for count in range(min(self._longest, len(self._ids) - 1), 0, -1):
            end = self._ends.get(tuple(self._ids[-count:]))
            if end is not None:
                return np.resize(np.array(self._ids[end : end + most]), most)
        return _NONE


class _Assistant:
    """The draft model, with a row for each response that it has guessed for.

    A guess is drawn under the seed and step that the token itself will be drawn with, so that a sample is
    guessed right as often as the two models agree.
    """

    def __init__(self, decoder: RewindableDecoder, max_rows: int) -> None:
        self._decoder = decoder
        self._max_rows = max_rows
        self._rows: Rows | None = None
        self._row_of: dict[Response, int] = {}
        self._held: dict[int, NDArray[np.int64]] = {}  # row -> tokens

    def most(self, response: Response, count: int) -> int:
        """How many of `count` tokens it can guess: its own context may be shorter."""
        limit = self._decoder.context_length
        return count if limit is None else max(0, min(count, limit - len(response.ids)))

    def guess(self, live: Sequence[Response], counts: Sequence[int]) -> dict[int, NDArray[np.int64]]:
        """At most `counts` tokens for each response that gets any, by place."""
        places = [i for i, count in enumerate(counts) if count]
        logits: Logits = self._read([live[i] for i in places])
        ahead = {i: live[i].draft_copy(_plain(live[i].config)) for i in places}
        going = places
        while True:
            drawn = Sampler().draw(logits, [ahead[i] for i in going])
            for i, token in zip(going, drawn.tokens.tolist(), strict=True):
                ahead[i].append(token)
            sure = [
                at
                for at, (i, log_prob) in enumerate(zip(going, drawn.log_probs.tolist(), strict=True))
                if ahead[i].count - live[i].count < counts[i] and log_prob > CONFIDENCE
            ]
            going = [going[at] for at in sure]
            if not going:
                break
            rows = [self._row_of[live[i]] for i in going]
            logits = self._decoder.decode_unchecked(drawn.tokens[sure], rows)
        for i in places:
            self._held[self._row_of[live[i]]] = ahead[i].ids[:-1]
        return {i: ahead[i].ids[len(live[i].ids) :] for i in places}

    def forget(self, response: Response) -> None:
        row = self._row_of.pop(response, None)
        if row is not None and self._rows is not None:
            self._rows.free(row, self._held.pop(row))

    def release(self) -> None:
        if self._rows is not None:
            self._rows.release()

    def _read(self, responses: Sequence[Response]) -> Logits:
        """Feed the rows the tokens that they lack; returns the logits after them, (n, V)."""
        if self._rows is None:
            self._rows = Rows(self._decoder, self._max_rows)
        parts: list[tuple[Sequence[int], Logits]] = []
        new = [i for i, response in enumerate(responses) if response not in self._row_of]
        old = [i for i, response in enumerate(responses) if response in self._row_of]
        if old:
            rows, rest = [self._row_of[responses[i]] for i in old], []
            for i, row in zip(old, rows, strict=True):
                same = common_length(self._held[row], responses[i].ids[:-1])
                self._decoder.truncate(row, same)
                rest.append(responses[i].ids[same:])
            parts.append((old, self._decoder.continue_rows(rows, rest)))
        if new:
            texts = [responses[i].ids.copy() for i in new]
            self._rows.reserve(
                max(len(text) + min(responses[i].limit, RESERVED) for i, text in zip(new, texts, strict=True))
            )
            rows, logits = self._rows.fill(texts, self._held)
            parts.append((new, logits))
            self._row_of.update(zip([responses[i] for i in new], rows, strict=True))
        return merged(len(responses), parts)


def _plain(config: GenerationConfig) -> GenerationConfig:
    """The options that affect guesses; all others apply in the model that checks them."""
    return GenerationConfig(
        do_sample=config.do_sample,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        min_p=config.min_p,
        repetition_penalty=config.repetition_penalty,
    )
