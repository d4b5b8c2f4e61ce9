"""top-k, top-p, min-p and typical-p filters of a row of scores, computed by the threads of a block.

Nothing is sorted: a threshold (the k-th largest score, or the score at which the largest ones hold a share p
of the probability) is found by bisection of the scores' ordered bits, among the few candidates that reach a
bound. A thread reads a stretch of neighbouring candidates, so sums over threads follow the order of tokens,
and results are reproducible.
"""

import math
from typing import TypeAlias

import numpy as np

from lite.kernels._types import Floats, Ints
from lite.kernels.cuda._jit import device
from lite.kernels.cuda._numbers import as_bits, as_float, greatest, least
from lite.kernels.cuda._threads import before, meet, together

# Whether candidates are listed, and how many; the key of the cut, and how many of its holders go; the score
# with the mean surprise, and how far from it scores may lie; and how many before this thread's stretch tie.
Filtered: TypeAlias = tuple[bool, int, int, float, float, float, float]
TINY = 5e-324
_SLACK = 1e-3  # by which bounds are loosened against rounding
_SIGN = 0x80000000


@device
def key_of(score: float) -> int:
    """An integer in [0, 2**32) that orders as the float does; -0.0 and 0.0 get the same."""
    bits = np.int64(as_bits(score + np.float32(0.0)))
    return bits + _SIGN if bits < _SIGN else 2 * _SIGN - 1 - bits


@device
def score_of(key: int) -> float:
    """The float of a key."""
    return as_float(np.uint32(key - _SIGN if key >= _SIGN else 2 * _SIGN - 1 - key))


@device
def weight_of(score: float, highest: float) -> float:
    return np.float64(math.exp(np.float32(score - highest)))


@device
def threshold(
    scores: Floats, first: int, stop: int, candidates: Ints, base: int, listed: bool, cut: int,
    highest: float, weigh: bool, target: float, thread: int, threads: int, slots: Floats,
) -> tuple[int, float]:  # fmt: skip
    """Find the largest key such that the tokens with this or a larger key weigh at least `target`.

    Only keys from `cut` on count, of which there is at least one. Each weighs 1, or by its score if `weigh`.

    Returns:
        The key (the smallest one if all weigh too little), and the weight of the strictly larger ones.
    """
    low, high = np.int64(2 * _SIGN), key_of(highest)
    for j in range(first, stop):
        key = key_of(scores[base + (candidates[base + j] if listed else j)])
        if cut <= key < low:
            low = key
    low = -np.int64(together(-np.float64(low), True, thread, threads, slots))
    above = 0.0
    while low < high:
        middle = low + (high - low + 1) // 2
        part = 0.0
        for j in range(first, stop):
            score = scores[base + (candidates[base + j] if listed else j)]
            if middle <= key_of(score) <= high:
                part += weight_of(score, highest) if weigh else 1.0
        part = together(part, False, thread, threads, slots)
        if above + part >= target:
            low = middle
        else:
            high = middle - 1
            above += part
    return low, above


@device
def bound_of(
    scores: Floats, base: int, size: int, top_k: int, top_p: float, min_p: float, highest: float,
    maxima: Floats, own: int, candidates: Ints, thread: int, threads: int, slots: Floats,
) -> tuple[int, float]:  # fmt: skip
    """A key below which every filter drops all tokens, and the weight of all tokens if top-k is off.

    The block's part of `maxima` begins at `own`.
    """
    each = (size + threads - 1) // threads
    first, stop = thread * each, least(size, (thread + 1) * each)
    if 0 < top_k < size:
        if top_k > threads:
            return np.int64(0), 0.0
        # Each maximum is a score, so the k-th largest score is no smaller than theirs.
        top = np.float32(-math.inf)
        for i in range(first, stop):
            top = greatest(top, scores[base + i])
        maxima[own + thread] = top
        meet()
        key, _ = threshold(
            maxima, thread, thread + 1, candidates, own, False, 0, highest, False, top_k, thread, threads,
            slots,
        )  # fmt: skip
        return key, 0.0
    total = 0.0
    for i in range(first, stop):
        total += weight_of(scores[base + i], highest)
    total = together(total, False, thread, threads, slots)
    # Tokens below the mean of what top-p drops hold no more than that together: it keeps none of them.
    smallest = (1.0 - top_p) * total / size if top_p < 1.0 else min_p
    bound = np.int64(0)
    if smallest > 0.0:
        bound = key_of(np.float32(np.float64(highest) + math.log(smallest) - _SLACK * (1.0 + abs(highest))))
    return bound, total


@device
def collect(
    scores: Floats, base: int, size: int, bound: int, hidden: bool, candidates: Ints, thread: int,
    threads: int, sums: Floats,
) -> int:  # fmt: skip
    """List the tokens with at least the key `bound`, in order; returns how many.

    Those that cannot be drawn, whose score is -inf, are listed only if they are wanted: `hidden`.
    """
    each = (size + threads - 1) // threads
    first, stop = thread * each, least(size, (thread + 1) * each)
    count = 0.0
    for i in range(first, stop):
        if key_of(scores[base + i]) >= bound and (hidden or scores[base + i] > -math.inf):
            count += 1.0
    place_, total = before(count, thread, threads, sums)
    at = base + np.int64(place_)
    for i in range(first, stop):
        if key_of(scores[base + i]) >= bound and (hidden or scores[base + i] > -math.inf):
            candidates[at] = i
            at += 1
    meet()
    return np.int64(total)


