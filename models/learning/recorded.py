"""Log-probs of tokens under softmaxes restricted to the ids that they were sampled from.

Logits are computed for a few tokens at a time, and again in the backward pass, so that memory stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import checkpoint
from lite.nn import functional

BLOCK = 1 << 23  # logits that are in memory at a time
Support = tuple[NDArray[np.int64], NDArray[Any]]
"""(offsets, ids) of a row: token t was sampled from ids[offsets[t]:offsets[t + 1]], or from all if empty."""


class Recorded:
    """The ids that tokens were sampled from, if those are not the whole vocabulary.

    Args:
        parts: the ids for each scored position, row by row; None for the whole vocabulary.
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
        """As `lite.nn.functional.linear_log_probs`, with softmaxes restricted to these ids.

        Args:
            hidden: (rows, tokens, D).
            weight: (V, D), or an object with `shape` and `rows(start, stop)`.
            bias: (V,) or None.
            targets: (rows, tokens).
            mask: the tokens to score, (rows, tokens); other log-probs are 0.
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
        """`log_probs` from logits (rows, tokens, V)."""
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
        """Call `part` for `count` positions of the mask at a time; the results in the mask's shape."""
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
        shape: shape of the scored tokens, (lines, tokens).
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
