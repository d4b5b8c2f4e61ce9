"""Returns and advantages: recursions backwards in time, compiled for the CPU.

A recursion is x(t) = a(t) + b(t) x(t+1). Operands are flat memory in contiguous lines (`_sequences.py`): a
line is a sequence if `by_time`, else one step of many sequences. Work proceeds by tiles, pieces of some
lines, from the last step to the first. Loops over full vectors compute a and b of a tile; then the recursion
runs over several sequences at once, because one alone would wait for its own last result. A product with a
factor that may be zero (the end of an episode, gamma = 0) is a selection, `a + b * x if b != 0.0 else a`: a
multiplication by zero would let NaN and infinity cross the end.

A function is compiled again with each of its callers, so there are few and calls are hardly nested. Scratch
memory comes from the caller, because compiling an allocation takes longer than all allocations. Positions are
`np.uintp`, because compiled code checks signed ones for negative indices.
"""

from typing import Any, TypeAlias

import numpy as np

from lite.kernels._types import Bools, Floats, Operand
from lite.kernels.backends.jit import jit
from lite.kernels.cpu import plain_returns as plain
from lite.kernels.cpu.vectors.blocks import exp
from lite.kernels.cpu.vectors.width import full_width

Place: TypeAlias = tuple[int, int, int]  # row, line, entry
Weight: TypeAlias = tuple[Operand, Operand, tuple[float, ...]]  # see `advantages`

_SIDE = 8  # sequences whose recursions run side by side in registers


@jit
def _side_by_side(a: Floats, b: Floats, first: int, n: int, tails: Floats, lane: int) -> None:
    """Replace a by x = a + b x(t+1), in `_SIDE` lines of n entries from `first` on.

    `tails` holds, from `lane` on, x of the step after the tile; on return, x of the first step of the tile.
    """
    full_width()
    one, two, three = np.uintp(n), np.uintp(2 * n), np.uintp(3 * n)
    four, five, six, seven = np.uintp(4 * n), np.uintp(5 * n), np.uintp(6 * n), np.uintp(7 * n)
    j = np.uintp(lane)
    x0 = tails[j]
    x1 = tails[j + np.uintp(1)]
    x2 = tails[j + np.uintp(2)]
    x3 = tails[j + np.uintp(3)]
    x4 = tails[j + np.uintp(4)]
    x5 = tails[j + np.uintp(5)]
    x6 = tails[j + np.uintp(6)]
    x7 = tails[j + np.uintp(7)]
    for i in range(n):
        k = np.uintp(first + n - 1 - i)
        k1, k2, k3, k4 = k + one, k + two, k + three, k + four
        k5, k6, k7 = k + five, k + six, k + seven
        x0 = a[k] + b[k] * x0 if b[k] != 0.0 else a[k]
        a[k] = x0
        x1 = a[k1] + b[k1] * x1 if b[k1] != 0.0 else a[k1]
        a[k1] = x1
        x2 = a[k2] + b[k2] * x2 if b[k2] != 0.0 else a[k2]
        a[k2] = x2
        x3 = a[k3] + b[k3] * x3 if b[k3] != 0.0 else a[k3]
        a[k3] = x3
        x4 = a[k4] + b[k4] * x4 if b[k4] != 0.0 else a[k4]
        a[k4] = x4
        x5 = a[k5] + b[k5] * x5 if b[k5] != 0.0 else a[k5]
        a[k5] = x5
        x6 = a[k6] + b[k6] * x6 if b[k6] != 0.0 else a[k6]
        a[k6] = x6
        x7 = a[k7] + b[k7] * x7 if b[k7] != 0.0 else a[k7]
        a[k7] = x7
    tails[j] = x0
    tails[j + np.uintp(1)] = x1
    tails[j + np.uintp(2)] = x2
    tails[j + np.uintp(3)] = x3
    tails[j + np.uintp(4)] = x4
    tails[j + np.uintp(5)] = x5
    tails[j + np.uintp(6)] = x6
    tails[j + np.uintp(7)] = x7