@device
def _typical(
    scores: Floats, first: int, stop: int, candidates: Ints, base: int, cut: int, spare: float,
    ties_before: float, min_p: float, typical_p: float, highest: float, thread: int, threads: int,
    slots: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The score with the mean surprise among the kept tokens, and how far from it scores may lie."""
    total, spread, seen = 0.0, 0.0, ties_before
    for j in range(first, stop):
        score = scores[base + candidates[base + j]]
        seen += 1.0 if key_of(score) == cut else 0.0
        if is_kept(score, cut, seen, spare, min_p, highest, np.float32(0.0), np.float32(math.inf)):
            weight = weight_of(score, highest)
            total += weight
            spread += weight * np.float64(score - highest)
    total = together(total, False, thread, threads, slots)
    spread = together(spread, False, thread, threads, slots)
    usual = np.float32(np.float64(highest) + spread / total)
    target = greatest(typical_p * total, TINY)
    # The keys of distances; the least that holds the target is found by bisection.
    low, high = key_of(np.float32(0.0)), key_of(np.float32(math.inf))
    while low < high:
        middle = low + (high - low) // 2
        part, seen = 0.0, ties_before
        for j in range(first, stop):
            score = scores[base + candidates[base + j]]
            seen += 1.0 if key_of(score) == cut else 0.0
            if is_kept(score, cut, seen, spare, min_p, highest, usual, score_of(middle)):
                part += weight_of(score, highest)
        if together(part, False, thread, threads, slots) >= target:
            high = middle
        else:
            low = middle + 1
    return usual, score_of(low)


@device
def is_kept(
    score: float, cut: int, seen: int, spare: float, min_p: float, highest: float, usual: float, reach: float
) -> bool:
    """Whether the filters leave a score.

    Args:
        cut: the least key that stays; `seen` scores up to this one have it, of which the first `spare` go.
        usual, reach: the score with the mean surprise, and how far from it scores may lie.
    """
    key = key_of(score)
    above = key > cut or (key == cut and seen > spare)
    return above and weight_of(score, highest) >= min_p and abs(score - usual) <= reach


@device
def filtered(
    scores: Floats, base: int, size: int, top_k: int, top_p: float, min_p: float, typical_p: float,
    highest: float, candidates: Ints, maxima: Floats, own: int, thread: int, threads: int, slots: Floats,
    sums: Floats,
) -> Filtered:  # fmt: skip
    """The result of the filters of a row.

    Args:
        scores, candidates: those of the row from `base` on.
        maxima: memory for a score of each thread, from `own` on.
        highest: the highest score.

    Returns:
        Whether candidates are listed (else they are all tokens), and how many there are; then what `is_kept`
        asks for, and how many scores before the stretch of this thread have the key of the cut.
    """
    listed = 0 < top_k < size or top_p < 1.0 or min_p > 0.0 or typical_p < 1.0
    count, total, cut = np.int64(size), 0.0, np.int64(0)
    if listed:
        bound, total = bound_of(
            scores, base, size, top_k, top_p, min_p, highest, maxima, own, candidates, thread, threads, slots
        )
        count = collect(scores, base, size, bound, False, candidates, thread, threads, sums)
    each = (count + threads - 1) // threads
    first, stop = thread * each, least(count, (thread + 1) * each)
    if 0 < top_k < count:
        cut, _ = threshold(
            scores, first, stop, candidates, base, listed, 0, highest, False, top_k, thread, threads, slots
        )
    nucleus, spare, ties_before = cut, 0.0, 0.0
    if top_p < 1.0:
        mass = 0.0
        for j in range(first, stop):
            score = scores[base + candidates[base + j]]
            if key_of(score) >= cut:
                mass += weight_of(score, highest)
        total = greatest(total, together(mass, False, thread, threads, slots))
        target = greatest(top_p * total, TINY)
        nucleus, above = threshold(
            scores, first, stop, candidates, base, listed, cut, highest, True, target, thread, threads, slots
        )
        equal = 0.0
        for j in range(first, stop):
            if key_of(scores[base + candidates[base + j]]) == nucleus:
                equal += 1.0
        ties_before, ties = before(equal, thread, threads, sums)
        each_weight = weight_of(score_of(nucleus), highest)
        wanted = ties
        if each_weight * ties > target - above:
            wanted = greatest(1.0, math.ceil((target - above) / each_weight))
            if wanted > 1.0 and above + (wanted - 1.0) * each_weight >= target:
                wanted -= 1.0
        spare = ties - wanted  # of equal scores the last tokens stay, as after an ascending sort
    usual, reach = np.float32(0.0), np.float32(math.inf)
    if typical_p < 1.0:
        usual, reach = _typical(
            scores, first, stop, candidates, base, nucleus, spare, ties_before, min_p, typical_p, highest,
            thread, threads, slots,
        )  # fmt: skip
    return listed, count, nucleus, spare, usual, reach, ties_before
