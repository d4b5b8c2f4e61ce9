"""Rows of logits in NumPy, for `log_softmax`, `token_log_probs` and `linear_log_probs` without compiled code.

The entry points have the arguments of those files, which document them. A few rows are processed at a time,
so that intermediate results fit a cache.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lite.kernels._types import Array, Bools, Floats, Ints, LogitData

_TOGETHER = 1 << 16  # logits that are processed at a time
_COLDEST = -1e4  # exp of it is 0, and 0 times it is 0
_MODEL, _SAMPLED, _MASS = 1, 2, 4  # as in token_log_probs.py


class Softmax(NamedTuple):
    """The softmax of each row.

    Attributes:
        highest: the highest logit.
        total: the log of the sum of exp((x - highest) * inverse); 0 where there is none.
        spread: the mean of (x - highest) * inverse under these weights.
        unknown: whether a logit is NaN.
        count: the number of logits that are the highest.
        rest: the sum of exp((x - highest) * inverse) over the others.
    """

    highest: Any
    total: Any
    spread: Any
    unknown: Any
    count: Any
    rest: Any

    def log_prob(self, logit: Floats | float, inverse: Floats) -> Floats:
        distance = np.where(logit == self.highest, 0.0, (logit - self.highest) * inverse)
        # No token can be drawn if all are masked.
        found = np.where(self.highest == -np.inf, -np.inf, distance - self.total)
        return np.where(self.unknown, np.nan, found)


def softmax(x: Floats, inverse: Floats) -> Softmax:
    """The softmax of rows, `inverse` being 1 / temperature; the highest entries are summed separately."""
    unknown = np.isnan(x).any(axis=1)
    highest = np.fmax.reduce(x, axis=1, initial=-np.inf)
    top = highest[:, None]
    distance = (x - top) * inverse[:, None].astype(x.dtype)
    np.maximum(distance, _COLDEST, out=distance)
    infinite = np.isinf(highest)
    distance[infinite] = np.where(x[infinite] == np.inf, 0.0, _COLDEST)
    terms = np.exp(distance)
    equal = distance == 0.0
    count = np.count_nonzero(equal, axis=1)
    terms[equal] = 0.0
    rest = terms.sum(axis=1, dtype=np.float64)
    weighted = (terms * distance).sum(axis=1, dtype=np.float64)
    some = count > 0
    total = np.where(some, np.log(count) + np.log1p(rest / count), 0.0)
    spread = np.where(some, weighted / (count + rest), 0.0)
    return Softmax(highest.astype(np.float64), total, spread, unknown, count, rest)


def _rows(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Array, keep_starts: Ints, start: int,
    stop: int,
) -> Iterator[tuple[slice, Any]]:  # fmt: skip
    """Slices of rows with their logits as floats, -inf where masked."""
    each = max(1, _TOGETHER // max(size, 1))
    for first in range(start, stop, each):
        part = slice(first, min(first + each, stop))
        x = _lines(flat, starts[part], size)
        if x.itemsize == 2:
            wide = (x.astype(np.uint32) << 16).view(np.float32)
            x = wide if bfloat16 else x.view(np.float16).astype(np.float32)
        if keep_starts.size:
            x = np.where(_lines(keep, keep_starts[part], size), x, x.dtype.type(-np.inf))
        yield part, x


def _lines(flat: LogitData, starts: Ints, size: int) -> LogitData:
    """Rows of `size` entries of `flat`, from each of the starts."""
    if np.all(starts[1:] - starts[:-1] == size):
        return flat[starts[0] : starts[0] + len(starts) * size].reshape(len(starts), size)
    return flat[starts[:, None] + np.arange(size)]


def _tokens(tokens: Ints, counted: Bools, size: int, bad: Ints, part: slice) -> tuple[Any, Any]:
    """The tokens of rows, 0 where they do not count, and which count; `bad[0]` becomes an invalid row."""
    ids, known = tokens[part], counted[part]
    wrong = known & ((ids < 0) | (ids >= size))
    if wrong.any():
        bad[0] = part.start + int(wrong.argmax())
    known = known & ~wrong
    return np.where(known, ids, 0), known


def rows(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, keep_starts: Ints, counted: Bools,
    inverses: Floats, tokens: Ints, bad: Ints, log_probs: Floats, entropies: Floats | None, maxima: Floats,
    totals: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    for part, x in _rows(flat, bfloat16, starts, size, keep, keep_starts, start, stop):
        inverse = inverses[part]
        found, known = softmax(x, inverse), counted[part]
        if tokens.size:
            ids, known = _tokens(tokens, counted, size, bad, part)
            logit = x[np.arange(len(x)), ids].astype(np.float64)
            log_probs[part] = np.where(known, found.log_prob(logit, inverse), 0.0)
        unknown = np.where(found.unknown, np.nan, 0.0)
        if entropies is not None:
            entropies[part] = np.where(known, found.total - found.spread + unknown, 0.0)
        if maxima.size:
            maxima[part] = np.where(known, found.highest * inverse + unknown, 0.0)
            totals[part] = np.where(known, found.highest * inverse + found.total + unknown, 0.0)


def log_softmax(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, keep_starts: Ints, counted: Bools,
    inverses: Floats, past: bool, out: Floats, out_starts: Ints, start: int, stop: int,
) -> None:  # fmt: skip
    for part, x in _rows(flat, bfloat16, starts, size, keep, keep_starts, start, stop):
        inverse = inverses[part]
        found = softmax(x, inverse)
        kind = x.dtype.type
        narrow = [a[:, None].astype(kind) for a in (found.highest, inverse, found.total)]
        values = (x - narrow[0]) * narrow[1] - narrow[2]
        infinite = np.isinf(found.highest)
        values[infinite] = np.where(x[infinite] == np.inf, -narrow[2][infinite], kind(-np.inf))
        values[found.unknown] = np.nan
        values[~counted[part]] = 0.0
        places = out_starts[part]
        if np.all(places[1:] - places[:-1] == size):
            out[places[0] : places[0] + values.size] = values.reshape(-1)
        else:
            out[places[:, None] + np.arange(size)] = values


def scores(
    flat: LogitData, bfloat16: bool, starts: Ints, size: int, keep: Bools, counted: Bools, inverses: Floats,
    tokens: Ints, bad: Ints, offsets: Ints, ids: Ints, wanted: int, log_probs: Floats, entropies: Floats,
    sampled: Floats, masses: Floats, work: LogitData, start: int, stop: int,
) -> None:  # fmt: skip
    none = np.empty(0, np.int64)
    of_the_model, at_temperature, mass = (bool(wanted & bit) for bit in (_MODEL, _SAMPLED, _MASS))
    for part, x in _rows(flat, bfloat16, starts, size, none, none, start, stop):
        inverse, one = inverses[part], np.ones(len(x))
        known_ids, known = _tokens(tokens, counted, size, bad, part)
        logit = x[np.arange(len(x)), known_ids].astype(np.float64)
        if of_the_model:
            found = softmax(x, one)
            unknown = np.where(found.unknown, np.nan, 0.0)
            log_probs[part] = np.where(known, found.log_prob(logit, one), 0.0)
            entropies[part] = np.where(known, found.total - found.spread + unknown, 0.0)
        if not (at_temperature or mass):
            continue
        whole = softmax(x, inverse)
        drawn, share = whole.log_prob(logit, inverse), np.where(whole.unknown, np.nan, 0.0)
        for i, (first, last) in enumerate(zip(offsets[part], offsets[part.start + 1 :], strict=False)):
            if first == last or not known[i]:
                continue
            support, scale = ids[first:last], inverse[i : i + 1]
            inside = softmax(x[i : i + 1, support], scale)
            kept = logit[i] if np.any(support == known_ids[i]) else -np.inf
            drawn[i] = inside.log_prob(kept, scale)[0]
            if mass and not whole.unknown[i]:
                top, highest = inside.highest[0], whole.highest[i]
                distance = 0.0 if top == highest else (top - highest) * inverse[i]
                share[i] = -np.inf if top == -np.inf else distance + inside.total[0] - whole.total[i]
        if at_temperature:
            sampled[part] = np.where(known, drawn, 0.0)
        if mass:
            masses[part] = np.where(known, share, 0.0)


def merge(
    block: Floats, size: int, inverses: Floats, tokens: Ints, first: int, highest: Floats, counts: Floats,
    rests: Floats, logits: Floats, factors: Floats, keep: Bools, start: int, stop: int,
) -> None:  # fmt: skip
    for part, x in _blocks(block, size, start, stop):
        inverse, before, found = inverses[part], highest[part], softmax(x, inverses[part])
        top = np.maximum(before, found.highest)
        old = np.where(before == top, 1.0, np.exp((before - top) * inverse))
        new = np.where(found.highest == top, 1.0, np.exp((found.highest - top) * inverse))
        was, now = before == top, found.highest == top
        others = np.where(was, rests[part], (counts[part] + rests[part]) * old)
        others = others + np.where(now, found.rest, (found.count + found.rest) * new)
        rests[part] = np.where(found.unknown, np.nan, others)
        counts[part] = np.where(was, counts[part], 0.0) + np.where(now, found.count, 0)
        highest[part] = top
        here = np.flatnonzero((tokens[part] >= first) & (tokens[part] < first + size))
        logits[part.start + here] = x[here, tokens[part][here] - first]
        if factors.size:
            factors[part] = old
            x[...] = _weights(x, top, inverse)
            x[top == -np.inf] = 0.0


def shares(
    block: Floats, size: int, inverses: Floats, tokens: Ints, first: int, highest: Floats, scales: Floats,
    gains: Floats, keep: Bools, start: int, stop: int,
) -> None:  # fmt: skip
    for part, x in _blocks(block, size, start, stop):
        x[...] = _weights(x, highest[part], inverses[part]) * scales[part, None].astype(x.dtype)
        here = np.flatnonzero((tokens[part] >= first) & (tokens[part] < first + size))
        x[here, tokens[part][here] - first] += gains[part][here].astype(x.dtype)


def _blocks(block: Floats, size: int, start: int, stop: int) -> Iterator[tuple[slice, Floats]]:
    """Slices of rows with their logits, which lie one after the other."""
    each = max(1, _TOGETHER // max(size, 1))
    for first in range(start, stop, each):
        last = min(first + each, stop)
        yield slice(first, last), block[first * size : last * size].reshape(last - first, size)


def _weights(x: Floats, highest: Floats, inverse: Floats) -> Floats:
    """exp((x - highest) * inverse), no more than 1."""
    narrow = x.dtype.type
    return np.exp(
        np.minimum((x - highest[:, None].astype(narrow)) * inverse[:, None].astype(narrow), narrow(0))
    )
