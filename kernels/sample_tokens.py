"""Draw the next token of each row; with seeds, independently of the other rows."""

from __future__ import annotations  # numpy.random is imported on first use, and is slow to import

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import as_array, on_host
from lite.kernels._device import gpu_of, in_cuda_memory
from lite.kernels.sampling_plan import Bias, DrawDetails, SamplingPlan


@overload
def sample_tokens(
    logits: ArrayLike, seeds: ArrayLike | np.random.Generator, *, step: ArrayLike = ...,
    temperature: ArrayLike = ..., top_k: ArrayLike = ..., top_p: ArrayLike = ..., min_p: ArrayLike = ...,
    typical_p: ArrayLike = ..., repetition_penalty: ArrayLike = ...,
    previous: ArrayLike | Sequence[ArrayLike] | None = ..., bias: Bias | None = ...,
    mask: ArrayLike | None = ..., scores: ArrayLike | None = ..., details: Literal[False] = ...,
    kept_ids: bool = ..., top_n: int = ..., stream: Any = ...,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...  # fmt: skip
@overload
def sample_tokens(
    logits: ArrayLike, seeds: ArrayLike | np.random.Generator, *, step: ArrayLike = ...,
    temperature: ArrayLike = ..., top_k: ArrayLike = ..., top_p: ArrayLike = ..., min_p: ArrayLike = ...,
    typical_p: ArrayLike = ..., repetition_penalty: ArrayLike = ...,
    previous: ArrayLike | Sequence[ArrayLike] | None = ..., bias: Bias | None = ...,
    mask: ArrayLike | None = ..., scores: ArrayLike | None = ..., details: Literal[True],
    kept_ids: bool = ..., top_n: int = ..., stream: Any = ...,
) -> tuple[NDArray[np.int64], NDArray[np.float32], DrawDetails]: ...  # fmt: skip
def sample_tokens(
    logits: ArrayLike, seeds: ArrayLike | np.random.Generator, *, step: ArrayLike = 0,
    temperature: ArrayLike = 1.0, top_k: ArrayLike = 0, top_p: ArrayLike = 1.0, min_p: ArrayLike = 0.0,
    typical_p: ArrayLike = 1.0, repetition_penalty: ArrayLike = 1.0,
    previous: ArrayLike | Sequence[ArrayLike] | None = None, bias: Bias | None = None,
    mask: ArrayLike | None = None, scores: ArrayLike | None = None, details: bool = False,
    kept_ids: bool = False, top_n: int = 0, stream: Any = None,
) -> (
    tuple[NDArray[np.int64], NDArray[np.float32]]
    | tuple[NDArray[np.int64], NDArray[np.float32], DrawDetails]
):  # fmt: skip
    """Draw one token per row, and return it with the model's own log-prob of it.

    Filters apply in the order of Hugging Face's `generate`, from the penalty to `typical_p` below. An option
    is one value, or one per row; a `SamplingPlan` checks them once for many draws. With integer seeds a row's
    draw depends on nothing in other rows.

    Args:
        logits: `(rows, vocabulary)`, of a floating type; computed in float32.
        seeds: `(rows,)` integers, hashed with `step`; or a generator that draws for the rows in order.
        step: the index of the draw of the row's seed; increment it while generating.
        repetition_penalty: scores of `previous` tokens are divided by it, or multiplied where negative.
        previous: tokens so far: one array per row, or one padded with -1. Unknown ids are ignored.
        bias: `(offsets, ids, values)`: row r adds `values[offsets[r]:offsets[r + 1]]` to the scores of the
            `ids` there. -inf bans a token.
        mask: `(rows, vocabulary)` booleans, True for tokens that may be drawn; or int32 or uint32,
            `(rows, ceil(vocabulary / 32))`, whose bits are these, the lowest first.
        temperature: divides the scores; below 2**-126 the highest score is taken, the first of equal ones.
        top_k: only the k highest scores stay, with all that equal the k-th; 0 is off.
        top_p: only the most probable tokens stay, one at least, that hold this share; 1 is off.
        min_p: only tokens with at least this share of the best token's probability stay, in [0, 1].
        typical_p: of the rest, only the tokens stay that hold this share, their surprise nearest to the
            entropy (Meister et al., 2022), in [0, 1]; 1 is off.
        scores: `(rows, vocabulary)` to draw from, by all options, in place of the logits.
        details: return `DrawDetails`, float32 on the host, as a third result.
        kept_ids: list the tokens that filters kept in the details.
        top_n: number of the model's most probable tokens in the details.
        stream: for logits in CUDA memory: a stream of Numba, CuPy or torch, or a handle. Mask and `previous`,
            one array, are there too; the rest is read on the host. Draws are the CPU's but for rounding.

    Returns:
        Tokens, int64, and their natural log-probs by `logits` before all options, float32, both `(rows,)`.

    Raises:
        TypeError: a type that does not fit the argument; logits in CUDA memory and a mask that is not.
        ValueError: a shape or value that does not fit; a row with NaN, or with nothing left to draw.

    Example:
        >>> from lite.kernels import sample_tokens
        >>> sample_tokens([[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]], [7, 8], temperature=0)[0]
        array([0, 2])
    """
    gpu = gpu_of(stream, logits=logits, mask=mask, scores=scores)
    model = as_array("logits", logits)
    if model.ndim != 2 or (model.shape[0] and not model.shape[1]):
        raise ValueError(f"logits must have the shape (rows, vocabulary), got {model.shape}")
    options: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "typical_p": typical_p,
        "repetition_penalty": repetition_penalty,
        "seeds": seeds,
        "step": step,
    }
    if gpu is not None:
        there = {name: value for name, value in options.items() if in_cuda_memory(value)}
        options |= {name: on_host(name, value, gpu) for name, value in there.items()}
    step = options.pop("step")
    plan = SamplingPlan(model.shape, details=details, kept_ids=kept_ids, top_n=top_n, **options)
    tokens, log_probs, known = plan.draw(
        logits, step, previous=previous, bias=bias, mask=mask, scores=scores, stream=stream
    )
    return (tokens, log_probs) if known is None else (tokens, log_probs, known)