@jit
def _step(a: Floats, b: Floats, first: int, n: int, tails: Floats) -> None:
    """`_side_by_side` for one step of n sequences; `tails` holds x of the next step."""
    full_width()
    for i in range(n):
        k = np.uintp(first + i)
        x = a[k] + b[k] * tails[i]
        a[k] = x if b[k] != 0.0 else a[k]
    for i in range(n):
        tails[i] = a[np.uintp(first + i)]


@jit
def _recur(a: Floats, b: Floats, rows: int, n: int, tails: Floats, by_time: bool) -> None:
    """`_side_by_side` for the lines of a tile, along time or not."""
    if by_time:
        for k in range(0, rows, _SIDE):
            _side_by_side(a, b, k * n, n, tails, k)
    else:
        for k in range(rows):
            _step(a, b, (rows - 1 - k) * n, n, tails)


@jit
def _block(block: int, lanes: int, tile_lanes: int) -> tuple[int, int, int]:
    """The row of a block, its first lane, and the number of its lanes."""
    each = -(-lanes // tile_lanes)
    row = block // each
    first = (block - row * each) * tile_lanes
    return row, first, min(tile_lanes, lanes - first)


@jit
def _tile(
    until: int, tile_time: int, first: int, width: int, by_time: bool, merged: bool
) -> tuple[int, int, int, int, int, int, int]:
    """(t, rows, n, line, since, runs, length) of the tile that ends before step `until`.

    t is its first step. The tile has `rows` lines of n entries, from `line` on, and begins at their entry
    `since`. In memory they are `runs` contiguous pieces of `length` entries.
    """
    t = max(until - tile_time, 0)
    rows, n, line, since = (width, until - t, first, t) if by_time else (until - t, width, t, first)
    runs, length = (1, rows * n) if merged else (rows, n)
    return t, rows, n, line, since, runs, length


@jit
def _start(operand: Operand, place: Place) -> int:
    """The position of a (row, line, entry) in the memory of an operand."""
    return place[0] * operand[1] + place[1] * operand[2] + place[2] * operand[3]


@jit
def _entry(operand: Operand, row: int, t: int, lane: int, by_time: bool) -> Any:
    """The entry of step t of a lane, which is a sequence."""
    line, i = (lane, t) if by_time else (t, lane)
    return operand[0][np.uintp(row * operand[1] + line * operand[2] + i * operand[3])]


@jit
def _lambda_terms(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    place: Place, a: Floats, b: Floats, first: int, n: int,
) -> None:  # fmt: skip
    """Compute a and b of G = a + b G(t+1) for n entries of a line."""
    full_width()
    rewards, values, ends = reward[0], value[0], done[0]
    stops, gammas, lmbdas = terminated[0], gamma[0], lmbda[0]
    r, v, d = _start(reward, place), _start(value, place), _start(done, place)
    s, g, m = _start(terminated, place), _start(gamma, place), _start(lmbda, place)
    for i in range(n):
        factor = gammas[np.uintp(g + i)] * lmbdas[np.uintp(m + i)]
        b[np.uintp(first + i)] = 0.0 if ends[np.uintp(d + i)] else factor
    for i in range(n):
        following = np.float64(values[np.uintp(v + i)])
        bootstrap = 0.0 if stops[np.uintp(s + i)] else following
        factor, mix = gammas[np.uintp(g + i)], lmbdas[np.uintp(m + i)]
        kept = 0.0 if mix == 1.0 else (1.0 - mix) * bootstrap
        ahead = bootstrap if ends[np.uintp(d + i)] else kept
        gain = factor * ahead if factor != 0.0 else 0.0
        a[np.uintp(first + i)] = np.float64(rewards[np.uintp(r + i)]) + gain


@jit
def _value_after(
    value: Operand, terminated: Operand, row: int, first: int, time: int, by_time: bool, n: int,
    out: Floats,
) -> None:  # fmt: skip
    """To `out`: the value after the last step of n sequences from `first` on; 0 if the step terminated."""
    for k in range(n):
        following = np.float64(_entry(value, row, time - 1, first + k, by_time))
        out[k] = 0.0 if _entry(terminated, row, time - 1, first + k, by_time) else following


@jit
def _put(values: Floats, first: int, n: int, operand: Operand, place: Place) -> None:
    """Copy n values of a tile to a line of an operand."""
    full_width()
    flat, base = operand[0], _start(operand, place)
    for i in range(n):
        flat[np.uintp(base + i)] = values[np.uintp(first + i)]


@jit(entry=True, plain=plain.lambda_returns)
def lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, a: Floats, b: Floats, tails: Floats,
    time: int, lanes: int, by_time: bool, merged: bool, tile_time: int, tile_lanes: int,
    start: int, stop: int,
) -> None:  # fmt: skip
    """G(t) = r(t) + gamma ((1 - lmbda) W(t) + lmbda G(t+1)), with W(t) in place of G(t+1) at an end.

    W(t) is the value after step t, or 0 where it terminated. `a`, `b` and `tails` are scratch memory. A block
    is `tile_lanes` of the lanes of a row. Lines are along time if `by_time`; the lines of a tile are one run
    in memory if `merged`.
    """
    for block in range(start, stop):
        row, first, width = _block(block, lanes, tile_lanes)
        _value_after(value, terminated, row, first, time, by_time, width, tails)
        until = time
        while until > 0:
            until, rows, n, line, since, runs, length = _tile(until, tile_time, first, width, by_time, merged)
            for k in range(runs):
                place = row, line + k, since
                _lambda_terms(reward, value, done, terminated, gamma, lmbda, place, a, b, k * n, length)
            _recur(a, b, rows, n, tails, by_time)
            for k in range(runs):
                _put(a, k * n, length, out, (row, line + k, since))


