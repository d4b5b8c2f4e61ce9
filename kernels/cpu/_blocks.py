"""Loops over a block of a row of logits, compiled for the CPU, for float32 and for float64.

A block fits the first-level cache. Two things decide the speed: all loops over a block run from 0 (so
that Numba drops its negative-index check), and every integer result is cast back to the float's width
(Numba widens integers); both are needed for full vector width.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from lite.kernels._jit import jit
from lite.kernels.cpu._width import full_width

_config: Any = numba.config

BLOCK = 2048
_COLDEST = -1e4  # exp of it is 0, and 0 times it is 0

_REACH = 20.0  # how far above its reference an exponent may lie

# 1.5 * 2**23 + 127: adding it rounds a float to an integer, and leaves that integer plus the bias of the
# exponent in the last bits of the sum. The constants of a polynomial that is exp(f) for |f| <= ln(2)/2 to a
# relative error of 9.2e-8.
_FLOOR32 = np.float32(-87.0)
_LOG2E32 = np.float32(1.4426950408889634)
_LN2_32 = np.float32(0.6931471805599453)
_ROUND32 = np.float32(1.5 * 2.0**23 + 127)
_C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (0.999999707, 0.499991495, 0.166676362, 0.0418979303, 0.00829031481)
)
_ONE32 = np.float32(1.0)
_HALF_SCALE = np.float32(2.0**112)

# The same for float64: the Taylor series to the 12th power, 1.7e-16; ln(2) in two parts.
_FLOOR64 = -708.0
_LOG2E64 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUND64 = 1.5 * 2.0**52 + 1023
_T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12 = (1.0 / math.factorial(n) for n in range(2, 13))


def _exp32(x: Any) -> Any:
    x = _FLOOR32 if x < _FLOOR32 else x
    t = x * _LOG2E32 + _ROUND32
    f = x - (t - _ROUND32) * _LN2_32
    p = ((((_C5 * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _ONE32
    power = np.int32(np.float32(t).view(np.int32) << np.int32(23))
    return x, p * np.int32(power).view(np.float32)


def _exp64(x: Any) -> Any:
    x = _FLOOR64 if x < _FLOOR64 else x
    t = x * _LOG2E64 + _ROUND64
    k = t - _ROUND64
    f = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = ((((_T12 * f + _T11) * f + _T10) * f + _T9) * f + _T8) * f + _T7
    p = (((((p * f + _T6) * f + _T5) * f + _T4) * f + _T3) * f + _T2) * f + 1.0
    p = p * f + 1.0
    power = np.int64(np.float64(t).view(np.int64) << np.int64(52))
    return x, p * np.int64(power).view(np.float64)


def _bits32(x: Any) -> Any:
    return np.float32(x).view(np.int32)


def _bits64(x: Any) -> Any:
    return np.float64(x).view(np.int64)


def _float32(x: Any) -> Any:
    return np.int32(x).view(np.float32)


def _float64(x: Any) -> Any:
    return np.int64(x).view(np.float64)


def _by_width(narrow: Callable[[Any], Any], wide: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`narrow` for numbers of 32 bits and `wide` for those of 64, chosen while a kernel is compiled."""

    def either(x: Any) -> Any:
        return narrow(x) if x.dtype.itemsize == 4 else wide(x)

    if not _config.DISABLE_JIT:
        from numba.extending import overload

        @overload(either, jit_options={"fastmath": {"contract"}, "error_model": "numpy"})
        def choose(x: Any) -> Callable[[Any], Any]:
            return narrow if x.bitwidth == 32 else wide

    return either


_exp = _by_width(_exp32, _exp64)  # x, cut where exp(x) is no normal number any more, and exp(x); x up to 80
_bits = _by_width(_bits32, _bits64)  # the bits of a float, as an integer
_float = _by_width(_float32, _float64)  # and back


@jit
def maximum(values: Any) -> Any:
    """The maximum, by comparing bits as integers: that vectorises without a promise about NaN.

    Among the bits of non-negative floats the largest integer is the largest float; if all are negative,
    the smallest one is. NaN counts as larger than all, or is passed over.
    """
    full_width()
    top = _bits(values[0])
    for i in range(values.size):
        bits = _bits(values[i])
        top = bits if bits > top else top
    if top < 0:
        for i in range(values.size):
            bits = _bits(values[i])
            top = bits if bits < top else top
    return _float(top)


@jit(reassociate=True)
def sum_of_exp(values: Any, reference: Any, inverse: Any) -> Any:
    """With d = (x - reference) * inverse: the sum of exp(d), and the largest d.

    A largest d below 0 may be any negative number; beyond 80 the sum is of no use.
    """
    full_width()
    total = values.dtype.type(0)
    top = _bits(values.dtype.type(-1))
    for i in range(values.size):
        d = (values[i] - reference) * inverse
        bits = _bits(d)
        top = bits if bits > top else top
        _, e = _exp(d)
        total += e
    return np.float64(total), _float(top)


