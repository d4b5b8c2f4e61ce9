"""Draw the next token of every row, reproducibly whatever else is in the batch."""

from __future__ import annotations  # numpy.random is imported on first use, and is slow to import

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import as_array, is_float
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
    """Draw one token per row, and give the model's own log-prob of it.

    The filters work in the order of Hugging Face's `generate`: repetition penalty, bias, mask, temperature,
    top-k, top-p, min-p, typical-p; their ties are resolved as there. A row's draw depends on its seed, its
    step, its logits and its options only, never on the other rows.

    Each option is one value for all rows or an array of one per row. Where they stay from draw to draw, a
    `SamplingPlan` checks them once.

    Args:
        logits: `(rows, vocabulary)`, of a floating type; computed in float32.
        seeds: `(rows,)` integers, hashed with `step` to the row's uniform draw; or a generator, which then
            gives one draw per row in order (rows depend on their place in the batch then).
        step: which draw of the row's seed this is; count it up while generating.
        temperature: the scores are divided by it; 0, or less than 2**-126, takes the highest score (the
            first of equal ones).
        top_k: only the k highest scores stay, with all that equal the k-th; 0 is off.
        top_p: only the most probable tokens stay that hold this share of the probability, in [0, 1]; the
            most probable one always does; 1 is off.
        min_p: only tokens with at least this share of the best token's probability stay, in [0, 1].
        typical_p: of what the other filters left, only the tokens stay that hold this share of the
            probability, their surprise nearest to the entropy (Meister et al., 2022), in [0, 1]; 1 is off.
        repetition_penalty: scores of `previous` tokens are divided by it, or multiplied where negative.
        previous: tokens already there: one array per row, or one padded with -1. Tokens outside the
            vocabulary are passed over.
        bias: `(offsets, ids, values)`, added to scores; in row r `values[offsets[r]:offsets[r + 1]]` to those
            of the tokens `ids[offsets[r]:offsets[r + 1]]`. -inf bans a token.
        mask: `(rows, vocabulary)` booleans, True for tokens that may be drawn; or int32 or uint32,
            `(rows, ceil(vocabulary / 32))`, whose bits are these, the lowest first.
        scores: `(rows, vocabulary)`: what is drawn from in place of the logits, whose log-probs are given
            nevertheless. Penalty, bias, mask and filters apply to them.
        details: whether `DrawDetails` come as a third result. Of float64 logits they are those of float32.
        kept_ids: whether these list the tokens that were kept.
        top_n: how many of the model's most probable tokens they list.
        stream: for logits in CUDA memory: a Numba stream, the handle of one, or a CuPy or torch stream. Mask
            and `previous`, as one array, lie beside them; seeds, steps and options may be on the host, where
            they are read in any case. The draws are those of the CPU but for rounding; details are on the
            host.

    Returns:
        Tokens, int64, and their natural log-probs, float32, both `(rows,)`, and if asked for the details. The
        log-probs are those of the model: of the logits before mask, penalty, temperature and filters.

    Raises:
        TypeError: a type that does not fit the argument; logits in CUDA memory and a mask that is not.
        ValueError: a shape or value that does not fit; a row with NaN, or with nothing left to draw.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import sample_tokens
        >>> logits = np.log(np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]], np.float32))
        >>> tokens, log_probs = sample_tokens(logits, np.array([7, 8]), temperature=0)
        >>> tokens.tolist(), np.exp(log_probs).round(3).tolist()
        ([0, 2], [0.6000000238418579, 0.800000011920929])
        >>> both, _ = sample_tokens(logits, np.array([7, 8]), top_k=2)
        >>> alone, _ = sample_tokens(logits[1:], np.array([8]), top_k=2)
        >>> bool(both[1] == alone[0])
        True
    """
    gpu = gpu_of(stream, logits=logits, mask=mask, scores=scores)
    model = as_array("logits", logits)
    if not is_float(model.dtype):
        raise TypeError(f"logits must be float16, bfloat16, float32 or float64, got {model.dtype}")
    if model.ndim != 2 or (model.shape[0] and not model.shape[1]):
        raise ValueError(f"logits must have the shape (rows, vocabulary), got {model.shape}")
    options: dict[str, Any] = {
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
        "repetition_penalty": repetition_penalty,
    }  # fmt: skip
    if gpu is not None:
        options = {name: _on_host(name, value, gpu) for name, value in options.items()}
        seeds, step = _on_host("seeds", seeds, gpu), _on_host("step", step, gpu)
    plan = SamplingPlan(model.shape, seeds, details=details, kept_ids=kept_ids, top_n=top_n, **options)
    tokens, log_probs, known = plan.draw(
        logits, step, previous=previous, bias=bias, mask=mask, scores=scores, stream=stream
    )
    return (tokens, log_probs) if known is None else (tokens, log_probs, known)


def _on_host(name: str, value: Any, gpu: Any) -> Any:
    """`value`, which is small, on the host."""
    if not in_cuda_memory(value):
        return value
    from lite.kernels.cuda._copies import fetched

    return fetched(gpu, as_array(name, value))
