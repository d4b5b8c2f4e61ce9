"""One call of the model's loop: rows are filled, drawn for and stepped until every response has ended."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.device_logits import Logits, stacked
from lite.models.decoder.protocol import Decoder
from lite.models.generation.beams import Beams
from lite.models.generation.prefix_cache import PrefixCache, Rows
from lite.models.generation.response import Response
from lite.models.generation.sampling import Drawn, Sampler
from lite.models.generation.speculation import Speculation
from lite.models.generation.stops import DecodeText, has_stopped


class Round(NamedTuple):
    """One draw for a number of responses.

    Attributes:
        responses: that got a token; there are none if there is no room for any, or beams alone go on.
        drawn: what the sampler gave, None if nothing was drawn.
        ended: responses that ended with it, searches among them.
    """

    responses: Sequence[Response]
    drawn: Drawn | None
    ended: Sequence[Response]


class Run:
    """The state of one call: which responses are open, and on which rows of the decoder.

    A response that ends makes room for the next one that waits, which is read while the others are between
    two steps. What is drawn for a response depends on its own tokens, options and seed only, so neither the
    order in which rows are replaced nor what they share shows in the results. A search has a row for each of
    its beams, which go through the same runs as the rows of other responses.

    Args:
        decoder: the model.
        waiting: the responses, samples of a prompt one after the other; taken as there is room for them.
        max_rows: most rows that are open at a time; a search of more beams is alone.
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
        longest: int,
        decode_text: DecodeText | None,
        cache: PrefixCache | None,
        speculation: Speculation | None,
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
        self._searches: list[Beams] = []  # that are open
        self._next: Response | None = None  # waits for room
        self._opened: list[Response] = []  # those that were opened last

    def rounds(self) -> Generator[Round]:
        """Everything that is drawn, as soon as it is there."""
        rows = Rows(self.decoder, self.max_rows, self.cache)
        try:
            while True:
                while new := self._fitting():
                    yield self._open(rows, new)
                if not self._row_of and not self._searches:
                    return
                rows.empty()
                yield from self._steps(rows)
        finally:
            rows.release()
            if self.speculation is not None:
                self.speculation.release()

    def _fitting(self) -> list[Response]:
        """Responses that wait and have room now."""
        new: list[Response] = []
        busy = len(self._row_of) + sum([len(beams.rows) for beams in self._searches])
        while not busy or busy < self.max_rows:
            response = next(self.waiting, None) if self._next is None else self._next
            self._next = None
            if response is None:
                break
            if busy and busy + response.config.num_beams > self.max_rows:
                self._next = response
                break
            busy += response.config.num_beams
            new.append(response)
        return new

    def _open(self, rows: Rows, new: Sequence[Response]) -> Round:
        """Read prompts, draw the first token of each response and take the first step of each search."""
        ended = [response for response in new if response.limit <= 0]
        opened = [response for response in new if response.limit > 0]
        if not opened:
            return Round((), None, ended)
        self.longest = max([self.longest, *[response.longest for response in opened]])
        if self.speculation is None and any(r.config.prompt_lookup_num_tokens is not None for r in opened):
            self.speculation = Speculation(self.decoder, None, self.max_rows)
        rows.extend(opened[0].config.num_beams)  # only a search that is alone needs more than there are
        rows.reserve(self.longest)
        numbers, logits = rows.fill([response.prompt for response in opened], self._busy())
        row_of = dict(zip(opened, numbers, strict=True))
        drawn = [response for response in opened if response.config.num_beams == 1]
        if drawn:
            self._row_of |= {response: row_of[response] for response in drawn}
            self._opened = drawn
            at = slice(None) if len(drawn) == len(opened) else [opened.index(response) for response in drawn]
            turn = self._draw(logits[at], drawn)
            self._close(rows, turn.ended)
        else:
            turn = Round((), None, ())
        for i, (response, row) in enumerate(zip(opened, numbers, strict=True)):
            count = response.config.num_beams
            if count > 1:
                own = [row, *rows.take(count - 1)]
                beams = Beams(response, own, self.decoder.vocab_size, self.decode_text)
                self._searches.append(beams)
                beams.step(self.decoder, np.asarray(logits[i : i + 1]))
        if self._searches or ended:
            turn = turn._replace(ended=[*turn.ended, *self._close_searches(rows), *ended])
        return turn

    def _steps(self, rows: Rows) -> Iterator[Round]:
        """Step the open responses until one of them ends."""
        live = sorted(self._row_of, key=self._row_of.__getitem__)
        if live == self._opened:  # what the sampler knows of them holds
            live = self._opened
        on = [self._row_of[response] for response in live]
        tokens = np.array([response.ids[-1] for response in live], np.int64)
        ended: Sequence[Response] = ()
        while not ended:
            guesses = None if self.speculation is None else self.speculation.guesses(live)
            if guesses is None:
                logits = self._decode(tokens, on)
                turn = self._draw(logits, live) if live else Round((), None, ())
                self._close(rows, turn.ended)
                if self._searches:
                    turn = turn._replace(ended=[*turn.ended, *self._close_searches(rows)])
                ended = turn.ended
                yield turn
                if turn.drawn is not None:
                    tokens = turn.drawn.tokens
            else:
                rounds = self._verify(live, on, guesses)
                self._close(rows, [response for turn in rounds for response in turn.ended])
                if self._searches:
                    self._decode(tokens[:0], [])
                    rounds.append(Round((), None, self._close_searches(rows)))
                ended = [response for turn in rounds for response in turn.ended]
                yield from rounds
                tokens = np.array([response.ids[-1] for response in live])

    def _decode(self, tokens: NDArray[np.int64], on: list[int]) -> Logits:
        """The logits after a token of each response; searches go on by one, too."""
        if not self._searches:
            return self.decoder.decode_unchecked(tokens, on)
        new = [tokens, *(beams.tokens for beams in self._searches)]
        every = [*on, *(row for beams in self._searches for row in beams.rows)]
        logits = self.decoder.decode_unchecked(np.concatenate(new), every)
        at = len(on)
        for beams in self._searches:
            count = len(beams.rows)
            beams.step(self.decoder, np.asarray(logits[at : at + count]))
            at += count
        return logits[: len(on)]

    def _busy(self) -> dict[int, NDArray[np.int64]]:
        """The ids of each busy row; one row of beams, as the others hold nearly the same."""
        return {
            **{row: response.ids[:-1] for response, row in self._row_of.items()},
            **dict(beams.holds() for beams in self._searches),
        }

    def _verify(
        self, live: Sequence[Response], on: list[int], guesses: Sequence[NDArray[np.int64]]
    ) -> list[Round]:
        """Run guessed tokens, and draw tokens until one differs from its guess.

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

    def _close_searches(self, rows: Rows) -> list[Response]:
        """Give back the rows of searches that are over; of these one is worth keeping."""
        over = [beams for beams in self._searches if beams.response.reason is not None]
        for beams in over:
            self._searches.remove(beams)
            kept, ids = beams.holds()
            for row in beams.rows:
                if row != kept:
                    self.decoder.reset(row)
                rows.free(row, ids if row == kept else _NOTHING)
        return [beams.response for beams in over]

    def _stopped(self, response: Response) -> bool:
        assert self.decode_text is not None  # checked before
        return has_stopped(response.tokens, response.config.stop_sequences, self.decode_text)


_NOTHING = np.empty(0, np.int64)