@jit(reassociate=True)
def sums_of_exp(values: Any, reference: Any, inverse: Any) -> Any:
    """The same, with the sum of d exp(d) in the middle."""
    full_width()
    total = weighted = values.dtype.type(0)
    top = _bits(values.dtype.type(-1))
    for i in range(values.size):
        d = (values[i] - reference) * inverse
        bits = _bits(d)
        top = bits if bits > top else top
        d, e = _exp(d)
        total += e
        weighted += d * e
    return np.float64(total), np.float64(weighted), _float(top)


@jit(reassociate=True)
def sums_apart(values: Any, highest: Any, inverse: Any) -> Any:
    """How many entries equal `highest`; over the others, the sums of exp(d) and of d exp(d)."""
    full_width()
    zero, one = values.dtype.type(0), values.dtype.type(1)
    count = rest = weighted = zero
    for i in range(values.size):
        x = (values[i] - highest) * inverse
        d, e = _exp(x)
        is_highest = one if x >= zero else zero
        rest += zero if x >= zero else e
        weighted += d * e  # 0 for the highest
        count += is_highest
    return np.float64(count), np.float64(rest), np.float64(weighted)


@jit
def _odd(values: Any) -> Any:
    """Whether there is NaN, and how many entries are +inf."""
    found, count = False, 0.0
    for i in range(values.size):
        found |= values[i] != values[i]
        count += 1.0 if values[i] == np.inf else 0.0
    return found, count


@jit
def _keep_only(keep: Any, values: Any) -> None:
    """Entries that may not be drawn become -inf."""
    full_width()
    hidden = values.dtype.type(-np.inf)
    for i in range(values.size):
        values[i] = values[i] if keep[i] else hidden


@jit
def _copy(values: Any, bfloat16: Any, out: Any) -> None:
    full_width()
    for i in range(values.size):
        out[i] = values[i]


@jit
def _widen(values: Any, bfloat16: Any, out: Any) -> None:
    """Of the bits of 16-bit floats. bfloat16: the upper half of a float32.

    float16: shift the fields into place; one product sets the exponent's bias right and normalises
    subnormals.
    """
    full_width()
    if bfloat16:
        for i in range(values.size):
            out[i] = np.int32(np.int32(values[i]) << np.int32(16)).view(np.float32)
    else:
        for i in range(values.size):
            h = np.int32(values[i])
            fields = np.int32((h & np.int32(0x7FFF)) << np.int32(13))
            wide = np.float32(np.int32(fields).view(np.float32) * _HALF_SCALE)
            special = np.int32(0x7F800000) if fields >= np.int32(0x0F800000) else np.int32(0)  # infinity, NaN
            sign = np.int32((h & np.int32(0x8000)) << np.int32(16))
            out[i] = np.int32(np.float32(wide).view(np.int32) | special | sign).view(np.float32)


def _as_it_is(values: Any, bfloat16: Any, scratch: Any) -> Any:
    return values


def _widened(values: Any, bfloat16: Any, scratch: Any) -> Any:
    _widen(values, bfloat16, scratch)
    return scratch


def _copied(values: Any, bfloat16: Any, scratch: Any) -> Any:
    _copy(values, bfloat16, scratch)
    return scratch


def _by_type(narrow: Callable[..., Any], floating: Callable[..., Any]) -> Callable[..., Any]:
    """`narrow` for arrays of 16 bits and `floating` for others, chosen while a kernel is compiled."""

    def either(values: Any, bfloat16: Any, scratch: Any) -> Any:
        return (narrow if values.itemsize == 2 else floating)(values, bfloat16, scratch)

    if not _config.DISABLE_JIT:
        from numba.extending import overload

        @overload(either)
        def choose(values: Any, bfloat16: Any, scratch: Any) -> Callable[..., Any]:
            return narrow if values.dtype.bitwidth == 16 else floating

    return either


_floats = _by_type(_widened, _as_it_is)  # logits as floats, in `scratch` where they are not
_scratched = _by_type(_widened, _copied)  # as floats, in `scratch`


@jit
def load(flat: Any, bfloat16: Any, begin: Any, keep: Any, allowed: Any, staged: Any, scratch: Any) -> Any:
    """The logits from `begin` on as floats, as many as `scratch` holds.

    Those with a False flag from `allowed` on are -inf; `allowed` is negative where nothing is masked. They
    are left where they lie if possible, unless `staged`, else put into `scratch`.
    """
    values = flat[begin : begin + scratch.size]
    if allowed < 0 and not staged:
        return _floats(values, bfloat16, scratch)
    floats = _scratched(values, bfloat16, scratch)
    if allowed >= 0:
        _keep_only(keep[allowed : allowed + floats.size], floats)
    return floats


