"""Draws from rows whose filters may keep more tokens than a list of candidates holds, compiled for the CPU.

Thresholds are searched in the whole row. Tokens whose score reaches the last threshold, the edge, are kept.
"""

import math

import numpy as np

from lite.kernels._types import Float, Floats, Int, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.sample_tokens import HOTTEST, LEFT, LOWEST, NEVER, OPTIONS, TINY, details, draw
from lite.kernels.cpu.thresholds import (
    GROUP,
    SLACK,
    count_equal,
    likely,
    list_scores,
    maxima,
    narrow,
    reach,
    threshold,
)
from lite.kernels.cpu.vectors.blocks import BLOCK, weights_apart
from lite.kernels.cpu.vectors.width import full_width


def _plain_moments(work: Floats, light: Floats, n: int, edge: float, highest: float) -> tuple[float, float]:
    inside = work[:n] >= edge
    weights = light[:n][inside].astype(np.float64)
    return weights.sum(), np.sum(weights * (work[:n][inside] - highest))


@jit(reassociate=True, plain=_plain_moments)
def _moments(work: Floats, light: Floats, n: int, edge: float, highest: float) -> tuple[float, float]:
    """The sums of weight and of weight * (score - highest) over the scores that reach `edge`."""
    full_width()
    zero, mass, weighted = np.float32(0.0), 0.0, 0.0
    for b in range(-(-n // BLOCK)):
        stop = (b + 1) * BLOCK if (b + 1) * BLOCK < n else n
        part, more = zero, zero
        for k in range(stop - b * BLOCK):
            i = np.uintp(b * BLOCK + k)
            inside = work[i] >= edge
            part += light[i] if inside else zero
            more += light[i] * ((work[i] if inside else highest) - highest)
        mass += np.float64(part)
        weighted += np.float64(more)
    return mass, weighted


def _plain_surprise(work: Floats, n: int, edge: float, typical: float) -> None:
    scores = work[:n]
    scores[:] = np.where(scores >= edge, -abs(scores - typical), np.float32(-np.inf))


@jit(plain=_plain_surprise)
def _surprise(work: Floats, n: int, edge: float, typical: float) -> None:
    """Scores become minus their distance to `typical`; those below `edge` -inf."""
    full_width()
    for i in range(n):
        work[i] = -abs(work[i] - typical) if work[i] >= edge else np.float32(-np.inf)


def _plain_drop_first(work: Floats, score: float, count: int) -> None:
    work[np.flatnonzero(work == score)[:count]] = -np.inf


@jit(plain=_plain_drop_first)
def _drop_first(work: Floats, score: float, count: int) -> None:
    """Set the first `count` entries with this score to -inf."""
    i = 0
    while count > 0:
        if work[i] == score:
            work[i] = -np.inf
            count -= 1
        i += 1


@jit
def _cut_row(
    work: Floats, bits: Ints, light: Floats, groups: int, target: Floats, weight: float, cut: int,
    totals: Floats, candidates: Ints, weights: Floats, listed: int,
) -> float:  # fmt: skip
    """`threshold` over a whole row, with the same meaning of `weight` and `cut`."""
    full_width()
    above = narrow(work, bits, light, groups * GROUP, target, weight, cut, totals)
    if work[cut] < work[cut - 1]:
        n = list_scores(
            work, groups * GROUP, np.int64(0), groups, work[cut], work[cut - 1], candidates, work[listed:]
        )
        for j in range(n):
            weights[j] = weight if weight > 0.0 else np.float64(light[candidates[j]])
        above += threshold(bits, listed, n, weights, 0.0, target - above, cut)
    return above


@jit
def _from_row(
    work: Floats, bits: Ints, light: Floats, groups: int, candidates: Ints, weights: Floats, totals: Floats,
    options: Floats, o: int, share: float, highest: float, cut: int, listed: int,
) -> tuple[Int, Float]:  # fmt: skip
    """Draw from a row in which too many scores reach the bound in `cut`.

    Returns the token, and the edge: the least score in `work` that is kept.
    """
    full_width()
    k, p, least, typical = options[o + 1], options[o + 2], options[o + 3], options[o + 4]
    end = groups * GROUP
    edge: Float = LOWEST
    weights_apart(work[:end], highest, 1.0, False, bits[:0], False, light[:end])  # no flags
    if 0.0 < k < end:
        _cut_row(work, bits, light, groups, k, 1.0, cut, totals, candidates, weights, listed)
        edge = work[cut]
    if p < 1.0:
        _, total = reach(work, light, end, edge, totals)
        target = p * total
        target = target if target > TINY else TINY
        work[cut - 1] = highest
        above = _cut_row(work, bits, light, groups, target, 0.0, cut, totals, candidates, weights, listed)
        edge = work[cut]
        ties, weight = count_equal(work, light, end, edge)
        while ties > 0 and above < target:  # these stay
            above += weight
            ties -= 1
        _drop_first(work[:end], edge, ties)  # the last tokens stay, as after an ascending sort
    if least > 0.0:
        score = likely(work, bits, highest, least, cut)
        edge = score if score > edge else edge
    if typical < 1.0:
        total, spread = _moments(work, light, end, edge, highest)
        usual = np.float64(highest) + spread / total
        _surprise(work, end, edge, np.float32(usual))
        maxima(bits, groups)
        # What is below the mean of what is dropped, as above, is farther than what has to be kept.
        farthest: float = np.float64(highest) + math.log((1.0 - typical) * total / end) - usual
        farthest = farthest if farthest < spread / total else spread / total
        work[cut] = farthest - SLACK * (1.0 + abs(usual) - farthest)
        target = typical * total
        target = target if target > TINY else TINY
        _cut_row(work, bits, light, groups, target, 0.0, cut, totals, candidates, weights, listed)
        edge = work[cut]
    _, total = reach(work, light, end, edge, totals)
    goal, reached, before, begin = share * total, 0.0, 0.0, 0
    for b in range(-(-end // BLOCK)):
        if totals[b] > NEVER:
            begin, reached = b * BLOCK, before
            before += totals[b]
            if before > goal:
                break
    token = np.int64(0)
    for i in range(begin, begin + BLOCK if begin + BLOCK < end else end):
        if work[i] >= edge:
            token = np.int64(i)
            reached += np.float64(light[i])
            if reached > goal:
                break
    return token, edge


@jit(entry=True)
def flat_row(
    logits: Floats, begins: Ints, size: int, options: Floats, seeds: Ints, tokens: Ints, log_probs: Floats,
    numbers: Floats, kept: Ints, kept_counts: Ints, work: Floats, bits: Ints, candidates: Ints,
    memory: Floats, r: int,
) -> None:  # fmt: skip
    """Draw for row r, at which `sample_tokens.rows` stopped, from its scratch memory as it left it.

    The arguments are those of `rows`.
    """
    groups, room = -(-size // GROUP), candidates.size
    end = groups * GROUP
    cut, listed = end + groups + 1, end + groups + 3
    weights, totals, left = memory[:room], memory[room:], memory[memory.size - LEFT :]
    light, plain = work[listed + room : listed + room + end], work[listed + room + end :]
    temperature, share = options[OPTIONS * r], options[OPTIONS * r + 6]
    if seeds.size > 0:
        share = draw(seeds[2 * r], seeds[2 * r + 1])
    token, edge = _from_row(
        work, bits, light, groups, candidates, weights, totals, options, OPTIONS * r, share, work[cut - 1],
        cut, listed,
    )  # fmt: skip
    tokens[r] = token
    logit = np.float64(logits[begins[r] + token])
    log_probs[r] = (0.0 if logit == left[0] else logit - left[0]) - left[1]
    if numbers is not None:
        inverse = 1.0 / (temperature if temperature < HOTTEST else HOTTEST)
        details(
            work, plain, size, end, token, inverse, True, edge, candidates, weights, np.int64(-1), left[2],
            left[3], totals, numbers, r, kept, kept_counts,
        )  # fmt: skip
