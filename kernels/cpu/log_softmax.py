"""Log-softmax of rows of logits, and statistics of it, compiled for the CPU.

A row is read once for its statistics, in blocks that fit the first-level cache. The whole log-softmax reads
the row a second time, from a cache that holds one row.
"""

import numpy as np

from lite.kernels._types import Bools, Floats, Ints, LogitData
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_rows
from lite.kernels.cpu.vectors.blocks import log_total, maximum, statistics
from lite.kernels.cpu.vectors.formulas import Operations, Vector, written


@jit(entry=True, plain=plain_rows.rows)
def rows(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, keep_starts: Ints, counted: Bools,
    inverses: Floats, tokens: Ints, bad: Ints, log_probs: Floats, entropies: Floats | None, maxima: Floats,
    totals: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """Statistics of rows `start` to `stop`: those whose arrays are not empty.

    They are `log_probs` of `tokens`, `entropies` (compiled only if it is not None), and `maxima` with the log
    of the sum of exponentials in `totals`. Row r is `flat[starts[r] : starts[r] + size]`. With a token-level
    mask its flags begin at `keep_starts[r]`. `inverses[r]` is 1 / its temperature. Rows that are not
    `counted` get 0. `bad[0]` becomes the number of a row whose token is out of range.
    """
    for r in range(start, stop):
        token = tokens[r] if tokens.size else np.int64(0)
        known = counted[r]
        if known and tokens.size and (token < 0 or token >= size):
            bad[0] = r
            known = False
        score = spread = top = total = 0.0
        if known:
            begin, inverse = starts[r], inverses[r]
            allowed = keep_starts[r] if keep_starts.size else np.int64(0)
            highest, count, rest, weighted, unknown = statistics(
                flat, bfloat16, begin, size, keep, allowed, inverse, entropies
            )
            log_sum = log_total(count, rest) if count or rest else 0.0
            top = np.nan if unknown else highest * inverse
            total = top + log_sum
            spread = np.nan if unknown else 0.0
            if entropies is not None and (count or rest):
                spread += log_sum - weighted / (count + rest)
            if tokens.size:
                at, flag = begin + token, allowed + token
                logit = np.float64(maximum(flat[at : at + 1], bfloat16, keep[flag : flag + 1]))
                distance = 0.0 if logit == highest else (logit - highest) * inverse
                # No token can be drawn if all are masked.
                score = np.nan if unknown else -np.inf if highest == -np.inf else distance - log_sum
        if log_probs.size:
            log_probs[r] = score
        if entropies is not None:
            entropies[r] = spread
        if maxima.size:
            maxima[r], totals[r] = top, total


@written(parameters=3)
def _shifted(o: Operations, x: Vector, highest: Vector, inverse: Vector, total: Vector) -> Vector:
    return (x - o.narrow(highest)) * o.narrow(inverse) - o.narrow(total)


@written(parameters=1)
def _extreme(o: Operations, x: Vector, total: Vector) -> Vector:
    """The result for a row whose highest logit is infinite."""
    return o.where(x == float("inf"), o.narrow(total) * -1.0, float("-inf"))


@jit(entry=True, plain=plain_rows.log_softmax)
def log_softmax(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, keep_starts: Ints, counted: Bools,
    inverses: Floats, past: bool, out: Floats, out_starts: Ints, start: int, stop: int,
) -> None:  # fmt: skip
    """Write the log-softmax of rows `start` to `stop` to `out`, bypassing the caches if `past`.

    The other arguments are as in `rows`. `out` may be the memory of the logits.
    """
    for r in range(start, stop):
        begin, inverse = starts[r], inverses[r]
        allowed = keep_starts[r] if keep_starts.size else np.int64(0)
        row = out[out_starts[r] : out_starts[r] + size]
        if not counted[r]:
            row[:] = 0.0
            continue
        highest, count, rest, _, unknown = statistics(
            flat, bfloat16, begin, size, keep, allowed, inverse, None
        )
        total = log_total(count, rest) if count or rest else 0.0
        if unknown:
            row[:] = np.nan
            continue
        values, kept = flat[begin : begin + size], keep[allowed : allowed + size]
        if abs(highest) < np.inf:
            _shifted(values, highest, inverse, total, bfloat16, kept, past, row)
        else:
            _extreme(values, total, bfloat16, kept, past, row)
