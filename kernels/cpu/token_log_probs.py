"""Statistics of tokens from rows of logits: under the model, and under the sampling distribution.

A row is read for the softmax of the model, and again if the temperature is not 1: the second time from the
second-level cache.
"""

from typing import Any

import numpy as np

from lite.kernels._types import Bools, Floats, Ints, LogitData
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_rows
from lite.kernels.cpu.vectors.blocks import log_total, maximum, statistics

MODEL, SAMPLED, MASS = 1, 2, 4  # bits: numbers that are wanted


@jit
def _log_prob(logit: float, highest: float, inverse: float, total: float, unknown: bool) -> float:
    """The log-prob of a logit, where a row's statistics have this log-sum above its highest."""
    distance = 0.0 if logit == highest else (logit - highest) * inverse
    # No token can be drawn if all are masked.
    return np.nan if unknown else -np.inf if highest == -np.inf else distance - total


@jit(entry=True, plain=plain_rows.scores)
def scores(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, counted: Bools, inverses: Floats,
    tokens: Ints, bad: Ints, offsets: Ints, ids: Ints, wanted: int, log_probs: Floats, entropies: Floats,
    sampled: Floats, masses: Floats, work: LogitData, start: int, stop: int,
) -> None:  # fmt: skip
    """Write the `wanted` statistics of rows `start` to `stop`; other outputs are left unchanged.

    Args:
        flat, bfloat16, starts, size, counted, inverses, tokens, bad: as in `log_softmax.rows`.
        keep: an empty array.
        offsets: row r was sampled from `ids[offsets[r]:offsets[r + 1]]`, all tokens if empty.
        log_probs, entropies: log-probs and entropies of the model, if bit `MODEL` is set.
        sampled: log-probs at the row's temperature among its kept logits, if bit `SAMPLED` is set.
        masses: the log of the share that these have of the row at that temperature, if bit `MASS` is set.
        work: memory of the type of `flat` for the logits of the longest support.
    """
    none = np.int64(0)
    for r in range(start, stop):
        token, known = tokens[r], counted[r]
        if known and (token < 0 or token >= size):
            bad[0] = r
            known = False
        if not known:
            if wanted & MODEL:
                log_probs[r] = entropies[r] = 0.0
            if wanted & SAMPLED:
                sampled[r] = 0.0
            if wanted & MASS:
                masses[r] = 0.0
            continue
        begin, inverse, first, last = starts[r], inverses[r], offsets[r], offsets[r + 1]
        at = begin + token
        logit = np.float64(maximum(flat[at : at + 1], bfloat16, keep))
        highest = total = 0.0
        unknown: Any = False
        if wanted & MODEL:
            # `work` only says that the sum is wanted, with code that `log_softmax.rows` has, too.
            highest, count, rest, weighted, unknown = statistics(
                flat, bfloat16, begin, size, keep, none, 1.0, work
            )
            total = log_total(count, rest) if count or rest else 0.0
            spread = total - weighted / (count + rest) if count or rest else 0.0
            entropies[r] = np.nan if unknown else spread
            log_probs[r] = _log_prob(logit, highest, 1.0, total, unknown)
        whole = last == first
        if not (wanted & MODEL and inverse == 1.0) and (wanted & MASS or (whole and wanted & SAMPLED)):
            highest, count, rest, weighted, unknown = statistics(
                flat, bfloat16, begin, size, keep, none, inverse, None
            )
            total = log_total(count, rest) if count or rest else 0.0
        if whole:
            if wanted & SAMPLED:
                sampled[r] = _log_prob(logit, highest, inverse, total, unknown)
            if wanted & MASS:
                masses[r] = np.nan if unknown else 0.0
            continue
        if wanted & (SAMPLED | MASS):
            inside: Any = False
            for j in range(first, last):
                work[j - first] = flat[begin + ids[j]]
                inside |= ids[j] == token
            top, count, rest, weighted, mixed = statistics(
                work, bfloat16, none, last - first, keep, none, inverse, None
            )
            part = log_total(count, rest) if count or rest else 0.0
            if wanted & SAMPLED:
                sampled[r] = _log_prob(logit if inside else -np.inf, top, inverse, part, mixed)
            if wanted & MASS:
                distance = 0.0 if top == highest else (top - highest) * inverse
                masses[r] = np.nan if unknown else -np.inf if top == -np.inf else distance + part - total
