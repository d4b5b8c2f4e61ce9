"""Returns and advantages: recursions backwards in time, as scans by blocks of threads.

A recursion x(t) = b(t) + a(t) x(t+1) is a chain of maps x -> a x + b, and two maps in a row are one. A block
of threads takes a tile of sequences and steps, from the last tile to the first:

1. it reads the operands, neighbouring threads neighbouring memory, and keeps the maps in shared memory;
2. each thread composes the maps of `ITEMS` steps in a row;
3. the threads of a sequence scan what they composed;
4. each thread walks its steps again, from the value that step 3 says enters them;
5. it writes the results, in the order of step 1.

So each operand is read from memory once and each result written once, in either layout; what a block reads
again is still in a cache. With float32 a step takes: 9 bytes for `reward_to_go`, 13 for `lambda_returns`, 21
for `advantages` (29 with weights), one more where `terminated` is not `done`, and 30 for `windows`.

A map with a = 0 is the end of an episode: a branch drops what follows, and nothing is multiplied by zero, so
NaN and infinity do not cross it. All is computed in float64, as on the CPU.

An operand is flat memory, the place of the first element, strides for (outer, time, lane), and a constant for
all elements if the place is negative. Sequence q is lane q % lanes of outer q // lanes. Indices are unsigned,
so that compiled code does not check for negative ones.
"""

import math
from typing import TypeAlias

import numpy as np
from numba import float64, int32

from lite.kernels._types import Array, Bools, Floats, Ints
from lite.kernels.cuda._jit import cuda, device, kernel
from lite.kernels.cuda._numbers import least, store, widen

ITEMS = 8  # steps that a thread walks by itself
Operand: TypeAlias = tuple[Array, int, int, int, int, float]
# Steps of a sequence, lanes, sequences, the logarithms of a tile's steps and sequences, and whether time lies
# side by side in memory, rather than the lanes.
Walk: TypeAlias = tuple[int, int, int, int, int, bool]
Maps: TypeAlias = tuple[Floats, Floats, Floats, Floats]  # factors and terms of elements, and of threads

TINY = 5e-324  # what a product of factors is at least: zero would make it an end


@device
def _times(factor: float, value: float) -> float:
    """factor * value, where a factor of zero forgets even NaN."""
    return factor * value if factor != 0.0 else 0.0


@device
def _both(first: float, second: float) -> float:
    """The factor of two maps in a row, 0 only where one of them is."""
    product = first * second
    return TINY if product == 0.0 and first != 0.0 and second != 0.0 else product


@device
def _mixed(bootstrap: float, tail: float, lmbda: float) -> float:
    """(1 - lmbda) bootstrap + lmbda tail, likewise."""
    if lmbda == 0.0:
        return bootstrap
    if lmbda == 1.0:
        return tail
    return (1.0 - lmbda) * bootstrap + lmbda * tail


@device
def _place(operand: Operand, outer: int, t: int, lane: int) -> np.uint64:
    return np.uint64(operand[1] + outer * operand[2] + t * operand[3] + lane * operand[4])


@device
def _number(operand: Operand, outer: int, t: int, lane: int) -> float:
    if operand[1] < 0:
        return operand[5]
    return np.float64(widen(operand[0][_place(operand, outer, t, lane)]))


@device
def _flag(operand: Operand, outer: int, t: int, lane: int) -> bool:
    return operand[0][_place(operand, outer, t, lane)] != 0


@device
def _bootstrap(value: Operand, terminated: Operand, outer: int, t: int, lane: int) -> float:
    """The value after a step, or 0 where it terminated."""
    following = _number(value, outer, t, lane)
    return 0.0 if _flag(terminated, outer, t, lane) else following


@device
def _ratio(weight: tuple[Operand, Operand], outer: int, t: int, lane: int) -> float:
    return math.exp(_number(weight[0], outer, t, lane) - _number(weight[1], outer, t, lane))


