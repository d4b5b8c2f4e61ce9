"""Log-probs of given tokens, without the log-softmax they are taken from."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import contiguous, is_bfloat16, is_float, native, rows_of, to_numpy
from lite.kernels._rows import for_rows

_SERIAL = 200_000  # logits: below, starting a thread costs more than it saves
_CHUNK = 400_000  # logits handed to a thread at a time

SMALLEST = 2.0**-126  # of normal float32 numbers


def token_log_probs(
    logits: ArrayLike,
    tokens: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    temperature: float = 1.0,
    ignore_index: int = -100,
) -> NDArray[Any]:
    """Natural log-prob of each token under the softmax of its row of logits.

    `log_softmax(logits / temperature)[token]`, in one pass over the logits and without an array of
    their size. Absolute error against float64 below 1e-6 for logits of up to 32 bits.

    Args:
        logits: `(*batch, vocabulary)`, float16, bfloat16, float32 or float64. Read where it lies as
            long as the last axis is contiguous, so `logits[:, :-1]` costs no copy.
        tokens: integers, shape `(*batch)`.
        mask: booleans, True for what counts. Of the shape of `tokens`: positions that are False
            get 0 and their tokens are not looked at. Of the shape of `logits`: tokens that are False
            cannot be drawn, they score -inf and the others share their probability.
        temperature: the logits are divided by it; positive.
        ignore_index: positions with this token get 0.

    Returns:
        Shape of `tokens`, float32 (float64 for float64 logits). A row in which nothing can be drawn
        (all masked, or all -inf) scores -inf for every token; logits of +inf share the probability
        among themselves; NaN in a row's admitted logits gives NaN for that row only.

    Raises:
        TypeError: logits not of a floating type, tokens not integers, mask not booleans, CUDA memory.
        ValueError: shapes that do not fit, a temperature that is not positive.
        IndexError: a token outside the vocabulary at a position that counts.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import token_log_probs
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
        >>> np.exp(token_log_probs(logits, np.array([0, 2]))).round(4).tolist()
        [0.5, 0.800000011920929]
        >>> token_log_probs(logits, np.array([0, -100]))
        array([-0.6931472,  0.       ], dtype=float32)
        >>> token_log_probs(logits, np.array([1, 1]), np.array([[False, True, True], [True, False, True]]))
        array([-0.6931472,       -inf], dtype=float32)
    """
    scores = native(to_numpy("logits", logits))
    ids = to_numpy("tokens", tokens)
    if not is_float(scores.dtype):
        raise TypeError(f"logits must be float16, bfloat16, float32 or float64, got {scores.dtype}")
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, got {ids.dtype}")
    if scores.ndim < 1 or ids.shape != scores.shape[:-1]:
        raise ValueError(
            f"tokens must have the shape of logits without the last axis: got tokens {ids.shape}, "
            f"logits {scores.shape}"
        )
    if not isinstance(temperature, (int, float, np.number)):
        raise TypeError(f"temperature must be a number, got {type(temperature).__name__}")
    if not (temperature >= SMALLEST and math.isfinite(temperature)):
        raise ValueError(f"temperature must be positive and finite (and at least 2**-126), got {temperature}")
    scored = ids != ignore_index
    keep, keep_starts = np.empty(0, np.bool_), np.empty(0, np.int64)
    if mask is not None:
        flags = to_numpy("mask", mask)
        if flags.dtype != np.bool_:
            raise TypeError(f"mask must be boolean, got {flags.dtype}")
        if flags.shape == ids.shape:
            scored &= flags
        elif flags.shape == scores.shape:
            keep, keep_starts = rows_of(flags)
        else:
            raise ValueError(
                f"mask must have the shape of tokens {ids.shape} or of logits {scores.shape}, "
                f"got {flags.shape}"
            )

    size = scores.shape[-1]
    targets = contiguous(ids, np.int64).reshape(-1)
    counted = contiguous(scored, np.bool_).reshape(-1)
    wide = scores.dtype == np.float64
    out = np.zeros(targets.size, np.float64 if wide else np.float32)
    bad = np.full(1, -1, np.int64)
    rest = (keep, keep_starts, targets, counted, 1.0 / temperature, out, bad)
    run = _rows64(scores, size, rest) if wide else _rows32(scores, size, rest)
    chunk = max(1, _CHUNK // max(size, 1)) if targets.size * size > _SERIAL else max(targets.size, 1)
    for_rows(run, targets.size, chunk)
    if bad[0] >= 0:
        position = tuple(int(i) for i in np.unravel_index(int(bad[0]), ids.shape))
        raise IndexError(
            f"tokens{list(position)} is {ids[position]}, which is outside the vocabulary of {size} "
            f"(and not ignore_index={ignore_index})"
        )
    return out.reshape(ids.shape)


def _rows32(scores: NDArray[Any], size: int, rest: tuple[Any, ...]) -> Any:
    from lite.kernels.cpu import token_log_probs as cpu

    if scores.dtype == np.float32:
        kind, bits = cpu.FLOAT32, np.empty(0, np.uint16)
        flat, starts = rows_of(scores)
    else:
        kind, flat = cpu.BFLOAT16 if is_bfloat16(scores.dtype) else cpu.FLOAT16, np.empty(0, np.float32)
        bits, starts = rows_of(scores.view(np.uint16))
    return lambda start, stop: cpu.rows32(flat, bits, kind, starts, size, *rest, start, stop)


def _rows64(scores: NDArray[Any], size: int, rest: tuple[Any, ...]) -> Any:
    from lite.kernels.cpu import token_log_probs as cpu

    flat, starts = rows_of(scores)
    return lambda start, stop: cpu.rows64(flat, starts, size, *rest, start, stop)
