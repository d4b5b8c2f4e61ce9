"""Temperature and filters for the scores of sampled beams.

The kernel does this in its pass for tokens that are drawn one by one. Beams need the scores of all tokens
that are left, and, as in transformers, a few tokens more than the filters would leave.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lite.models.generation.options import GenerationConfig


def filtered(scores: NDArray[np.float32], config: GenerationConfig, least: int) -> NDArray[np.float32]:
    """Scores (n, V) at the temperature, -inf where a filter leaves a token out; none for greedy options.

    Args:
        scores: log-probs (n, V) after biases, penalties and bans; they stay as they are.
        config: the options.
        least: tokens that each filter leaves at the least.

    Example:
        >>> scores = np.log(np.array([[0.6, 0.3, 0.1]], np.float32))
        >>> config = GenerationConfig(do_sample=True, top_p=0.5)
        >>> np.exp(filtered(scores, config, least=2)).round(2).tolist()
        [[0.6000000238418579, 0.30000001192092896, 0.0]]
    """
    if config.greedy:
        return scores
    out = scores / np.float32(config.temperature)
    size = out.shape[1]
    least = min(least, size)
    if config.top_k is not None and config.top_k < size:
        count = max(config.top_k, least)
        out[out < -np.partition(-out, count - 1)[:, count - 1 : count]] = -np.inf
    if config.top_p < 1:
        order, probs = _ranked(out, -out)
        before = np.cumsum(probs, 1) - probs
        _drop(out, order, before >= config.top_p, least)
    if config.min_p > 0:
        order, probs = _ranked(out, -out)
        _drop(out, order, probs < config.min_p * probs[:, :1], least)
    if config.typical_p < 1:
        log_probs = np.log(_softmax(out), where=out > -np.inf, out=np.full(out.shape, -np.inf))
        entropy = -np.sum(np.exp(log_probs) * np.where(log_probs > -np.inf, log_probs, 0), 1, keepdims=True)
        order, probs = _ranked(out, np.abs(-log_probs - entropy))
        before = np.cumsum(probs, 1) - probs
        _drop(out, order, before >= config.typical_p, least)
    return out


def _softmax(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    top = scores.max(1, keepdims=True)
    weights = np.exp((scores - np.where(top > -np.inf, top, 0)).astype(np.float64))
    total = weights.sum(1, keepdims=True)
    return weights / np.where(total > 0, total, 1)  # of a row that has nothing left nothing is likely


def _ranked(
    scores: NDArray[np.float32], keys: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The tokens of each row by ascending keys, and their probabilities."""
    order = np.argsort(keys, 1, kind="stable")
    return order, np.take_along_axis(_softmax(scores), order, 1)


def _drop(
    scores: NDArray[np.float32], order: NDArray[np.int64], left_out: NDArray[np.bool_], least: int
) -> None:
    """Leave ranked tokens out, but not the first few."""
    left_out[:, :least] = False
    rows, ranks = np.nonzero(left_out)
    scores[rows, order[rows, ranks]] = -np.inf
