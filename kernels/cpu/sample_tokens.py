"""One token per row of logits, drawn after the usual filters, compiled for the CPU.

Nothing is sorted, and only loops over full vectors read the whole row. The maxima of groups of scores bound
the k-th largest score from below, and the share that top-p drops bounds the scores that it keeps. The scores
that reach the bound are listed; only groups whose maximum reaches it are searched. `thresholds` finds in the
list where a filter cuts. Tokens that a filter drops get the weight 0. If too many scores reach the bound,
nothing is listed and `flat_rows` draws from the row.

A function is compiled again with each of its callers, so calls are hardly nested. Code that few calls need is
compiled only for them: changes of scores and details if their arguments are not None, `flat_rows` if a row
needs it.

One row of memory, read as floats and as their bits, holds in order: the scores, padded with -inf to whole
groups; the maxima of the groups; the highest score; bounds; the listed scores; the weights of the whole row;
and its scores before filters.

This file is over 600 lines because each function of the procedure stands beside its NumPy version, which runs
where nothing is compiled.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._outcomes import DRAWN, NOTHING, OUTSIDE, UNKNOWN, uniform
from lite.kernels._types import Bool, Bools, Floats, Int, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.thresholds import GROUP, SLACK, count_from, list_scores, maxima, threshold
from lite.kernels.cpu.vectors.blocks import BLOCK, exp, log_total, maximum, sums_apart
from lite.kernels.cpu.vectors.width import full_width

OPTIONS, NUMBERS = 7, 3  # of a row
_LISTED = BLOCK  # candidates at most
LEFT = 4  # numbers that `rows` leaves to `flat_rows`
TINY = 5e-324
_FAR = -700.0  # whose exp is nothing beside 1
LOWEST = np.float32(np.finfo(np.float32).min)  # which -inf does not reach
NEVER = 1e-30  # a share of the probability that is never drawn
_COLDEST = 2.0**-126  # less takes the highest score
HOTTEST = 2.0**100  # scores of any size are equal then; the inverse of more is not a float32
draw = jit(uniform)


def _plain_load(logits: Floats, base: int, size: int, work: Floats) -> Bool:
    np.add(logits[base : base + size], np.float32(0.0), out=work[:size])
    return np.isnan(work[:size]).any()


@jit(plain=_plain_load)
def _load(logits: Floats, base: int, size: int, work: Floats) -> Bool:
    """Copy a row into `work`, with 0.0 for -0.0, as they are equal. Returns whether there is NaN."""
    full_width()
    zero, unknown = np.float32(0.0), False
    for i in range(size):
        work[i] = logits[np.uintp(base + i)] + zero
        unknown |= work[i] != work[i]
    return unknown


def _plain_adjust(
    source: Floats, base: int, size: int, previous: Ints, first: int, last: int, penalty: float, ids: Ints,
    values: Floats, begin: int, stop: int, work: Floats,
) -> Bool:  # fmt: skip
    zero, factor = np.float32(0.0), np.float32(penalty)
    if penalty != 1.0:
        tokens = previous[first:last]
        tokens = tokens[(tokens >= 0) & (tokens < size)]
        before = source[base + tokens]
        work[tokens] = np.where(before < zero, before * factor, before / factor) + zero
    tokens, added = ids[begin:stop], values[begin:stop]
    known = (tokens >= 0) & (tokens < size)
    finite = known & (added > -np.inf)
    np.add.at(work, tokens[finite], added[finite])
    work[tokens[finite]] += zero
    return not known.all()


@jit(plain=_plain_adjust)
def _adjust(
    source: Floats, base: int, size: int, previous: Ints, first: int, last: int, penalty: float, ids: Ints,
    values: Floats, begin: int, stop: int, work: Floats,
) -> Bool:  # fmt: skip
    """Penalise the scores of `previous` tokens and add the bias, where it is finite, to that of its tokens.

    Returns whether a bias is for a token outside the vocabulary.
    """
    full_width()
    zero, factor, outside = np.float32(0.0), np.float32(penalty), False
    if penalty != 1.0:
        for j in range(first, last):
            token = previous[j]
            if 0 <= token < size:
                score = source[base + token]  # the same however often it is there
                work[token] = (score * factor if score < zero else score / factor) + zero
    for j in range(begin, stop):
        token = ids[j]
        if 0 <= token < size:
            if values[j] > -np.inf:
                work[token] = work[token] + values[j] + zero
        else:
            outside = True
    return outside


def _plain_exclude(
    work: Floats, size: int, r: int, keep: Bools, allowed: Ints, ids: Ints, values: Floats, begin: int,
    stop: int,
) -> None:  # fmt: skip
    if keep.size > 0:
        work[:size][~keep[r * size : (r + 1) * size]] = -np.inf
    if allowed.size > 0:
        words = (size + 31) >> 5
        bits = (allowed[r * words : (r + 1) * words, None] >> np.arange(32, dtype=np.int32)) & 1
        work[: words * 32][bits.reshape(-1) == 0] = -np.inf
    work[ids[begin:stop][values[begin:stop] == -np.inf]] = -np.inf


@jit(plain=_plain_exclude)
def _exclude(
    work: Floats, size: int, r: int, keep: Bools, allowed: Ints, ids: Ints, values: Floats, begin: int,
    stop: int,
) -> None:  # fmt: skip
    """Set scores of row r to -inf that the flags `keep`, the bits `allowed` or a bias of -inf exclude."""
    full_width()
    hidden, one = np.float32(-np.inf), np.int32(1)
    if keep.size > 0:
        for i in range(size):
            work[i] = work[i] if keep[np.uintp(r * size + i)] else hidden
    if allowed.size > 0:
        words = (size + 31) >> 5
        for w in range(words):
            bits = allowed[np.uintp(r * words + w)]
            for b in range(32):
                place = np.uintp(w * 32 + b)
                work[place] = work[place] if np.int32(np.int32(bits >> np.int32(b)) & one) else hidden
    for j in range(begin, stop):
        if values[j] == -np.inf:
            work[ids[j]] = hidden


def _plain_has_nan(work: Floats, size: int) -> Bool:
    return np.isnan(work[:size]).any()


@jit(plain=_plain_has_nan)
def _has_nan(work: Floats, size: int) -> Bool:
    unknown = False
    for i in range(size):
        unknown |= work[i] != work[i]
    return unknown


def _plain_rescale(work: Floats, count: int, offset: float, divisor: float) -> None:
    scores = (work[:count] - offset) / divisor + np.float32(0.0)
    work[:count] = np.where(scores == scores, scores, np.float32(0.0))


@jit(plain=_plain_rescale)
def _rescale(work: Floats, count: int, offset: float, divisor: float) -> None:
    """Divide scores by a temperature in float32, as Hugging Face; 0 where score and offset are +inf."""
    full_width()
    zero = np.float32(0.0)
    for i in range(count):
        score = (work[i] - offset) / divisor + zero
        work[i] = score if score == score else zero


def _plain_weigh(
    work: Floats, end: int, highest: float, inverse: float, totals: Floats
) -> tuple[float, float, float]:
    distance = work[:end] - np.float32(highest)
    np.maximum(distance, np.float32(_FAR / inverse), out=distance)  # so that 0 times it is 0
    terms = np.exp(distance * np.float32(inverse))
    blocks, equal = np.arange(0, end, BLOCK), distance >= 0.0
    terms[equal] = 0.0
    counts, rests = (np.add.reduceat(a, blocks, dtype=np.float64) for a in (equal, terms))
    totals[: len(blocks)] = counts + rests
    return counts.sum(), rests.sum(), np.sum(distance * terms, dtype=np.float64)


@jit(plain=_plain_weigh)
def _weigh(
    work: Floats, end: int, highest: float, inverse: float, totals: Floats
) -> tuple[float, float, float]:
    """The sum of exp(d) of each block to `totals`, with d = (score - highest) * inverse.

    Returns how many scores equal `highest`, which none exceeds, the sum over the others, and the sum of
    d exp(d) / inverse.
    """
    full_width()
    count = rest = weighted = 0.0
    for b in range(-(-end // BLOCK)):
        stop = (b + 1) * BLOCK if (b + 1) * BLOCK < end else end
        equal, others, more = sums_apart(work[b * BLOCK : stop], highest, inverse)
        totals[b] = equal + others
        count += equal
        rest += others
        weighted += more
    return count, rest, weighted


def _plain_best(
    work: Floats, bits: Ints, groups: int, size: int, weights: Floats, cut: int, ids: Ints, scores: Floats,
    first: int, n: int,
) -> None:  # fmt: skip
    least = np.partition(work[:size], size - n)[size - n]
    places = np.flatnonzero(work[:size] >= least)
    places = places[np.argsort(-work[places], kind="stable")][:n]
    ids[first : first + places.size], scores[first : first + places.size] = places, work[places]


@jit(plain=_plain_best)
def _best(
    work: Floats, bits: Ints, groups: int, size: int, weights: Floats, cut: int, ids: Ints, scores: Floats,
    first: int, n: int,
) -> None:  # fmt: skip
    """Write the n highest scores in order, from `first` on; of equal scores the first tokens."""
    full_width()
    end, held = groups * GROUP, 0
    work[cut] = -np.inf
    if n < groups:  # each maximum is a score: the n-th highest score is no lower than theirs
        threshold(bits, end, groups, weights, 1.0, np.float64(n), cut)
    for j in range(groups):
        if work[end + j] >= work[cut]:
            stop = (j + 1) * GROUP if (j + 1) * GROUP < size else size
            for i in range(j * GROUP, stop):
                score = np.float64(work[i])
                if held < n or score > scores[first + n - 1]:
                    at = first + (held if held < n else n - 1)
                    while at > first and scores[at - 1] < score:
                        scores[at], ids[at] = scores[at - 1], ids[at - 1]
                        at -= 1
                    scores[at], ids[at] = score, i
                    held += 1 if held < n else 0


def _plain_copy(work: Floats, n: int, out: Floats) -> None:
    out[:n] = work[:n]


@jit(plain=_plain_copy)
def _copy(work: Floats, n: int, out: Floats) -> None:
    for i in range(n):
        out[i] = work[i]


def _plain_restore(work: Floats, n: int, edge: float, plain: Floats) -> None:
    work[:n] = np.where(work[:n] >= edge, plain[:n], np.float32(-np.inf))


@jit(plain=_plain_restore)
def _restore(work: Floats, n: int, edge: float, plain: Floats) -> None:
    """Restore the scores before filters where `work` reaches `edge`; set the others to -inf."""
    full_width()
    for i in range(n):
        score = plain[i]
        work[i] = score if work[i] >= edge else np.float32(-np.inf)


def _plain_sum(weights: Floats, n: int) -> float:
    return weights[:n].sum()


@jit(reassociate=True, plain=_plain_sum)
def _sum(weights: Floats, n: int) -> float:
    full_width()
    total = 0.0
    for j in range(n):
        total += weights[np.uintp(j)]
    return total


def _plain_weigh_list(
    work: Floats, bits: Ints, weights: Floats, n: int, options: Floats, o: int, total: float, highest: float,
    cut: int, listed: int,
) -> float:  # fmt: skip
    k, p, least = options[o + 1], options[o + 2], options[o + 3]
    if 0.0 < k < n:
        threshold(bits, listed, n, weights, 1.0, k, cut)
    scores, weights = work[listed : listed + n], weights[:n]
    distance = scores.astype(np.float64) - highest
    weights[:] = np.where((scores >= work[cut]) & (distance > _FAR), np.exp(distance), 0.0)
    if p < 1.0:
        target = max(p * max(_sum(weights, n), total), TINY)
        above = threshold(bits, listed, n, weights, 0.0, target, cut)
        weights[scores < work[cut]] = 0.0
        ties = np.flatnonzero((scores == work[cut]) & (weights > 0.0))
        if ties.size:  # of equal scores the last tokens stay
            before = above + weights[ties[0]] * np.arange(ties.size - 1, -1, -1)
            weights[ties[before >= target]] = 0.0
    if least > 0.0:
        weights[weights < least] = 0.0
    return _sum(weights, n)


@jit(plain=_plain_weigh_list)
def _weigh_list(
    work: Floats, bits: Ints, weights: Floats, n: int, options: Floats, o: int, total: float, highest: float,
    cut: int, listed: int,
) -> float:  # fmt: skip
    """The `weights` of n listed scores, 0 where top-k, top-p or min-p drop them, and their sum.

    Args:
        options: from `o` on, of the row.
        total: the weight of all tokens, 0 where only the listed ones count.
    """
    full_width()
    k, p, least = options[o + 1], options[o + 2], options[o + 3]
    if 0.0 < k < n:
        threshold(bits, listed, n, weights, 1.0, k, cut)
    bound = work[cut]
    top, far = np.float64(highest), np.float64(_FAR)
    for j in range(n):
        score = work[np.uintp(listed + j)]
        distance = np.float64(score) - top
        _, weight = exp(distance)
        weights[j] = weight if (score >= bound) & (distance > far) else 0.0
    if p < 1.0:
        kept = _sum(weights, n)
        target = p * (kept if kept > total else total)
        target = target if target > TINY else TINY
        above = threshold(bits, listed, n, weights, 0.0, target, cut)
        edge = work[cut]
        for i in range(n):  # of equal scores the last tokens stay, as after an ascending sort
            j = n - 1 - i
            score = work[listed + j]
            if score <= edge:
                weights[j] = weights[j] if score == edge and above < target else 0.0
                above += weights[j]
    if least > 0.0:
        for j in range(n):
            weights[j] = weights[j] if weights[j] >= least else 0.0
    return _sum(weights, n)


def _plain_typical_of_list(
    work: Floats, bits: Ints, weights: Floats, n: int, typical: float, total: float, highest: float, cut: int,
    listed: int,
) -> float:  # fmt: skip
    scores, weights = work[listed : listed + n], weights[:n]
    live, top = weights > 0.0, np.float64(highest)
    spread = np.sum(weights[live] * (scores[live] - top))
    scores[:] = np.where(live, -abs(scores - np.float32(top + spread / total)), np.float32(-np.inf))
    work[cut], work[cut - 1] = LOWEST, np.float32(0.0)
    threshold(bits, listed, n, weights, 0.0, max(typical * total, TINY), cut)
    weights[scores < work[cut]] = 0.0
    return _sum(weights, n)


@jit(plain=_plain_typical_of_list)
def _typical_of_list(
    work: Floats, bits: Ints, weights: Floats, n: int, typical: float, total: float, highest: float, cut: int,
    listed: int,
) -> float:  # fmt: skip
    """Apply typical-p to n listed scores, whose `weights` sum to `total`; returns the new sum."""
    full_width()
    top, spread = np.float64(highest), 0.0
    for j in range(n):
        if weights[j] > 0.0:
            spread += weights[j] * (np.float64(work[listed + j]) - top)
    usual = np.float32(np.float64(highest) + spread / total)  # where the surprise is the entropy
    for j in range(n):
        near = -abs(work[listed + j] - usual)
        work[listed + j] = near if weights[j] > 0.0 else np.float32(-np.inf)
    work[cut], work[cut - 1] = LOWEST, np.float32(0.0)
    target = typical * total
    target = target if target > TINY else TINY
    threshold(bits, listed, n, weights, 0.0, target, cut)
    for j in range(n):
        weights[j] = weights[j] if work[listed + j] >= work[cut] else 0.0
    return _sum(weights, n)


def _plain_details(
    work: Floats, plain: Floats, size: int, end: int, token: int, inverse: float, dropped: bool, edge: float,
    candidates: Ints, weights: Floats, n: int, all_top: float, all_total: float, totals: Floats,
    numbers: Floats, r: int, kept: Ints, kept_counts: Ints,
) -> None:  # fmt: skip
    top, total, m, place, first = all_top, all_total, size, NUMBERS * r, r * size
    if dropped:
        left = candidates[:n][weights[:n] > 0.0] if n >= 0 else np.flatnonzero(work[:size] >= edge)
        m = left.size
        if kept.size > 0:
            kept[first : first + m] = left
        work[:m] = plain[left]
        top = np.float64(work[:m].max())
        count, rest, _ = _weigh(work, m, top, inverse, totals)
        total = log_total(count, rest)
    numbers[place] = (np.float64(plain[token]) - top) * inverse - total
    numbers[place + 1] = min((top - all_top) * inverse + total - all_total, 0.0)
    if kept.size > 0:
        kept_counts[r] = m if m < size else 0


@jit(plain=_plain_details)
def details(
    work: Floats, plain: Floats, size: int, end: int, token: int, inverse: float, dropped: bool, edge: float,
    candidates: Ints, weights: Floats, n: int, all_top: float, all_total: float, totals: Floats,
    numbers: Floats, r: int, kept: Ints, kept_counts: Ints,
) -> None:  # fmt: skip
    """Write the log-prob of row r's token and the log of the kept mass; list and count the kept tokens.

    Args:
        plain: the scores before any was dropped; `all_top` and `all_total` are their highest and log-sum.
        inverse: inverse of the temperature.
        dropped: whether anything was; then what is kept has weights in the list of n candidates, or, if n is
            negative, reaches the `edge` in `work`.
    """
    full_width()
    top, total, place, first = all_top, all_total, NUMBERS * r, r * size
    m: Int = size
    extent: Int = end
    if dropped:
        m = np.int64(0)
        if n >= 0:
            for j in range(n):
                if weights[j] > 0.0:
                    work[m] = plain[candidates[j]]
                    if kept.size > 0:
                        kept[first + m] = candidates[j]
                    m += 1
            extent = m
        else:
            if kept.size > 0:
                for i in range(size):
                    kept[first + m] = i
                    m += 1 if work[i] >= edge else 0
            _restore(work, end, edge, plain)
        top = np.float64(maximum(work[:extent]))
        count, rest, _ = _weigh(work, extent, top, inverse, totals)
        total = log_total(count, rest)
    numbers[place] = (np.float64(plain[token]) - top) * inverse - total
    mass = (top - all_top) * inverse + total - all_total
    numbers[place + 1] = 0.0 if mass > 0.0 else mass
    if kept.size > 0:
        kept_counts[r] = m if m < size else 0


def work_memory(size: int) -> tuple[NDArray[Any], ...]:
    """Scratch memory for `rows`; made in Python, because compiling this takes longer than all calls."""
    groups, listed = -(-size // GROUP), min(size, _LISTED) + 1
    end = groups * GROUP
    work = np.empty(end + groups + 3 + listed + 2 * end, np.float32)
    work[size:end] = -np.inf
    memory = np.empty(listed + -(-end // BLOCK) + LEFT)
    return work, work.view(np.int32), np.empty(listed, np.int64), memory


@jit(entry=True)
def rows(
    logits: Floats, begins: Ints, size: int, scores: Floats, keep: Bools, allowed: Ints, previous: Ints,
    starts: Ints, ids: Ints, values: Floats, offsets: Ints, options: Floats, seeds: Ints, tokens: Ints,
    log_probs: Floats, status: Ints, numbers: Floats, kept: Ints, kept_counts: Ints, n_top: int,
    top_ids: Ints, top_scores: Floats, work: Floats, bits: Ints, candidates: Ints, memory: Floats, start: int,
    stop: int,
) -> int:  # fmt: skip
    """Rows `start` to `stop`, each of `size` logits. What is not given is empty.

    Returns `stop`, or the first row in which more scores may be kept than are listed: `flat_row` draws from
    that one, and later rows are not begun.

    Args:
        logits: flat; row r from `begins[r]` on.
        scores: flat: what is drawn from in place of the logits.
        keep, allowed: flags, flat, and bits of tokens, whole words to a row.
        previous: tokens that the penalty is for; those of row r lie from `starts[r]` to `starts[r + 1]`.
        ids, values: tokens and what is added to their scores, likewise by `offsets`.
            From `scores` to `offsets` all are None where no row has any of these, a typical_p or details.
        options: temperature, top_k, top_p, min_p, typical_p, penalty and a uniform draw of each row.
        seeds: seed and step of each row; where empty, the uniform draws are as given.
        tokens, log_probs, status: the results; a log-prob is NaN where logits are.
        numbers: of each row the log-prob of the token in what was drawn from, the log of the kept mass, and
            the entropy of the model; they are the details. None where none are asked for.
        n_top, top_ids, top_scores: how many of the best, and these with their log-probs.
        kept, kept_counts: kept tokens, those of row r from r * size on; none where all are kept.
        work, bits, candidates, memory: to work in, from `work_memory`.
    """
    groups = -(-size // GROUP)
    end = groups * GROUP
    best, cut, listed = end + groups, end + groups + 1, end + groups + 3
    room = candidates.size
    weights, totals = memory[:room], memory[room:]
    for r in range(start, stop):
        base, o = begins[r], OPTIONS * r
        temperature, k, p = options[o], options[o + 1], options[o + 2]
        least, typical, penalty, share = options[o + 3], options[o + 4], options[o + 5], options[o + 6]
        if seeds.size > 0:
            share = draw(seeds[2 * r], seeds[2 * r + 1])

        unknown = _load(logits, base, size, work)
        maxima(bits, groups)
        top = highest = work[best]
        count, rest, weighted = _weigh(work, end, np.float64(top), 1.0, totals)
        model_top, total_of_model, infinite = np.float64(top), log_total(count, rest), 0.0
        if top == np.inf:
            for i in range(size):
                infinite += 1.0 if work[i] == top else 0.0
            total_of_model = np.nan if unknown else math.log(infinite)
        if numbers is not None:
            spread = 0.0 if top == np.inf else weighted / (count + rest)
            numbers[NUMBERS * r + 2] = total_of_model - spread
            places = n_top * r
            if n_top > 0:
                _best(work, bits, groups, size, weights, cut, top_ids, top_scores, places, n_top)
            for j in range(places, places + n_top):
                distance = 0.0 if top_scores[j] == model_top else top_scores[j] - model_top
                top_scores[j] = distance - total_of_model

        changed = hidden = False
        if offsets is not None:
            source, place = logits, base
            if scores.size > 0:
                changed, source, place = True, scores, r * size
                unknown = _load(scores, place, size, work)
            hidden = keep.size > 0 or allowed.size > 0 or offsets[r + 1] > offsets[r]
            if offsets[r + 1] > offsets[r] or (starts[r + 1] > starts[r] and penalty != 1.0):
                changed = True
                if _adjust(
                    source,
                    place,
                    size,
                    previous,
                    starts[r],
                    starts[r + 1],
                    penalty,
                    ids,
                    values,
                    offsets[r],
                    offsets[r + 1],
                    work,
                ):
                    status[r] = OUTSIDE
                    continue
        inverse = 1.0 / (temperature if temperature < HOTTEST else HOTTEST)
        all_top: Any = model_top
        all_total = total_of_model
        if numbers is not None:
            plain = work[listed + room + end :]
            if temperature >= _COLDEST:
                _copy(work, end, plain)
                if changed:
                    maxima(bits, groups)
                    all_top = np.float64(work[best])
                if all_top == np.inf:  # the infinite scores share what there is
                    _rescale(plain, end, work[best], np.float32(1.0))
                if changed or inverse != 1.0 or all_top == np.inf:
                    all_top = 0.0 if all_top == np.inf else all_top
                    count, rest, _ = _weigh(plain, end, all_top, inverse, totals)
                    all_total = log_total(count, rest)
        if offsets is not None and hidden:
            changed = True
            _exclude(work, size, r, keep, allowed, ids, values, offsets[r], offsets[r + 1])
            if unknown:
                unknown = _has_nan(work, size)
        if changed:
            maxima(bits, groups)
            highest = work[best]
        if unknown or highest == -np.inf:
            status[r] = UNKNOWN if unknown else NOTHING
            continue
        status[r] = DRAWN

        token: Int = np.int64(0)
        n: Int = np.int64(0)  # of the list
        filtered = 0.0 < k < size or p < 1.0 or least > 0.0 or typical < 1.0
        if temperature < _COLDEST:
            j = 0
            while work[end + j] != highest:
                j += 1
            token = np.int64(j * GROUP)
            while work[token] != highest:
                token += 1
        else:
            if temperature != 1.0 or highest == np.inf:
                divisor = np.float32(temperature)
                beyond = abs(highest / divisor) == np.inf  # what is different must not become equal
                _rescale(work, best + 1, highest if beyond else np.float32(0.0), divisor)
                highest, changed = work[best], True
            # The groups that are looked into, the score they must reach, and the weight of what comes before.
            begin, until, reached, total, goal = 0, groups, 0.0, 0.0, -1.0
            work[cut] = LOWEST
            if 0.0 < k < size:  # each maximum is a score: the k-th largest score is no smaller than theirs
                threshold(bits, end, groups, weights, 1.0, k, cut)
            else:
                if changed:
                    count, rest, _ = _weigh(work, end, np.float64(highest), 1.0, totals)
                total = count + rest
                if not filtered:
                    goal, before = share * total, 0.0
                    for b in range(-(-end // BLOCK)):
                        if totals[b] > NEVER:
                            begin, reached = b * (BLOCK // GROUP), before
                            before += totals[b]
                            if before > goal:
                                break
                    until = begin + BLOCK // GROUP
                    until = groups if groups < until else until
                elif p < 1.0 or least > 0.0:
                    # Tokens below the mean of what top-p drops hold no more than that together.
                    fewest = (1.0 - p) * total / size if p < 1.0 else least
                    lowest = highest + math.log(fewest) - SLACK * (1.0 + abs(highest))
                    work[cut] = lowest if lowest > LOWEST else LOWEST
            reaching: Int = np.int64(0)
            if filtered:
                reaching = GROUP * count_from(work[end:], groups, work[cut])
                if reaching >= room:
                    reaching = count_from(work, end, work[cut])
            if reaching >= room:
                left = memory[memory.size - LEFT :]
                left[0], left[1], left[2], left[3] = model_top, total_of_model, all_top, all_total
                return r
            n = list_scores(work, end, begin, until, work[cut], highest, candidates, work[listed:])
            total = _weigh_list(work, bits, weights, n, options, o, total, highest, cut, listed)
            if offsets is not None and typical < 1.0:
                total = _typical_of_list(work, bits, weights, n, typical, total, highest, cut, listed)
            goal = share * total if goal < 0.0 else goal
            token = candidates[0]
            for j in range(n):
                if weights[j] > 0.0:
                    token = candidates[j]
                    reached += weights[j]
                    if reached > goal:
                        break

        tokens[r] = token
        logit = np.float64(logits[base + token])
        log_probs[r] = (0.0 if logit == model_top else logit - model_top) - total_of_model
        if numbers is not None:
            if temperature < _COLDEST:
                numbers[NUMBERS * r] = numbers[NUMBERS * r + 1] = 0.0
                if kept.size > 0:
                    kept[r * size] = token
                    kept_counts[r] = 1 if size > 1 else 0
            else:
                details(
                    work, plain, size, end, token, inverse, filtered or hidden, LOWEST, candidates, weights,
                    n if filtered else np.int64(-1), all_top, all_total, totals, numbers, r, kept,
                    kept_counts,
                )  # fmt: skip
    return stop
