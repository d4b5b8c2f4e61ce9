"""One call of the model's loop: rows are filled, drawn for and stepped until every response has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.protocol import Decoder
from lite.models.generation.prefix_cache import PrefixCache
from lite.models.generation.response import AHEAD, Response
from lite.models.generation.rows import Rows
from lite.models.generation.sampling import Drawn, Sampler
from lite.models.generation.speculation import Speculation
from lite.models.generation.stops import DecodeText, has_stopped


class Round(NamedTuple):
    """One draw for a number of responses.

    Attributes:
        responses: that got a token; the last round of responses without room for any has none.
        drawn: what the sampler gave, None if nothing was drawn.
        ended: responses that ended with it.
    """

    responses: Sequence[Response]
    drawn: Drawn | None
    ended: Sequence[Response]


class Run:
    """The state of one call: which responses are open, and on which rows of the decoder.

    A response that ends makes room for the next one that waits, which is read while the others are between
    two steps. What is drawn for a response depends on its own tokens, options and seed only, so neither the
    order in which rows are replaced nor what they share shows in the results.

    Args:
        decoder: the model.
        waiting: the responses, samples of a prompt one after the other; taken as there is room for them.
        max_rows: most responses that are open at a time.
        longest: tokens that rows may come to, as far as is known.
        decode_text: turns ids into text, for stop sequences.
        cache: keeps rows beyond the call.
        speculation: guesses tokens.
    """

    def __init__(
        self,
        decoder: Decoder,
        waiting: Iterator[Response],
        *,
        max_rows: int,
        longest: int = 0,
        decode_text: DecodeText | None = None,
        cache: PrefixCache | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        self.decoder = decoder
        self.waiting = waiting
        self.max_rows = max_rows
        self.longest = longest
        self.decode_text = decode_text
        self.cache = cache
        self.speculation = speculation
        self.sampler = Sampler()
        self._row_of: dict[Response, int] = {}  # of the open responses
        self._opened: list[Response] = []  # those that were opened last

    def rounds(self) -> Iterator[Round]:
        """Everything that is drawn, as soon as it is there."""
        rows = Rows(self.decoder, self.max_rows, self.cache)
        try:
            while True:
                while new := list(islice(self.waiting, self.max_rows - len(self._row_of))):
                    yield self._open(rows, new)
                rows.empty()
                if not self._row_of:
                    return
                yield from self._steps(rows)
        finally:
            rows.release()
            if self.speculation is not None:
                self.speculation.release()

    def _open(self, rows: Rows, new: Sequence[Response]) -> Round:
        """Read prompts and draw the first token of each response."""
        ended = [response for response in new if response.limit <= 0]
        for response in ended:
            response.reason = "length"
        opened = [response for response in new if response.limit > 0]
        if not opened:
            return Round((), None, ended)
        self.longest = max(self.longest, *(len(r.prompt) + min(r.limit, AHEAD) for r in opened))
        if self.speculation is None and any(r.config.prompt_lookup_num_tokens is not None for r in opened):
            self.speculation = Speculation(self.decoder, None, self.max_rows)
        rows.reserve(self.longest)
        busy = {row: response.ids[:-1] for response, row in self._row_of.items()}
        numbers, logits = rows.fill([response.prompt for response in opened], busy)
        self._row_of.update(zip(opened, numbers, strict=True))
        self._opened = opened
        drawn = self._draw(logits, opened)
        self._close(rows, drawn.ended)
        return drawn._replace(ended=[*drawn.ended, *ended])

    def _steps(self, rows: Rows) -> Iterator[Round]:
        """Step the open responses until one of them ends."""
        live = sorted(self._row_of, key=self._row_of.__getitem__)
        if live == self._opened:  # what the sampler knows of them holds
            live = self._opened
        on = [self._row_of[response] for response in live]
        tokens = np.array([response.ids[-1] for response in live])
        ended: Sequence[Response] = ()
        while not ended:
            guesses = None if self.speculation is None else self.speculation.guesses(live)
            if guesses is None:
                drawn = self._draw(self.decoder.decode_unchecked(tokens, on), live)
                ended = drawn.ended
                self._close(rows, ended)
                yield drawn
                tokens = drawn.drawn.tokens  # type: ignore[union-attr]
            else:
                rounds = self._verify(live, on, guesses)
                ended = [response for drawn in rounds for response in drawn.ended]
                self._close(rows, ended)
                yield from rounds
                tokens = np.array([response.ids[-1] for response in live])

    def _verify(
        self, live: Sequence[Response], on: list[int], guesses: Sequence[NDArray[np.int64]]
    ) -> list[Round]:
        """Run guessed tokens, and draw as long as what is drawn is what was guessed.

        Each draw is the one that would take place without the guess: of the same logits, under the same seed
        and step, knowing the same tokens.
        """
        assert self.speculation is not None
        new = [np.append(response.ids[-1:], guess) for response, guess in zip(live, guesses, strict=True)]
        logits = self.decoder.extend(on, new)
        rounds: list[Round] = []
        accepted = [0] * len(live)
        going, responses = list(range(len(live))), live
        while going:
            at = len(rounds)
            drawn = self._draw(stacked([logits[i][at : at + 1] for i in going]), responses)
            rounds.append(drawn)
            right = [i for i in going if at < len(guesses[i]) and live[i].ids[-1] == guesses[i][at]]
            for i in right:
                accepted[i] += 1
            going, before = [i for i in right if live[i].reason is None], len(going)
            if len(going) < before:
                responses = [live[i] for i in going]
        for response, row, guess, count in zip(live, on, guesses, accepted, strict=True):
            self.speculation.learn(response, len(guess), count)
            self.speculation.decoder.truncate(row, len(response.ids) - 1)
        return rounds

    def _draw(self, logits: Logits, responses: Sequence[Response]) -> Round:
        """The next token of each response; which of them end with it, and why."""
        drawn = self.sampler.draw(logits, responses)
        ended: list[Response] = []
        for place, (response, token) in enumerate(zip(responses, drawn.tokens.tolist(), strict=True)):
            response.append(token)
            response.draws.append((drawn, place))
            config = response.config
            if token in config.eos_token_ids:
                response.reason = "eos"
            elif config.stop_sequences and self._stopped(response):
                response.reason = "stop"
            elif response.count == response.limit:
                response.reason = "length"
            else:
                continue
            ended.append(response)
        return Round(responses, drawn, ended)

    def _close(self, rows: Rows, ended: Sequence[Response]) -> None:
        for response in ended:
            rows.free(self._row_of.pop(response), response.ids[:-1])
            if self.speculation is not None:
                self.speculation.forget(response)

    def _stopped(self, response: Response) -> bool:
        assert self.decode_text is not None  # checked before
        return has_stopped(response.tokens, response.config.stop_sequences, self.decode_text)
