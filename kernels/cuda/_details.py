"""Statistics of the distribution that a token was drawn from, computed by the threads of a block.

Sums are float64 of float32 exponentials, so that a log-prob is right to 1e-6 whatever the vocabulary.
"""

import math

import numpy as np

from lite.kernels._types import Floats, Ints
from lite.kernels.cuda._filters import Filtered, bound_of, collect, is_kept, key_of, threshold
from lite.kernels.cuda._jit import device
from lite.kernels.cuda._numbers import greatest, least
from lite.kernels.cuda._threads import before, meet, together

_FAR = -100.0  # its exp is negligible beside 1 in float32
_LEAST = -700.0  # a kept token is dropped below this distance, as on the CPU


@device
def _exp(x: float) -> float:
    return np.float64(np.float32(math.exp(np.float32(x))))


@device
def hottest(
    scores: Floats, base: int, size: int, thread: int, threads: int, slots: Floats
) -> tuple[float, float]:
    """The highest score of a row, and a number above 0 if the row holds NaN."""
    top, unknown = np.float64(-math.inf), 0.0
    for i in range(thread, size, threads):
        score = np.float64(scores[base + i])
        if score != score:
            unknown = 1.0
        if score > top:
            top = score
    top = together(top, True, thread, threads, slots)
    return top, together(unknown, True, thread, threads, slots)


@device
def log_sum(
    scores: Floats, base: int, size: int, top: float, inverse: float, thread: int, threads: int, slots: Floats
) -> tuple[float, float]:
    """With d = (score - top) * inverse: the log of the sum of exp(d), and the mean of d. NaN propagates."""
    count = rest = weighted = 0.0
    for i in range(thread, size, threads):
        score = np.float64(scores[base + i])
        if score == top:
            count += 1.0
        else:
            distance = (score - top) * inverse
            if not distance <= _FAR:  # NaN is counted
                weight = _exp(distance)
                rest += weight
                weighted += weight * distance
    count = together(count, False, thread, threads, slots)
    rest = together(rest, False, thread, threads, slots)
    weighted = together(weighted, False, thread, threads, slots)
    if count == 0.0:
        return math.nan, math.nan
    return math.log(count) + math.log1p(rest / count), weighted / (count + rest)


@device
def best(
    scores: Floats, base: int, size: int, n: int, top: float, total: float, candidates: Ints, maxima: Floats,
    own: int, ids: Ints, log_probs: Floats, first_id: int, first_log_prob: int, thread: int, threads: int,
    slots: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Write the n highest scores in order (of ties the first tokens) and their log-probs.

    A threshold selects them; each finds its rank by counting the higher ones.

    Args:
        top, total: the highest score, and the log-sum of all scores relative to it.
        first_id, first_log_prob: the positions of the results in `ids` and `log_probs`.
    """
    highest = np.float32(top)
    bound, _ = bound_of(
        scores, base, size, n, 1.0, 0.0, highest, maxima, own, candidates, thread, threads, slots
    )
    if n >= size:
        bound = np.int64(0)
    count = collect(scores, base, size, bound, True, candidates, thread, threads, sums)
    each = (count + threads - 1) // threads
    first, stop = thread * each, least(count, (thread + 1) * each)
    cut, above = np.int64(0), 0.0
    if n < count:
        cut, above = threshold(
            scores, first, stop, candidates, base, True, 0, highest, False, n, thread, threads, slots
        )
    equal = 0.0
    for j in range(first, stop):
        equal += 1.0 if key_of(scores[base + candidates[base + j]]) == cut else 0.0
    ties_before, _ = before(equal, thread, threads, sums)
    taken, seen = 0.0, ties_before
    for j in range(first, stop):
        key = key_of(scores[base + candidates[base + j]])
        seen += 1.0 if key == cut else 0.0
        taken += 1.0 if key > cut or (key == cut and above + seen <= n) else 0.0
    place_, number = before(taken, thread, threads, sums)
    at, seen = first_id + np.int64(place_), ties_before
    for j in range(first, stop):
        token = candidates[base + j]
        key = key_of(scores[base + token])
        seen += 1.0 if key == cut else 0.0
        if at < first_id + n and (key > cut or (key == cut and above + seen <= n)):
            ids[at] = token
            at += 1
    meet()
    held = least(np.int64(number), n)
    for j in range(thread, n, threads):  # there may be fewer than n if a logit is NaN
        if j < held:
            token, rank = ids[first_id + j], 0
            key = key_of(scores[base + token])
            for k in range(held):
                other = key_of(scores[base + ids[first_id + k]])
                rank += 1 if other > key or (other == key and k < j) else 0
            candidates[base + rank] = token
        else:
            candidates[base + j] = 0
    meet()
    for j in range(thread, n, threads):
        token = candidates[base + j]
        score = np.float64(scores[base + token])
        ids[first_id + j] = token
        log_probs[first_log_prob + j] = (0.0 if score == top else score - top) - total


@device
def summed_up(
    scores: Floats, plain: Floats, base: int, left: Filtered, min_p: float, highest: float, inverse: float,
    candidates: Ints, listing: int, kept: Ints, begin: int, thread: int, threads: int, slots: Floats,
    sums: Floats,
) -> tuple[float, float, int]:  # fmt: skip
    """The highest `plain` score of kept tokens, their log-sum at a temperature, and their number.

    With `listing` the tokens are written to `kept` from `begin` on.
    """
    listed, count, cut, spare, usual, reach, ties_before = left
    each = (count + threads - 1) // threads
    first, stop = thread * each, least(count, (thread + 1) * each)
    own, top, seen = 0.0, -math.inf, ties_before
    for j in range(first, stop):
        i = np.int64(candidates[base + j] if listed else j)
        score = scores[base + i]
        seen += 1.0 if key_of(score) == cut else 0.0
        if _stays(score, listed, cut, seen, spare, min_p, highest, usual, reach):
            own += 1.0
            top = greatest(top, np.float64(plain[base + i]))
    place_, number = before(own, thread, threads, sums)
    top = together(top, True, thread, threads, slots)
    at, seen, highs, rest = begin + np.int64(place_), ties_before, 0.0, 0.0
    for j in range(first, stop):
        i = np.int64(candidates[base + j] if listed else j)
        score = scores[base + i]
        seen += 1.0 if key_of(score) == cut else 0.0
        if _stays(score, listed, cut, seen, spare, min_p, highest, usual, reach):
            value = np.float64(plain[base + i])
            if value == top:
                highs += 1.0
            else:
                rest += _exp((value - top) * inverse)
            if listing:
                kept[at] = i
                at += 1
    highs = together(highs, False, thread, threads, slots)
    rest = together(rest, False, thread, threads, slots)
    return top, math.log(highs) + math.log1p(rest / highs), np.int64(number)


@device
def _stays(
    score: float, listed: bool, cut: int, seen: int, spare: float, min_p: float, highest: float, usual: float,
    reach: float,
) -> bool:  # fmt: skip
    if not listed:
        return score > -math.inf
    return is_kept(score, cut, seen, spare, min_p, highest, usual, reach) and score - highest > _LEAST