@jit
def _recursions(a: Floats, b: Floats, time: int, tails: Floats) -> None:
    """Replace a by x = a + b x(t+1), for whole sequences of `time` steps."""
    rows = a.size // time
    together = rows - rows % _SIDE
    for row in range(0, together, _SIDE):
        _side_by_side(a, b, row * time, time, tails, row)
    for row in range(together, rows):
        x = tails[np.uintp(row)]
        for i in range(time):
            k = np.uintp(row * time + time - 1 - i)
            x = a[k] + b[k] * x if b[k] != 0.0 else a[k]
            a[k] = x


@jit(entry=True, plain=plain.short_lambda_returns)
def short_lambda_returns(
    reward: Floats, value: Floats, done: Bools, terminated: Bools, gamma: float, lmbda: float,
    out: Floats, memory: Floats, time: int,
) -> None:  # fmt: skip
    """`lambda_returns` of a few contiguous sequences with one gamma and lmbda, which has fewer arguments.

    `memory` has room for four numbers for each step, and one for each sequence.
    """
    n = reward.size
    a, b, more = memory[:n], memory[n : 2 * n], memory[2 * n :]
    gammas, lmbdas, tails = more[:n], more[n : 2 * n], more[2 * n :]
    gammas[:], lmbdas[:] = gamma, lmbda
    values, stops, origin = (value, 0, time, 1), (terminated, 0, time, 1), (0, 0, 0)
    _value_after(values, stops, 0, 0, time, True, n // time, tails)
    _lambda_terms(
        (reward, 0, 0, 1), values, (done, 0, 0, 1), stops, (gammas, 0, 0, 1), (lmbdas, 0, 0, 1), origin, a, b,
        0, n,
    )  # fmt: skip
    _recursions(a, b, time, tails)
    _put(a, 0, n, (out, 0, 0, 1), origin)


@jit(entry=True, plain=plain.fixed_lambda_returns)
def fixed_lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, a: Floats, b: Floats, tails: Floats,
    time: int, lanes: int, by_time: bool, merged: bool, tile_time: int, tile_lanes: int,
    start: int, stop: int,
) -> None:  # fmt: skip
    """As `lambda_returns`, but the return of a step uses that step's gamma and lmbda for all that follows."""
    for block in range(start, stop):
        row, first, width = _block(block, lanes, tile_lanes)
        for lane in range(first, first + width):
            end = time - 1
            for origin in range(time - 1, -1, -1):
                if _entry(done, row, origin, lane, by_time):
                    end = origin
                factor = _entry(gamma, row, origin, lane, by_time)
                mix = _entry(lmbda, row, origin, lane, by_time)
                total = 0.0
                for t in range(end, origin - 1, -1):
                    following = np.float64(_entry(value, row, t, lane, by_time))
                    bootstrap = 0.0 if _entry(terminated, row, t, lane, by_time) else following
                    ahead = bootstrap
                    if t != end and mix != 0.0:
                        ahead = total if mix == 1.0 else (1.0 - mix) * bootstrap + mix * total
                    gain = np.float64(_entry(reward, row, t, lane, by_time))
                    total = gain + (factor * ahead if factor != 0.0 else 0.0)
                line, i = (lane, origin) if by_time else (origin, lane)
                out[0][np.uintp(row * out[1] + line * out[2] + i)] = total


