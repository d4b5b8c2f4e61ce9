"""Log-softmax of logits, and statistics of it that need no array of its size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import rows_of
from lite.kernels._device import gpu_of
from lite.kernels._logits import Logits
from lite.kernels._row_numbers import numbers, run

_CACHED = 1 << 22  # bytes: a larger result bypasses the caches, as it would not fit them


class LogSoftmaxStats(NamedTuple):
    """Results of `log_softmax_stats`: two arrays of the shape of the logits without the vocabulary."""

    max: NDArray[Any]
    """The highest logit / temperature."""
    log_sum_exp: NDArray[Any]
    """The log of the sum of exp(logit / temperature): a log-prob is logit / temperature less this."""


def masked_log_softmax(
    logits: ArrayLike, mask: ArrayLike | None = None, *, axis: int = -1, temperature: float = 1.0,
    out: NDArray[Any] | None = None, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """Log-probs of all tokens: x - log(sum(exp(x))) with x = logits / temperature.

    Each row is read twice, the second time from a cache. Relative error below 1e-6 against float64 for
    logits of up to 32 bits, close to 0 too.

    Args:
        logits: float16, bfloat16, float32 or float64, of any shape with at least one axis. Read where it
            lies as long as `axis` is contiguous, else copied once.
        mask: booleans, True for what counts. Of the shape of the logits without `axis`: positions that are
            False are 0 throughout. Of the shape of the logits: tokens that are False cannot be drawn, they
            get -inf and the others share their probability.
        axis: the one of the vocabulary.
        temperature: the logits are divided by it; from 2**-126 to 2**100.
        out: where to write: an array of the shape of the logits and of the result's type. It may be
            `logits` itself.
        stream: for arrays in CUDA memory: a Numba stream, the handle of one, or a CuPy or torch stream. The
            result lies there too, and is not waited for.

    Returns:
        The shape of `logits`, float32 (float64 for float64 logits); `out` where it is given. A row in
        which nothing can be drawn (all masked, or all -inf) is -inf throughout; logits of +inf share the
        probability among themselves; NaN in a row's admitted logits makes that row NaN, and no other.

    Raises:
        TypeError: logits not of a floating type, mask not booleans, `out` of another type, arrays
            in CUDA memory beside others.
        ValueError: shapes that do not fit, no such axis, a temperature out of range.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import masked_log_softmax
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
        >>> np.exp(masked_log_softmax(logits, np.array([[True, True, False], [True, True, True]]))).round(3)
        array([[0.667, 0.333, 0.   ],
               [0.1  , 0.1  , 0.8  ]], dtype=float32)
        >>> masked_log_softmax(logits, np.array([False, True])).round(3)
        array([[ 0.   ,  0.   ,  0.   ],
               [-2.303, -2.303, -0.223]], dtype=float32)
    """
    gpu = gpu_of(stream, logits=logits, mask=mask, out=out)
    rows = Logits(logits, mask, temperature, axis, gpu)
    if gpu is not None:
        from lite.kernels.cuda import log_softmax as cuda

        return cuda.masked_log_softmax(gpu, rows, out)
    result = _result(rows, out)
    # Compiled code writes to memory whose rows are contiguous, and reads no row after it wrote to another.
    target = np.moveaxis(result, axis, -1)
    same = target.ctypes.data == rows.array.ctypes.data and target.strides == rows.array.strides
    apart = not np.may_share_memory(target, rows.array)
    direct = target.strides[-1] == target.itemsize and (apart or same)
    flat, starts = rows_of(target if direct else np.empty(target.shape, rows.dtype))
    if target.size:
        from lite.kernels.cpu import log_softmax as cpu

        past = target.nbytes > _CACHED and not same and flat.flags.aligned
        run(cpu.log_softmax, rows, *rows.operands(), past, flat, starts)
        if not direct:
            target[...] = flat.reshape(target.shape)
    return result


def _result(rows: Logits, out: NDArray[Any] | None) -> NDArray[Any]:
    """`out` after checks, or a new contiguous array."""
    if out is None:
        return np.moveaxis(np.empty(rows.array.shape, rows.dtype), -1, rows.axis)
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an array of {rows.dtype}, got {type(out).__name__}")
    rows.check_out(out, out.flags.writeable)
    return out


def entropy(
    logits: ArrayLike, mask: ArrayLike | None = None, *, axis: int = -1, temperature: float = 1.0,
    stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """Entropy in nats of the softmax of each row of logits, in one pass over them.

    log(sum(exp(x))) - sum(x exp(x)) / sum(exp(x)) with x = logits / temperature, taken from the highest x
    on; all terms are positive, so confident rows keep their relative precision.

    Args:
        logits: as in `masked_log_softmax`.
        mask: booleans of the shape of the logits without `axis`, or of their shape; tokens that are False
            cannot be drawn.
        axis: the one of the vocabulary.
        temperature: the logits are divided by it; from 2**-126 to 2**100.
        stream: as in `masked_log_softmax`.

    Returns:
        The shape of the logits without `axis`, float32 (float64 for float64 logits). Masked positions, and
        rows in which nothing can be drawn, get 0; n logits of +inf give log(n); NaN in a row's admitted
        logits gives NaN for that row only.

    Raises:
        TypeError: logits not of a floating type, mask not booleans, arrays in CUDA
            memory beside others.
        ValueError: shapes that do not fit, no such axis, a temperature out of range.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import entropy
        >>> logits = np.array([[0, 0, -np.inf, 0], [5, -np.inf, -np.inf, -np.inf]], np.float32)
        >>> np.exp(entropy(logits)).round(4).tolist()
        [3.0, 1.0]
        >>> entropy(logits, np.array([True, False])).round(4).tolist()
        [1.0986000299453735, 0.0]
    """
    gpu = gpu_of(stream, logits=logits, mask=mask)
    return numbers(Logits(logits, mask, temperature, axis, gpu), entropies=True)[1]


def log_softmax_stats(
    logits: ArrayLike, mask: ArrayLike | None = None, *, axis: int = -1, temperature: float = 1.0,
    stream: Any = None,
) -> LogSoftmaxStats:  # fmt: skip
    """The maximum and the log of the sum of exponentials of each row, in one pass over the logits.

    With them `logits / temperature - log_sum_exp[..., None]` is the log-softmax: enough to score any token
    later, from 8 bytes a row.

    Args:
        logits: as in `masked_log_softmax`.
        mask: booleans of the shape of the logits without `axis`, or of their shape; tokens that are False
            are left out.
        axis: the one of the vocabulary.
        temperature: the logits are divided by it; from 2**-126 to 2**100.
        stream: as in `masked_log_softmax`.

    Returns:
        `LogSoftmaxStats(max, log_sum_exp)`, each of the shape of the logits without `axis`, float32
        (float64 for float64 logits). Masked positions get 0 for both; rows in which nothing can be drawn
        -inf; rows with +inf inf; NaN in a row's admitted logits gives NaN for that row only.

    Raises:
        TypeError: logits not of a floating type, mask not booleans, arrays in CUDA
            memory beside others.
        ValueError: shapes that do not fit, no such axis, a temperature out of range.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import log_softmax_stats
        >>> log_softmax_stats(np.log(np.array([[1.0, 2.0, 5.0]], np.float32))).log_sum_exp
        array([2.0794415], dtype=float32)
    """
    gpu = gpu_of(stream, logits=logits, mask=mask)
    return LogSoftmaxStats(*numbers(Logits(logits, mask, temperature, axis, gpu), totals=True)[2:])
