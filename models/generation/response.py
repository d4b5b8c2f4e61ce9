"""A response while it is written: its prompt, its options and its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.generation.options import GenerationConfig
from lite.models.generation.processors import Processors

RESERVED = 1024  # tokens: memory for a response is allocated at once up to here, and doubled beyond


class Response:
    """A response that is being written.

    Args:
        number: the caller's number of it.
        prompt: int64 (L,).
        config: its options.
        seed: seed of its draws.
        room: the largest number of tokens of prompt and response together.
        samples: the number of responses that a beam search returns.

    Attributes:
        limit: the largest number of its tokens.
        longest: the number of tokens to expect memory for, the prompt's among them.
        count: the number of its tokens so far.
        draws: for each token the sampler's result, and the row of the response in it.
        found: the results of a beam search.
        reason: why it ended; None while it is being written.
        drafted: the number of tokens that were guessed for it.
        accepted: the number of guesses that were right.
        processors: what its options do to scores, with their state; set by the sampler.
    """

    __slots__ = (
        "_end", "_ids", "accepted", "config", "count", "drafted", "draws", "found", "limit", "longest",
        "number", "processors", "prompt", "reason", "samples", "seed",
    )  # fmt: skip

    def __init__(
        self, number: int, prompt: NDArray[np.int64], config: GenerationConfig, seed: np.uint64, room: int,
        samples: int = 1,
    ) -> None:  # fmt: skip
        self.number = number
        self.prompt = prompt
        self.config = config
        self.seed = seed
        self.samples = samples
        self._ids = prompt  # nothing is reserved before the first token, as many responses may wait
        self._end = len(prompt)  # where the next token goes
        self.limit = min(config.max_new_tokens, room - self._end)
        self.longest = self._end + min(self.limit, RESERVED)
        self.count = 0
        self.draws: list[tuple[Any, int]] = []
        self.found: Sequence[Any] = ()
        self.reason: str | None = None
        self.drafted = self.accepted = 0
        self.processors: Processors | None = None

    @property
    def ids(self) -> NDArray[np.int64]:
        """Prompt and tokens, int64 (L + count,); a view."""
        return self._ids[: self._end]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens, int64 (count,); a view."""
        return self._ids[self._end - self.count : self._end]

    def append(self, token: int) -> None:
        """Add a token."""
        at = self._end
        if at == len(self._ids):
            more = min(self.limit, RESERVED) if self.count == 0 else max(at, RESERVED)
            self._ids = np.concatenate([self._ids, np.empty(max(1, more), np.int64)])
        self._ids[at] = token
        self._end = at + 1
        self.count += 1

    def draft_copy(self, config: GenerationConfig) -> Response:
        """A copy under other options, which guessed tokens are written to."""
        copy = Response(self.number, self.prompt, config, self.seed, len(self.prompt))
        copy._ids, copy._end = self.ids.copy(), self._end
        copy.count = self.count
        return copy
