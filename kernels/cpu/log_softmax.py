"""Log-softmax of rows of logits, or only numbers taken from it, compiled for the CPU.

A row is read once for its statistics, in blocks that stay in the first-level cache. Only where the
whole log-softmax is wanted it is read a second time, from a cache that holds one row.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit
from lite.kernels.cpu._blocks import BLOCK, load, log_prob, log_total, statistics
from lite.kernels.cpu._width import full_width


@jit(entry=True)
def rows(
    flat: Any, bfloat16: Any, starts: Any, size: Any, keep: Any, keep_starts: Any, counted: Any,
    inverse: Any, tokens: Any, bad: Any, log_probs: Any, entropies: Any, maxima: Any, totals: Any,
    scratch: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Numbers taken from rows `start` to `stop` of the logits: those whose arrays have a size
    (entropies: if there is one, as code for them is only compiled then).

    `log_probs` of `tokens`, `entropies`, `maxima` with the log of the sum of exponentials in `totals`.
    Row r lies at `starts[r]` to `starts[r] + size`; with a token-level mask its flags are from
    `keep_starts[r]` on. Rows that are not `counted` get 0. `bad[0]` becomes the number of a row whose
    token is out of range. `scratch` is memory for one block.
    """
    for r in range(start, stop):
        token = tokens[r] if tokens.size else np.int64(-1)
        known = counted[r]
        if known and tokens.size and (token < 0 or token >= size):
            bad[0] = r
            known = False
        score = spread = top = total = 0.0
        if known:
            allowed = keep_starts[r] if keep_starts.size else -1
            highest, count, rest, weighted, logit, unknown = statistics(
                flat, bfloat16, starts[r], size, keep, allowed, inverse, token, entropies, scratch
            )
            score = log_prob(logit, highest, inverse, count, rest, unknown)
            top = np.nan if unknown else np.float64(highest) * inverse
            total = top + (log_total(count, rest) if count else 0.0)
            spread = np.nan if unknown else 0.0
            if entropies is not None and (count or rest):
                spread += log_total(count, rest) - weighted / (count + rest)
        if log_probs.size:
            log_probs[r] = score
        if entropies is not None:
            entropies[r] = spread
        if maxima.size:
            maxima[r], totals[r] = top, total


@jit
def _shift(values: Any, highest: Any, inverse: Any, total: Any, out: Any) -> None:
    full_width()
    for i in range(values.size):
        out[i] = (values[i] - highest) * inverse - total


@jit(entry=True)
def log_softmax(
    flat: Any, bfloat16: Any, starts: Any, size: Any, keep: Any, keep_starts: Any, counted: Any,
    inverse: Any, in_place: Any, out: Any, out_starts: Any, scratch: Any,
    start: Any, stop: Any,
) -> None:  # fmt: skip
    """Write the log-softmax of rows `start` to `stop` to `out`; arguments as in `rows`.

    With `in_place`, `out` is the memory of the logits; blocks are staged then, because a loop that reads
    and writes the same memory does not use full vectors.
    """
    narrow = out.dtype.type(inverse)
    for r in range(start, stop):
        allowed = keep_starts[r] if keep_starts.size else -1
        row = out[out_starts[r] : out_starts[r] + size]
        if not counted[r]:
            row[:] = 0.0
            continue
        highest, count, rest, _, _, unknown = statistics(
            flat, bfloat16, starts[r], size, keep, allowed, inverse, np.int64(-1), None, scratch
        )
        total = log_total(count, rest) if count else 0.0
        if unknown:
            row[:] = np.nan
            continue
        for first in range(0, size, BLOCK):
            length = size - first if size - first < BLOCK else BLOCK
            begin, target = starts[r] + first, row[first : first + length]
            masked = allowed + first if allowed >= 0 else -1
            values = load(flat, bfloat16, begin, keep, masked, in_place, scratch[:length])
            if abs(highest) < np.inf:
                _shift(values, highest, narrow, out.dtype.type(total), target)
            else:
                for i in range(length):
                    target[i] = -total if values[i] == np.inf else -np.inf