@jit
def _ratios(weight: Weight, place: Place, out: Floats, first: int, n: int) -> None:
    """Importance weights of n entries of a line: exp(log-prob of the learner - log-prob of the actor).

    `limits` are (least, most, shift, exp(shift)). Below `least` the weight would be subnormal and is 0. Above
    `most` the compiled `exp` would overflow, so exp(x) = exp(x - shift) exp(shift).
    """
    full_width()
    learner, actor, limits = weight
    learner_logs, actor_logs, j, k = learner[0], actor[0], _start(learner, place), _start(actor, place)
    least, most, shift, scale = limits
    for i in range(n):
        x = learner_logs[np.uintp(j + i)] - actor_logs[np.uintp(k + i)]
        y = x - shift if x > most else x
        _, e = exp(most if y > most else y)
        e = e * scale if x > most else e
        out[np.uintp(first + i)] = 0.0 if x < least else np.float64(e)


@jit
def _gain_terms(
    reward: Operand, value: Operand, following: Operand, done: Operand, terminated: Operand,
    weight: Weight | None, gamma: Operand, lmbda: Operand, rho_thresh: float, c_thresh: float,
    ratios: Floats, place: Place, a: Floats, b: Floats, first: int, n: int,
) -> None:  # fmt: skip
    """Compute a and b of x = a + b x(t+1) for n entries of a line.

    Weights are 1 if `weight` is None: Numba then compiles the function without their code.
    """
    full_width()
    rewards, values, nexts, ends = reward[0], value[0], following[0], done[0]
    stops, gammas, lmbdas = terminated[0], gamma[0], lmbda[0]
    r, v, f, d = _start(reward, place), _start(value, place), _start(following, place), _start(done, place)
    s, g, m = _start(terminated, place), _start(gamma, place), _start(lmbda, place)
    for i in range(n):
        factor = gammas[np.uintp(g + i)] * lmbdas[np.uintp(m + i)]
        if weight is not None:
            ratio = ratios[np.uintp(first + i)]
            factor *= c_thresh if ratio > c_thresh else ratio
        b[np.uintp(first + i)] = 0.0 if ends[np.uintp(d + i)] else factor
    for i in range(n):
        following_value = np.float64(nexts[np.uintp(f + i)])
        bootstrap = 0.0 if stops[np.uintp(s + i)] else following_value
        factor = gammas[np.uintp(g + i)]
        now = np.float64(rewards[np.uintp(r + i)]) - np.float64(values[np.uintp(v + i)])
        now += factor * bootstrap if factor != 0.0 else 0.0
        if weight is not None:
            ratio = ratios[np.uintp(first + i)]
            now *= rho_thresh if ratio > rho_thresh else ratio
        a[np.uintp(first + i)] = now


