"""The softmax of a row of logits, read once by the threads of a block.

A thread keeps its highest logit separate, and sums exp2((x - reference) * scale) over its others, where scale
is log2(e) / temperature. So a row that is almost certain of one token keeps the relative precision of the
rest. The reference is the highest of the others so far, or somewhat below: it moves only when a sum shows
that an exponent became large, which also detects infinity and NaN. Terms far below the reference are
imprecise but negligible.

Numbers are float32, and float64 for float64 logits; a thread's share is summed with compensation.
"""

import math
from typing import TypeAlias

import numpy as np

from lite.kernels._types import Bools, Floats, Layout, LogitData
from lite.kernels.cuda._jit import device
from lite.kernels.cuda._numbers import widen
from lite.kernels.cuda._threads import together
from lite.kernels.cuda._vectors import VALUES, exp2, load, width_of

State: TypeAlias = tuple[float, float, float, float, float]  # top, reference, sum, what it lost, weighted sum
LN2 = math.log(2.0)
_INFINITY = math.inf
_RISE = 1024.0  # a larger sum moves the reference
_FLOOR = -1100.0  # exp2 of it is 0, and 0 times it is 0
_COLDEST = -1e4  # likewise for exp
TOKENS, POSITIONS, TEMPERATURES = 1, 2, 4  # bits: masks of tokens, of positions; one for each row


@device
def place(layout: Layout, row: int) -> int:
    """The position of a row in memory; a layout has that of row 0, and three axes' lengths and strides."""
    above = row // layout[1]
    outer = above // layout[2]
    return (
        layout[0]
        + outer * layout[3]
        + (above - outer * layout[2]) * layout[4]
        + (row - above * layout[1]) * layout[5]
    )


@device
def _weight(y: float, power: float) -> float:
    return power * y if y > _FLOOR else power * 0  # where exp2 is 0, or NaN


@device
def _sums(values: Floats, reference: float, scale: float, weigh: bool) -> tuple[float, float]:
    """With y = (x - reference) * scale: the sums of exp2(y) and, to `weigh`, of y exp2(y)."""
    total = weighted = values.dtype.type(0)
    for k in range(0, VALUES, 4):
        ya, yb = (values[k] - reference) * scale, (values[k + 1] - reference) * scale
        yc, yd = (values[k + 2] - reference) * scale, (values[k + 3] - reference) * scale
        a, b, c, d = exp2(ya), exp2(yb), exp2(yc), exp2(yd)
        total += (a + b) + (c + d)
        if weigh:
            weighted += (_weight(ya, a) + _weight(yb, b)) + (_weight(yc, c) + _weight(yd, d))
    return total, weighted


@device
def _risen(
    values: Floats, scale: float, weigh: bool, ref: float, rest: int, lost: float, weighted: float
) -> tuple[float, ...]:
    """The state with a reference that suits `values` (a thread's, without its highest), and their sums."""
    number = values.dtype.type
    total = more = number(0)
    highest, unknown = number(-_INFINITY), False
    for k in range(VALUES):
        unknown |= values[k] != values[k]
        if values[k] > highest:
            highest = values[k]
    if unknown:
        rest = number(math.nan)
    elif highest == _INFINITY or ref == _INFINITY:  # from now on the infinite ones are counted
        if ref != _INFINITY:
            ref, rest, lost, weighted = number(_INFINITY), rest * number(0), number(0), number(0)
        for k in range(VALUES):
            if values[k] == _INFINITY:
                total += number(1)
    elif highest > -_INFINITY:
        if ref > -_INFINITY:
            y = (ref - highest) * scale
            if y < _FLOOR:
                y = number(_FLOOR)
            factor = exp2(y)
            weighted = (weighted + y * rest) * factor
            rest, lost = rest * factor, lost * factor
        ref = highest
        total, more = _sums(values, ref, scale, weigh)
    return ref, rest, lost, weighted, total, more


