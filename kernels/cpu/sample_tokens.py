"""One token per row of logits, drawn after the usual filters, compiled for the CPU.

Nothing is sorted, and the whole row is only gone through by loops over full vectors. The maxima of groups
of scores bound the k-th largest score from below, and the share that top-p leaves bounds what it keeps:
only groups that reach the bound are looked into. Among what is left, a threshold (the k-th largest score,
or the score at which the largest ones hold a share p of the probability) is found exactly by bisection of
their bits, which order as they do. What a filter drops gets the weight 0.

As every function is compiled once more with each that calls it, calls are not nested, and one row of memory
holds all that is compared: the scores, up to a whole group with -inf, the maxima of the groups, the highest
score, and the scores of the candidates. It is read as floats and as their bits.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._jit import jit
from lite.kernels._outcomes import NOTHING, UNKNOWN
from lite.kernels.cpu.vectors.blocks import BLOCK, log_total, sums_apart
from lite.kernels.cpu.vectors.width import full_width

_GROUP = 64  # entries per maximum
_SLACK = 1e-3  # by which bounds are loosened against rounding
_TINY = 5e-324
_LOWEST = np.float32(np.finfo(np.float32).min)  # which -inf does not reach
_NEVER = 1e-30  # a share of the probability that is never drawn


@jit
def _load(
    logits: Any, base: Any, size: Any, keep: Any, flags: Any, places: Any, instead: Any, first: Any,
    last: Any, work: Any,
) -> Any:  # fmt: skip
    """A row into `work`, with other scores in some places, and -inf where it is masked, if there are `flags`.

    -0.0 becomes 0.0, as they are equal. Returns whether there is NaN.
    """
    full_width()
    zero, hidden, unknown = np.float32(0.0), np.float32(-np.inf), False
    for i in range(size):
        work[i] = logits[np.uintp(base + i)] + zero
        unknown |= work[i] != work[i]
    for j in range(first, last):
        work[places[j]] = instead[j] + zero
    if flags > 0:
        unknown = False
        for i in range(size):
            work[i] = work[i] if keep[np.uintp(base + i)] else hidden
            unknown |= work[i] != work[i]
    return unknown


@jit
def _maxima(bits: Any, groups: Any) -> None:
    """The maximum of each group and of all, as floats behind the groups.

    Integers are compared, which vectorises without a promise about NaN: those that order as the floats do.
    """
    full_width()
    end = groups * _GROUP
    highest = np.int32(-0x80000000)
    for j in range(groups):
        top = np.int32(-0x80000000)
        for i in range(_GROUP):
            b = bits[np.uintp(j * _GROUP + i)]
            key = np.int32(b ^ np.int32(np.int32(b >> np.int32(31)) & np.int32(0x7FFFFFFF)))
            top = key if key > top else top
        bits[np.uintp(end + j)] = top ^ ((top >> np.int32(31)) & np.int32(0x7FFFFFFF))
        highest = top if top > highest else highest
    bits[np.uintp(end + groups)] = highest ^ ((highest >> np.int32(31)) & np.int32(0x7FFFFFFF))


@jit
def _rescale(work: Any, count: Any, offset: Any, divisor: Any) -> None:
    """Scores at a temperature, in float32 as Hugging Face computes them. Where +inf is the offset, 0."""
    full_width()
    zero = np.float32(0.0)
    for i in range(count):
        score = (work[i] - offset) / divisor + zero
        work[i] = score if score == score else zero


@jit
def _weigh(work: Any, end: Any, highest: Any, totals: Any) -> Any:
    """The sum of exp(score - highest) of each block; over all, how many are the highest, and the rest."""
    count = rest = 0.0
    for b in range(totals.size):
        stop = (b + 1) * BLOCK if (b + 1) * BLOCK < end else end
        equal, others, _ = sums_apart(work[b * BLOCK : stop], highest, np.float32(1.0))
        totals[b] = equal + others
        count += equal
        rest += others
    return count, rest


@jit(reassociate=True)
def _threshold(bits: Any, first: Any, n: Any, weights: Any, weight: Any, target: Any, cut: Any) -> Any:
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


def work_memory(size: int) -> tuple[NDArray[Any], ...]:
    """For `rows` of this many logits; made in Python, because compiling it takes longer than all calls do."""
    groups = -(-size // _GROUP)
    end = groups * _GROUP
    work = np.empty(end + groups + 3 + size, np.float32)
    work[size:end] = -np.inf
    totals = np.empty(-(-end // BLOCK))
    return work, work.view(np.int32), totals, np.empty(size + 1, np.int64), np.empty(size)


@jit(entry=True)
def rows(
    logits: Any, size: Any, keep: Any, places: Any, instead: Any, starts: Any, options: Any,
    tokens: Any, log_probs: Any, status: Any,
    work: Any, bits: Any, totals: Any, candidates: Any, weights: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Rows `start` to `stop`, each of `size` logits.

    Args:
        logits: flat.
        keep: flags, flat; empty where nothing is masked.
        places: of scores that a penalty changes; those of row r lie from `starts[r]` to `starts[r + 1]`.
        instead: these scores.
        options: of each row the temperature, top_k, top_p, min_p and a uniform draw.
        tokens, log_probs, status: the results; a log-prob is NaN where logits are infinite or NaN.
        work, bits, totals, candidates, weights: memory to work in, from `work_memory`.
    """
    groups = -(-size // _GROUP)
    end = groups * _GROUP
    best, cut, listed = end + groups, end + groups + 1, end + groups + 2
    for r in range(start, stop):
        base, first, last, o = r * size, starts[r], starts[r + 1], 5 * r
        divisor, k, p = np.float32(options[o]), options[o + 1], options[o + 2]
        least, uniform = options[o + 3], options[o + 4]
        unknown = _load(logits, base, size, keep, np.int64(0), places, instead, first, first, work)
        _maxima(bits, groups)
        top = highest = work[best]
        count, rest = _weigh(work, end, top, totals)
        total_of_model = log_total(count, rest)
        changed = keep.size > 0 or last > first
        if changed:
            unknown = _load(logits, base, size, keep, keep.size, places, instead, first, last, work)
            _maxima(bits, groups)
            highest = work[best]
        if unknown or highest == -np.inf:
            status[r] = UNKNOWN if unknown else NOTHING
            continue
        if divisor != 1.0 or highest == np.inf:
            beyond = abs(highest / divisor) == np.inf  # what is different must not become equal
            _rescale(work, best + 1, highest if beyond else np.float32(0.0), divisor)
            highest, changed = work[best], True

        # The groups that are looked into, the score they must reach, and the weight of what comes before.
        begin, until, reached, total, goal = 0, groups, 0.0, 0.0, -1.0
        work[cut] = _LOWEST
        if 0.0 < k < size:  # each maximum is a score: the k-th largest score is no smaller than theirs
            _threshold(bits, end, groups, weights, 1.0, k, cut)
        else:
            if changed:
                count, rest = _weigh(work, end, highest, totals)
            total = count + rest
            if p >= 1.0 and least <= 0.0:
                goal, before = uniform * total, 0.0
                for b in range(totals.size):
                    if totals[b] > _NEVER:
                        begin, reached = b * (BLOCK // _GROUP), before
                        before += totals[b]
                        if before > goal:
                            break
                until = begin + BLOCK // _GROUP
                until = groups if groups < until else until
            else:
                # Tokens below the mean of what top-p drops hold no more than that together: it keeps none.
                fewest = (1.0 - p) * total / size if p < 1.0 else least
                lowest = highest + math.log(fewest) - _SLACK * (1.0 + abs(highest))
                work[cut] = lowest if lowest > _LOWEST else _LOWEST
        bound = work[cut]

        n: Any = np.int64(0)
        for j in range(begin, until):
            if work[end + j] >= bound:
                for i in range(j * _GROUP, (j + 1) * _GROUP):
                    candidates[n] = i
                    work[listed + n] = work[i]
                    n += 1 if work[i] >= bound else 0
        if 0.0 < k < n:
            _threshold(bits, listed, n, weights, 1.0, k, cut)
            bound = work[cut]
        kept = 0.0
        for j in range(n):
            score = work[listed + j]
            weights[j] = math.exp(np.float64(score) - np.float64(highest)) if score >= bound else 0.0
            kept += weights[j]
        edge, target, above = np.float32(-np.inf), 0.0, 0.0
        if p < 1.0:
            target = p * (kept if kept > total else total)
            target = target if target > _TINY else _TINY
            above = _threshold(bits, listed, n, weights, 0.0, target, cut)
            edge = work[cut]
        total = 0.0
        for i in range(n):  # of equal scores the last tokens stay, as after an ascending sort
            j = n - 1 - i
            score, weight = work[listed + j], weights[j]
            if score <= edge:
                weight = weight if score == edge and above < target else 0.0
                above += weight
            weights[j] = weight if weight >= least else 0.0
            total += weights[j]
        goal = uniform * total if goal < 0.0 else goal
        token = candidates[0]
        for j in range(n):
            if weights[j] > 0.0:
                token = candidates[j]
                reached += weights[j]
                if reached > goal:
                    break
        tokens[r] = token
        log_probs[r] = np.float64(logits[base + token]) - np.float64(top) - total_of_model
