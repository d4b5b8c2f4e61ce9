"""A response while it is written: its prompt, its options and its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.generation.options import GenerationConfig
from lite.models.generation.processors import Processors

AHEAD = 1024  # tokens of a response that memory is taken for at once; longer ones make it grow


class Response:
    """A response that is being written.

    Args:
        number: by which the caller knows it.
        prompt: int64 (L,).
        config: its options.
        seed: of its draws.
        room: most tokens that prompt and response may have together.
        samples: how many responses are wanted of a search.

    Attributes:
        limit: most tokens it may get.
        count: tokens it has.
        draws: for each token what the sampler gave, and the row's place in that.
        found: of a search, its results.
        reason: why it has ended; None as long as it has not.
        drafted: tokens that were guessed for it.
        accepted: those of them that were right.
        processors: what its options do to scores, with what they remember of it; the sampler sets them.
    """

    __slots__ = (
        "_end",
        "_ids",
        "accepted",
        "config",
        "count",
        "drafted",
        "draws",
        "found",
        "limit",
        "number",
        "processors",
        "prompt",
        "reason",
        "samples",
        "seed",
    )

    def __init__(
        self,
        number: int,
        prompt: NDArray[np.int64],
        config: GenerationConfig,
        seed: np.uint64,
        room: int,
        samples: int = 1,
    ) -> None:
        self.number = number
        self.prompt = prompt
        self.config = config
        self.seed = seed
        self.samples = samples
        self.limit = min(config.max_new_tokens, room - len(prompt))
        self.count = 0
        self.draws: list[tuple[Any, int]] = []
        self.found: Sequence[Any] = ()
        self.reason: str | None = None
        self.drafted = self.accepted = 0
        self.processors: Processors | None = None
        self._ids = prompt  # until the first token: many responses may wait
        self._end = len(prompt)  # where the next token goes

    @property
    def ids(self) -> NDArray[np.int64]:
        """Prompt and tokens, int64 (L + count,); a view."""
        return self._ids[: self._end]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens, int64 (count,); a view."""
        return self._ids[self._end - self.count : self._end]

    def append(self, token: int) -> None:
        at = self._end
        if at == len(self._ids):
            room = min(self.limit, AHEAD) if self.count == 0 else max(at, AHEAD)
            self._ids = np.concatenate([self._ids, np.empty(max(1, room), np.int64)])
        self._ids[at] = token
        self._end = at + 1
        self.count += 1

    def ahead(self, config: GenerationConfig) -> Response:
        """A copy that goes on under other options, for guesses of what this one will get."""
        copy = Response(self.number, self.prompt, config, self.seed, len(self.prompt))
        copy._ids, copy._end = self.ids.copy(), self._end
        copy.count = self.count
        return copy