@jit
def _sums(values: Any, reference: Any, inverse: Any, weigh: Any) -> Any:
    if weigh is not None:
        return sums_of_exp(values, reference, inverse)
    total, top = sum_of_exp(values, reference, inverse)
    return total, 0.0, top


@jit
def statistics(
    flat: Any, bfloat16: Any, begin: Any, size: Any, keep: Any, allowed: Any, inverse: Any, spot: Any,
    weigh: Any, scratch: Any,
) -> Any:  # fmt: skip
    """The softmax of one row in one pass: what it takes to score any of its entries.

    Exponents are taken from a reference, the maximum of the first block. Highest entries that exceed it
    a little are no reason to begin again; only the block that holds the highest is read twice, in the end.

    Args:
        flat: the memory of all logits, of 16-bit ones their bits; the row begins at `begin`.
        keep: flags of all rows, this one's from `allowed` on; see `load`.
        inverse: 1 / temperature.
        spot: the entry whose logit is returned.
        weigh: whether the sum of d exp(d) is wanted: not if it is None.
        scratch: memory for one block.

    Returns:
        The highest logit; how many times its block has it, counted apart so that a log-prob close to zero
        keeps its relative precision; the sum of exp(d) over the others with d = (x - highest) * inverse;
        the sum of d exp(d), or anything; the logit at `spot`; and whether there is NaN.
    """
    floating = scratch.dtype.type
    reference, logit = floating(-np.inf), floating(-np.inf)
    narrow = floating(inverse)
    count = rest = weighted = 0.0
    held = held_weighted = 0.0  # of the block that holds the highest entry so far
    holder, most = 0, 0.0
    unknown = False
    for first in range(0, size, BLOCK):
        length = size - first if size - first < BLOCK else BLOCK
        masked = allowed + first if allowed >= 0 else -1
        values = load(flat, bfloat16, begin + first, keep, masked, False, scratch[:length])
        if first <= spot < first + length:
            logit = values[spot - first]
        more, more_weighted, top = 0.0, 0.0, floating(np.inf)
        if abs(reference) < np.inf:
            more, more_weighted, top = _sums(values, reference, narrow, weigh)
        if top <= _REACH:
            if top > most:
                rest, weighted = rest + held, weighted + held_weighted
                held, held_weighted, holder, most = more, more_weighted, first, np.float64(top)
            else:
                rest, weighted = rest + more, weighted + more_weighted
            continue
        highest = maximum(values)
        if reference == np.inf or not abs(highest) < np.inf:  # the differences would be NaN
            found, infinities = _odd(values)
            unknown |= found or rest != rest or held != held
            count += infinities
            if count > 0.0:
                reference = floating(np.inf)
            continue
        distance = (np.float64(reference) - np.float64(highest)) * inverse
        distance = distance if distance > _COLDEST else _COLDEST  # NaN becomes _COLDEST, too
        factor = np.exp(distance)
        rest += held
        weighted = (weighted + held_weighted + distance * rest) * factor
        rest *= factor
        reference, holder, most, held, held_weighted = highest, first, 0.0, 0.0, 0.0
        if size > BLOCK:  # else its turn comes below
            held, held_weighted, top = _sums(values, reference, narrow, weigh)
    highest = reference
    if abs(reference) < np.inf:
        masked = allowed + holder if allowed >= 0 else -1
        length = size - holder if size - holder < BLOCK else BLOCK
        values = load(flat, bfloat16, begin + holder, keep, masked, False, scratch[:length])
        highest = maximum(values)
        count, more, more_weighted = sums_apart(values, highest, narrow)
        distance = (np.float64(reference) - np.float64(highest)) * inverse
        factor = np.exp(distance)
        weighted = (weighted + distance * rest) * factor + more_weighted
        rest = rest * factor + more
    return highest, count, rest, weighted, logit, unknown or rest != rest


@jit
def log_total(count: Any, rest: Any) -> Any:
    """The log of the sum of exp((x - highest) * inverse) over a row."""
    return np.log(count) + np.log1p(rest / count)


@jit
def log_prob(logit: Any, highest: Any, inverse: Any, count: Any, rest: Any, unknown: Any) -> Any:
    """The log-prob of `logit` in a row of these statistics."""
    if unknown:
        return np.nan
    if highest == -np.inf:
        return -np.inf  # nothing can be drawn
    distance = 0.0 if logit == highest else (np.float64(logit) - np.float64(highest)) * inverse
    return distance - log_total(count, rest)