@device
def _padded(i: int) -> int:
    """Where element i of a tile is kept: strides of powers of two would meet in one bank of shared memory."""
    return i + (i >> 4)


@device
def _step_and_lane(element: int, walk: Walk) -> tuple[int, int]:
    """The step and the sequence of an element, counted from the beginning of its tile."""
    _, _, _, log_steps, log_width, time_fast = walk
    if time_fast:
        return element & ((1 << log_steps) - 1), element >> log_steps
    return element >> log_width, element & ((1 << log_width) - 1)


@device
def _element_of(step: int, lane: int, walk: Walk) -> int:
    _, _, _, log_steps, log_width, time_fast = walk
    if time_fast:
        return (lane << log_steps) + step
    return (step << log_width) + lane


@device
def _located(element: int, tile: int, group: int, walk: Walk) -> tuple[bool, int, int, int]:
    """Whether an element of a tile of a group of sequences is there, its step, and the outer and lane."""
    time, lanes, sequences, log_steps, log_width, _ = walk
    step, along = _step_and_lane(element, walk)
    t, q = (tile << log_steps) + step, (group << log_width) + along
    outer = q // lanes if lanes > 1 else q
    return t < time and q < sequences, t, outer, q - outer * lanes


@device
def _parts(shared: Floats, threads: int) -> tuple[Maps, Floats]:
    """Shared memory for the maps of each element and of each thread, and for what tiles hand on."""
    size = _padded(threads * ITEMS)
    factors = 2 * size
    terms = factors + threads
    carry = terms + threads
    return (shared[:size], shared[size:factors], shared[factors:terms], shared[terms:carry]), shared[carry:]


@device
def _scan(
    factors: Floats, terms: Floats, thread: int, ahead: int, left: int, segments: int, factor: float,
    term: float,
) -> None:  # fmt: skip
    """Compose each thread's map with all those ahead of it.

    Args:
        factors, terms: shared memory, one entry for each thread.
        ahead: how far away the thread of the next steps is.
        left: how many threads of the same sequence are ahead, of `segments`.
        factor, term: this thread's map.
    """
    factors[thread], terms[thread] = factor, term
    cuda.syncthreads()
    distance, far = 1, ahead
    while distance < segments:  # the same for all threads, which meet inside
        reach = distance <= left
        if reach:
            term = term + _times(factor, terms[thread + far])
            factor = _both(factor, factors[thread + far])
        cuda.syncthreads()
        if reach:
            factors[thread], terms[thread] = factor, term
        cuda.syncthreads()
        distance, far = 2 * distance, 2 * far


@device
def _scanned(maps: Maps, carry: Floats, thread: int, walk: Walk) -> float:
    """Steps 2 to 4: put x in the place of each b; return x at the start of the tile, to be carried on."""
    tile_factors, tile_terms, factors, terms = maps
    _, _, _, log_steps, log_width, time_fast = walk
    segments, width = (1 << log_steps) // ITEMS, 1 << log_width
    if time_fast:
        lane = thread // segments
        segment = thread - lane * segments
        first, stride, ahead = thread * ITEMS, 1, 1
    else:
        segment = thread >> log_width
        lane = thread & (width - 1)
        first, stride, ahead = segment * ITEMS * width + lane, width, width
    factor, term = 1.0, 0.0
    for k in range(ITEMS):
        at = _padded(first + k * stride)
        term = term + _times(factor, tile_terms[at])
        factor = _both(factor, tile_factors[at])
    left = segments - 1 - segment
    _scan(factors, terms, thread, ahead, left, segments, factor, term)
    later = carry[lane]
    x = later
    if left > 0:
        x = terms[thread + ahead] + _times(factors[thread + ahead], later)
    for k in range(ITEMS - 1, -1, -1):
        at = _padded(first + k * stride)
        x = tile_terms[at] + _times(tile_factors[at], x)
        tile_terms[at] = x
    cuda.syncthreads()
    return x