@device
def _absorb(values: Floats, scale: float, weigh: bool, state: State) -> State:
    """The state of a thread after `values`, which are overwritten."""
    top, ref, rest, lost, weighted = state
    for k in range(VALUES):
        x = values[k]
        if x > top:  # never for NaN
            values[k] = top
            top = x
    total, more = _sums(values, ref, scale, weigh)
    if not total <= _RISE:
        ref, rest, lost, weighted, total, more = _risen(values, scale, weigh, ref, rest, lost, weighted)
    term = total - lost
    larger = rest + term
    lost = (larger - rest) - term
    return top, ref, larger, lost, weighted + more


@device
def read(
    memory: LogitData, begin: int, shift: int, size: int, keep: Bools, allowed: int, masks: int, lane: int,
    lanes: int, scale: float, weigh: bool, values: Floats,
) -> tuple[float, float, float, float]:  # fmt: skip
    """One thread's share of the logits from `memory[begin]` on: its highest, reference, and two sums.

    Args:
        shift: how many elements `memory` starts after an address that wide accesses may have.
        keep: flags, those of these logits from `allowed` on, where bit `TOKENS` of `masks` is set.
        lane: the number of this thread among the `lanes` that read together.
        values: memory for `VALUES` numbers.
    """
    number = values.dtype.type
    hidden = number(-_INFINITY)
    width = width_of(memory)
    span = VALUES * lanes
    head = (width - (shift + begin) % width) % width  # up to where accesses are aligned
    if head > size:
        head = size
    whole = (size - head) // span
    state = hidden, hidden, number(0), number(0), number(0)
    for chunk in range(whole):
        first = head + chunk * span + lane * width
        load(memory, begin + first, lanes * width, values)
        if masks & TOKENS:
            for k in range(VALUES):
                if not keep[np.uint64(allowed + first + k // width * lanes * width + k % width)]:
                    values[k] = hidden
        state = _absorb(values, scale, weigh, state)
    done = whole * span
    left = size - done  # what is before the first and after the last aligned access
    for start in range(0, left, span):
        for k in range(VALUES):
            i = start + k * lanes + lane
            values[k] = hidden
            if i < left:
                at = i if i < head else i + done
                if not (masks & TOKENS) or keep[np.uint64(allowed + at)]:
                    values[k] = widen(memory[np.uint64(begin + at)])
        state = _absorb(values, scale, weigh, state)
    return state[0], state[1], state[2], state[4] * number(LN2)


@device
def joined(
    top: float, count: int, ref: float, rest: int, weighted: float, inverse: float, thread: int, lanes: int,
    slots: Floats,
) -> tuple[float, float, float, float]:  # fmt: skip
    """The shares of `lanes` neighbouring threads as one, for each of them.

    Args:
        top: the highest logit, `count` times.
        rest: the sum of exp((x - ref) * inverse) over the others; `weighted`: with the exponent as factor.
        inverse: 1 / temperature, in float64.

    Returns:
        The highest logit, how often it is met at least, and the sums over the others with the highest as
        reference. NaN among the logits makes the first sum NaN.
    """
    number = slots.dtype.type
    highest = together(top, True, thread, lanes, slots)
    if rest != 0.0 and ref != highest:
        distance = (np.float64(ref) - np.float64(highest)) * inverse
        if distance < _COLDEST:
            distance = _COLDEST
        factor = math.exp(distance)
        weighted = number((weighted + distance * rest) * factor)
        rest = number(rest * factor)
    if top == -_INFINITY:
        count = number(0)
    elif top < highest:
        distance = (np.float64(top) - np.float64(highest)) * inverse
        if distance < _COLDEST:
            distance = _COLDEST
        term = count * math.exp(distance)
        weighted = number(weighted + distance * term)
        rest = number(rest + term)
        count = number(0)
    count = together(count, False, thread, lanes, slots)
    rest = together(rest, False, thread, lanes, slots)
    return highest, count, rest, together(weighted, False, thread, lanes, slots)


@device
def log_total(count: int, rest: int) -> float:
    """The log of the sum of exp((x - highest) * inverse) over a row; 0 where nothing can be drawn."""
    if count == 0.0:
        return rest  # 0 or NaN
    return math.log(count) + math.log1p(rest / count)
