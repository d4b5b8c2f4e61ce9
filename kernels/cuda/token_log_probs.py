"""Statistics of tokens from rows of logits in CUDA memory: under the model, and as they were sampled.

A row is read by neighbouring threads of one block: once for the softmax of the model, and once more where
the temperature is another one. Its support is gathered. Sums that threads make together are float64.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._logits import Logits
from lite.kernels._types import Bools, Floats, Ints, Layout, LogitData
from lite.kernels.cuda._arrays import DeviceMemory
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import cuda, device, kernel
from lite.kernels.cuda._layouts import flat, nothing
from lite.kernels.cuda._numbers import widen
from lite.kernels.cuda._softmax import POSITIONS, TEMPERATURES, joined, place, read
from lite.kernels.cuda._threads import WARP, together
from lite.kernels.cuda._vectors import VALUES
from lite.kernels.cuda.log_softmax import BLOCK, LOG2E, RowLayout, check_tokens

MODEL, SAMPLED, MASS = 1, 2, 4  # bits: numbers that are wanted


def scores(
    gpu: Gpu, logits: Logits, tokens: DeviceMemory, ignore: int, offsets: NDArray[np.int64],
    ids: NDArray[np.int32], *, model: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """Log-probs in the model, log-probs as sampled, logs of the kept mass, and entropies of the model.

    Waits for the device, which checks the tokens. Without `model` only the second is there, in the type of
    the logits' results; else all are float64.

    Args:
        offsets, ids: the support, checked, on the host.

    Raises:
        IndexError: a token outside the vocabulary.
    """
    kinds = [np.float64] * 4 if model else [None, logits.dtype, None, None]
    out: list[Any] = [None if kind is None else gpu.empty(logits.shape, kind) for kind in kinds]
    count = math.prod(logits.shape)
    if not count:
        return out[0], out[1], out[2], out[3]
    rows = RowLayout(gpu, logits)
    given, faults = flat(gpu, tokens), gpu.faults()
    block = max(rows.lanes, BLOCK)
    gpu.launch(
        token_scores, -(-count // (block // rows.lanes)), block, *rows.operands, given, ignore,
        gpu.upload(offsets), gpu.upload(ids) if ids.size else nothing(gpu, np.int32),
        MODEL | SAMPLED | MASS if model else SAMPLED, nothing(gpu, logits.dtype),
        *(nothing(gpu, np.float64) if array is None else array.reshape(count) for array in out),
        faults.memory, count, rows.lanes,
        shared=8 * max(block // WARP, 1),
    )  # fmt: skip
    check_tokens(gpu, faults, given, logits)
    return out[0], out[1], out[2], out[3]


@device
def _log_total(count: int, rest: int) -> float:
    """The log of count + rest, in float64; 0 where nothing can be drawn, or NaN."""
    if count == 0.0:
        return np.float64(rest)
    return math.log(np.float64(count)) + math.log1p(np.float64(rest) / np.float64(count))


@device
def _log_prob(logit: float, highest: float, inverse: float, total: float) -> float:
    """The log-prob of a logit, where a row's log-sum above its highest is `total`."""
    if total != total:
        return math.nan
    if highest == -math.inf:
        return -math.inf
    return (0.0 if logit == highest else (logit - highest) * inverse) - total