@device
def _hand_on(carry: Floats, thread: int, walk: Walk, x: float) -> None:
    """Keep what the first threads of all sequences have for the next tile."""
    _, _, _, log_steps, log_width, time_fast = walk
    segments = (1 << log_steps) // ITEMS
    if time_fast:
        if thread % segments == 0:
            carry[thread // segments] = x
    elif thread < (1 << log_width):
        carry[thread] = x


@kernel
def lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, walk: Walk,
) -> None:  # fmt: skip
    """G(t) = r(t) + gamma ((1 - lmbda) W(t) + lmbda G(t+1)), with W(t) in place of G(t+1) at an end.

    W(t) is the value after step t, or 0 where it terminated.
    """
    time, _, _, log_steps, log_width, _ = walk
    thread, threads, group = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    maps, carry = _parts(cuda.shared.array(0, float64), threads)
    if thread < (1 << log_width):
        carry[thread] = 0.0
    for tile in range((time - 1) >> log_steps, -1, -1):
        for j in range(ITEMS):
            element = thread + j * threads
            inside, t, outer, lane = _located(element, tile, group, walk)
            factor, term = 1.0, 0.0
            if inside:
                bootstrap = _bootstrap(value, terminated, outer, t, lane)
                g, mix = _number(gamma, outer, t, lane), _number(lmbda, outer, t, lane)
                term = _number(reward, outer, t, lane)
                if _flag(done, outer, t, lane) or t == time - 1:
                    factor = 0.0
                    term += _times(g, _mixed(bootstrap, bootstrap, mix))
                else:
                    factor = g * mix
                    if mix != 1.0:
                        term += _times(g, (1.0 - mix) * bootstrap if mix != 0.0 else bootstrap)
            at = _padded(element)
            maps[0][at], maps[1][at] = factor, term
        cuda.syncthreads()
        _hand_on(carry, thread, walk, _scanned(maps, carry, thread, walk))
        for j in range(ITEMS):
            element = thread + j * threads
            inside, t, outer, lane = _located(element, tile, group, walk)
            if inside:
                store(out[0], _place(out, outer, t, lane), maps[1][_padded(element)])
        cuda.syncthreads()


@kernel
def fixed_lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, walk: Walk,
) -> None:  # fmt: skip
    """As `lambda_returns`, but the return of a step uses that step's gamma and lmbda for all that follows.

    A thread for each step: it goes to the end of the episode and walks back.
    """
    time, threads = walk[0], cuda.blockDim.x
    tiles = ((time - 1) >> walk[3]) + 1
    group = cuda.blockIdx.x // tiles
    for j in range(ITEMS):
        element = cuda.threadIdx.x + j * threads
        inside, origin, outer, lane = _located(element, cuda.blockIdx.x - group * tiles, group, walk)
        if inside:
            g, mix = _number(gamma, outer, origin, lane), _number(lmbda, outer, origin, lane)
            end = origin
            while end < time - 1 and not _flag(done, outer, end, lane):
                end += 1
            total = 0.0
            for t in range(end, origin - 1, -1):
                bootstrap = _bootstrap(value, terminated, outer, t, lane)
                ahead = _mixed(bootstrap, bootstrap if t == end else total, mix)
                total = _number(reward, outer, t, lane) + _times(g, ahead)
            store(out[0], _place(out, outer, origin, lane), total)


