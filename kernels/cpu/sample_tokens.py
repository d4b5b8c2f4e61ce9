"""One token per row of logits, drawn after the usual filters, compiled for the CPU.

Nothing is sorted, and the whole row is only gone through by loops over full vectors. The maxima of groups
of scores bound the k-th largest score from below, and the share that top-p leaves bounds what it keeps:
only groups that reach the bound are looked into. Among what is left, a threshold (the k-th largest score,
or the score at which the largest ones hold a share p of the probability) is found exactly by three histogram
passes over the bits of the scores, highest bits first.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._jit import jit
from lite.kernels.cpu._blocks import BLOCK, log_prob, maximum, statistics, sum_of_exp
from lite.kernels.cpu._width import full_width

DRAWN, NOTHING, UNKNOWN = 0, 1, 2
_GROUP = 32  # entries per maximum
_SLACK = 1e-3  # by which bounds are loosened against rounding
_BINS = 2048
_TINY = 5e-324
_COLDEST = 2.0**-126  # the least divisor in float32


@jit
def _end(part: Any, size: Any, total: Any) -> Any:
    """Where a part of `size` entries ends."""
    return (part + 1) * size if (part + 1) * size < total else total


@jit
def _key(score: Any) -> Any:
    """An integer in [0, 2**32) that orders as the float does; -0.0 and 0.0 get the same."""
    bits = np.int64(np.float32(score + np.float32(0.0)).view(np.int32))
    return bits + 0x80000000 if bits >= 0 else -1 - bits


@jit
def _threshold(keys: Any, weights: Any, target: Any) -> Any:
    """The largest key whose holders, with those of all larger keys, weigh at least `target`.

    Returns it and the weight of the strictly larger ones; the smallest key where all weigh too little.
    """
    histogram = np.empty(_BINS)
    prefix, above = np.int64(0), 0.0
    for shift in (22, 11, 0):
        histogram[:] = 0.0
        for i in range(keys.size):
            if keys[i] >> (shift + 11) == prefix:
                histogram[(keys[i] >> shift) & (_BINS - 1)] += weights[i]
        chosen, before = -1, above
        for b in range(_BINS - 1, -1, -1):
            if histogram[b] > 0.0:
                chosen, before = b, above
                above += histogram[b]
                if above >= target:
                    break
        above = before
        prefix = (prefix << 11) | chosen
    return prefix, above


@jit
def _prepare(logits: Any, keep: Any, previous: Any, penalty: Any, temperature: Any, scores: Any) -> Any:
    """Mask, penalty and temperature, in float32 as Hugging Face computes them; True if NaN is left."""
    full_width()
    for i in range(scores.size):
        scores[i] = logits[i]
    if penalty != 1.0:
        factor = np.float32(penalty)
        for token in previous:
            if 0 <= token < scores.size:
                x = logits[token]
                scores[token] = x * factor if x < 0.0 else x / factor
    if keep.size:
        hidden = np.float32(-np.inf)
        for i in range(scores.size):
            scores[i] = scores[i] if keep[i] else hidden
    if temperature >= _COLDEST and temperature != 1.0:
        divisor, highest = np.float32(temperature), maximum(scores)
        if abs(highest) < np.inf and abs(highest / divisor) == np.inf:
            for i in range(scores.size):  # what is different must not become equal
                scores[i] = scores[i] - highest
        for i in range(scores.size):
            scores[i] = scores[i] / divisor
    unknown = False
    for i in range(scores.size):
        unknown |= scores[i] != scores[i]
    return unknown


@jit
def _group_maxima(scores: Any, maxima: Any) -> None:
    """Entry j becomes the maximum of the j-th group of scores."""
    full_width()
    whole = scores.size // _GROUP
    for j in range(whole):
        group = scores[j * _GROUP : (j + 1) * _GROUP]
        top = group[0]
        for i in range(_GROUP):
            top = group[i] if group[i] > top else top
        maxima[j] = top
    if whole < maxima.size:
        maxima[whole] = maximum(scores[whole * _GROUP :])


@jit
def _collect(scores: Any, maxima: Any, bound: Any, candidates: Any, keys: Any, weights: Any) -> Any:
    """The tokens that score at least `bound` and more than -inf, in order."""
    n = 0
    for j in range(maxima.size):
        if maxima[j] >= bound:
            for i in range(j * _GROUP, _end(j, _GROUP, scores.size)):
                candidates[n] = i
                n += 1 if scores[i] >= bound and scores[i] > -np.inf else 0
    for j in range(n):
        keys[j] = _key(scores[candidates[j]])
        weights[j] = 1.0
    return n


@jit
def _kth_largest(maxima: Any, k: Any, keys: Any, weights: Any) -> Any:
    """The k-th largest of `maxima`; -inf where they are fewer.

    Each is an entry, so the k-th largest entry is no smaller.
    """
    if k > maxima.size:
        return np.float32(-np.inf)
    for j in range(maxima.size):
        keys[j] = _key(maxima[j])
        weights[j] = 1.0
    key = _threshold(keys[: maxima.size], weights[: maxima.size], np.float64(k))[0]
    for j in range(maxima.size):
        if keys[j] == key:
            return maxima[j]
    return np.float32(-np.inf)


@jit
def _block_totals(scores: Any, highest: Any, totals: Any) -> Any:
    """The sum of exp(score - highest) of each block, and over all."""
    total = 0.0
    for b in range(totals.size):
        block = scores[b * BLOCK : _end(b, BLOCK, scores.size)]
        totals[b] = sum_of_exp(block, highest, np.float32(1.0))[0]
        total += totals[b]
    return total


@jit
def _draw_from_all(scores: Any, highest: Any, totals: Any, target: Any) -> Any:
    """The token at which the running sum of exp(score - highest) exceeds `target`."""
    last = 0
    for b in range(totals.size):
        if totals[b] > 0.0:
            last = b
            if totals[b] > target:
                break
            target -= totals[b]
    token = last * BLOCK
    for i in range(last * BLOCK, _end(last, BLOCK, scores.size)):
        weight = np.exp(np.float64(scores[i]) - np.float64(highest))
        if weight > 0.0:
            token = i
            target -= weight
            if target < 0.0:
                break
    return token


@jit
def _retain(chosen: Any, candidates: Any, keys: Any, weights: Any) -> Any:
    n = 0
    for j in range(chosen.size):
        if chosen[j]:
            candidates[n], keys[n], weights[n] = candidates[j], keys[j], weights[j]
            n += 1
    return n


@jit
def _draw(
    scores: Any, highest: Any, top_k: Any, top_p: Any, min_p: Any, uniform: Any,
    maxima: Any, totals: Any, candidates: Any, keys: Any, weights: Any, chosen: Any,
) -> Any:  # fmt: skip
    if highest == np.inf:  # the infinite ones share the probability
        for i in range(scores.size):
            scores[i] = 0.0 if scores[i] == np.inf else -np.inf
        highest = np.float32(0.0)
    _group_maxima(scores, maxima)
    total = 0.0
    if 0 < top_k < scores.size:
        bound = _kth_largest(maxima, top_k, keys, weights)
        n = _collect(scores, maxima, bound, candidates, keys, weights)
        if top_k < n:
            key = _threshold(keys[:n], weights[:n], np.float64(top_k))[0]
            for j in range(n):
                chosen[j] = keys[j] >= key
            n = _retain(chosen[:n], candidates, keys, weights)
    else:
        total = _block_totals(scores, highest, totals)
        if top_p >= 1.0 and min_p <= 0.0:
            return _draw_from_all(scores, highest, totals, uniform * total)
        # Tokens below the mean of what top-p drops hold no more than that together: it keeps none of them.
        least = (1.0 - top_p) * total / scores.size if top_p < 1.0 else min_p
        bound = np.float32(-np.inf)
        if least > 0.0:
            bound = np.float32(np.float64(highest) + np.log(least) - _SLACK * (1.0 + abs(highest)))
        n = _collect(scores, maxima, bound, candidates, keys, weights)

    sum_of_candidates = 0.0
    for j in range(n):
        weights[j] = np.exp(np.float64(scores[candidates[j]]) - np.float64(highest))
        sum_of_candidates += weights[j]
    total = sum_of_candidates if sum_of_candidates > total else total
    if top_p < 1.0:
        target = top_p * total if top_p * total > _TINY else _TINY
        key, above = _threshold(keys[:n], weights[:n], target)
        for j in range(n - 1, -1, -1):  # of equal scores the last tokens stay, as after an ascending sort
            chosen[j] = keys[j] > key
            if keys[j] == key and above < target:
                chosen[j] = True
                above += weights[j]
        n = _retain(chosen[:n], candidates, keys, weights)
    if min_p > 0.0:
        for j in range(n):
            chosen[j] = weights[j] >= min_p
        n = _retain(chosen[:n], candidates, keys, weights)

    total = 0.0
    for j in range(n):
        total += weights[j]
    target = uniform * total
    token, reached = candidates[0], 0.0
    for j in range(n):
        if weights[j] > 0.0:
            token = candidates[j]
            reached += weights[j]
            if reached > target:
                break
    return token


def work_memory(size: int) -> tuple[NDArray[Any], ...]:
    """For `rows` of this many logits; made in Python, because compiling it takes longer than all calls do."""
    return (
        np.empty(size, np.float32), np.empty(-(-size // _GROUP), np.float32), np.empty(-(-size // BLOCK)),
        np.empty(BLOCK, np.float32), np.empty(size + 1, np.int64), np.empty(size, np.int64),
        np.empty(size), np.empty(size, np.bool_),
    )  # fmt: skip


@jit(entry=True)
def rows(
    logits: Any, keep: Any, previous: Any, previous_starts: Any, temperature: Any, top_k: Any, top_p: Any,
    min_p: Any, penalty: Any, uniform: Any, tokens: Any, log_probs: Any, status: Any,
    scores: Any, maxima: Any, totals: Any, scratch: Any, candidates: Any, keys: Any, weights: Any,
    chosen: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Rows `start` to `stop`; row r's previous tokens lie from `previous_starts[r]` to that of r + 1.

    From `scores` to `chosen`: memory to work in, from `work_memory`.
    """
    size = logits.shape[1]
    for r in range(start, stop):
        before = previous[previous_starts[r] : previous_starts[r + 1]]
        allowed = keep[r] if keep.size else keep.reshape(-1)
        if _prepare(logits[r], allowed, before, penalty[r], temperature[r], scores):
            status[r] = UNKNOWN
            continue
        highest = maximum(scores)
        if highest == -np.inf:
            status[r] = NOTHING
            continue
        token = np.int64(0)
        if temperature[r] < _COLDEST:
            while scores[token] != highest:
                token += 1
        else:
            token = _draw(
                scores, highest, top_k[r], top_p[r], min_p[r], uniform[r], maxima, totals,
                candidates, keys, weights, chosen,
            )  # fmt: skip
        tokens[r] = token
        top, count, rest, _, logit, unknown = statistics(
            logits[r], False, np.int64(0), size, chosen, np.int64(-1), 1.0, token, None, scratch
        )
        log_probs[r] = log_prob(logit, top, 1.0, count, rest, unknown)
