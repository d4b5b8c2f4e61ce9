"""Calls of the compiled kernels over rows of checked logits, and the statistics of each row."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import Array, contiguous
from lite.kernels._logits import Logits
from lite.kernels._threads import for_rows

_SERIAL = 300_000  # logits: below, starting a thread costs more than it saves
_CHUNK = 400_000  # logits handed to a thread at a time


def run(kernel: Callable[..., None], logits: Logits, *args: Any) -> None:
    """Call `kernel(*args, start, stop)` over all rows, on threads where it pays."""
    run_rows(kernel, math.prod(logits.shape), logits.size, *args)


def run_rows(kernel: Callable[..., None], rows: int, size: int, *args: Any) -> None:
    """`run` over a number of rows of `size` logits."""
    chunk = max(1, _CHUNK // max(size, 1)) if rows * size > _SERIAL else max(rows, 1)

    def work(start: int, stop: int) -> None:
        kernel(*args, start, stop)

    for_rows(work, rows, chunk)


def numbers(
    logits: Logits, tokens: Array | None = None, ignore: int = -1, *, entropies: bool = False,
    totals: bool = False,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Log-probs of `tokens`, entropies, maxima and log-sums, each of the rows' shape.

    See `rows` in cpu/log_softmax.py. What is not asked for is empty, or None. Rows with the token `ignore`
    do not count. Raises IndexError for a token outside the vocabulary.
    """
    if logits.gpu is not None:
        from lite.kernels.cuda import log_softmax as cuda

        return cuda.numbers(logits.gpu, logits, tokens, ignore, entropies=entropies, totals=totals)
    from lite.kernels.cpu import log_softmax as cpu

    rows = math.prod(logits.shape)
    ids, flags = np.empty(0, np.int64), None
    if tokens is not None:
        ids, flags = contiguous(tokens, np.int64).reshape(-1), tokens != ignore
        if logits.counted is not None:
            flags &= logits.counted
    bad = np.full(1, -1, np.int64)
    wanted = (tokens is not None, entropies, totals, totals)
    out = [np.empty(rows if asked else 0, logits.dtype) for asked in wanted]
    spread = out[1] if entropies else None  # code for entropies is compiled only with an array for them
    run(cpu.rows, logits, *logits.operands(flags), ids, bad, out[0], spread, *out[2:])
    if tokens is not None:
        check_tokens(bad, tokens, logits.size)
    shaped = [a.reshape(logits.shape) if asked else a for a, asked in zip(out, wanted, strict=True)]
    return shaped[0], shaped[1], shaped[2], shaped[3]


def check_tokens(bad: NDArray[np.int64], tokens: Array, size: int) -> None:
    """Raise IndexError if `bad[0]` is the number of a row whose token is outside a vocabulary of `size`."""
    if bad[0] >= 0:
        position = tuple(int(i) for i in np.unravel_index(int(bad[0]), tokens.shape))
        raise IndexError(
            f"tokens{list(position)} is {tokens[position]}, which is outside the vocabulary of {size}"
        )
