"""Losses of language models on log-probs of tokens: GRPO and its relatives, and penalties for divergence.

They are functions of arrays: whoever trains the model has the log-probs, of this library (`OnnxWrapper`,
`token_log_probs`) or of another, and takes the gradient by them. `GRPOLoss` is the module around them.
"""

from __future__ import annotations

import math

import numpy as np

from lite import TensorDict
from lite._arrays.dtypes import Dtype
from lite._arrays.types import Array, as_array
from lite.nn.losses.ppo import clip_bounds, log_bounds
from lite.nn.values.entries import detached

_AGGREGATIONS = ("token_mean", "prompt_mean", "constant", "none")
_OBJECTIVES = ("clip", "cispo")


def kl_penalty(
    log_probs: Array, ref_log_probs: Array, mask: Array | None = None, *, estimator: str = "k3"
) -> Array:
    """An estimate, for each token, of how far a model has gone from another one.

    With d = log_probs - ref_log_probs, of tokens that the first model drew:

    - "k1", d: without bias, but often negative;
    - "k2", d² / 2: never negative, biased; its gradient is that of the divergence;
    - "k3", exp(-d) - 1 + d: never negative and without bias.

    Args:
        log_probs: log-probs of the tokens under the model that learns, (*batch, tokens).
        ref_log_probs: log-probs of the same tokens under the other model, a constant.
        mask: True where a token counts, of the same shape. The others give 0, whatever they hold.
        estimator: "k1", "k2" or "k3".

    Returns:
        An array of the shape of `log_probs`.

    Raises:
        ValueError: another estimator, shapes that differ, NaN where a token counts.

    Source:
        Schulman (2020), Approximating KL divergence, http://joschu.net/blog/kl-approx.html; "k3" is the
        penalty of GRPO (Shao et al., 2024, arXiv:2402.03300).

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import kl_penalty
        >>> kl_penalty(np.log([[0.5, 0.25]]), np.log([[0.25, 0.25]])).round(4)
        array([[0.1931, 0.    ]])
    """
    if estimator not in ("k1", "k2", "k3"):
        raise ValueError(f"estimator must be 'k1', 'k2' or 'k3', got {estimator!r}.")
    mask = _mask_of(log_probs, mask)
    d = kept_log_probs("log_probs", log_probs, mask) - detached(
        kept_log_probs("ref_log_probs", ref_log_probs, mask)
    )
    if estimator == "k1":
        return d
    return 0.5 * d * d if estimator == "k2" else np.expm1(-d) + d


def aggregate_tokens(
    loss: Array, mask: Array | None = None, *, aggregation: str = "token_mean", max_tokens: int | None = None
) -> Array:
    """One number of a loss per token.

    Args:
        loss: (prompts, tokens).
        mask: True where a token counts, of the same shape.
        aggregation: "token_mean", over all tokens of the batch (DAPO); "prompt_mean", over the responses'
            means (GRPO), so that tokens of long responses count less; "constant", the sum over the number of
            responses and `max_tokens` (Dr. GRPO); "none", the loss with 0 where it is masked.
        max_tokens: how long a response can be, for "constant"; the length of the array by default.

    Raises:
        ValueError: another aggregation, or shapes that differ.

    Source:
        Shao et al. (2024, arXiv:2402.03300), Yu et al. (2025, DAPO, arXiv:2503.14476), Liu et al. (2025,
        arXiv:2503.20783); torchrl.objectives.llm.GRPOLoss, `loss_type` of TRL's GRPOTrainer.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import aggregate_tokens
        >>> loss, mask = np.array([[1.0, 1.0, 1.0], [4.0, 0.0, 0.0]]), np.array([[1, 1, 1], [1, 0, 0]], bool)
        >>> [float(aggregate_tokens(loss, mask, aggregation=how)) for how in ("token_mean", "prompt_mean")]
        [1.75, 2.5]
    """
    if aggregation not in _AGGREGATIONS:
        raise ValueError(f"aggregation must be one of {_AGGREGATIONS}, got {aggregation!r}.")
    mask = _mask_of(loss, mask)
    loss = np.where(mask, loss, loss.dtype.type(0))
    if aggregation == "none":
        return loss
    if aggregation == "token_mean":
        return loss.sum() / _count(mask, loss.dtype)
    if aggregation == "constant":
        responses = math.prod(loss.shape[:-1])
        return loss.sum() / max(responses * (max_tokens or loss.shape[-1]), 1)
    counts = np.maximum(mask.sum(-1), 1).astype(loss.dtype)
    return (loss.sum(-1) / counts).mean()


