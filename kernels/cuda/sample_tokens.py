"""One token per row of logits in CUDA memory, drawn after the usual filters.

A block takes a row. As on the CPU nothing is sorted: a threshold (the k-th largest score, or the score at
which the largest ones hold a share p of the probability) is found by bisection of the scores' ordered bits,
over the few candidates that a bound leaves. A thread looks at a stretch of neighbouring candidates, so that
sums over threads follow the order of tokens; they have one order, and so one result.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._outcomes import DRAWN, NOTHING, UNKNOWN
from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import SIMULATED, cuda, device, kernel
from lite.kernels.cuda._layouts import C_ORDER, Layout, flat, layout_of, nothing
from lite.kernels.cuda._numbers import as_bits, as_float, greatest, least, widen
from lite.kernels.cuda._softmax import place
from lite.kernels.cuda._threads import before, meet, together

_THREADS = 2 if SIMULATED else 512
_WARPS = 32  # of a block at most
_SLACK = 1e-3  # by which bounds are loosened against rounding
_TINY = 5e-324
_COLDEST = 2.0**-126  # the least divisor in float32
_SIGN = 0x80000000
_FLAGS, _BITS = 1, 2  # how a mask is given


def draw(
    gpu: Gpu,
    logits: DeviceMemory,
    keep: DeviceMemory | None,
    previous: Any,
    starts: NDArray[np.int64],
    bias: tuple[NDArray[Any], ...],
    options: NDArray[np.float64],
) -> tuple[Any, NDArray[np.int64]]:
    """A token of each row, and what became of the row. Waits for the device.

    Args:
        logits: or other scores to draw from.
        keep: flags of tokens, or words of their bits.
        previous: all previous tokens, row r's from `starts[r]` to `starts[r + 1]`.
        bias: offsets, ids and values, on the host; all ids are of the vocabulary.
        options: rows of temperatures, top_k, top_p, min_p, typical_p, penalties, and uniform draws.

    Returns:
        Tokens on the device; `DRAWN`, `NOTHING` or `UNKNOWN` for each row on the host.
    """
    rows, size = logits.shape
    tokens = gpu.empty((rows,), np.int64)
    if not rows:
        return tokens, np.zeros(0, np.int64)
    before_ = flat(gpu, previous) if previous.size else nothing(gpu, np.int64)
    memory, layout, _ = layout_of(gpu, logits)
    flags, flags_layout, masked = nothing(gpu, np.bool_), C_ORDER, 0
    if keep is not None:
        flags, flags_layout, _ = layout_of(gpu, keep)
        masked = _FLAGS if keep.dtype == np.bool_ else _BITS
    offsets, ids, values = bias
    blocks = min(rows, 2 * gpu.multiprocessors())
    scores, candidates = gpu.scratch(blocks * size, np.float32), gpu.scratch(blocks * size, np.int32)
    maxima, status = gpu.scratch(blocks * _THREADS, np.float32), gpu.upload(np.zeros(rows, np.int64))
    gpu.launch(
        sample, blocks, _THREADS, memory, layout, size, flags, flags_layout, masked, before_,
        gpu.upload(starts), gpu.upload(offsets), gpu.upload(ids) if ids.size else nothing(gpu, np.int64),
        gpu.upload(values) if ids.size else nothing(gpu, np.float32), gpu.upload(options.reshape(-1)), scores,
        candidates, maxima, tokens, status, rows,
        shared=8 * (_WARPS + _THREADS),
    )  # fmt: skip
    return tokens, gpu.fetch(status)


def narrowed(gpu: Gpu, log_probs: Any) -> Any:
    """As float32."""
    if log_probs.dtype == np.float32:
        return log_probs
    return c_ordered(gpu, device_array("log_probs", log_probs), np.float32).owner


@device
def _key(score: Any) -> Any:
    """An integer in [0, 2**32) that orders as the float does; -0.0 and 0.0 get the same."""
    bits = np.int64(as_bits(score + np.float32(0.0)))
    return bits + _SIGN if bits < _SIGN else 2 * _SIGN - 1 - bits


@device
def _score(key: Any) -> Any:
    """The float of a key."""
    return as_float(np.uint32(key - _SIGN if key >= _SIGN else 2 * _SIGN - 1 - key))


@device
def _weight(score: Any, highest: Any) -> Any:
    return np.float64(math.exp(np.float32(score - highest)))


@device
def _threshold(
    scores: Any, first: Any, stop: Any, candidates: Any, base: Any, listed: Any, cut: Any, highest: Any,
    weigh: Any, target: Any, thread: Any, threads: Any, slots: Any,
) -> Any:  # fmt: skip
    """The largest key whose holders, with those of all larger keys, weigh at least `target`.

    Looks at keys from `cut` on, of which there is one. Each counts 1, or as its score is to `weigh`.

    Returns:
        The key, or the smallest one where all weigh too little; and the weight of the strictly larger ones.
    """
    low, high = np.int64(2 * _SIGN), _key(highest)
    for j in range(first, stop):
        key = _key(scores[base + (candidates[base + j] if listed else j)])
        if cut <= key < low:
            low = key
    low = -np.int64(together(-np.float64(low), True, thread, threads, slots))
    above = 0.0
    while low < high:
        middle = low + (high - low + 1) // 2
        part = 0.0
        for j in range(first, stop):
            score = scores[base + (candidates[base + j] if listed else j)]
            if middle <= _key(score) <= high:
                part += _weight(score, highest) if weigh else 1.0
        part = together(part, False, thread, threads, slots)
        if above + part >= target:
            low = middle
        else:
            high = middle - 1
            above += part
    return low, above


@device
def _hidden(flags: Any, allowed: Any, masked: Any, token: Any) -> Any:
    """Whether the mask excludes a token."""
    if masked == _FLAGS:
        return not flags[allowed + token]
    if masked == _BITS:
        return ((np.int64(flags[allowed + (token >> 5)]) >> (token & 31)) & 1) == 0
    return False


@device
def _prepare(
    memory: Any, begin: Any, size: Any, flags: Any, allowed: Any, masked: Any, previous: Any, start: Any,
    stop: Any, penalty: Any, ids: Any, values: Any, first: Any, last: Any, scores: Any, base: Any,
    thread: Any, threads: Any,
) -> None:  # fmt: skip
    """Mask, penalty and bias, in float32 as Hugging Face computes them."""
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
            if token % threads == thread:  # entries of one token are added by one thread, in order
                score = scores[base + token] + value
                scores[base + token] = value if value == -math.inf else score
    meet()


@device
def _heated(
    scores: Any, base: Any, size: Any, temperature: Any, highest: Any, thread: Any, threads: Any
) -> Any:
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
def _bound(
    scores: Any, base: Any, size: Any, top_k: Any, top_p: Any, min_p: Any, highest: Any, maxima: Any,
    candidates: Any, thread: Any, threads: Any, slots: Any,
) -> Any:  # fmt: skip
    """A key below which no filter leaves anything, and the weight of all tokens where top-k is off."""
    each = (size + threads - 1) // threads
    first, stop = thread * each, least(size, (thread + 1) * each)
    if 0 < top_k < size:
        if top_k > threads:
            return np.int64(0), 0.0
        # Each maximum is a score, so the k-th largest score is no smaller than theirs.
        top = np.float32(-math.inf)
        for i in range(first, stop):
            top = greatest(top, scores[base + i])
        own = cuda.blockIdx.x * threads
        maxima[own + thread] = top
        meet()
        key, _ = _threshold(
            maxima, thread, thread + 1, candidates, own, False, 0, highest, False, top_k, thread, threads,
            slots,
        )  # fmt: skip
        return key, 0.0
    total = 0.0
    for i in range(first, stop):
        total += _weight(scores[base + i], highest)
    total = together(total, False, thread, threads, slots)
    # Tokens below the mean of what top-p drops hold no more than that together: it keeps none of them.
    smallest = (1.0 - top_p) * total / size if top_p < 1.0 else min_p
    bound = np.int64(0)
    if smallest > 0.0:
        bound = _key(np.float32(np.float64(highest) + math.log(smallest) - _SLACK * (1.0 + abs(highest))))
    return bound, total


@device
def _collect(
    scores: Any, base: Any, size: Any, bound: Any, candidates: Any, thread: Any, threads: Any, sums: Any
) -> Any:
    """List the tokens with at least the key `bound` that may be drawn, in order; returns how many."""
    each = (size + threads - 1) // threads
    first, stop = thread * each, least(size, (thread + 1) * each)
    count = 0.0
    for i in range(first, stop):
        if _key(scores[base + i]) >= bound and scores[base + i] > -math.inf:
            count += 1.0
    place_, total = before(count, thread, threads, sums)
    at = base + np.int64(place_)
    for i in range(first, stop):
        if _key(scores[base + i]) >= bound and scores[base + i] > -math.inf:
            candidates[at] = i
            at += 1
    meet()
    return np.int64(total)


@device
def _typical(
    scores: Any, first: Any, stop: Any, candidates: Any, base: Any, cut: Any, spare: Any, ties_before: Any,
    min_p: Any, typical_p: Any, highest: Any, thread: Any, threads: Any, slots: Any,
) -> Any:  # fmt: skip
    """Of what is kept so far, the score with the mean surprise, and how far from it scores may lie."""
    total, spread, seen = 0.0, 0.0, ties_before
    for j in range(first, stop):
        score = scores[base + candidates[base + j]]
        seen += 1.0 if _key(score) == cut else 0.0
        if _kept(score, cut, seen, spare, min_p, highest, np.float32(0.0), np.float32(math.inf)):
            weight = _weight(score, highest)
            total += weight
            spread += weight * np.float64(score - highest)
    total = together(total, False, thread, threads, slots)
    spread = together(spread, False, thread, threads, slots)
    usual = np.float32(np.float64(highest) + spread / total)
    target = greatest(typical_p * total, _TINY)
    # The keys of distances; the least that holds the target is found by bisection.
    low, high = _key(np.float32(0.0)), _key(np.float32(math.inf))
    while low < high:
        middle = low + (high - low) // 2
        part, seen = 0.0, ties_before
        for j in range(first, stop):
            score = scores[base + candidates[base + j]]
            seen += 1.0 if _key(score) == cut else 0.0
            if _kept(score, cut, seen, spare, min_p, highest, usual, _score(middle)):
                part += _weight(score, highest)
        if together(part, False, thread, threads, slots) >= target:
            high = middle
        else:
            low = middle + 1
    return usual, _score(low)


@device
def _kept(
    score: Any, cut: Any, seen: Any, spare: Any, min_p: Any, highest: Any, usual: Any, reach: Any
) -> Any:
    """Whether the filters leave a score.

    Args:
        cut: the least key that stays; `seen` scores up to this one have it, of which the first `spare` go.
        usual, reach: the score with the mean surprise, and how far from it scores may lie.
    """
    key = _key(score)
    above = key > cut or (key == cut and seen > spare)
    return above and _weight(score, highest) >= min_p and abs(score - usual) <= reach


@device
def _draw(
    scores: Any, base: Any, size: Any, top_k: Any, top_p: Any, min_p: Any, typical_p: Any, uniform: Any,
    highest: Any,
    candidates: Any, maxima: Any, thread: Any, threads: Any, slots: Any, sums: Any,
) -> Any:  # fmt: skip
    """The token drawn, for the one thread that finds it; -1 for the others."""
    listed = 0 < top_k < size or top_p < 1.0 or min_p > 0.0 or typical_p < 1.0
    count, total, cut = size, 0.0, np.int64(0)
    if listed:
        bound, total = _bound(
            scores, base, size, top_k, top_p, min_p, highest, maxima, candidates, thread, threads, slots
        )
        count = _collect(scores, base, size, bound, candidates, thread, threads, sums)
    each = (count + threads - 1) // threads
    first, stop = thread * each, least(count, (thread + 1) * each)
    if 0 < top_k < count:
        cut, _ = _threshold(
            scores, first, stop, candidates, base, listed, 0, highest, False, top_k, thread, threads, slots
        )
    nucleus, spare, ties_before = cut, 0.0, 0.0
    if top_p < 1.0:
        own = 0.0
        for j in range(first, stop):
            score = scores[base + candidates[base + j]]
            if _key(score) >= cut:
                own += _weight(score, highest)
        total = greatest(total, together(own, False, thread, threads, slots))
        target = greatest(top_p * total, _TINY)
        nucleus, above = _threshold(
            scores, first, stop, candidates, base, listed, cut, highest, True, target, thread, threads, slots
        )
        own = 0.0
        for j in range(first, stop):
            if _key(scores[base + candidates[base + j]]) == nucleus:
                own += 1.0
        ties_before, ties = before(own, thread, threads, sums)
        each_weight = _weight(_score(nucleus), highest)
        wanted = ties
        if each_weight * ties > target - above:
            wanted = greatest(1.0, math.ceil((target - above) / each_weight))
            if wanted > 1.0 and above + (wanted - 1.0) * each_weight >= target:
                wanted -= 1.0
        spare = ties - wanted  # of equal scores the last tokens stay, as after an ascending sort
    usual, reach = np.float32(0.0), np.float32(math.inf)
    if typical_p < 1.0:
        usual, reach = _typical(
            scores, first, stop, candidates, base, nucleus, spare, ties_before, min_p, typical_p, highest,
            thread, threads, slots,
        )  # fmt: skip
    own, seen = 0.0, ties_before
    for j in range(first, stop):
        score = scores[base + (candidates[base + j] if listed else j)]
        seen += 1.0 if _key(score) == nucleus else 0.0
        if _kept(score, nucleus, seen, spare, min_p, highest, usual, reach):
            own += _weight(score, highest)
    reached, total = before(own, thread, threads, sums)
    target = uniform * total
    # The first thread whose share reaches beyond the target; against rounding, the last that has any.
    finder = -together(
        -np.float64(thread) if own > 0.0 and reached + own > target else -np.float64(threads),
        True, thread, threads, slots,
    )  # fmt: skip
    last = together(np.float64(thread) if own > 0.0 else -1.0, True, thread, threads, slots)
    if thread != np.int64(finder if finder < threads else last):
        return np.int64(-1)
    token, seen = np.int64(0), ties_before
    for j in range(first, stop):
        i = np.int64(candidates[base + j] if listed else j)
        score = scores[base + i]
        weight = _weight(score, highest)
        seen += 1.0 if _key(score) == nucleus else 0.0
        if weight > 0.0 and _kept(score, nucleus, seen, spare, min_p, highest, usual, reach):
            token = i
            reached += weight
            if reached > target:
                break
    return token


@kernel
def sample(
    memory: Any, layout: Layout, size: Any, flags: Any, flags_layout: Layout, masked: Any, previous: Any,
    starts: Any, offsets: Any, ids: Any, values: Any, options: Any, scores: Any, candidates: Any, maxima: Any,
    tokens: Any, status: Any, rows: Any,
) -> None:  # fmt: skip
    """A token of each row; see `draw`. The scores of a block's row lie in `scores`, which is its own."""
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    shared = cuda.shared.array(0, options.dtype)
    slots, sums = shared[:_WARPS], shared[_WARPS:]
    base = cuda.blockIdx.x * size
    for row in range(cuda.blockIdx.x, rows, cuda.gridDim.x):
        temperature, top_k, top_p = options[row], np.int64(options[rows + row]), options[2 * rows + row]
        min_p, typical_p = options[3 * rows + row], options[4 * rows + row]
        penalty, uniform = options[5 * rows + row], options[6 * rows + row]
        begin, allowed = place(layout, row), np.int64(0)
        if masked != 0:
            allowed = place(flags_layout, row)
        meet()  # the row before may still be looked at
        _prepare(
            memory, begin, size, flags, allowed, masked, previous, starts[row], starts[row + 1], penalty,
            ids, values, offsets[row], offsets[row + 1], scores, base, thread, threads,
        )  # fmt: skip
        top, unknown = np.float64(-math.inf), 0.0
        for i in range(thread, size, threads):
            score = np.float64(scores[base + i])
            if score != score:
                unknown = 1.0
            if score > top:
                top = score
        highest = np.float32(together(top, True, thread, threads, slots))
        unknown = together(unknown, True, thread, threads, slots)
        result, found = DRAWN, np.int64(-1)
        if unknown > 0.0:
            result = UNKNOWN
        elif highest == -math.inf:
            result = NOTHING
        elif temperature < _COLDEST:
            own = np.float64(size)
            for i in range(thread, size, threads):
                if scores[base + i] == highest:
                    own = least(own, np.float64(i))
            first = -together(-own, True, thread, threads, slots)
            if own == first:
                found = np.int64(first)
        else:
            highest = _heated(scores, base, size, temperature, highest, thread, threads)
            found = _draw(
                scores, base, size, top_k, top_p, min_p, typical_p, uniform, highest, candidates, maxima,
                thread, threads, slots, sums,
            )  # fmt: skip
        if found >= 0 or (result != DRAWN and thread == 0):
            tokens[row], status[row] = greatest(found, np.int64(0)), result
