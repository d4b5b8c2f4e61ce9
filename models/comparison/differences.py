"""Statistics of the difference of two columns of log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEAR = (0.9, 1.1)  # importance ratios that are acceptable for training
EDGES = (0.5, 0.67, 0.8, 0.9, 0.95, 0.99, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0)
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
PROBABILITIES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
_LARGEST = 50.0  # log-ratios are clipped to this size, so that ratios are finite


@dataclass(frozen=True)
class Estimates:
    """Numbers of the log-ratios log A - log B of tokens that were drawn from B.

    Attributes:
        mean: their mean.
        deviation: their standard deviation.
        mean_abs, max_abs: mean and maximum of their absolute values.
        percentiles: percentiles of the absolute values, by percent.
        k1, k3: estimates of KL(B, A): the mean of -log r, and of r - 1 - log r, which has less variance
            and is never negative (Schulman 2020, http://joschu.net/blog/kl-approx.html), where r = A / B.
        chi_square: the mean of (r - 1)^2.
        ratio_mean, ratio_median: mean and median of r, the importance ratio; a mean other than 1 is a bias.
        outside: the fraction of r outside [0.9, 1.1].
        histogram: counts of r below the first of `EDGES`, between neighbours, and from the last on.
    """

    mean: float
    deviation: float
    mean_abs: float
    max_abs: float
    percentiles: dict[float, float]
    k1: float
    k3: float
    chi_square: float
    ratio_mean: float
    ratio_median: float
    outside: float
    histogram: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Tokens with a position, or a probability under A, in an interval.

    Attributes:
        low, high: the interval [low, high).
        tokens: the number of tokens.
        mean: mean of log A - log B.
        mean_abs: mean of its absolute value.
    """

    low: float
    high: float
    tokens: int
    mean: float
    mean_abs: float


def estimates(log_ratios: NDArray[np.float64]) -> Estimates:
    """Numbers of the log-ratios (N,) of N >= 1 tokens."""
    size = np.abs(log_ratios)
    ratio = np.exp(np.clip(log_ratios, -_LARGEST, _LARGEST))
    low, high = NEAR
    found = np.searchsorted(EDGES, ratio, side="right")
    return Estimates(
        mean=float(log_ratios.mean()),
        deviation=float(log_ratios.std()),
        mean_abs=float(size.mean()),
        max_abs=float(size.max()),
        percentiles={p: float(np.percentile(size, p)) for p in PERCENTILES},
        k1=float(-log_ratios.mean()),
        k3=float((ratio - 1 - log_ratios).mean()),
        chi_square=float(((ratio - 1) ** 2).mean()),
        ratio_mean=float(ratio.mean()),
        ratio_median=float(np.median(ratio)),
        outside=float(((ratio < low) | (ratio > high)).mean()),
        histogram=tuple(np.bincount(found, minlength=len(EDGES) + 1).tolist()),
    )


def first_beyond(rows: Sequence[NDArray[np.float64]], limit: float) -> NDArray[np.int64]:
    """The first position of each row whose log-ratio exceeds `limit` in size; -1 if none does."""
    beyond = [np.flatnonzero(np.abs(row) > limit) for row in rows]
    return np.array([at[0] if len(at) else -1 for at in beyond], np.int64)


def by_position(rows: Sequence[NDArray[np.float64]]) -> tuple[Group, ...]:
    """Groups of log-ratios by their position in the response: 0, 1, 2 to 3, 4 to 7, and so on."""
    longest = max(len(row) for row in rows)
    edges = [0, *(2**i for i in range(longest.bit_length() + 1))]
    position = np.concatenate([np.arange(len(row)) for row in rows])
    return _groups(position, edges, np.concatenate(rows))


def by_probability(log_probs: NDArray[np.float64], log_ratios: NDArray[np.float64]) -> tuple[Group, ...]:
    """Groups of log-ratios (N,) by the probability of their token under A, whose log-probs are (N,)."""
    return _groups(np.exp(log_probs), PROBABILITIES, log_ratios)


def _groups(
    values: NDArray[np.float64] | NDArray[np.int64], edges: Sequence[float], log_ratios: NDArray[np.float64]
) -> tuple[Group, ...]:
    """The groups between edges that hold a token; the last edge belongs to the last group."""
    at = np.minimum(np.searchsorted(edges, values, side="right") - 1, len(edges) - 2)
    counts = np.bincount(at, minlength=len(edges) - 1)
    sums = np.bincount(at, log_ratios, minlength=len(edges) - 1)
    sizes = np.bincount(at, np.abs(log_ratios), minlength=len(edges) - 1)
    return tuple(
        Group(edges[i], edges[i + 1], int(n), float(sums[i] / n), float(sizes[i] / n))
        for i, n in enumerate(counts)
        if n
    )
