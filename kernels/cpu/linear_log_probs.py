"""Blocks of the vocabulary, compiled for the CPU: the softmax of rows so far, and derivatives by logits.

A block has some ids of the vocabulary for many rows. A product of matrices writes it, it is read here, and
overwritten by what the next product takes.
"""

import math

import numpy as np

from lite.kernels._types import Bools, Floats, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_rows
from lite.kernels.cpu.vectors.blocks import scaled_apart, statistics


@jit(entry=True, plain=plain_rows.merge)
def merge(
    block: Floats, size: int, inverses: Floats, tokens: Ints, first: int, highest: Floats, counts: Floats,
    rests: Floats, logits: Floats, factors: Floats, keep: Bools, start: int, stop: int,
) -> None:  # fmt: skip
    """Add a block to the softmax of rows `start` to `stop`.

    Args:
        block: logits of the ids from `first` on; row r is `block[r * size : (r + 1) * size]`. With `factors`
            it becomes exp((x - highest) * inverse).
        inverses: 1 / temperature of each row.
        tokens: the token of each row.
        highest, counts, rests: of each row so far, and with this block afterwards: the highest logit, how
            many of them are counted apart, and the sum of exp((x - highest) * inverse) over the others, which
            is NaN if there is NaN.
        logits: logits of the tokens; those in this block are written.
        factors: gets the factors of the sums over earlier blocks; empty if they are not needed.
        keep: an empty array.
    """
    bfloat16, none = keep.size > 0, np.int64(0)  # no constants: `statistics` would be compiled for them
    for r in range(start, stop):
        begin, inverse, before = r * size, inverses[r], highest[r]
        top, count, rest, _, unknown = statistics(block, bfloat16, begin, size, keep, none, inverse, None)
        factor = 1.0
        if top > before:
            factor = math.exp((before - top) * inverse)
            highest[r], counts[r], rests[r] = top, count, rest + (counts[r] + rests[r]) * factor
        elif top == before:
            counts[r] += count
            rests[r] += rest
        else:
            rests[r] += (count + rest) * math.exp((top - before) * inverse)
        if unknown:
            rests[r] = np.nan
        at = tokens[r] - first
        if at >= 0 and at < size:
            logits[r] = block[begin + at]
        if factors.size:
            factors[r] = factor
            row = block[begin : begin + size]
            if abs(highest[r]) < np.inf:
                scaled_apart(row, highest[r], inverse, 1.0, False, keep, False, row)
            else:
                row[:] = 0.0 if highest[r] < 0.0 else np.nan


@jit(entry=True, plain=plain_rows.shares)
def shares(
    block: Floats, size: int, inverses: Floats, tokens: Ints, first: int, highest: Floats, scales: Floats,
    gains: Floats, keep: Bools, start: int, stop: int,
) -> None:  # fmt: skip
    """Turn the logits of a block into scale * exp((x - highest) * inverse), plus the gain at the token.

    Args:
        block, size, inverses, tokens, first, keep: as in `merge`.
        highest: the highest logit of each row.
        scales, gains: the scale and the gain of each row.
    """
    for r in range(start, stop):
        begin = r * size
        row = block[begin : begin + size]
        if abs(highest[r]) < np.inf:
            scaled_apart(row, highest[r], inverses[r], scales[r], False, keep, False, row)
        else:
            row[:] = np.nan
        at = tokens[r] - first
        if at >= 0 and at < size:
            row[at] += gains[r]
