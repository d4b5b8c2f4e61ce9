"""Log-probs of tokens in one pass over the logits, compiled for the CPU.

Each row is read in blocks that stay in the first-level cache: the block's maximum, then the sum of
exp(x - running maximum). Entries equal to the maximum are counted apart from the sum of the rest, so
that log-probs close to zero keep their relative precision. Two things decide the speed: all loops over
a block run from 0 (so that Numba drops its negative-index check) and every integer result is cast back
to the float's width (Numba widens integers), both needed for full vector width.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit
from lite.kernels.cpu._width import full_width

_BLOCK = 4096
FLOAT32, BFLOAT16, FLOAT16 = 0, 1, 2

# exp(f) for |f| <= ln(2)/2 to a relative error of 9.2e-8; and a number whose addition rounds a float to an
# integer, chosen so that the last bits of the sum are that integer plus the bias of the exponent
_FLOOR32 = np.float32(-87.0)
_LOG2E32 = np.float32(1.4426950408889634)
_LN2_32 = np.float32(0.6931471805599453)
_ROUND32 = np.float32(1.5 * 2.0**23 + 127)
_C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (0.999999707, 0.499991495, 0.166676362, 0.0418979303, 0.00829031481)
)
_ZERO32 = np.float32(0.0)
_ONE32 = np.float32(1.0)
_MINUS_INFINITY32 = np.float32(-np.inf)
_HALF_SCALE = np.float32(2.0**112)


@jit
def _exp32(x: Any) -> Any:
    """exp(x) for x <= 0; at most 2**-125 where the exact value is smaller than that."""
    x = _FLOOR32 if x < _FLOOR32 else x
    t = x * _LOG2E32 + _ROUND32
    f = x - (t - _ROUND32) * _LN2_32
    p = ((((_C5 * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _ONE32
    power = np.int32(np.float32(t).view(np.int32) << np.int32(23))
    return p * np.int32(power).view(np.float32)


@jit
def _max32(values: Any) -> Any:
    """The maximum, by comparing bits as integers: that vectorises without a promise about NaN.

    Among the bits of non-negative floats the largest integer is the largest float; if all are negative,
    the smallest one is.
    """
    full_width()
    top = np.int32(-0x80000000)
    for i in range(values.size):
        top = max(top, np.float32(values[i]).view(np.int32))
    if top < 0:
        for i in range(values.size):
            top = min(top, np.float32(values[i]).view(np.int32))
    return np.int32(top).view(np.float32)


@jit(reassociate=True)
def _sums32(values: Any, highest: Any, inverse: Any) -> Any:
    """How many entries equal `highest`, and the sum of exp((x - highest) * inverse) over the others."""
    full_width()
    rest = _ZERO32
    count = _ZERO32
    for i in range(values.size):
        x = (values[i] - highest) * inverse
        e = _exp32(x)
        is_highest = _ONE32 if x >= _ZERO32 else _ZERO32
        rest += _ZERO32 if x >= _ZERO32 else e
        count += is_highest
    return np.float64(count), np.float64(rest)


@jit(reassociate=True)
def _sum32(values: Any, highest: Any) -> Any:
    """The sum of exp(x - highest) where no entry equals `highest`."""
    full_width()
    total = _ZERO32
    for i in range(values.size):
        total += _exp32(values[i] - highest)
    return np.float64(total)


@jit
def _has_nan(values: Any) -> Any:
    found = False
    for i in range(values.size):
        found |= values[i] != values[i]
    return found


@jit
def _count_infinities(values: Any) -> Any:
    count = 0.0
    for i in range(values.size):
        count += 1.0 if values[i] == np.inf else 0.0
    return count


@jit
def _hide(values: Any, keep: Any) -> Any:
    """Entries that may not be drawn become -inf."""
    for i in range(values.size):
        values[i] = values[i] if keep[i] else _MINUS_INFINITY32


@jit
def _copy(values: Any, out: Any) -> Any:
    for i in range(values.size):
        out[i] = values[i]


@jit
def _widen_bfloat16(bits: Any, out: Any) -> Any:
    for i in range(bits.size):
        out[i] = np.int32(np.int32(bits[i]) << np.int32(16)).view(np.float32)


@jit
def _widen_float16(bits: Any, out: Any) -> Any:
    """Shift the fields into place; one product sets the exponent's bias right and normalises subnormals."""
    for i in range(bits.size):
        h = np.int32(bits[i])
        fields = np.int32((h & np.int32(0x7FFF)) << np.int32(13))
        wide = np.float32(np.int32(fields).view(np.float32) * _HALF_SCALE)
        special = np.int32(0x7F800000) if fields >= np.int32(0x0F800000) else np.int32(0)  # infinity, NaN
        sign = np.int32((h & np.int32(0x8000)) << np.int32(16))
        out[i] = np.int32(np.float32(wide).view(np.int32) | special | sign).view(np.float32)


