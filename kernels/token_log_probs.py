"""Log-probs of given tokens, and entropies, without the log-softmax they are taken from."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import contiguous
from lite.kernels._device import gpu_of
from lite.kernels._logits import Logits, Support, checked_support, token_array
from lite.kernels._row_numbers import check_tokens, numbers, run


class TokenScores(NamedTuple):
    """Results of `token_scores`: float64 arrays of the shape of the tokens."""

    log_probs: NDArray[np.float64]
    """Log-probs of the tokens in the model: at temperature 1, among all tokens."""
    sampled_log_probs: NDArray[np.float64]
    """Log-probs of the tokens in the distribution that they were drawn from."""
    kept_log_mass: NDArray[np.float64]
    """The log of the share of the distribution at its temperature that the support holds."""
    entropy: NDArray[np.float64]
    """Entropy of the model, in nats: at temperature 1, of all tokens."""


def token_log_probs(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None = None, *, temperature: ArrayLike = 1.0,
    support: Support | None = None, ignore_index: int = -100, stream: Any = None,
) -> NDArray[Any]:  # fmt: skip
    """Natural log-prob of each token under the softmax of its row of logits.

    `log_softmax(logits / temperature)[token]`, in one pass over the logits and without an array of
    their size. Absolute error against float64 below 1e-6 for logits of up to 32 bits.

    Args:
        logits: `(*batch, vocabulary)`, float16, bfloat16, float32 or float64. Views whose last axis is
            contiguous are not copied.
        tokens: integers, shape `(*batch)`.
        mask: booleans. Of the shape of `tokens`: where False the result is 0, whatever the token. Of the
            shape of `logits`: tokens that are False have no probability and score -inf.
        temperature: divides the logits; from 2**-126 to 2**100. One number, or one for each row.
        support: `(offsets, ids)`, integers on the host: only the tokens `ids[offsets[r]:offsets[r + 1]]` of
            row r, counted in C order, have a probability; all of them where there are none. Not together
            with a mask of the shape of `logits`.
        ignore_index: positions with this token get 0.
        stream: for arrays in CUDA memory: a stream of Numba, CuPy or torch, or a handle. The result is there;
            the call waits for it.

    Returns:
        Shape of `tokens`, float32 (float64 for float64 logits). A row in which nothing can be drawn (all
        masked, or all -inf) scores -inf for every token; logits of +inf share the probability among
        themselves; NaN in a row's admitted logits gives NaN for that row only.

    Raises:
        TypeError: logits not of a floating type, tokens or the support not integers, mask not booleans,
            arrays in CUDA memory beside others.
        ValueError: shapes that do not fit, a temperature out of range, offsets that do not ascend from 0 to
            the number of ids, an id twice in one row.
        IndexError: a token outside the vocabulary at a position that counts, or an id of the support.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import token_log_probs
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
        >>> np.exp(token_log_probs(logits, np.array([0, 2]))).round(4).tolist()
        [0.5, 0.800000011920929]
        >>> token_log_probs(logits, np.array([1, 1]), np.array([[False, True, True], [True, False, True]]))
        array([-0.6931472,       -inf], dtype=float32)
    """
    if support is None:
        return _without_support(logits, tokens, mask, temperature, ignore_index, stream, entropies=False)[0]
    args = logits, tokens, mask, temperature, support, ignore_index, stream
    rows, scores = _with_support(*args, model=False)
    sampled = scores.sampled_log_probs
    return sampled if rows.gpu is not None else sampled.astype(rows.dtype)


def token_scores(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None = None, *, temperature: ArrayLike = 1.0,
    support: Support | None = None, ignore_index: int = -100, stream: Any = None,
) -> TokenScores:  # fmt: skip
    """Statistics for training of the distributions that tokens were sampled from, in one pass.

    Beside the model's own log-prob and entropy: the log-prob under `softmax(logits / temperature)`
    restricted to the `support`, and the log of the probability that the support has there. Without penalties
    they are the numbers that `SamplingPlan` gives with each draw, and
    `sampled_log_probs == token_log_probs(logits, tokens, temperature=temperature) - kept_log_mass`.

    Args:
        logits: `(*batch, vocabulary)`, as in `token_log_probs`.
        tokens: integers, shape `(*batch)`.
        mask: booleans of the shape of `tokens`: positions that are False get 0 throughout.
        temperature, support: as in `token_log_probs`.
        ignore_index: positions with this token get 0 throughout.
        stream: for arrays in CUDA memory, as in `token_log_probs`.

    Returns:
        `TokenScores(log_probs, sampled_log_probs, kept_log_mass, entropy)`, each of the shape of `tokens`,
        float64; from logits of up to 32 bits right to 1e-6 (in CUDA memory 2e-6). Of a token outside its
        support the second is -inf; a row without a support has a mass of 1, whose log is 0.

    Raises:
        TypeError, ValueError, IndexError: as in `token_log_probs`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import token_scores
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
        >>> scores = token_scores(logits, np.array([0]), temperature=0.5, support=([0, 2], [0, 1]))
        >>> [float(np.exp(part[0]).round(4)) for part in scores[:3]]
        [0.5, 0.8, 0.8333]
    """
    return _with_support(logits, tokens, mask, temperature, support, ignore_index, stream, model=True)[1]


def token_log_probs_and_entropy(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None = None, *, temperature: ArrayLike = 1.0,
    ignore_index: int = -100, stream: Any = None,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """`token_log_probs` and `entropy` in the same pass over the logits, as policy gradients need them.

    Args:
        logits: `(*batch, vocabulary)`, as in `token_log_probs`.
        tokens: integers, shape `(*batch)`.
        mask: booleans of the shape of `tokens` or of `logits`, as in `token_log_probs`.
        temperature: the logits are divided by it; from 2**-126 to 2**100. One number, or one for each row.
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
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [1e-30, 1e-30, 1]], np.float32))
        >>> log_probs, entropies = token_log_probs_and_entropy(logits, np.array([1, 2]))
        >>> np.exp(log_probs).round(4)
        array([0.25, 1.  ], dtype=float32)
        >>> entropies.round(4)
        array([1.0397, 0.    ], dtype=float32)
    """
    return _without_support(logits, tokens, mask, temperature, ignore_index, stream, entropies=True)


def _without_support(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None, temperature: ArrayLike, ignore_index: int,
    stream: Any, *, entropies: bool,
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Log-probs and entropies; an empty array in place of the latter without `entropies`."""
    gpu = gpu_of(stream, logits=logits, tokens=tokens, mask=mask)
    rows = Logits(logits, mask, temperature, gpu=gpu)
    ids = token_array(tokens, rows.array.shape)
    return numbers(rows, ids, ignore_index, entropies=entropies)[:2]