def grpo_loss(
    log_probs: Array,
    sample_log_probs: Array | None,
    advantage: Array,
    mask: Array | None = None,
    *,
    clip_epsilon: float | tuple[float, float] = 0.2,
    aggregation: str = "token_mean",
    max_tokens: int | None = None,
    importance_sampling_level: str = "token",
    kl_mask_threshold: float | None = None,
    ref_log_probs: Array | None = None,
    kl_to_ref_coeff: float | None = None,
    kl_estimator: str = "k3",
    use_bias_correction_kl: bool = False,
    kl_to_inference_coeff: float | None = None,
    entropy: Array | None = None,
    entropy_coeff: float = 0.01,
    objective: str = "clip",
) -> TensorDict:
    """The clipped loss of PPO on tokens, with the advantage of a response among those to the same prompt.

    Args:
        log_probs: log-probs of the tokens under the model that learns, (prompts, tokens).
        sample_log_probs: under the model that drew the tokens, a constant; None for the same model.
        advantage: one per response, (prompts) or (prompts, 1), as `lite.data.group_advantages` gives; or one
            per token, the shape of `log_probs`, with or without a last dimension of 1.
        mask: True for tokens of responses, of the shape of `log_probs`; the others may be NaN.
        clip_epsilon: ratios count from 1 - clip_epsilon to 1 + clip_epsilon; or a pair, below and above.
        aggregation, max_tokens: see `aggregate_tokens`.
        importance_sampling_level: "token", or "sequence" for one ratio of each response, the geometric mean
            of its tokens' (GSPO).
        kl_mask_threshold: leave out tokens where half the square of the log-ratio exceeds this.
        ref_log_probs, kl_to_ref_coeff, kl_estimator: log-probs under a model to stay near, a constant; the
            divergence's weight; see `kl_penalty`.
        use_bias_correction_kl: multiply that divergence by the ratio, with its derivative: the gradient is
            then without bias, also where another model drew the tokens. TRL's option, not TorchRL's.
        kl_to_inference_coeff: the weight of the divergence from the model that drew the tokens.
        entropy, entropy_coeff: entropy of each token's distribution, the shape of `log_probs`; its weight.
        objective: "clip", the lesser of the gains with the ratio and with the clipped one; "cispo", the gain
            with the clipped one, so that tokens beyond the limits have no gradient.

    Returns:
        A TensorDict with "loss_objective", and "loss_kl_to_ref", "loss_kl_to_inference" and "loss_entropy"
        where asked for; to log, "clip_fraction", "kl_approx", "ESS" (effective sample size as a share of the
        tokens), and the means "kl_to_ref", "kl_to_inference" and "entropy".

    Raises:
        ValueError: shapes that differ, unknown names, NaN where a token counts, no `ref_log_probs`.

    Source:
        Shao et al. (2024), DeepSeekMath (arXiv:2402.03300); GSPO (2507.18071); CISPO (2506.13585), all as in
        torchrl.objectives.llm; DeepSeek-V3.2 (2512.02556) and TRL's GRPOTrainer for `use_bias_correction_kl`.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import grpo_loss
        >>> before, now = np.full((4, 3), -1.0), np.full((4, 3), -0.9)
        >>> out = grpo_loss(now, before, np.array([1.0, 0.0, 0.0, 1.0]))
        >>> round(float(out["loss_objective"]), 4)
        -0.5526
    """
    if objective not in _OBJECTIVES:
        raise ValueError(f"objective must be one of {_OBJECTIVES}, got {objective!r}.")
    mask = _mask_of(log_probs, mask)
    given = detached(log_probs) if sample_log_probs is None else detached(sample_log_probs)
    now, before = (
        kept_log_probs("log_probs", log_probs, mask),
        kept_log_probs("sample_log_probs", given, mask),
    )
    log_weight = now - before
    if kl_mask_threshold is not None:
        mask = mask & (0.5 * detached(log_weight) ** 2 <= kl_mask_threshold)
    log_ratio = _ratios(log_weight, mask, importance_sampling_level)
    gains = _per_token(advantage, log_probs.shape, log_probs.dtype)
    clipped = np.clip(log_ratio, *log_bounds(*clip_bounds(clip_epsilon)))
    gain = np.exp(clipped) * gains
    if objective == "clip":
        gain = np.minimum(np.exp(log_ratio) * gains, gain)
    known = np.broadcast_to(detached(log_ratio), log_probs.shape)
    beyond = (known != detached(clipped)) & mask
    count = _count(mask, log_probs.dtype)

    def reduced(loss: Array) -> Array:
        loss = np.broadcast_to(loss, mask.shape)
        return aggregate_tokens(loss, mask, aggregation=aggregation, max_tokens=max_tokens)

    def mean(values: Array) -> Array:
        return np.where(mask, detached(values), 0).sum() / count

    out = TensorDict(
        loss_objective=reduced(-gain),
        clip_fraction=beyond.sum().astype(log_probs.dtype) / count,
        kl_approx=-mean(log_weight),
        ESS=_effective_sample_size(known, mask) / count,
    )
    if kl_to_ref_coeff is not None and ref_log_probs is None:
        raise ValueError("kl_to_ref_coeff needs ref_log_probs, the log-probs of the model to stay near.")
    penalties = ("ref", ref_log_probs, kl_to_ref_coeff), ("inference", given, kl_to_inference_coeff)
    for name, others, coeff in penalties:
        if coeff is not None and others is not None:
            penalty = kl_penalty(log_probs, others, mask, estimator=kl_estimator)
            if use_bias_correction_kl and name == "ref":
                penalty = penalty * np.exp(log_ratio)
            out.set(f"loss_kl_to_{name}", coeff * reduced(penalty))
            out.set(f"kl_to_{name}", mean(penalty))
    if entropy is not None:
        entropy = kept_log_probs("entropy", entropy, mask)
        out.set("loss_entropy", -entropy_coeff * reduced(entropy))
        out.set("entropy", mean(entropy))
    return out