@kernel
def token_scores(
    memory: LogitData, layout: Layout, shift: int, size: int, keep: Bools, keep_layout: Layout,
    counted: Bools, masks: int, scale: float, inverse: float, inverses: Floats, tokens: Ints, ignore: int,
    offsets: Ints, ids: Ints, wanted: int, like: Floats, log_probs: Floats, sampled: Floats, masses: Floats,
    entropies: Floats, faults: Ints, rows: int, lanes: int,
) -> None:  # fmt: skip
    """Statistics of rows, those that the bits of `wanted` name; see `scores`.

    `lanes` neighbouring threads share a row. `like` has the type that logits are read in. All threads of a
    block run every step, as `joined` and `together` wait for all of them: `known` and `again` say which rows
    take part.
    """
    thread = cuda.threadIdx.x
    values = cuda.local.array(VALUES, like.dtype)
    slots = cuda.shared.array(0, inverses.dtype)
    number = like.dtype.type
    lane = thread % lanes
    row = cuda.blockIdx.x * (cuda.blockDim.x // lanes) + thread // lanes
    known = row < rows
    token = begin = first = last = np.int64(0)
    if known:
        if masks & TEMPERATURES:
            inverse = inverses[row]
            scale = number(inverse * LOG2E)
        if masks & POSITIONS:
            known = counted[row]
        token = np.int64(tokens[row])
        known = known and token != ignore
        if known and (token < 0 or token >= size):
            known = False
            if lane == 0:
                cuda.atomic.add(faults, 0, 1)
                faults[1] = row
    # The softmax of the model, at temperature 1.
    logit = -math.inf
    if known:
        begin, first, last = place(layout, row), offsets[row], offsets[row + 1]
        logit = np.float64(widen(memory[begin + token]))
    none = number(-math.inf)
    highest, total = -math.inf, 0.0
    if wanted & MODEL:
        top, ref, rest, weighted = none, none, number(0), number(0)
        if known:
            top, ref, rest, weighted = read(
                memory, begin, shift, size, keep, np.int64(0), 0, lane, lanes, number(LOG2E), True, values
            )
        high, count, more, spread = joined(top, number(1), ref, rest, weighted, 1.0, thread, lanes, slots)
        highest, total = np.float64(high), _log_total(count, more)
        if known and lane == 0:
            mean = np.float64(spread) / (np.float64(count) + np.float64(more)) if count > 0.0 else 0.0
            entropies[row] = total - mean
            log_probs[row] = _log_prob(logit, highest, 1.0, total)
    # The softmax at the temperature over the whole row, where that is another one and needed.
    whole = last == first
    again = known and not (wanted & MODEL and inverse == 1.0) and (wanted & MASS != 0 or whole)
    top, ref, rest, weighted = none, none, number(0), number(0)
    if again:
        top, ref, rest, weighted = read(
            memory, begin, shift, size, keep, np.int64(0), 0, lane, lanes, scale, False, values
        )
    high, count, more, _ = joined(top, number(1), ref, rest, weighted, inverse, thread, lanes, slots)
    if again:
        highest, total = np.float64(high), _log_total(count, more)
    # The softmax over the support: its highest logit, then the sum above it.
    peak, inside, mixed = -math.inf, 0.0, 0.0
    for j in range(first + lane, last, lanes):
        value = np.float64(widen(memory[begin + ids[j]]))
        if value > peak:
            peak = value
        if value != value:
            mixed = math.nan
        if ids[j] == token:
            inside = 1.0
    peak = together(peak, True, thread, lanes, slots)
    inside = together(inside, True, thread, lanes, slots)
    highs, rests = 0.0, mixed
    for j in range(first + lane, last, lanes):
        value = np.float64(widen(memory[begin + ids[j]]))
        if value == peak:
            highs += 1.0
        elif value > -math.inf:
            rests += math.exp((value - peak) * inverse)
    highs = together(highs, False, thread, lanes, slots)
    rests = together(rests, False, thread, lanes, slots)
    # The first thread of each row writes.
    if row >= rows or lane != 0:
        return
    score, mass = 0.0, 0.0
    if known and whole:
        score = _log_prob(logit, highest, inverse, total)
        if total != total:
            mass = total
    elif known:
        part = _log_total(highs, rests)
        score = _log_prob(logit if inside > 0.0 else -math.inf, peak, inverse, part)
        mass = -math.inf
        if total != total:
            mass = total
        elif peak > -math.inf:
            mass = (0.0 if peak == highest else (peak - highest) * inverse) + part - total
    sampled[row] = score
    if wanted & MASS:
        masses[row] = mass
    if wanted & MODEL and not known:
        log_probs[row] = entropies[row] = 0.0
