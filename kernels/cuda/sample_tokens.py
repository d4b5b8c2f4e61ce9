"""Draws of one token per row of logits in CUDA memory, after the usual filters, with or without details.

A block computes a row. As on the CPU nothing is sorted; `_filters.py` describes the search of thresholds.
Draws with details are a kernel of their own, so that others do not need its registers.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite.kernels._outcomes import DRAWN, NOTHING, UNKNOWN
from lite.kernels._types import Bools, DeviceArray, Floats, Ints, Layout, LogitData
from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._details import best, hottest, log_sum, summed_up
from lite.kernels.cuda._filters import Filtered, filtered, is_kept, key_of, weight_of
from lite.kernels.cuda._gpu import Gpu, Reused
from lite.kernels.cuda._jit import SIMULATED, cuda, device, kernel
from lite.kernels.cuda._layouts import C_ORDER, flat, layout_of, nothing
from lite.kernels.cuda._numbers import greatest, least, widen
from lite.kernels.cuda._softmax import place
from lite.kernels.cuda._threads import before, meet, together

_THREADS = 2 if SIMULATED else 512
_WARPS = 32  # of a block at most
_COLDEST = 2.0**-126  # the least divisor in float32
_HOTTEST = 2.0**100  # a higher temperature would make all scores equal
_FLAGS, _BITS = 1, 2  # how a mask is given
NUMBERS = 3  # of a row: log-prob in the sampled distribution, log of the kept mass, entropy of the model


class Details(NamedTuple):
    """Options of draws: whether to list kept tokens, and how many of the best."""

    kept: bool
    best: int


class Draws(NamedTuple):
    """Tokens on the device; everything else on the host, None if it was not requested."""

    tokens: Any
    outcomes: NDArray[np.int64]
    numbers: NDArray[np.float64] | None = None  # (rows, NUMBERS)
    offsets: NDArray[np.int64] | None = None  # of kept tokens
    kept: NDArray[np.int32] | None = None
    best: NDArray[np.int64] | None = None  # (rows, best)
    best_log_probs: NDArray[np.float64] | None = None


def draw(
    gpu: Gpu, logits: DeviceMemory, keep: DeviceMemory | None, previous: Ints, starts: NDArray[np.int64],
    bias: tuple[NDArray[Any], ...], options: NDArray[np.float64], model: DeviceMemory | None,
    details: Details | None, reused: Reused,
) -> Draws:  # fmt: skip
    """Draw a token of each row. Waits for the device.

    Args:
        logits: logits, or other scores to draw from.
        keep: flags of tokens, or words of their bits.
        previous: all previous tokens, row r's from `starts[r]` to `starts[r + 1]`.
        bias: offsets, ids and values, on the host; all ids are in the vocabulary.
        options: rows of temperatures, top_k, top_p, min_p, typical_p, penalties, and uniform draws.
        model: the logits of the model, if details are wanted.
        details: the details to compute, or None.
        reused: scratch memory, which includes the tokens.

    Returns:
        The draws; outcomes are `DRAWN`, `NOTHING` or `UNKNOWN`.
    """
    rows, size = logits.shape
    if not rows:
        return _nothing_drawn(gpu.empty((0,), np.int64), details)
    tokens = reused.array(gpu, "tokens", rows, np.int64)
    before_ = flat(gpu, previous) if previous.size else nothing(gpu, np.int64)
    memory, layout, _ = layout_of(gpu, logits)
    flags, flags_layout, masked = nothing(gpu, np.bool_), C_ORDER, 0
    if keep is not None:
        flags, flags_layout, _ = layout_of(gpu, keep)
        masked = _FLAGS if keep.dtype == np.bool_ else _BITS
    offsets, ids, values = bias
    blocks = min(rows, 2 * gpu.multiprocessors())
    found = reused.upload(gpu, "found", np.zeros(2 * rows, np.int64))
    operands = (
        memory, layout, size, flags, flags_layout, masked, before_, reused.upload(gpu, "starts", starts),
        reused.upload(gpu, "offsets", offsets), reused.upload(gpu, "ids", ids),
        reused.upload(gpu, "values", values), reused.upload(gpu, "options", options.reshape(-1)),
        reused.array(gpu, "scores", blocks * size, np.float32),
        reused.array(gpu, "candidates", blocks * size, np.int32),
        reused.array(gpu, "maxima", blocks * _THREADS, np.float32), tokens, found, rows,
    )  # fmt: skip
    shared = 8 * (_WARPS + _THREADS)
    if details is None or model is None:
        gpu.launch(sample, blocks, _THREADS, *operands, shared=shared)
        return Draws(tokens, gpu.fetch(found)[:rows])
    plain, plain_layout, _ = layout_of(gpu, model)
    n, listed = details.best, details.kept
    numbers = reused.array(gpu, "numbers", rows * (NUMBERS + n), np.float64)
    kept = reused.array(gpu, "kept", rows * size * listed, np.int32)
    ranked = reused.array(gpu, "ranked", rows * n, np.int64)
    gpu.launch(
        sample_with_details, blocks, _THREADS, *operands, plain, plain_layout,
        reused.array(gpu, "plain", blocks * size, np.float32), numbers, n, ranked, int(listed), kept,
        shared=shared,
    )  # fmt: skip
    outcomes, counts = gpu.fetch(found).reshape(2, rows)
    if outcomes.any():
        return Draws(tokens, outcomes)
    figures = gpu.fetch(numbers)
    draws = Draws(tokens, outcomes, figures[: rows * NUMBERS].reshape(rows, NUMBERS))
    if listed:
        ends = np.zeros(rows + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        draws = draws._replace(offsets=ends, kept=_packed(gpu, kept, size, ends))
    if n:
        log_probs = figures[rows * NUMBERS :].reshape(rows, n)
        draws = draws._replace(best=gpu.fetch(ranked).reshape(rows, n), best_log_probs=log_probs)
    return draws


def _nothing_drawn(tokens: Ints, details: Details | None) -> Draws:
    none = np.zeros(0, np.int64)
    if details is None:
        return Draws(tokens, none)
    kept = (np.zeros(1, np.int64), np.zeros(0, np.int32)) if details.kept else (None, None)
    shape = 0, details.best
    top = (np.zeros(shape, np.int64), np.zeros(shape)) if details.best else (None, None)
    return Draws(tokens, none, np.zeros((0, NUMBERS)), *kept, *top)


def _packed(gpu: Gpu, kept: DeviceArray, size: int, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    """The kept tokens of all rows, one row after the other, on the host."""
    if not offsets[-1]:
        return np.zeros(0, np.int32)
    out = gpu.scratch(int(offsets[-1]), np.int32)
    gpu.launch(pack, len(offsets) - 1, _THREADS, kept, size, gpu.upload(offsets), out)
    return gpu.fetch(out)


def narrowed(gpu: Gpu, log_probs: DeviceArray) -> DeviceArray:
    """The log-probs as float32."""
    if log_probs.dtype == np.float32:
        return log_probs
    return c_ordered(gpu, device_array("log_probs", log_probs), np.float32).owner


@device
def _hidden(flags: Bools, allowed: int, masked: int, token: int) -> bool:
    """Whether the mask excludes a token."""
    if masked == _FLAGS:
        return not flags[allowed + token]
    if masked == _BITS:
        return ((np.int64(flags[allowed + (token >> 5)]) >> (token & 31)) & 1) == 0
    return False


@device
def _prepare(
    memory: LogitData, begin: int, size: int, flags: Bools, allowed: int, masked: int, previous: Ints,
    start: int, stop: int, penalty: float, ids: Ints, values: Floats, first: int, last: int, bans: bool,
    scores: Floats, base: int, thread: int, threads: int,
) -> None:  # fmt: skip
    """Mask, penalty and bias, in float32 as Hugging Face computes them; those of -inf only with `bans`."""
    for i in range(thread, size, threads):
        score = np.float32(widen(memory[begin + i]))
        if _hidden(flags, allowed, masked, i):
            score = np.float32(-math.inf)
        scores[base + i] = score
    if penalty != 1.0:
        meet()
        factor = np.float32(penalty)
        for j in range(start + thread, stop, threads):
            token = np.int64(previous[j])
            if 0 <= token < size and not _hidden(flags, allowed, masked, token):
                score = np.float32(widen(memory[begin + token]))  # the same however often it is there
                scores[base + token] = score * factor if score < 0.0 else score / factor
    if last > first:
        meet()
        for j in range(first, last):
            token, value = ids[j], values[j]
            # entries of one token are added by one thread, in order
            if token % threads == thread and (bans or value > -math.inf):
                score = scores[base + token] + value
                scores[base + token] = value if value == -math.inf else score
    meet()


@device
def _heated(
    scores: Floats, base: int, size: int, temperature: float, highest: float, thread: int, threads: int
) -> float:
    """Divide the scores by the temperature; infinite ones become 0 and others -inf. Returns the highest."""
    divisor, shift = np.float32(temperature), np.float32(0.0)
    if abs(highest) < math.inf and abs(highest / divisor) == math.inf:
        shift = highest  # what is different must not become equal
    infinite = highest == math.inf
    if infinite or temperature != 1.0:
        for i in range(thread, size, threads):
            score = scores[base + i]
            if infinite:
                scores[base + i] = np.float32(0.0 if score == math.inf else -math.inf)
            else:
                scores[base + i] = (score - shift) / divisor
    meet()
    return np.float32(0.0) if infinite else (highest - shift) / divisor


@device
def _exclude(
    plain: Floats, flags: Bools, allowed: int, masked: int, ids: Ints, values: Floats, first: int, last: int,
    scores: Floats, base: int, size: int, thread: int, threads: int,
) -> None:  # fmt: skip
    """The `plain` scores, but for -inf where mask and bans exclude a token."""
    for i in range(thread, size, threads):
        score = plain[base + i]
        if _hidden(flags, allowed, masked, i):
            score = np.float32(-math.inf)
        scores[base + i] = score
    meet()
    for j in range(first, last):
        if ids[j] % threads == thread and values[j] == -math.inf:
            scores[base + ids[j]] = values[j]
    meet()


@device
def _picked(
    scores: Floats, base: int, kept: Filtered, min_p: float, uniform: float, highest: float, candidates: Ints,
    thread: int, threads: int, slots: Floats, sums: Floats,
) -> int:  # fmt: skip
    """The token drawn of what `filtered` has left, for the one thread that finds it; -1 for the others."""
    listed, count, cut, spare, usual, reach, ties_before = kept
    each = (count + threads - 1) // threads
    first, stop = thread * each, least(count, (thread + 1) * each)
    own, seen = 0.0, ties_before
    for j in range(first, stop):
        score = scores[base + (candidates[base + j] if listed else j)]
        seen += 1.0 if key_of(score) == cut else 0.0
        if is_kept(score, cut, seen, spare, min_p, highest, usual, reach):
            own += weight_of(score, highest)
    reached, total = before(own, thread, threads, sums)
    target = uniform * total
    # The first thread whose share reaches beyond the target; against rounding, the last that has any.
    finder = -together(
        -np.float64(thread) if own > 0.0 and reached + own > target else -np.float64(threads),
        True,
        thread,
        threads,
        slots,
    )
    last = together(np.float64(thread) if own > 0.0 else -1.0, True, thread, threads, slots)
    if thread != np.int64(finder if finder < threads else last):
        return np.int64(-1)
    token, seen = np.int64(0), ties_before
    for j in range(first, stop):
        i = np.int64(candidates[base + j] if listed else j)
        score = scores[base + i]
        weight = weight_of(score, highest)
        seen += 1.0 if key_of(score) == cut else 0.0
        if weight > 0.0 and is_kept(score, cut, seen, spare, min_p, highest, usual, reach):
            token = i
            reached += weight
            if reached > target:
                break
    return token


@device
def _drawn(
    scores: Floats, base: int, size: int, options: Floats, row: int, rows: int, candidates: Ints,
    maxima: Floats, own: int, thread: int, threads: int, slots: Floats, sums: Floats,
) -> tuple[int, int, float, Filtered]:  # fmt: skip
    """Draw from the prepared scores of a row, which are then at their temperature.

    Returns:
        What became of the row; the token, for one thread that finds it, and -1 for the others; the highest
        score; and what `filtered` returns.
    """
    temperature, top_k, top_p = options[row], np.int64(options[rows + row]), options[2 * rows + row]
    min_p, typical_p = options[3 * rows + row], options[4 * rows + row]
    top, unknown = hottest(scores, base, size, thread, threads, slots)
    highest = np.float32(top)
    result, found = DRAWN, np.int64(-1)
    kept = False, np.int64(size), np.int64(0), 0.0, np.float32(0.0), np.float32(math.inf), 0.0
    if unknown > 0.0:
        result = UNKNOWN
    elif highest == -math.inf:
        result = NOTHING
    elif temperature < _COLDEST:
        place_ = np.float64(size)
        for i in range(thread, size, threads):
            if scores[base + i] == highest:
                place_ = least(place_, np.float64(i))
        first = -together(-place_, True, thread, threads, slots)
        if place_ == first:
            found = np.int64(first)
    else:
        highest = _heated(scores, base, size, temperature, highest, thread, threads)
        kept = filtered(
            scores, base, size, top_k, top_p, min_p, typical_p, highest, candidates, maxima, own, thread,
            threads, slots, sums,
        )  # fmt: skip
        found = _picked(
            scores, base, kept, min_p, options[6 * rows + row], highest, candidates, thread, threads, slots,
            sums,
        )  # fmt: skip
    return result, found, highest, kept


@kernel
def sample(
    memory: LogitData, layout: Layout, size: int, flags: Bools, flags_layout: Layout, masked: int,
    previous: Ints, starts: Ints, offsets: Ints, ids: Ints, values: Floats, options: Floats, scores: Floats,
    candidates: Ints, maxima: Floats, tokens: Ints, found: Ints, rows: int,
) -> None:  # fmt: skip
    """A token of each row; see `draw`. The scores of a block's row lie in `scores`, which is its own."""
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    shared = cuda.shared.array(0, options.dtype)
    slots, sums = shared[:_WARPS], shared[_WARPS:]
    base, own = cuda.blockIdx.x * size, cuda.blockIdx.x * threads
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        begin, allowed = place(layout, row), np.int64(0)
        if masked != 0:
            allowed = place(flags_layout, row)
        meet()  # the row before may still be looked at
        _prepare(
            memory, begin, size, flags, allowed, masked, previous, starts[row], starts[row + 1],
            options[5 * rows + row], ids, values, offsets[row], offsets[row + 1], True, scores, base, thread,
            threads,
        )  # fmt: skip
        result, token, _, _ = _drawn(
            scores, base, size, options, row, rows, candidates, maxima, own, thread, threads, slots, sums
        )
        if token >= 0 or (result != DRAWN and thread == 0):
            tokens[row], found[row] = greatest(token, np.int64(0)), result


