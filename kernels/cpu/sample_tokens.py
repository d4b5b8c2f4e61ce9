"""One token per row of logits, drawn after the usual filters, compiled for the CPU.

Nothing is sorted. A row's candidates are narrowed by thresholds; a threshold (the k-th largest score,
or the score at which the largest ones hold a share p of the probability) is found exactly by three
histogram passes over the bits of the scores, highest bits first.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit

DRAWN, NOTHING, UNKNOWN = 0, 1, 2
_LANES = 32  # entries per partial maximum
_BINS = 2048
_TINY = 5e-324
_COLDEST = 2.0**-126  # the least divisor in float32


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
    for i in range(scores.size):
        scores[i] = logits[i]
    if penalty != 1.0:
        factor = np.float32(penalty)
        for token in previous:
            if 0 <= token < scores.size:
                x = logits[token]
                scores[token] = x * factor if x < 0.0 else x / factor
    if keep.size:
        for i in range(scores.size):
            scores[i] = scores[i] if keep[i] else -np.inf
    if temperature >= _COLDEST and temperature != 1.0:
        divisor, highest = np.float32(temperature), np.float32(-np.inf)
        for i in range(scores.size):
            highest = scores[i] if scores[i] > highest else highest
        if (
            abs(highest) < np.inf and abs(highest / divisor) == np.inf
        ):  # what is different must not become equal
            for i in range(scores.size):
                scores[i] = scores[i] - highest
        for i in range(scores.size):
            scores[i] = scores[i] / divisor
    unknown = False
    for i in range(scores.size):
        unknown |= scores[i] != scores[i]
    return unknown


@jit
def _partial_maxima(scores: Any, maxima: Any) -> None:
    """Entry j becomes the maximum of every `maxima.size`-th score from the j-th on."""
    count = maxima.size
    maxima[:] = scores[:count]
    for first in range(count, scores.size, count):
        part = scores[first : min(first + count, scores.size)]
        for j in range(part.size):
            maxima[j] = part[j] if part[j] > maxima[j] else maxima[j]


@jit
def _collect(scores: Any, bound: Any, candidates: Any, keys: Any, weights: Any) -> Any:
    """The tokens that score at least `bound` and more than -inf, in order."""
    n = 0
    for i in range(scores.size):
        candidates[n] = i
        n += 1 if scores[i] >= bound and scores[i] > -np.inf else 0
    for j in range(n):
        keys[j] = _key(scores[candidates[j]])
        weights[j] = 1.0
    return n


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
    scores: Any, top_k: Any, top_p: Any, min_p: Any, uniform: Any,
    maxima: Any, candidates: Any, keys: Any, weights: Any, chosen: Any,
) -> Any:  # fmt: skip
    _partial_maxima(scores, maxima)
    highest = maxima.max()
    bound = np.float32(-np.inf)
    if highest == np.inf:  # the infinite ones share the probability
        for i in range(scores.size):
            scores[i] = 0.0 if scores[i] == np.inf else -np.inf
        highest = np.float32(0.0)
    elif 0 < top_k <= maxima.size:
        # Each partial maximum is an entry, so the k-th largest of them is at most the k-th largest score.
        n = _collect(maxima, bound, candidates, keys, weights)
        if n >= top_k:
            key = _threshold(keys[:n], weights[:n], top_k)[0]
            for j in range(n):
                if keys[j] == key:
                    bound = maxima[candidates[j]]
    n = _collect(scores, bound, candidates, keys, weights)
    if 0 < top_k < n:
        key = _threshold(keys[:n], weights[:n], top_k)[0]
        for j in range(n):
            chosen[j] = keys[j] >= key
        n = _retain(chosen[:n], candidates, keys, weights)

    total = 0.0
    for j in range(n):
        weights[j] = np.exp(np.float64(scores[candidates[j]]) - np.float64(highest))
        total += weights[j]
    if top_p < 1.0:
        target = max(top_p * total, _TINY)
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


@jit
def rows(
    logits: Any, keep: Any, previous: Any, previous_starts: Any, temperature: Any, top_k: Any, top_p: Any,
    min_p: Any, penalty: Any, uniform: Any, tokens: Any, status: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Rows `start` to `stop`; row r's previous tokens lie from `previous_starts[r]` to that of r + 1."""
    size = logits.shape[1]
    scores, maxima = np.empty(size, np.float32), np.empty(max(1, size // _LANES), np.float32)
    candidates, keys = np.empty(size + 1, np.int64), np.empty(size, np.int64)
    weights, chosen = np.empty(size), np.empty(size, np.bool_)
    for r in range(start, stop):
        before = previous[previous_starts[r] : previous_starts[r + 1]]
        allowed = keep[r] if keep.size else keep.reshape(-1)
        if _prepare(logits[r], allowed, before, penalty[r], temperature[r], scores):
            status[r] = UNKNOWN
            continue
        best = 0
        for i in range(1, size):
            best = i if scores[i] > scores[best] else best
        if scores[best] == -np.inf:
            status[r] = NOTHING
        elif temperature[r] < _COLDEST:
            tokens[r] = best
        else:
            tokens[r] = _draw(
                scores, top_k[r], top_p[r], min_p[r], uniform[r], maxima, candidates, keys, weights, chosen
            )
