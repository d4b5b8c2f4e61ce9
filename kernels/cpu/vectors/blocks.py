"""Formulas over blocks of a row of logits, and the statistics of a row, compiled for the CPU.

A block fits the first-level cache. Sums over it are of its own type, those over a row float64.
"""

import math
from typing import Any

import numpy as np

from lite.kernels._types import Bools, LogitData
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.formulas import ROUND, Operations, Vector, by_number, folded, written

BLOCK = 2048  # logits: 8 or 16 KB
_COLDEST = -1e4  # exp of it is 0, and 0 times it is 0
_REACH = 20.0  # the largest exponent above the reference for which the reference is kept
_FAR = 2.0**15  # an exponent from which on too few bits are left for its fraction
_SURE = 0.4  # a probability of the highest entry from which on its log-prob is close to 0

_LOG2E, _LN2 = 1.4426950408889634, 0.6931471805599453
_FLOOR = {4: -125.0, 8: -1021.0}  # smaller powers of 2 may be subnormal, by bytes of the type

# 2**f for |f| <= 1/2: in float32 to a relative error of 1.1e-7, in float64 the Taylor series, 2e-16.
_POWERS: dict[int, list[float]] = {
    4: [1.0, 0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273]
}
_POWERS[8] = [_LN2**n / math.factorial(n) for n in range(14)]


def _power(o: Operations, t: Vector, f: Vector) -> Vector:
    """2**(k + f) of the sum t of k and ROUND."""
    *others, p = _POWERS[o.itemsize]
    for c in reversed(others):
        p = p * f + c
    return p * o.power(t)


def _scales(o: Operations, inverse: Vector) -> tuple[Vector, Vector]:
    """1 / (temperature ln 2) in the vectors' type, and the rest of its float64 value."""
    scale = o.narrow(inverse * _LOG2E)
    return scale, o.narrow(inverse * _LOG2E - o.wide(scale))


def _exponent(o: Operations, x: Vector, reference: Vector, inverse: Vector) -> tuple[Vector, Vector]:
    """t = k + ROUND and f, where k + f is (x - reference) * inverse / ln 2, but no less than the floor.

    Fused operations keep the difference and the product unrounded until f.
    """
    scale, low = _scales(o, inverse)
    shift = o.narrow(ROUND[o.itemsize] - reference * (inverse * _LOG2E))
    x = o.at_least(x, o.narrow(reference + _FLOOR[o.itemsize] / (inverse * _LOG2E)))
    t = o.fused(x, scale, shift)
    f = o.fused(x, scale, shift - t)
    return t, o.fused(x, low, f) if o.itemsize == 4 else f


@by_number(results=2)
def exp(o: Operations, x: Vector) -> tuple[Vector, Vector]:
    """x, but no less than where exp(x) becomes subnormal, and exp(x); x up to 80."""
    shift = ROUND[o.itemsize]
    x = o.at_least(x, _FLOOR[o.itemsize] * _LN2)
    t = o.fused(x, _LOG2E, shift)
    f = o.fused(x, _LOG2E, shift - t)
    return x, _power(o, t, o.fused(x, _LOG2E - float(np.float32(_LOG2E)), f) if o.itemsize == 4 else f)


@folded(parameters=0, highest="max")
def maximum(o: Operations, x: Vector) -> tuple[Vector]:
    """The maximum; NaN is passed over."""
    return (x,)


@folded(parameters=2, total="sum", top="max")
def sum_of_exp(o: Operations, x: Vector, reference: Vector, inverse: Vector) -> tuple[Vector, ...]:
    """The sum of exp((x - reference) * inverse), and the maximum.

    If the maximum exceeds the reference by 80 / inverse, the sum is invalid. The reference must be k ln 2 /
    inverse with an integer |k| < 2**15.
    """
    return _power(o, *_exponent(o, x, reference, inverse)), x


@folded(parameters=2, total="sum", weighted="sum", top="max")
def sums_of_exp(o: Operations, x: Vector, reference: Vector, inverse: Vector) -> tuple[Vector, ...]:
    """As `sum_of_exp`, with the sum of y 2**y in the middle, where 2**y are the terms of the first sum."""
    t, f = _exponent(o, x, reference, inverse)
    e = _power(o, t, f)
    return e, ((t - ROUND[o.itemsize]) + f) * e, x


def _apart(o: Operations, x: Vector, highest: Vector, inverse: Vector) -> tuple[Vector, Vector]:
    """d = x - highest, but no less than the floor, and exp(d * inverse)."""
    scale, low = _scales(o, inverse)
    top, floor = o.narrow(highest), o.narrow(_FLOOR[o.itemsize] / (inverse * _LOG2E))
    d = x - top
    lost = (x - (d - (d - x))) - (top + (d - x))  # the rounding error of d (TwoSum); NaN for infinite d
    lost = o.where(d < floor, 0.0, lost)
    d = o.at_least(d, floor)
    t = o.fused(d, scale, ROUND[o.itemsize])
    f = o.fused(d, scale, ROUND[o.itemsize] - t)
    return d, _power(o, t, o.fused(lost, scale, o.fused(d, low, f)))


@folded(parameters=2, count="sum", rest="sum", weighted="sum")
def sums_apart(o: Operations, x: Vector, highest: Vector, inverse: Vector) -> tuple[Vector, ...]:
    """The number of entries equal to `highest`, which none exceeds, and two sums over the others.

    With d = x - highest they are the sums of exp(d * inverse) and of d exp(d * inverse).
    """
    d, e = _apart(o, x, highest, inverse)
    e = o.where(d >= 0.0, 0.0, e)
    return o.where(d >= 0.0, 1.0, 0.0), e, d * e