@kernel
def advantages(
    reward: Operand, value: Operand, next_value: Operand, done: Operand, terminated: Operand,
    weight: tuple[Operand, Operand], gamma: Operand, lmbda: Operand, rho_thresh: float, c_thresh: float,
    corrected: bool, advantage: Operand, target: Operand, walk: Walk,
) -> None:  # fmt: skip
    """x(t) = rho(t) (r(t) + gamma W(t) - V(t)) + gamma lmbda c(t) x(t+1), nothing ahead of an end.

    rho and c are exp(weight[0] - weight[1]), or 1 unless `corrected`, cut at their thresholds; W(t) is the
    next value, or 0 where step t terminated. The targets are V + x. The advantages are x, or, `corrected`,
    those of V-trace: rho(t) (r(t) + gamma (target of t+1) - V(t)).
    """
    time, _, _, log_steps, log_width, _ = walk
    thread, threads, group = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    maps, carry = _parts(cuda.shared.array(0, float64), threads)
    steps = 1 << log_steps
    if thread < (1 << log_width):
        carry[thread] = 0.0
    for tile in range((time - 1) >> log_steps, -1, -1):
        for j in range(ITEMS):
            element = thread + j * threads
            inside, t, outer, lane = _located(element, tile, group, walk)
            factor, term = 1.0, 0.0
            if inside:
                bootstrap = _bootstrap(next_value, terminated, outer, t, lane)
                g = _number(gamma, outer, t, lane)
                term = _number(reward, outer, t, lane) - _number(value, outer, t, lane) + _times(g, bootstrap)
                factor = g * _number(lmbda, outer, t, lane)
                if corrected:
                    ratio = _ratio(weight, outer, t, lane)
                    term *= rho_thresh if ratio > rho_thresh else ratio
                    factor *= c_thresh if ratio > c_thresh else ratio
                if _flag(done, outer, t, lane) or t == time - 1:
                    factor = 0.0
            at = _padded(element)
            maps[0][at], maps[1][at] = factor, term
        cuda.syncthreads()
        x = _scanned(maps, carry, thread, walk)
        for j in range(ITEMS):
            element = thread + j * threads
            inside, t, outer, lane = _located(element, tile, group, walk)
            if inside:
                present = _number(value, outer, t, lane)
                excess = maps[1][_padded(element)]
                store(target[0], _place(target, outer, t, lane), present + excess)
                if corrected:
                    goal = 0.0
                    stopped = _flag(terminated, outer, t, lane)
                    if _flag(done, outer, t, lane) or t == time - 1:
                        if not stopped:
                            goal = _number(next_value, outer, t, lane)
                    elif not stopped:
                        step, along = _step_and_lane(element, walk)
                        following = carry[along]
                        if step + 1 < steps:
                            following = maps[1][_padded(_element_of(step + 1, along, walk))]
                        goal = _number(value, outer, t + 1, lane) + following
                    ratio = _ratio(weight, outer, t, lane)
                    excess = _number(reward, outer, t, lane) - present
                    excess += _times(_number(gamma, outer, t, lane), goal)
                    excess *= rho_thresh if ratio > rho_thresh else ratio
                store(advantage[0], _place(advantage, outer, t, lane), excess)
        cuda.syncthreads()
        _hand_on(carry, thread, walk, x)


@kernel
def traces(
    lmbda: Operand, learner: Operand, actor: Operand, out: Operand, time: int, lanes: int, count: int
) -> None:
    """lmbda min(1, exp(learner - actor)) of the step after each, a thread for each; 0 after the last."""
    i = cuda.grid(1)
    if i < count:
        rest = i // lanes
        lane = i - rest * lanes
        outer = rest // time
        t = rest - outer * time
        trace = 0.0
        if t + 1 < time:
            log_ratio = _number(learner, outer, t + 1, lane) - _number(actor, outer, t + 1, lane)
            trace = _number(lmbda, outer, t + 1, lane) * math.exp(0.0 if log_ratio > 0.0 else log_ratio)
        store(out[0], _place(out, outer, t, lane), trace)


@kernel
def powers(base: float, out: Floats) -> None:
    k = cuda.grid(1)
    if k < out.size:
        out[k] = math.pow(base, float(k))


