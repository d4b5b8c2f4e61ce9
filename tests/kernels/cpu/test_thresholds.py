"""Where filters cut, among few scores and among many, against a sort."""

import numpy as np
import pytest

from lite.kernels.backends.choice import backend

pytest.importorskip("numba")
from lite.kernels.cpu import thresholds as t
from lite.kernels.cpu.sample_tokens import work_memory
from lite.kernels.cpu.vectors.blocks import BLOCK

COMPILED = backend() == "numba"
if COMPILED:
    import numba

    # What compiled code calls cannot be called from Python.
    LOWEST = numba.njit(
        lambda bits, n, weights, target, cut: t.threshold(bits, 0, n, weights, 0.0, target, cut)
    )
    NARROW = numba.njit(lambda *given: t.narrow(*given))
    MAXIMA = numba.njit(lambda bits, groups: t.maxima(bits, groups))
    LIKELY = numba.njit(lambda work, bits, top, least, place: t.likely(work, bits, top, least, place))
    EQUAL = numba.njit(lambda *given: t.count_equal(*given))
else:
    EQUAL = t.count_equal
    LOWEST = lambda bits, n, weights, target, cut: t.threshold(bits, 0, n, weights, 0.0, target, cut)  # noqa: E731
    NARROW, MAXIMA, LIKELY = t.narrow, t.maxima, t.likely


def prepared(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    work, bits, _, _ = work_memory(len(scores))
    work[: len(scores)] = scores
    groups = -(-len(scores) // t.GROUP)
    MAXIMA(bits, groups)
    cut = groups * t.GROUP + groups + 1
    np.testing.assert_array_equal(work[cut - 1], scores.max())
    work[cut] = np.finfo(np.float32).min
    return work, bits, cut


def sorted_threshold(scores: np.ndarray, weights: np.ndarray, target: float) -> float:
    order = np.argsort(-scores, kind="stable")
    reached = np.cumsum(weights[order])
    return float(scores[order][min(int((reached < target).sum()), len(scores) - 1)])


@pytest.mark.depth
def test_thresholds_are_those_of_a_sort(rng: np.random.Generator) -> None:
    for scale in (0.01, 1.0, 100.0):
        share = {0.01: 0.1, 1.0: 0.9, 100.0: 0.999}[scale]
        size = BLOCK + 100
        scores = (rng.normal(size=size) * scale).astype(np.float32)
        scores[::7] = np.round(scores[::7])
        weights = np.exp((scores - scores.max()).astype(np.float64))
        work, bits, cut = prepared(scores)
        LOWEST(bits, size, weights, share * weights.sum(), cut)
        expected = sorted_threshold(scores, weights, share * weights.sum())
        np.testing.assert_array_equal(work[cut], np.float32(expected))
        for each, target in ((0.0, share * weights.sum()), (1.0, share * size)):
            work, bits, cut = prepared(scores)
            light = np.zeros(len(work), np.float32)
            light[:size] = weights
            end = -(-size // t.GROUP) * t.GROUP
            above = NARROW(work, bits, light[:end], end, target, each, cut, np.zeros(5))
            low, high = work[cut], work[cut - 1]
            counted = np.ones(size) if each else weights
            expected = sorted_threshold(scores, counted, target)
            assert low <= expected <= high
            np.testing.assert_allclose(above, counted[scores > high].sum(), rtol=1e-5, atol=1e-12)
            assert low == high or ((scores >= low) & (scores <= high)).sum() <= 64


def test_the_least_likely_score_is_exact() -> None:
    for least in (1.0, 0.5, 1e-3, 1e-30):
        for highest in (0.0, 3.7, -1e-5, -4321.0):
            work, bits, cut = prepared(np.zeros(5, np.float32))
            top = np.float32(highest)
            score = LIKELY(work, bits, top, least, cut)
            below = np.nextafter(np.float32(score), np.float32(-np.inf))
            assert np.exp(np.float64(score) - np.float64(top)) >= least * (1 - 1e-15)
            assert np.exp(np.float64(below) - np.float64(top)) < least * (1 + 1e-15)


def test_equal_scores_are_counted() -> None:
    """Not those behind the first `n`."""
    scores, weights = np.float32([3, 1, 3, 2, 3]), np.float32([0.5, 1, 0.5, 1, 0.5])
    for n, held in ((5, 3), (4, 2), (1, 1)):
        assert EQUAL(scores, weights, n, np.float32(3)) == (held, 0.5)
