"""The next token of every open response, each drawn under its own options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels import sample_tokens
from lite.models.generation.options import GenerationConfig
from lite.models.generation.response import Response


class Drawn(NamedTuple):
    """What one draw gave, in the order of the rows.

    Attributes:
        tokens: int64 (n,).
        log_probs: float32 (n,), under the raw model distribution.
    """

    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float32]


class Sampler:
    """Draws tokens for a changing set of responses; what depends on the set alone is kept with it."""

    def __init__(self) -> None:
        self._of: Sequence[Response] | None = None

    def draw(self, logits: NDArray[np.float32], responses: Sequence[Response]) -> Drawn:
        """The next token of each response.

        Args:
            logits: float32 (n, V), of the token after `ids` of each response.
            responses: n of them; the same object as at the last call as long as the set stays.
        """
        if self._of is not responses:
            self._of = responses
            self._seeds = np.array([response.seed for response in responses], np.uint64)
            self._options = _options([response.config for response in responses])
        penalised = (self._options["repetition_penalty"] != 1).any()
        return Drawn(
            *sample_tokens(
                logits,
                self._seeds,
                step=np.array([response.count for response in responses]),
                previous=[response.ids for response in responses] if penalised else None,
                **self._options,
            )
        )


def _options(configs: Sequence[GenerationConfig]) -> dict[str, NDArray[np.generic]]:
    return {
        "temperature": np.array([0.0 if c.greedy else c.temperature for c in configs]),
        "top_k": np.array([c.top_k or 0 for c in configs]),
        "top_p": np.array([c.top_p for c in configs]),
        "min_p": np.array([c.min_p for c in configs]),
        "repetition_penalty": np.array([c.repetition_penalty for c in configs]),
    }
