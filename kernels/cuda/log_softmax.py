"""Log-softmax of rows of logits in CUDA memory, and statistics of it.

The number of neighbouring threads that read a row depends on its length: one block reads several short rows,
and several blocks share a row if there are few. Then each block writes its partial results to memory, and a
second launch combines them.
"""

import math
from typing import Any

import numpy as np

from lite.kernels._logits import Logits
from lite.kernels._types import Bools, DeviceArray, Floats, Ints, Kernel, Layout, LogitData
from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._copies import copy_into
from lite.kernels.cuda._gpu import Faults, Gpu
from lite.kernels.cuda._jit import SIMULATED, cuda, device, kernel
from lite.kernels.cuda._layouts import C_ORDER, flat, layout_of, merged, nothing
from lite.kernels.cuda._numbers import greatest, least, widen
from lite.kernels.cuda._softmax import POSITIONS, TEMPERATURES, TOKENS, joined, log_total, place, read
from lite.kernels.cuda._threads import WARP
from lite.kernels.cuda._vectors import VALUES

SCORES, SPREADS, TOTALS = 1, 2, 4  # bits: numbers that are wanted
READ, LEAVE, JOIN = 0, 1, 2  # of a launch: read rows and finish them; read parts of rows; finish these
LOG2E = 1.0 / math.log(2.0)
BLOCK, _MOST = (4, 4) if SIMULATED else (128, 512)  # threads of a block at least, and of a row at most
_EACH = 256  # logits for a thread, where a row has enough
_EACH_WRITTEN = 128  # fewer if the row is read again: rows at work must fit the second-level cache together
_OCCUPIED = 4 if SIMULATED else 1024  # threads that keep a multiprocessor's memory busy