def _count(mask: Array, dtype: Dtype) -> Array:
    """The number of tokens in the mask, at least 1."""
    return np.maximum(mask.sum(), 1).astype(dtype)


def _effective_sample_size(log_weights: Array, mask: Array) -> Array:
    """Kish's effective sample size, sum(w)**2 / sum(w**2), of the tokens in the mask; 0 for none."""
    top = np.where(mask, log_weights, -np.inf).max(initial=-np.inf)
    weights = np.exp(np.where(mask, log_weights - top, -np.inf)).astype(log_weights.dtype)
    total = weights.sum()
    return total * total / np.maximum((weights * weights).sum(), 1)  # the largest weight is 1


def _ratios(log_weight: Array, mask: Array, level: str) -> Array:
    """Log-ratios of tokens, or of responses (prompts, 1)."""
    if level == "token":
        return log_weight
    if level != "sequence":
        raise ValueError(f"importance_sampling_level must be 'token' or 'sequence', got {level!r}.")
    counts = np.maximum(mask.sum(-1, keepdims=True), 1).astype(log_weight.dtype)
    return np.where(mask, log_weight, 0).sum(-1, keepdims=True) / counts


def _mask_of(values: Array, mask: Array | None) -> Array:
    shape = tuple(values.shape)
    if mask is None:
        return np.ones(shape, bool)
    if tuple(mask.shape) != shape:
        raise ValueError(f"the mask must have the shape {shape} of the tokens, got {tuple(mask.shape)}.")
    return as_array(mask).astype(bool, copy=False)


def kept_log_probs(name: str, log_probs: Array, mask: Array) -> Array:
    """Log-probs with 0 where a token does not count; ValueError for other shapes, and for NaN that counts."""
    if tuple(log_probs.shape) != mask.shape:
        raise ValueError(f"{name} must have the tokens' shape {mask.shape}, got {tuple(log_probs.shape)}.")
    kept = np.where(mask, log_probs, log_probs.dtype.type(0))
    value = detached(kept)
    if isinstance(value, np.ndarray) and np.isnan(value).any():
        row = np.argwhere(np.isnan(value))[0].tolist()
        raise ValueError(f"{name} is NaN at {row}, where the mask is True.")
    return kept


def _per_token(advantage: Array, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Advantages that multiply the ratios of tokens, or of responses: (prompts, tokens) or (prompts, 1)."""
    given = as_array(detached(advantage)).astype(dtype, copy=False)
    found = tuple(given.shape)
    if found in (shape, (*shape, 1)):
        return given.reshape(shape)
    if found in (shape[:-1], (*shape[:-1], 1)):
        return given.reshape(*shape[:-1], 1)
    raise ValueError(f"the advantage must have the shape {shape[:-1]} or {shape}, got {found}.")