@jit
def _put_advantages(
    value: Operand, place: Place, excess: Floats, first: int, n: int, advantage: Operand, target: Operand
) -> None:
    """Write x, in `excess`, to `advantage` and V + x to `target`, for n entries of a line."""
    full_width()
    values, targets, advantages = value[0], target[0], advantage[0]
    v, j, k = _start(value, place), _start(target, place), _start(advantage, place)
    for i in range(n):
        x = excess[np.uintp(first + i)]
        advantages[np.uintp(k + i)] = x
        targets[np.uintp(j + i)] = np.float64(values[np.uintp(v + i)]) + x


@jit
def _put_targets(
    value: Operand, place: Place, excess: Floats, goals: Floats, first: int, n: int, target: Operand
) -> None:
    """Write V + x, the targets, to `goals` (of the tile) and to `target`, for n entries of a line."""
    full_width()
    values, out, v, base = value[0], target[0], _start(value, place), _start(target, place)
    for i in range(n):
        goal = np.float64(values[np.uintp(v + i)]) + excess[np.uintp(first + i)]
        goals[np.uintp(first + i)] = goal
        out[np.uintp(base + i)] = goal


@jit
def _shift_targets(goals: Floats, rows: int, n: int, by_time: bool, ahead: Floats) -> None:
    """Append the target after the tile to each sequence of `goals`, and set `ahead` to its first targets.

    Then the target of step t+1 is one step behind that of step t in `goals`. `ahead` has the target after the
    tile of each sequence; on return, that of its first step, which the tile before needs.
    """
    if by_time:  # the appended entry overwrites the first one of the next line, which is in `head`
        head = goals[0]
        for k in range(rows):
            after = np.uintp((k + 1) * n)
            following = goals[after]
            goals[after], ahead[k] = ahead[k], head
            head = following
    else:
        for i in range(n):
            goals[np.uintp(rows * n + i)], ahead[i] = ahead[i], goals[i]


@jit
def _vtrace_advantages(
    reward: Operand, value: Operand, following: Operand, done: Operand, terminated: Operand,
    ratios: Floats, gamma: Operand, rho_thresh: float, place: Place, ahead: Floats, skip: int,
    between: Floats, first: int, n: int, advantage: Operand,
) -> None:  # fmt: skip
    """Write the advantages of V-trace for n entries of a line.

    The target of the step after each entry is in `ahead`, from `skip` on. `between` is scratch memory.
    """
    full_width()
    rewards, values, nexts, ends = reward[0], value[0], following[0], done[0]
    stops, gammas, out = terminated[0], gamma[0], advantage[0]
    r, v, f, d = _start(reward, place), _start(value, place), _start(following, place), _start(done, place)
    s, g, base = _start(terminated, place), _start(gamma, place), _start(advantage, place)
    for i in range(n):
        following_value, target = np.float64(nexts[np.uintp(f + i)]), ahead[np.uintp(skip + i)]
        goal = following_value if ends[np.uintp(d + i)] else target
        between[np.uintp(first + i)] = 0.0 if stops[np.uintp(s + i)] else goal
    for i in range(n):
        factor, ratio = gammas[np.uintp(g + i)], ratios[np.uintp(first + i)]
        rho = rho_thresh if ratio > rho_thresh else ratio
        now = np.float64(rewards[np.uintp(r + i)]) - np.float64(values[np.uintp(v + i)])
        goal = between[np.uintp(first + i)]
        gain = factor * goal if factor != 0.0 else 0.0
        out[np.uintp(base + i)] = rho * (now + gain)