@jit
def _log_prob(logit: Any, highest: Any, inverse: Any, count: Any, rest: Any) -> Any:
    """The log-prob of `logit` in a row of that maximum, `count` times met; `rest` sums the others."""
    if highest == -np.inf:
        return -np.inf  # nothing can be drawn
    distance = 0.0 if logit == highest else (np.float64(logit) - np.float64(highest)) * inverse
    return distance - np.log(count) - np.log1p(rest / count)


@jit
def rows32(
    flat: Any, bits: Any, kind: Any, starts: Any, size: Any, keep: Any, keep_starts: Any,
    tokens: Any, scored: Any, inverse: Any, out: Any, bad: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Rows `start` to `stop` of float32 logits in `flat`, or of 16-bit ones whose bits are in `bits`.

    Row r lies at `starts[r]` to `starts[r] + size`; with a token-level mask its flags are
    `keep[keep_starts[r] : keep_starts[r] + size]`, without one `keep_starts` is empty. Rows that are not
    `scored` get 0. `bad[0]` becomes the number of a row whose token is out of range.
    """
    full_width()
    scratch = np.empty(_BLOCK, np.float32)
    narrow = np.float32(inverse)
    for r in range(start, stop):
        token = tokens[r]
        if not scored[r]:
            out[r] = 0.0
            continue
        if token < 0 or token >= size:
            bad[0] = r
            continue
        highest, logit = np.float32(-np.inf), np.float32(0.0)
        count, rest = 0.0, 0.0
        unknown = False
        for first in range(0, size, _BLOCK):
            length = min(_BLOCK, size - first)
            begin = starts[r] + first
            values = scratch[:length]
            if kind == BFLOAT16:
                _widen_bfloat16(bits[begin : begin + length], values)
            elif kind == FLOAT16:
                _widen_float16(bits[begin : begin + length], values)
            elif keep_starts.size:
                _copy(flat[begin : begin + length], values)
            else:
                values = flat[begin : begin + length]
            if keep_starts.size:
                begin = keep_starts[r] + first
                _hide(values, keep[begin : begin + length])
            if first <= token < first + length:
                logit = values[token - first]
            top = _max32(values)
            if top > highest:
                rest = (count + rest) * np.exp((np.float64(highest) - np.float64(top)) * inverse)
                count = 0.0
                highest = top
            if top < highest < np.inf and inverse == 1.0:  # most blocks, without the counting
                rest += _sum32(values, highest)
            elif abs(highest) < np.inf:
                more_count, more_rest = _sums32(values, highest, narrow)
                count += more_count
                rest += more_rest
            else:  # the differences would be NaN
                unknown |= _has_nan(values)
                if highest == np.inf:
                    count += _count_infinities(values)
        out[r] = np.nan if unknown else _log_prob(logit, highest, inverse, count, rest)


@jit
def rows64(
    flat: Any, starts: Any, size: Any, keep: Any, keep_starts: Any,
    tokens: Any, scored: Any, inverse: Any, out: Any, bad: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """As `rows32`, for float64 logits: exact exponentials, two plain passes over each row."""
    everything = np.ones(size, np.bool_)
    for r in range(start, stop):
        token = tokens[r]
        if not scored[r]:
            out[r] = 0.0
            continue
        if token < 0 or token >= size:
            bad[0] = r
            continue
        row = flat[starts[r] : starts[r] + size]
        allowed = keep[keep_starts[r] : keep_starts[r] + size] if keep_starts.size else everything
        highest = -np.inf
        unknown = False
        for i in range(size):
            if allowed[i]:
                unknown |= row[i] != row[i]
                highest = max(highest, row[i])
        count, rest = 0.0, 0.0
        for i in range(size):
            if allowed[i] and row[i] == highest:
                count += 1.0
            elif allowed[i]:
                rest += np.exp((row[i] - highest) * inverse)
        logit = row[token] if allowed[token] else -np.inf
        out[r] = np.nan if unknown else _log_prob(logit, highest, inverse, count, rest)