def _with_support(
    logits: ArrayLike, tokens: ArrayLike, mask: ArrayLike | None, temperature: ArrayLike,
    support: Support | None, ignore_index: int, stream: Any, *, model: bool,
) -> tuple[Logits, TokenScores]:  # fmt: skip
    """The checked logits and the scores; without `model`, only `sampled_log_probs` are computed."""
    gpu = gpu_of(stream, logits=logits, tokens=tokens, mask=mask)
    rows = Logits(logits, mask, temperature, gpu=gpu)
    if rows.keep is not None:
        raise ValueError(
            f"mask must have the shape of the positions {rows.shape} here, got that of logits: "
            "the support restricts the vocabulary"
        )
    ids = token_array(tokens, rows.array.shape)
    count = math.prod(rows.shape)
    offsets, kept = np.zeros(count + 1, np.int64), np.empty(0, np.int32)
    if support is not None:
        offsets, kept = checked_support(support, count, rows.size)
    if gpu is not None:
        from lite.kernels.cuda import token_log_probs as cuda

        return rows, TokenScores(*cuda.scores(gpu, rows, ids, ignore_index, offsets, kept, model=model))
    from lite.kernels.cpu import token_log_probs as cpu

    flags = ids != ignore_index
    if rows.counted is not None:
        flags &= rows.counted
    flat, bfloat16, starts, size, keep, _, counted, inverses = rows.operands(flags)
    wanted = cpu.MODEL | cpu.SAMPLED | cpu.MASS if model else cpu.SAMPLED
    bad, out = np.full(1, -1, np.int64), np.zeros((4, count))
    args = (
        flat, bfloat16, starts, size, keep, counted, inverses, contiguous(ids, np.int64).reshape(-1), bad,
        offsets, kept, wanted, *out,
    )  # fmt: skip
    longest = int(np.diff(offsets).max(initial=0))
    free: list[NDArray[Any]] = []  # scratch memory, one for each thread that runs at the same time

    def kernel(start: int, stop: int) -> None:
        try:
            scratch = free.pop()
        except IndexError:
            scratch = np.empty(longest, flat.dtype)
        cpu.scores(*args, scratch, start, stop)
        free.append(scratch)

    run(kernel, rows)
    check_tokens(bad, ids, size)
    log_probs, entropies, sampled, masses = out.reshape(4, *rows.shape)
    return rows, TokenScores(log_probs, sampled, masses, entropies)