@written(parameters=2)
def weights_apart(o: Operations, x: Vector, highest: Vector, inverse: Vector) -> Vector:
    """exp((x - highest) * inverse), at most 1, and at least 2**-125 (float64: 2**-1021)."""
    d, e = _apart(o, x, highest, inverse)
    return o.where(d >= 0.0, 1.0, e)


@written(parameters=3)
def scaled_apart(o: Operations, x: Vector, highest: Vector, inverse: Vector, scale: Vector) -> Vector:
    """`weights_apart` times `scale`."""
    d, e = _apart(o, x, highest, inverse)
    return o.where(d >= 0.0, 1.0, e) * o.narrow(scale)


@folded(parameters=0, unknown="sum", infinite="sum")
def odd(o: Operations, x: Vector) -> tuple[Vector, ...]:
    """The numbers of entries that are NaN and that are +inf."""
    return o.where(x != x, 1.0, 0.0), o.where(x == float("inf"), 1.0, 0.0)


@jit
def statistics(
    flat: LogitData, bfloat16: bool, begin: int, size: int, keep: Bools, allowed: int, inverse: float,
    weigh: LogitData | None,
) -> tuple[float, float, float, float, bool]:  # fmt: skip
    """The statistics of the softmax of one row, in one pass, from which any entry can be scored.

    Exponents are relative to a reference near the maximum of the first block. A later entry may exceed it a
    little without a new reference. If such an entry has much of the probability, its block is read again at
    the end.

    Args:
        flat: the memory of all logits, of 16-bit ones their bits; the row begins at `begin`.
        keep: flags of all rows, this one's from `allowed` on; empty where nothing is masked.
        inverse: 1 / temperature.
        weigh: whether the sum of d exp(d) is wanted: not if it is None.

    Returns:
        The highest logit; how many times its block has it, counted apart so that a log-prob close to zero
        keeps its relative precision (1, where none is close); the sum of exp(d) over the others with
        d = (x - highest) * inverse; the sum of d exp(d), or anything; and whether there is NaN.
    """
    reference = -np.inf
    near: Any = False  # whether the reference serves for exponents
    count = rest = weighted = 0.0
    held = held_weighted = 0.0  # the sums of the block with the highest entry so far
    holder, most = 0, -np.inf
    unknown: Any = False
    first = 0
    while first < size:
        length = size - first if size - first < BLOCK else BLOCK
        values = flat[begin + first : begin + first + length]
        kept = keep[allowed + first : allowed + first + length]
        if near:
            more_weighted = 0.0
            if weigh is None:
                more, tip = sum_of_exp(values, reference, inverse, bfloat16, kept)
            else:
                more, more_weighted, tip = sums_of_exp(values, reference, inverse, bfloat16, kept)
            top = np.float64(tip)
            if (top - reference) * inverse <= _REACH:
                more_weighted *= _LN2
                if top > most:
                    rest, weighted = rest + held, weighted + held_weighted
                    held, held_weighted, holder, most = more, more_weighted, first, top
                else:
                    rest, weighted = rest + more, weighted + more_weighted
                first += BLOCK
                continue
        top = np.float64(maximum(values, bfloat16, kept))
        if reference == np.inf or not abs(top) < np.inf:  # the differences would be NaN
            nans, infinities = odd(values, bfloat16, kept)
            unknown |= nans > 0.0 or rest != rest or held != held
            count += infinities
            if count > 0.0:  # +inf has all of the probability
                reference, near = np.inf, False
                rest = weighted = held = held_weighted = 0.0
            first += BLOCK
            continue
        if size <= BLOCK:  # the only block is read after the loop
            reference = most = top
            break
        units = top * inverse * _LOG2E
        near = abs(units) < _FAR and top > reference
        base = np.rint(units) * _LN2 / inverse if near else top
        more = more_weighted = 0.0
        if not near:
            equal, others, more_weighted = sums_apart(values, top, inverse, bfloat16, kept)
            more, more_weighted = equal + others, more_weighted * inverse
            first += BLOCK
        distance = (reference - base) * inverse
        below = distance >= 0.0 and not near
        distance = -distance if below else distance
        distance = distance if distance > _COLDEST else _COLDEST
        factor = math.exp(distance)
        if below:
            rest += more * factor
            weighted += (more_weighted + distance * more) * factor
            continue
        rest += held
        weighted = (weighted + held_weighted + distance * rest) * factor
        rest *= factor
        reference, holder, most, held, held_weighted = base, first - BLOCK, top, more, more_weighted
        if near:  # the loop reads this block again, with the new reference
            most = -np.inf
    highest = reference
    if abs(reference) < np.inf:
        length = size - holder if size - holder < BLOCK else BLOCK
        values = flat[begin + holder : begin + holder + length]
        kept = keep[allowed + holder : allowed + holder + length]
        highest = most
        distance = (reference - highest) * inverse
        factor = math.exp(distance)
        total = rest + held
        if size > BLOCK and _SURE * total * factor > 1.0:
            weighted = (weighted + held_weighted + distance * total) * factor
            count, rest = 1.0, total * factor - 1.0
        else:
            count, more, more_weighted = sums_apart(values, highest, inverse, bfloat16, kept)
            weighted = (weighted + distance * rest) * factor + more_weighted * inverse
            rest = rest * factor + more
    return highest, count, rest, weighted, unknown or rest != rest


@jit
def log_total(count: float, rest: float) -> float:
    """The log of the sum of exp((x - highest) * inverse) over a row."""
    return np.log(count) + np.log1p(rest / count)