@kernel
def windows(
    reward: Operand, done: Operand, window: int, gamma: float, table: Floats, prefix: Floats, sums: Operand,
    features: int, steps_out: Ints, index_out: Operand, discount_out: Floats, nonterminal_out: Bools,
    walk: Walk,
) -> None:  # fmt: skip
    """Discounted sums of the rewards of `window` steps, fewer at the end of an episode or of the batch.

    As on the CPU, time is cut into pieces of `window` steps. A window touches at most two: its part in the
    first is a sum that was built backwards from the piece's end, its part in the second one built forwards
    from that piece's start. The latter are scans of mirrored tiles into `prefix`, which is this block's own.

    The first sequences of each `features` write what follows from `done` alone. `table` holds the powers of
    gamma from 0 to `window`.
    """
    time, _, sequences, log_steps, log_width, _ = walk
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    maps, carries = _parts(cuda.shared.array(0, float64), threads)
    ends = cuda.local.array(ITEMS, int32)
    steps, width = 1 << log_steps, 1 << log_width
    end_carry, carry = carries[:width], carries[width : 2 * width]
    tiles = ((time - 1) >> log_steps) + 1
    own = cuda.blockIdx.x * tiles
    for group in range(cuda.blockIdx.x, (sequences + width - 1) >> log_width, cuda.gridDim.x):
        if thread < width:
            end_carry[thread], carry[thread] = 0.0, 0.0
        cuda.syncthreads()
        for tile in range(tiles if window < time else 0):
            for j in range(ITEMS):
                element = thread + j * threads
                inside, t, outer, lane = _located(element, tile, group, walk)
                factor, term = 1.0, 0.0
                if inside:
                    since = t % window
                    if since == 0:
                        factor = 0.0
                    term = table[since] * _number(reward, outer, t, lane)
                step, along = _step_and_lane(element, walk)
                at = _padded(_element_of(steps - 1 - step, along, walk))
                maps[0][at], maps[1][at] = factor, term
            cuda.syncthreads()
            _hand_on(carry, thread, walk, _scanned(maps, carry, thread, walk))
            for j in range(ITEMS):
                element = thread + j * threads
                step, along = _step_and_lane(element, walk)
                at = _padded(_element_of(steps - 1 - step, along, walk))
                prefix[(own + tile) * threads * ITEMS + element] = maps[1][at]
            cuda.syncthreads()
        for tile in range(tiles - 1, -1, -1):
            for j in range(ITEMS):
                element = thread + j * threads
                inside, t, outer, lane = _located(element, tile, group, walk)
                factor, term = 1.0, 0.0
                if inside and (_flag(done, outer, t, lane // features) or t == time - 1):
                    factor, term = 0.0, float(t)
                at = _padded(element)
                maps[0][at], maps[1][at] = factor, term
            cuda.syncthreads()
            _hand_on(end_carry, thread, walk, _scanned(maps, end_carry, thread, walk))
            for j in range(ITEMS):
                element = thread + j * threads
                inside, t, outer, lane = _located(element, tile, group, walk)
                at = _padded(element)
                end = int(maps[1][at])
                ends[j] = end
                factor, term = 1.0, 0.0
                if inside:
                    if lane % features == 0:
                        place = _place(index_out, outer, t, lane // features)
                        count = least(window, end - t + 1)
                        steps_out[place] = count
                        index_out[0][place] = t + count - 1
                        discount_out[place] = table[count]
                        nonterminal_out[place] = count != 1
                    term = _number(reward, outer, t, lane)
                    factor = 0.0 if t == end or (t + 1) % window == 0 else gamma
                maps[0][at], maps[1][at] = factor, term
            cuda.syncthreads()
            x = _scanned(maps, carry, thread, walk)
            for j in range(ITEMS):
                element = thread + j * threads
                inside, t, outer, lane = _located(element, tile, group, walk)
                if inside:
                    total = maps[1][_padded(element)]
                    beyond = t + least(window, ends[j] - t + 1) - 1
                    following = t - t % window + window  # the first step of the next piece
                    if beyond >= following:
                        _, along = _step_and_lane(element, walk)
                        there = _element_of(beyond & (steps - 1), along, walk)
                        there += (own + (beyond >> log_steps)) * threads * ITEMS
                        total += table[following - t] * prefix[there]
                    store(sums[0], _place(sums, outer, t, lane), total)
            _hand_on(carry, thread, walk, x)
            cuda.syncthreads()