@kernel
def sample_with_details(
    memory: LogitData, layout: Layout, size: int, flags: Bools, flags_layout: Layout, masked: int,
    previous: Ints, starts: Ints, offsets: Ints, ids: Ints, values: Floats, options: Floats, scores: Floats,
    candidates: Ints, maxima: Floats, tokens: Ints, found: Ints, rows: int, model: LogitData,
    model_layout: Layout, plain: Floats, numbers: Floats, n: int, ranked: Ints, listing: int, kept: Ints,
) -> None:  # fmt: skip
    """A token of each row, and what `DrawDetails` says of it.

    Args:
        found: outcomes, and behind them how many tokens are kept, 0 for all.
        model: the logits, which `memory` need not be.
        plain: scores before mask, bans and filters, of the size of `scores`.
        numbers: `NUMBERS` of each row, and behind them the log-probs of the best.
        n, ranked: how many of the best are wanted, and these.
        listing, kept: whether kept tokens are; those of row r from `r * size` on.
    """
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    shared = cuda.shared.array(0, options.dtype)
    slots, sums = shared[:_WARPS], shared[_WARPS:]
    base, own = cuda.blockIdx.x * size, cuda.blockIdx.x * threads
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        first, last = offsets[row], offsets[row + 1]
        allowed = np.int64(0)
        if masked != 0:
            allowed = place(flags_layout, row)
        begin = place(model_layout, row)
        meet()  # the row before may still be looked at
        for i in range(thread, size, threads):
            scores[base + i] = np.float32(widen(model[begin + i]))
        meet()
        top, _ = hottest(scores, base, size, thread, threads, slots)
        total, spread = log_sum(scores, base, size, top, 1.0, thread, threads, slots)
        if n > 0:
            best(
                scores, base, size, n, top, total, candidates, maxima, own, ranked, numbers, n * row,
                NUMBERS * rows + n * row, thread, threads, slots, sums,
            )  # fmt: skip
        meet()
        _prepare(
            memory, place(layout, row), size, flags, allowed, 0, previous, starts[row], starts[row + 1],
            options[5 * rows + row], ids, values, first, last, False, plain, base, thread, threads,
        )  # fmt: skip
        temperature = options[row]
        inverse = 1.0 / least(greatest(temperature, _COLDEST), _HOTTEST)
        all_top, _ = hottest(plain, base, size, thread, threads, slots)
        _exclude(plain, flags, allowed, masked, ids, values, first, last, scores, base, size, thread, threads)
        if all_top == math.inf:  # the infinite scores share what there is
            for i in range(thread, size, threads):
                plain[base + i] = np.float32(0.0 if plain[base + i] == math.inf else -math.inf)
            all_top = 0.0
        meet()
        all_total, _ = log_sum(plain, base, size, all_top, inverse, thread, threads, slots)
        result, token, highest, left = _drawn(
            scores, base, size, options, row, rows, candidates, maxima, own, thread, threads, slots, sums
        )
        part_top, part_total, number = all_top, all_total, np.int64(0)
        greedy = temperature < _COLDEST
        if result == DRAWN and not greedy and (left[0] or masked != 0 or last > first):
            part_top, part_total, number = summed_up(
                scores, plain, base, left, options[3 * rows + row], highest, inverse, candidates, listing,
                kept, size * row, thread, threads, slots, sums,
            )  # fmt: skip
        if token >= 0:
            at, mass = NUMBERS * row, 0.0
            numbers[at] = 0.0
            if not greedy:
                numbers[at] = (np.float64(plain[base + token]) - part_top) * inverse - part_total
                mass = least(0.0, (part_top - all_top) * inverse + part_total - all_total)
            elif listing:
                kept[size * row], number = token, np.int64(1)
            numbers[at + 1], numbers[at + 2] = mass, total - spread
            tokens[row], found[row] = token, result
            found[rows + row] = number if number < size else 0
        elif result != DRAWN and thread == 0:
            tokens[row], found[row] = np.int64(0), result


@kernel
def pack(kept: Ints, size: int, offsets: Ints, out: LogitData) -> None:
    """The kept tokens of row r, which begin at `r * size`, behind those of the rows before it."""
    row = cuda.blockIdx.x
    first, count = offsets[row], offsets[row + 1] - offsets[row]
    for j in range(cuda.threadIdx.x, count, cuda.blockDim.x):
        out[first + j] = kept[size * row + j]