class RowLayout:
    """Checked logits as the kernels read them.

    Args:
        each: logits for a thread, where there are enough.
    """

    def __init__(self, gpu: Gpu, logits: Logits, each: int = _EACH) -> None:
        self.gpu = gpu
        self.count, self.size = math.prod(logits.shape), logits.size
        work = logits.dtype.type
        memory, layout, shift = layout_of(gpu, logits.array)
        masks, keep, keep_layout = 0, nothing(gpu, np.bool_), C_ORDER
        if logits.keep is not None:
            masks = TOKENS
            keep, keep_layout, _ = layout_of(gpu, logits.keep)
        counted = nothing(gpu, np.bool_)
        if logits.counted is not None:
            masks |= POSITIONS
            counted = flat(gpu, logits.counted)
        inverse: Any = logits.inverse
        inverses = nothing(gpu, np.float64)
        if isinstance(inverse, np.ndarray):
            masks |= TEMPERATURES
            inverse, inverses = 1.0, gpu.upload(inverse.reshape(-1))
        self.operands = (
            memory, layout, shift, self.size, keep, keep_layout, counted, masks, work(inverse * LOG2E),
            inverse, inverses,
        )  # fmt: skip
        few = min(_power(self.size / VALUES), WARP)
        self.lanes = min(_MOST, max(few, _power(self.size / each)))
        enough = gpu.multiprocessors() * _OCCUPIED // (self.count * self.lanes)
        self.parts = max(1, min(enough, self.size // (2 * VALUES * self.lanes), self.lanes))

    def launch(self, kernel: Kernel, stage: int, *args: Any, split: bool) -> None:
        """Start `kernel` for all rows, or for all parts of rows."""
        pieces = self.parts if split else 1
        block = max(self.lanes, BLOCK)
        blocks = -(-self.count * pieces // (block // self.lanes))
        args = *self.operands, *args, self.parts, pieces, self.count, self.lanes, stage
        self.gpu.launch(kernel, blocks, block, *args, shared=8 * max(block // WARP, 1))


def numbers(
    gpu: Gpu, logits: Logits, tokens: DeviceMemory | None, ignore: int, *, entropies: bool, totals: bool
) -> tuple[Any, Any, Any, Any]:
    """Log-probs of `tokens`, entropies, maxima and log-sums; None for what is not asked for.

    With tokens, waits for the device, which checks them.

    Raises:
        IndexError: a token outside the vocabulary.
    """
    wanted = (tokens is not None, entropies, totals, totals)
    out = [gpu.empty(logits.shape, logits.dtype) if asked else None for asked in wanted]
    if not math.prod(logits.shape):
        return out[0], out[1], out[2], out[3]
    rows = RowLayout(gpu, logits)
    one = next(array for array in out if array is not None)  # stands in for what is not there
    flat_out = [device_array("out", one if array is None else array).memory()[0] for array in out]
    bits = SCORES * (tokens is not None) | SPREADS * entropies | TOTALS * totals
    ids = nothing(gpu, np.int64) if tokens is None else flat(gpu, tokens)
    faults = None if tokens is None else gpu.faults()
    complaints = nothing(gpu, np.int64) if faults is None else faults.memory
    partials = gpu.scratch(4 * rows.count * rows.parts, logits.dtype) if rows.parts > 1 else flat_out[0]
    for stage in (READ,) if rows.parts == 1 else (LEAVE, JOIN):
        rows.launch(
            row_numbers, stage, ids, ignore, bits, *flat_out, complaints, partials, split=stage == LEAVE
        )
    if faults is not None:
        check_tokens(gpu, faults, ids, logits)
    return out[0], out[1], out[2], out[3]


def check_tokens(gpu: Gpu, faults: Faults, ids: Ints, logits: Logits) -> None:
    """Wait for a kernel; raise IndexError if it complains of the token of a row."""
    count, row = faults.read()
    if count:
        position = [int(i) for i in np.unravel_index(row, logits.shape)]
        token = gpu.fetch(ids[row : row + 1])[0]
        raise IndexError(f"tokens{position} is {token}, which is outside the vocabulary of {logits.size}")


def masked_log_softmax(gpu: Gpu, logits: Logits, out: DeviceArray | None) -> DeviceArray:
    """The log-softmax, in `out` where it is given; not waited for."""
    result = out
    if out is None and logits.axis in (-1, logits.array.ndim - 1):
        result = gpu.empty(logits.array.shape, logits.dtype)
    elif out is None:
        result = gpu.empty(logits.array.moveaxis(-1, logits.axis).shape, logits.dtype)
    given = device_array("out", result)
    logits.check_out(given)
    if given.size:
        target = given.moveaxis(logits.axis, -1)
        if _direct(target, logits.array):
            _write(gpu, logits, target)
        else:
            apart = device_array("out", gpu.empty(target.shape, logits.dtype))
            _write(gpu, logits, apart)
            copy_into(gpu, target, apart)
    return result


def _direct(target: DeviceMemory, source: DeviceMemory) -> bool:
    """Whether rows can be written to `target` one by one while others are still read from `source`."""
    if (target.shape[-1] > 1 and target.strides()[-1] != 1) or merged(target) is None:
        return False
    same = (target.address, target.view.strides) == (source.address, source.view.strides)
    if same and target.dtype == source.dtype and merged(source) is not None:
        return True
    (low, high), (begin, end) = target.bounds(), source.bounds()
    return high <= begin or end <= low


def _write(gpu: Gpu, logits: Logits, target: DeviceMemory) -> None:
    rows = RowLayout(gpu, logits, _EACH_WRITTEN)
    memory, layout, _ = layout_of(gpu, target)
    partials = gpu.scratch(4 * rows.count * rows.parts if rows.parts > 1 else 1, logits.dtype)
    if rows.parts > 1:
        none = nothing(gpu, np.int64)
        rows.launch(row_numbers, LEAVE, none, 0, 0, *(partials,) * 4, none, partials, split=True)
    stage = JOIN if rows.parts > 1 else READ
    rows.launch(write_log_softmax, stage, partials, memory, layout, split=True)


def _power(number: float) -> int:
    """The next power of two."""
    return 1 << max(math.ceil(number) - 1, 0).bit_length()


@kernel
def row_numbers(
    memory: LogitData, layout: Layout, shift: int, size: int, keep: Bools, keep_layout: Layout,
    counted: Bools, masks: int, scale: float, inverse: float, inverses: Floats, tokens: Ints, ignore: int,
    wanted: int, log_probs: Floats, entropies: Floats, maxima: Floats, totals: Floats, faults: Ints,
    partials: Floats, parts: int, pieces: int, rows: int, lanes: int, stage: int,
) -> None:  # fmt: skip
    """Numbers of rows, or of a part of a row to `partials`; see `RowLayout` and `numbers`."""
    thread = cuda.threadIdx.x
    values = cuda.local.array(VALUES, log_probs.dtype)
    slots = cuda.shared.array(0, log_probs.dtype)
    number = log_probs.dtype.type
    lane = thread % lanes
    piece = cuda.blockIdx.x * (cuda.blockDim.x // lanes) + thread // lanes
    row, part = piece // pieces, piece % pieces
    known = row < rows
    if known and masks & TEMPERATURES:
        inverse = inverses[row]
        scale = number(inverse * LOG2E)
    if known and masks & POSITIONS:
        known = counted[row]
    token = np.int64(0)
    if known and wanted & SCORES:
        token = np.int64(tokens[row])
        known = token != ignore
        if known and (token < 0 or token >= size):
            known = False
            if lane == 0:
                cuda.atomic.add(faults, 0, 1)
                faults[1] = row
    top, ref = number(-math.inf), number(-math.inf)
    count, rest, weighted = number(1), number(0), number(0)
    begin = allowed = np.int64(0)
    if known:
        begin = place(layout, row)
        if masks & TOKENS:
            allowed = place(keep_layout, row)
        if stage == JOIN:
            if lane < parts:
                at = 4 * (row * parts + lane)
                top, count, rest = partials[at], partials[at + 1], partials[at + 2]
                ref, weighted = top, partials[at + 3]
        else:
            each = (size + pieces - 1) // pieces
            first = part * each
            weigh = wanted & SPREADS != 0
            length = greatest(0, least(each, size - first))
            top, ref, rest, weighted = read(
                memory, begin + first, shift, length, keep, allowed + first, masks,
                lane, lanes, scale, weigh, values,
            )  # fmt: skip
    highest, count, rest, weighted = joined(top, count, ref, rest, weighted, inverse, thread, lanes, slots)
    if lane != 0 or row >= rows:
        return
    if stage == LEAVE:
        at = 4 * (row * parts + part)
        partials[at], partials[at + 1], partials[at + 2], partials[at + 3] = highest, count, rest, weighted
        return
    score, spread, peak, total = number(0), number(0), number(0), number(0)
    if known:
        sum_ = log_total(count, rest)  # NaN where a logit is
        peak = number(highest * inverse) if rest == rest else rest
        total = peak + sum_
        spread = sum_ if count == 0.0 else sum_ - weighted / (count + rest)
        score = sum_ if rest != rest else highest
        if wanted & SCORES and highest > -math.inf and rest == rest:
            logit = number(-math.inf)
            if not (masks & TOKENS) or keep[allowed + token]:
                logit = number(widen(memory[begin + token]))
            score = -sum_
            if logit != highest:
                score = number((np.float64(logit) - np.float64(highest)) * inverse) - sum_
    if wanted & SCORES:
        log_probs[row] = score
    if wanted & SPREADS:
        entropies[row] = spread
    if wanted & TOTALS:
        maxima[row], totals[row] = peak, total


@device
def _log_prob(logit: float, highest: float, inverse: float, total: float) -> float:
    if abs(highest) < math.inf:
        return (logit - highest) * inverse - total
    return -total if logit == math.inf else -np.float32(math.inf)


@kernel
def write_log_softmax(
    memory: LogitData, layout: Layout, shift: int, size: int, keep: Bools, keep_layout: Layout,
    counted: Bools, masks: int, scale: float, inverse: float, inverses: Floats, partials: Floats,
    out: LogitData, out_layout: Layout, parts: int, pieces: int, rows: int, lanes: int, stage: int,
) -> None:  # fmt: skip
    """The log-softmax of rows, or of a part of a row whose numbers are in `partials`.

    The second reading goes backwards, because the end of the row is still in a cache.
    """
    thread = cuda.threadIdx.x
    values = cuda.local.array(VALUES, out.dtype)
    slots = cuda.shared.array(0, out.dtype)
    number = out.dtype.type
    lane = thread % lanes
    piece = cuda.blockIdx.x * (cuda.blockDim.x // lanes) + thread // lanes
    row, part = piece // pieces, piece % pieces
    known = row < rows
    begin = allowed = target = np.int64(0)
    if known:
        begin, target = place(layout, row), place(out_layout, row)
        if masks & TEMPERATURES:
            inverse = inverses[row]
            scale = number(inverse * LOG2E)
        if masks & TOKENS:
            allowed = place(keep_layout, row)
        if masks & POSITIONS:
            known = counted[row]
    hidden = number(-math.inf)
    top, ref, count, rest, weighted = hidden, hidden, number(1), number(0), number(0)
    if known:
        if stage == JOIN:
            if lane < parts:
                at = 4 * (row * parts + lane)
                top, count, rest = partials[at], partials[at + 1], partials[at + 2]
                ref = top
        else:
            top, ref, rest, weighted = read(
                memory, begin, shift, size, keep, allowed, masks, lane, lanes, scale, False, values
            )
    highest, count, rest, _ = joined(top, count, ref, rest, weighted, inverse, thread, lanes, slots)
    if row >= rows:
        return
    total, narrow = number(log_total(count, rest)), number(inverse)
    each = (size + pieces - 1) // pieces
    last = least(size, (part + 1) * each) - 1
    for start in range(last - lane, part * each - 1, -VALUES * lanes):
        for k in range(VALUES):
            i = start - k * lanes
            if i >= part * each:
                values[k] = widen(memory[np.uint64(begin + i)])
                if masks & TOKENS and not keep[np.uint64(allowed + i)]:
                    values[k] = hidden
        for k in range(VALUES):
            i = start - k * lanes
            if i >= part * each:
                log_prob = total  # 0, or NaN
                if known and rest == rest:
                    log_prob = _log_prob(values[k], highest, narrow, total)
                out[np.uint64(target + i)] = log_prob
