"""Log-probs of given tokens, and entropies, without the log-softmax they are taken from."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from lite.kernels._device import gpu_of
from lite.kernels._logits import Logits, token_array
from lite.kernels._row_numbers import numbers


def token_log_probs(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None = None, *, temperature: float = 1.0,
    ignore_index: int = -100, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
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
        temperature: the logits are divided by it; from 2**-126 to 2**100.
        ignore_index: positions with this token get 0.
        stream: for arrays in CUDA memory: a Numba stream, the handle of one, or a CuPy or torch stream. The
            result lies there too; the call waits for it, because the kernel checks the tokens.

    Returns:
        Shape of `tokens`, float32 (float64 for float64 logits). A row in which nothing can be drawn
        (all masked, or all -inf) scores -inf for every token; logits of +inf share the probability
        among themselves; NaN in a row's admitted logits gives NaN for that row only.

    Raises:
        TypeError: logits not of a floating type, tokens not integers, mask not booleans, arrays in CUDA
            memory beside others.
        ValueError: shapes that do not fit, a temperature out of range.
        IndexError: a token outside the vocabulary at a position that counts. Tokens are looked at by the
            kernel, which never reads there.

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
    return _scored(logits, tokens, mask, temperature, ignore_index, stream, entropies=False)[0]


def token_log_probs_and_entropy(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None = None, *, temperature: float = 1.0,
    ignore_index: int = -100, stream: Any = None,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """`token_log_probs` and `entropy` in the same pass over the logits, as policy gradients need them.

    Args:
        logits: `(*batch, vocabulary)`, as in `token_log_probs`.
        tokens: integers, shape `(*batch)`.
        mask: booleans of the shape of `tokens` or of `logits`, as in `token_log_probs`.
        temperature: the logits are divided by it; from 2**-126 to 2**100.
        ignore_index: positions with this token get 0, twice.
        stream: as in `token_log_probs`.

    Returns:
        Log-probs of the tokens and entropies in nats, each of the shape of `tokens`, float32 (float64
        for float64 logits). Masked positions get 0 for both.

    Raises:
        TypeError, ValueError, IndexError: as in `token_log_probs`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import token_log_probs_and_entropy
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0, 0, 1]]) + 1e-30)
        >>> log_probs, entropies = token_log_probs_and_entropy(logits, np.array([1, 2]))
        >>> np.exp(log_probs).round(4).tolist(), entropies.round(4).tolist()
        ([0.25, 1.0], [1.0397, 0.0])
    """
    return _scored(logits, tokens, mask, temperature, ignore_index, stream, entropies=True)


def _scored(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None, temperature: float, ignore_index: int,
    stream: Any, *, entropies: bool,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    gpu = gpu_of(stream, logits=logits, tokens=tokens, mask=mask)
    rows = Logits(logits, mask, temperature, gpu=gpu)
    ids = token_array(tokens, rows.array.shape)
    return numbers(rows, ids, ignore_index, entropies=entropies)[:2]