@jit(entry=True, plain=plain.advantages)
def advantages(
    reward: Operand, value: Operand, next_value: Operand, done: Operand, terminated: Operand,
    weight: Weight | None, gamma: Operand, lmbda: Operand, rho_thresh: float, c_thresh: float,
    corrected: bool, advantage: Operand, target: Operand,
    a: Floats, b: Floats, tails: Floats, goals: Floats, ahead: Floats, ratios: Floats,
    time: int, lanes: int, by_time: bool, merged: bool, tile_time: int, tile_lanes: int,
    start: int, stop: int,
) -> None:  # fmt: skip
    """x(t) = rho(t) (r(t) + gamma W(t) - V(t)) + gamma lmbda c(t) x(t+1), without x(t+1) at an end.

    rho and c are the importance weight of a step, limited by `rho_thresh` and `c_thresh`. `weight` has the
    log-probs of learner and actor, and limits (see `_ratios`); if it is None, weights are 1 and `ratios` is
    not used. W(t) is the next value, or 0 where step t terminated. The targets are V + x. The advantages are
    x, or if `corrected` those of V-trace: rho(t) (r(t) + gamma (target of t+1) - V(t)), with W(t) in place of
    that target at an end and after the last step.
    Blocks, tiles and scratch memory are as in `lambda_returns`.
    """
    for block in range(start, stop):
        row, first, width = _block(block, lanes, tile_lanes)
        for k in range(width):
            tails[k] = 0.0
        if weight is not None and corrected:
            _value_after(next_value, terminated, row, first, time, by_time, width, ahead)
        until = time
        while until > 0:
            until, rows, n, line, since, runs, length = _tile(until, tile_time, first, width, by_time, merged)
            for k in range(runs):
                place = row, line + k, since
                if weight is not None:
                    _ratios(weight, place, ratios, k * n, length)
                _gain_terms(
                    reward, value, next_value, done, terminated, weight, gamma, lmbda, rho_thresh, c_thresh,
                    ratios, place, a, b, k * n, length,
                )  # fmt: skip
            _recur(a, b, rows, n, tails, by_time)
            if weight is not None and corrected:
                for k in range(runs):
                    _put_targets(value, (row, line + k, since), a, goals, k * n, length, target)
                _shift_targets(goals, rows, n, by_time, ahead)
                skip = 1 if by_time else n
                for k in range(runs):
                    _vtrace_advantages(
                        reward, value, next_value, done, terminated, ratios, gamma, rho_thresh,
                        (row, line + k, since), goals, k * n + skip, a, k * n, length, advantage,
                    )  # fmt: skip
            else:
                for k in range(runs):
                    _put_advantages(value, (row, line + k, since), a, k * n, length, advantage, target)


@jit(entry=True, plain=plain.short_advantages)
def short_advantages(
    reward: Floats, value: Floats, next_value: Floats, done: Bools, terminated: Bools,
    gamma: float, lmbda: float, advantage: Floats, target: Floats, memory: Floats, time: int,
) -> None:  # fmt: skip
    """`advantages` without weights for a few contiguous sequences; see `short_lambda_returns`."""
    n = reward.size
    a, b, more = memory[:n], memory[n : 2 * n], memory[2 * n :]
    gammas, lmbdas, tails = more[:n], more[n : 2 * n], more[2 * n :]
    gammas[:], lmbdas[:], tails[:] = gamma, lmbda, 0.0
    values, origin = (value, 0, 0, 1), (0, 0, 0)
    _gain_terms(
        (reward, 0, 0, 1), values, (next_value, 0, 0, 1), (done, 0, 0, 1), (terminated, 0, 0, 1), None,
        (gammas, 0, 0, 1), (lmbdas, 0, 0, 1), 1.0, 1.0, b, origin, a, b, 0, n,
    )  # fmt: skip
    _recursions(a, b, time, tails)
    _put_advantages(values, origin, a, 0, n, (advantage, 0, 0, 1), (target, 0, 0, 1))
