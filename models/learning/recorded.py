"""Log-probs among the ids that tokens were drawn from.

There are logits of a few tokens at a time, which are computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import checkpoint
from lite.nn import functional

BLOCK = 1 << 23  # logits at once
Support = tuple[NDArray[np.int64], NDArray[Any]]
"""Of L tokens of a row: offsets (L + 1,) of the ids that each was drawn from, and these; none for all."""


class Recorded:
    """The ids that tokens were drawn from, where that is not all of the vocabulary.

    Args:
        parts: the ids of each place among all that is scored; None for the vocabulary.
    """

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts

    def shown(self, at: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """Masks of the ids that could be sampled, bool (M, size), at M positions of the scored tokens, (M,).

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        found = np.ones((len(at), size), np.bool_)
        for row, place in zip(found, at.tolist(), strict=True):
            ids = self._parts[place]
            if ids is not None:
                if ids.min() < 0 or ids.max() >= size:
                    raise ValueError(f"kept_ids must be in [0, {size}), got {ids.min()} to {ids.max()}")
                row[:] = False
                row[ids] = True
        return found

    def log_probs(
        self,
        hidden: Any,
        weight: Any,
        bias: Any,
        targets: NDArray[np.int64],
        mask: NDArray[np.bool_],
        temperature: float,
    ) -> Any:
        """As `lite.nn.functional.linear_log_probs`, among these ids.

        Args:
            hidden: (rows, tokens, D).
            weight: (V, D), or an object that gives its rows.
            bias: (V,) or None.
            targets: (rows, tokens).
            mask: what is wanted, (rows, tokens); 0 elsewhere.
            temperature: the logits are divided by it.
        """
        vocabulary = weight.shape[0]
        weight = weight if hasattr(weight, "dtype") else weight.rows(0, vocabulary)
        flat = hidden.reshape(-1, hidden.shape[-1])

        def part(states: Any, weight: Any, bias: Any, at: Any) -> Any:
            return self._picked(logits_of(states, weight, bias), at, targets, temperature)

        return self._spread(
            mask, max(1, BLOCK // vocabulary), lambda at: checkpoint(part)(flat[at], weight, bias, at)
        )

    def log_probs_of_logits(
        self, logits: Any, targets: NDArray[np.int64], mask: NDArray[np.bool_], temperature: float
    ) -> Any:
        """The log-probs of logits (rows, tokens, V)."""
        flat = logits.reshape(-1, logits.shape[-1])
        return self._spread(mask, mask.size, lambda at: self._picked(flat[at], at, targets, temperature))

    def _picked(self, logits: Any, at: NDArray[np.int64], targets: Any, temperature: float) -> Any:
        """Log-probs (M,) of targets by logits (M, V)."""
        low = np.float32(np.finfo(np.float32).min)
        logits = logits if temperature == 1 else logits / np.float32(temperature)
        logits = np.where(self.shown(at, logits.shape[-1]), logits, low)
        log_probs = functional.log_softmax(logits, -1)
        return np.take_along_axis(log_probs, targets.reshape(-1)[at][:, None], -1)[:, 0]

    @staticmethod
    def _spread(mask: NDArray[np.bool_], count: int, part: Any) -> Any:
        """Log-probs of `count` wanted places at a time, laid out as the mask is."""
        at = np.flatnonzero(mask)
        found: list[Any] = [np.zeros(1, np.float32)]
        found += [part(at[start : start + count]) for start in range(0, len(at), count)]
        index = np.zeros(mask.size, np.int64)
        index[at] = np.arange(1, len(at) + 1)
        return np.concatenate(found)[index].reshape(mask.shape)


def recorded(
    shape: tuple[int, ...], supports: Sequence[tuple[int, NDArray[np.int64], Support, NDArray[np.int64]]]
) -> Recorded | None:
    """The recorded supports of scored tokens; None if all were sampled from the whole vocabulary.

    Args:
        shape: shape of what is scored, (lines, tokens).
        supports: a line, columns of it, the record of a row, and which of its tokens are scored there.
    """
    parts: list[Any] = [None] * (shape[0] * shape[1])
    for line, columns, (offsets, ids), tokens in supports:
        for column, token in zip(columns.tolist(), tokens.tolist(), strict=True):
            if offsets[token + 1] > offsets[token]:
                parts[line * shape[1] + column] = ids[offsets[token] : offsets[token + 1]]
    return Recorded(parts) if any(part is not None for part in parts) else None


def logits_of(hidden: Any, weight: Any, bias: Any) -> Any:
    """Logits (..., V) of hidden states (..., D), by a matrix (V, D) and a bias (V,) or None."""
    logits = np.matmul(hidden, weight.swapaxes(0, 1))
    return logits if bias is None else logits + bias
