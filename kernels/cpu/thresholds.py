"""Scores at which a filter cuts, found without a sort, compiled for the CPU.

A threshold is the highest score whose holders, with those of all higher scores, weigh at least so much. Among
a few scores it is found exactly, by bisection of bits, which order as the floats do. Among many, a few passes
over scores and weights first halve the interval in which it lies, until few are in it.

Arrays `work` (float32) and `bits` (the same memory) hold the scores of a row up to a whole group, the maxima
of its groups, the highest score, in the place after it (`cut`) a bound, and one more to work in.
"""

import math
from typing import Any

import numpy as np

from lite.kernels._types import Floats, Int, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.blocks import BLOCK
from lite.kernels.cpu.vectors.width import full_width

GROUP = 64  # entries per maximum
SLACK = 1e-3  # by which bounds are loosened against rounding
_FEW = 64  # scores in the interval of a threshold, from which on they are listed
_HALVINGS = 16  # by scores; bits come to an end


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
    """The maximum of each group and of all, as floats behind the groups.

    Integers are compared, which vectorises without a promise about NaN: those that order as the floats do.
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
    """The highest score whose holders, with those of all higher scores, weigh at least `target`.

    Of n scores from `first` on, which have their `weights`, or all of them `weight` if that is not 0. It is
    put in the place `cut`, which holds the least that it can be, after the highest score. Returns the weight
    of the strictly higher scores.
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
    """How many scores reach `bound`, and their weight; into `totals` that of each block."""
    full_width()
    zero, held, mass = np.float32(0.0), np.int64(0), 0.0
    for b in range(-(-n // BLOCK)):
        stop = (b + 1) * BLOCK if (b + 1) * BLOCK < n else n
        part, some = zero, np.int32(0)
        for k in range(stop - b * BLOCK):
            i = np.uintp(b * BLOCK + k)
            # Read whether it counts or not: not all processors read parts of vectors.
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
    """The interval of a threshold (see `threshold`) in n scores, until few lie in it.

    From the places `cut`, for the least that it can be, and the one before to these two. Each has its weight
    in `light`, or all have `weight` if that is not 0. Returns the weight of what is above the interval.
    """
    full_width()
    low, high = np.int64(bits[cut]), np.int64(bits[cut - 1])
    low, high = low ^ ((low >> 63) & 0x7FFFFFFF), high ^ ((high >> 63) & 0x7FFFFFFF)
    above, steps = 0.0, 0
    held: Int = n
    over: Int = 0
    while low < high and held - over > _FEW:
        middle = (low + high + 1) >> 1
        if weight == 0.0 and steps < _HALVINGS:  # scores lie more evenly than their bits
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
    """The tokens of scores from `bound` to `limit` in the groups from `begin` on, and these scores.

    Returns how many there are. The maxima of groups begin at `end`.
    """
    full_width()
    n = np.int64(0)
    for j in range(begin, until):
        if work[end + j] >= bound:
            inside = np.int32(work[end + j] <= limit)
            if inside == 0:  # its maximum does not tell
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
    """How many of n scores reach `bound`."""
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
    """How many of n scores are `score`, and what each of these weighs."""
    full_width()
    held, mass = np.int32(0), 0.0
    for i in range(n):
        equal, weight = work[i] == score, np.float64(light[i])
        held += np.int32(equal)
        mass += weight if equal else 0.0
    return np.int64(held), mass / np.float64(held)


@jit
def likely(work: Floats, bits: Ints, highest: float, least: float, place: int) -> float:
    """The lowest score whose exp(score - highest) is `least` or more; `place` is for working in."""
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
