"""Thresholds of filters over scores, found without a sort, compiled for the CPU.

A threshold is the highest score such that the tokens with this or a higher score reach a target weight. Among
few scores bisection of their bits, which order as the floats do, finds it exactly. Among many, a few passes
over scores and weights first narrow the interval of the threshold until few scores are in it.

`work` (float32) and `bits` (int32) are the same memory: the scores of a row, padded to whole groups; the
maxima of the groups; the highest score; at `cut` a bound; and one more for intermediate results.
"""

import math
from typing import Any

import numpy as np

from lite.kernels._types import Floats, Int, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.blocks import BLOCK
from lite.kernels.cpu.vectors.width import full_width

GROUP = 64  # entries per maximum
SLACK = 1e-3  # relaxes bounds against rounding errors
_FEW = 64  # scores; an interval with no more is listed
_HALVINGS = 16  # bisections by score; further ones are by bits, which always end


def _keys(bits: Ints) -> Ints:
    """Integers that order as the floats of these bits do, and back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _plain_maxima(bits: Ints, groups: int) -> None:
    end = groups * GROUP
    tops = _keys(bits[:end].reshape(groups, GROUP)).max(axis=1)
    bits[end : end + groups] = _keys(tops)
    bits[end + groups] = _keys(tops.max())


@jit(plain=_plain_maxima)
def maxima(bits: Ints, groups: int) -> None:
    """Write the maximum of each group, and of all, behind the scores.

    Compares integers that order as the floats do: LLVM vectorises that without assumptions about NaN.
    """
    full_width()
    end = groups * GROUP
    highest = np.int32(-0x80000000)
    for j in range(groups):
        top = np.int32(-0x80000000)
        for i in range(GROUP):
            b = bits[np.uintp(j * GROUP + i)]
            key = np.int32(b ^ np.int32(np.int32(b >> np.int32(31)) & np.int32(0x7FFFFFFF)))
            top = key if key > top else top
        bits[np.uintp(end + j)] = top ^ ((top >> np.int32(31)) & np.int32(0x7FFFFFFF))
        highest = top if top > highest else highest
    bits[np.uintp(end + groups)] = highest ^ ((highest >> np.int32(31)) & np.int32(0x7FFFFFFF))


def _plain_threshold(
    bits: Ints, first: int, n: int, weights: Floats, weight: float, target: Floats, cut: int
) -> float:
    keys, low, high = _keys(bits[first : first + n]), _keys(bits[cut]), _keys(bits[cut - 1])
    order = np.argsort(keys)[::-1]
    ordered, reached = keys[order], np.arange(1, n + 1) * weight
    if weight == 0.0:
        reached = np.cumsum(weights[order])
    found = int(np.searchsorted(reached, target))  # it and all before it are needed
    edge = low if found == n else min(max(ordered[found], low), high)
    above = int(np.searchsorted(-ordered.astype(np.int64), -int(edge)))
    bits[cut] = _keys(edge)
    return reached[above - 1] if above else 0.0


@jit(reassociate=True, plain=_plain_threshold)
def threshold(
    bits: Ints, first: int, n: int, weights: Floats, weight: float, target: Floats, cut: int
) -> float:
    """Find the highest score such that the tokens with this or a higher score weigh at least `target`.

    The tokens are n from `first` on; each weighs `weight`, or its entry of `weights` if that is 0. `cut`
    holds a lower bound, after the highest score, and gets the result. Returns the weight of the strictly
    higher scores.
    """
    full_width()
    low, high, above = np.int64(bits[cut]), np.int64(bits[cut - 1]), 0.0
    low, high = low ^ ((low >> 63) & 0x7FFFFFFF), high ^ ((high >> 63) & 0x7FFFFFFF)
    while low < high:
        middle = np.int32((low + high + 1) >> 1)
        reached = 0.0
        for i in range(n):
            b = bits[np.uintp(first + i)]
            key = np.int32(b ^ np.int32(np.int32(b >> np.int32(31)) & np.int32(0x7FFFFFFF)))
            reached += (weight if weight > 0.0 else weights[i]) if key >= middle else 0.0
        if reached >= target:
            low = np.int64(middle)
        else:
            high, above = np.int64(middle) - 1, reached
    bits[cut] = low ^ ((low >> 63) & 0x7FFFFFFF)
    return above


def _plain_reach(work: Floats, light: Floats, n: int, bound: float, totals: Floats) -> tuple[Int, float]:
    inside = work[:n] >= bound
    blocks = np.arange(0, n, BLOCK)
    masses = np.add.reduceat(np.where(inside, light[:n], np.float32(0.0)), blocks, dtype=np.float64)
    totals[: len(blocks)] = masses
    return np.count_nonzero(inside), masses.sum()


@jit(reassociate=True, plain=_plain_reach)
def reach(work: Floats, light: Floats, n: int, bound: float, totals: Floats) -> tuple[Int, float]:
    """The number of scores from `bound` on, and their weight; writes the weight of each block to `totals`."""
    full_width()
    zero, held, mass = np.float32(0.0), np.int64(0), 0.0
    for b in range(-(-n // BLOCK)):
        stop = (b + 1) * BLOCK if (b + 1) * BLOCK < n else n
        part, some = zero, np.int32(0)
        for k in range(stop - b * BLOCK):
            i = np.uintp(b * BLOCK + k)
            # Both are read unconditionally: not all processors have masked loads.
            inside, weight = work[i] >= bound, light[i]
            part += weight if inside else zero
            some += np.int32(inside)
        totals[b] = np.float64(part)
        mass += np.float64(part)
        held += np.int64(some)
    return held, mass


@jit
def narrow(
    work: Floats, bits: Ints, light: Floats, n: int, target: Floats, weight: float, cut: int, totals: Floats
) -> Any:
    """Narrow the interval of a threshold (see `threshold`) in n scores until few lie in it.

    `cut` holds its lower end and the entry before its upper end; both are updated. Each token weighs
    `weight`, or its entry of `light` if that is 0. Returns the weight of the scores above the interval.
    """
    full_width()
    low, high = np.int64(bits[cut]), np.int64(bits[cut - 1])
    low, high = low ^ ((low >> 63) & 0x7FFFFFFF), high ^ ((high >> 63) & 0x7FFFFFFF)
    above, steps = 0.0, 0
    held: Int = n
    over: Int = 0
    while low < high and held - over > _FEW:
        middle = (low + high + 1) >> 1
        if weight == 0.0 and steps < _HALVINGS:  # scores are distributed more evenly than their bits
            half = (work[cut] + work[cut - 1]) * np.float32(0.5)
            work[cut + 1] = half
            key = np.int64(bits[cut + 1])
            key = key ^ ((key >> 63) & 0x7FFFFFFF)
            middle = key if low < key <= high else middle
        bits[cut + 1] = middle ^ ((middle >> 63) & 0x7FFFFFFF)
        some, mass = reach(work, light, n, work[cut + 1], totals)
        reached = weight * np.float64(some) if weight > 0.0 else mass
        if reached >= target:
            low, held = middle, some
        else:
            high, above, over = middle - 1, reached, some
        bits[cut] = low ^ ((low >> 63) & 0x7FFFFFFF)
        bits[cut - 1] = high ^ ((high >> 63) & 0x7FFFFFFF)
        steps += 1
    return above


def _plain_list_scores(
    work: Floats, end: int, begin: int, until: int, bound: float, limit: float, candidates: Ints,
    scores: Floats,
) -> Int:  # fmt: skip
    part = work[begin * GROUP : until * GROUP]
    places = np.flatnonzero((part >= bound) & (part <= limit))
    candidates[: places.size] = places + begin * GROUP
    scores[: places.size] = part[places]
    return places.size


@jit(plain=_plain_list_scores)
def list_scores(
    work: Floats, end: int, begin: int, until: int, bound: float, limit: float, candidates: Ints,
    scores: Floats,
) -> Int:  # fmt: skip
    """List the tokens with scores from `bound` to `limit` in the groups from `begin` on, and these scores.

    Returns their number. The maxima of groups begin at `end`.
    """
    full_width()
    n = np.int64(0)
    for j in range(begin, until):
        if work[end + j] >= bound:
            inside = np.int32(work[end + j] <= limit)
            if inside == 0:  # the maximum alone does not tell
                for k in range(GROUP):
                    score = work[np.uintp(j * GROUP + k)]
                    inside += np.int32((score >= bound) & (score <= limit))
            if inside > 0:
                for i in range(j * GROUP, (j + 1) * GROUP):
                    score = work[np.uintp(i)]
                    candidates[np.uintp(n)] = i
                    scores[np.uintp(n)] = score
                    n += np.int64((score >= bound) & (score <= limit))
    return n


def _plain_count_from(work: Floats, n: int, bound: float) -> Int:
    return np.count_nonzero(work[:n] >= bound)


@jit(reassociate=True, plain=_plain_count_from)
def count_from(work: Floats, n: int, bound: float) -> Int:
    """The number of scores from `bound` on, of n."""
    full_width()
    held = np.int32(0)
    for i in range(n):
        held += np.int32(work[i] >= bound)
    return np.int64(held)


def _plain_count_equal(work: Floats, light: Floats, n: int, score: float) -> tuple[Int, float]:
    equal = light[:n][work[:n] == score]
    return equal.size, np.float64(equal.sum(dtype=np.float64)) / equal.size


@jit(reassociate=True, plain=_plain_count_equal)
def count_equal(work: Floats, light: Floats, n: int, score: float) -> tuple[Int, float]:
    """The number of scores that equal `score`, of n, and the weight of each."""
    full_width()
    held, mass = np.int32(0), 0.0
    for i in range(n):
        equal, weight = work[i] == score, np.float64(light[i])
        held += np.int32(equal)
        mass += weight if equal else 0.0
    return np.int64(held), mass / np.float64(held)


@jit
def likely(work: Floats, bits: Ints, highest: float, least: float, place: int) -> float:
    """The lowest score with exp(score - highest) of at least `least`; `place` holds intermediate results."""
    full_width()
    work[place] = highest + math.log(least) - SLACK * (1.0 + abs(highest))
    low = np.int64(bits[place])
    work[place] = highest
    high = np.int64(bits[place])
    low, high = low ^ ((low >> 63) & 0x7FFFFFFF), high ^ ((high >> 63) & 0x7FFFFFFF)
    while low < high:
        middle = (low + high) >> 1
        bits[place] = middle ^ ((middle >> 63) & 0x7FFFFFFF)
        if math.exp(np.float64(work[place]) - np.float64(highest)) >= least:
            high = middle
        else:
            low = middle + 1
    bits[place] = low ^ ((low >> 63) & 0x7FFFFFFF)
    return work[place]
