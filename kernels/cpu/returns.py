"""Returns and advantages: recursions backwards in time, compiled for the CPU.

Every operand is flat memory and its strides for (row, time, lane); see `_sequences.py`. A recursion is
x(t) = a(t) + b(t) x(t+1). It is worked out a tile at a time: some steps of some lanes, with the axis last
that is contiguous in memory. What goes into a and b is computed for a whole tile by loops over full
vectors; then the recursion runs over several lanes at once, because one alone waits for its own last
result. What follows an episode's end is left out by a choice, never multiplied by zero: NaN and infinity
do not cross it.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit
from lite.kernels.cpu._width import full_width

_SIDE = 8  # lanes whose recursions run side by side in registers


@jit
def _times(factor: Any, value: Any) -> Any:
    """factor * value, where a factor of zero forgets even NaN."""
    return factor * value if factor != 0.0 else 0.0


@jit
def _mixed(bootstrap: Any, tail: Any, lmbda: Any) -> Any:
    """(1 - lmbda) bootstrap + lmbda tail, likewise."""
    if lmbda == 0.0:
        return bootstrap
    if lmbda == 1.0:
        return tail
    return (1.0 - lmbda) * bootstrap + lmbda * tail


@jit
def _copy(values: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = values[i]


@jit
def _copy_tile(
    operand: Any, row: Any, since: Any, first: Any, rows: Any, n: Any, by_time: Any, out: Any
) -> None:
    """The entries of a tile of `rows` by `n`, which begins at step `since` of lane `first`."""
    full_width()
    flat, outer, time, lane = operand
    base = row * outer + since * time + first * lane
    down, right = (lane, time) if by_time else (time, lane)
    for k in range(rows):
        line = out[k * n : (k + 1) * n]
        if right == 1:
            _copy(flat[base + k * down : base + k * down + n], line)
        else:
            for i in range(n):
                line[i] = flat[np.uintp(base + k * down + i * right)]


@jit
def _tile(
    operand: Any, row: Any, since: Any, first: Any, rows: Any, n: Any, by_time: Any, scratch: Any
) -> Any:  # fmt: skip
    """The same where they lie if they lie side by side, else in `scratch`.

    What is one number for all (strides of 0) is in `scratch` from the start.
    """
    flat, outer, time, lane = operand
    down, right = (lane, time) if by_time else (time, lane)
    if right == 1 and (down == n or rows == 1):
        base = row * outer + since * time + first * lane
        return flat[base : base + rows * n]
    if outer != 0 or time != 0 or lane != 0:
        _copy_tile(operand, row, since, first, rows, n, by_time, scratch)
    return scratch[: rows * n]


@jit
def _scratch(operand: Any, size: Any) -> Any:
    """Memory for a tile, filled with the first entry."""
    flat = operand[0]
    out = np.empty(size, flat.dtype)
    out[:] = flat[0]
    return out


@jit
def _put_tile(
    values: Any, operand: Any, row: Any, since: Any, first: Any, rows: Any, n: Any, by_time: Any
) -> None:  # fmt: skip
    """Write a tile where it belongs."""
    full_width()
    flat, outer, time, lane = operand
    base = row * outer + since * time + first * lane
    down, right = (lane, time) if by_time else (time, lane)
    if right == 1 and (down == n or rows == 1):
        _copy(values, flat[base : base + rows * n])
        return
    for k in range(rows):
        line = values[k * n : (k + 1) * n]
        if right == 1:
            _copy(line, flat[base + k * down : base + k * down + n])
        else:
            for i in range(n):
                flat[np.uintp(base + k * down + i * right)] = line[i]


@jit
def _done_tile(
    operand: Any, row: Any, since: Any, first: Any, rows: Any, n: Any, by_time: Any, last: Any, out: Any
) -> Any:  # fmt: skip
    """A copy of a tile of flags, True at the `last` step of the batch too, if the tile has it."""
    done = out[: rows * n]
    _copy(_tile(operand, row, since, first, rows, n, by_time, out), done)
    if last:
        if by_time:
            for k in range(rows):
                done[(k + 1) * n - 1] = True
        else:
            done[(rows - 1) * n :] = True
    return done


@jit
def _scan(a: Any, b: Any, rows: Any, n: Any, by_time: Any, tails: Any) -> None:
    """x = a + b x of the next step, in the place of `a`; `tails` are the x after the tile, and before it.

    Where the rows are lanes, memory goes on to a number of rows that `_SIDE` divides.
    """
    if by_time:
        for k in range(0, rows, _SIDE):
            _side_by_side(a[k * n : (k + _SIDE) * n], b[k * n : (k + _SIDE) * n], n, tails[k : k + _SIDE])
    else:
        for k in range(rows - 1, -1, -1):
            _step(a[k * n : (k + 1) * n], b[k * n : (k + 1) * n], tails[:n])


@jit
def _side_by_side(a: Any, b: Any, n: Any, tails: Any) -> None:
    """The same for `_SIDE` lanes, one after the other in memory."""
    full_width()
    x0, x1, x2, x3, x4, x5, x6, x7 = (
        tails[0], tails[1], tails[2], tails[3], tails[4], tails[5], tails[6], tails[7],
    )  # fmt: skip
    for i in range(n - 1, -1, -1):
        i0 = np.uintp(i)  # counts from the start: spares the question whether it counts from the end
        i1, i2, i3, i4 = i0 + np.uintp(n), i0 + np.uintp(2 * n), i0 + np.uintp(3 * n), i0 + np.uintp(4 * n)
        i5, i6, i7 = i0 + np.uintp(5 * n), i0 + np.uintp(6 * n), i0 + np.uintp(7 * n)
        x0 = a[i0] + b[i0] * x0 if b[i0] != 0.0 else a[i0]
        x1 = a[i1] + b[i1] * x1 if b[i1] != 0.0 else a[i1]
        x2 = a[i2] + b[i2] * x2 if b[i2] != 0.0 else a[i2]
        x3 = a[i3] + b[i3] * x3 if b[i3] != 0.0 else a[i3]
        x4 = a[i4] + b[i4] * x4 if b[i4] != 0.0 else a[i4]
        x5 = a[i5] + b[i5] * x5 if b[i5] != 0.0 else a[i5]
        x6 = a[i6] + b[i6] * x6 if b[i6] != 0.0 else a[i6]
        x7 = a[i7] + b[i7] * x7 if b[i7] != 0.0 else a[i7]
        a[i0], a[i1], a[i2], a[i3] = x0, x1, x2, x3
        a[i4], a[i5], a[i6], a[i7] = x4, x5, x6, x7
    tails[0], tails[1], tails[2], tails[3] = x0, x1, x2, x3
    tails[4], tails[5], tails[6], tails[7] = x4, x5, x6, x7


@jit
def _step(a: Any, b: Any, tails: Any) -> None:
    """The same for one step of many lanes."""
    full_width()
    for i in range(a.size):
        a[i] += b[i] * tails[i] if b[i] != 0.0 else 0.0
    _copy(a, tails)


@jit
def _lambda_terms(
    reward: Any, value: Any, done: Any, terminated: Any, gamma: Any, lmbda: Any, a: Any, b: Any
) -> None:
    """G = a + b G(t+1) for the entries of a tile."""
    full_width()
    for i in range(a.size):
        b[i] = 0.0 if done[i] else gamma[i] * lmbda[i]
    for i in range(a.size):
        bootstrap = 0.0 if terminated[i] else np.float64(value[i])
        factor, mix = gamma[i], lmbda[i]
        kept = 0.0 if mix == 1.0 else (1.0 - mix) * bootstrap
        ahead = bootstrap if done[i] else kept
        a[i] = np.float64(reward[i]) + (factor * ahead if factor != 0.0 else 0.0)


@jit
def lambda_returns(
    reward: Any, value: Any, done: Any, terminated: Any, gamma: Any, lmbda: Any, out: Any,
    time: Any, lanes: Any, by_time: Any, tile_time: Any, tile_lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """G(t) = r(t) + gamma ((1 - lmbda) W(t) + lmbda G(t+1)), with W(t) in place of G(t+1) at an end.

    W(t) is the value after step t, or 0 where it terminated. Blocks `start` to `stop`, each `tile_lanes` of
    the lanes of a row; tiles have their lines along time where `by_time`.
    """
    size = tile_time * tile_lanes
    rewards, values, stops = _scratch(reward, size), _scratch(value, size), _scratch(terminated, size)
    gammas, lmbdas, flags = _scratch(gamma, size), _scratch(lmbda, size), _scratch(done, size)
    a, b, tails = np.zeros(size), np.zeros(size), np.zeros(tile_lanes)
    each = -(-lanes // tile_lanes)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * tile_lanes
        width = min(tile_lanes, lanes - first)
        tails[:] = 0.0
        for until in range(time, 0, -tile_time):
            t = max(0, until - tile_time)
            rows, n = (width, until - t) if by_time else (until - t, width)
            _lambda_terms(
                _tile(reward, row, t, first, rows, n, by_time, rewards),
                _tile(value, row, t, first, rows, n, by_time, values),
                _done_tile(done, row, t, first, rows, n, by_time, until == time, flags),
                _tile(terminated, row, t, first, rows, n, by_time, stops),
                _tile(gamma, row, t, first, rows, n, by_time, gammas),
                _tile(lmbda, row, t, first, rows, n, by_time, lmbdas),
                a[: rows * n],
                b[: rows * n],
            )
            _scan(a, b, rows, n, by_time, tails)
            _put_tile(a, out, row, t, first, rows, n, by_time)


@jit
def fixed_lambda_returns(
    reward: Any, value: Any, done: Any, terminated: Any, gamma: Any, lmbda: Any, out: Any,
    time: Any, lanes: Any, by_time: Any, tile_time: Any, tile_lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """As `lambda_returns`, but the return of a step uses that step's gamma and lmbda for all that follows."""
    rewards, ro, rt, rl = reward
    values, vo, vt, vl = value
    ends, do, dt, dl = done
    stops, so, st, sl = terminated
    gammas, go, gt, gl = gamma
    lmbdas, lo, lt, ll = lmbda
    outs, oo, ot, ol = out
    each = -(-lanes // tile_lanes)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * tile_lanes
        for lane in range(first, min(first + tile_lanes, lanes)):
            end = time - 1
            for origin in range(time - 1, -1, -1):
                if ends[np.uintp(row * do + lane * dl + origin * dt)]:
                    end = origin
                factor = gammas[np.uintp(row * go + lane * gl + origin * gt)]
                mix = lmbdas[np.uintp(row * lo + lane * ll + origin * lt)]
                total = 0.0
                for t in range(end, origin - 1, -1):
                    following = np.float64(values[np.uintp(row * vo + lane * vl + t * vt)])
                    bootstrap = 0.0 if stops[np.uintp(row * so + lane * sl + t * st)] else following
                    ahead = bootstrap if t == end else _mixed(bootstrap, total, mix)
                    gain = np.float64(rewards[np.uintp(row * ro + lane * rl + t * rt)])
                    total = gain + _times(factor, ahead)
                outs[np.uintp(row * oo + lane * ol + origin * ot)] = total


@jit
def _gain_terms(
    reward: Any, value: Any, following: Any, done: Any, terminated: Any, weight: Any, gamma: Any, lmbda: Any,
    rho_thresh: Any, c_thresh: Any, a: Any, b: Any,
) -> None:  # fmt: skip
    """x = a + b x(t+1) for the entries of a tile."""
    full_width()
    for i in range(a.size):
        ratio = np.float64(weight[i])
        c = c_thresh if ratio > c_thresh else ratio
        b[i] = 0.0 if done[i] else gamma[i] * lmbda[i] * c
    for i in range(a.size):
        bootstrap = 0.0 if terminated[i] else np.float64(following[i])
        factor, ratio = gamma[i], np.float64(weight[i])
        rho = rho_thresh if ratio > rho_thresh else ratio
        now = np.float64(reward[i]) - np.float64(value[i])
        a[i] = rho * (now + (factor * bootstrap if factor != 0.0 else 0.0))


@jit
def _correct(
    reward: Any, value: Any, following: Any, done: Any, terminated: Any, weight: Any, gamma: Any,
    rho_thresh: Any, ahead: Any, gain: Any,
) -> None:  # fmt: skip
    """The advantages of V-trace from the targets `ahead` of each step."""
    full_width()
    for i in range(gain.size):
        goal = np.float64(following[i]) if done[i] else ahead[i]
        goal = 0.0 if terminated[i] else goal
        factor, ratio = gamma[i], np.float64(weight[i])
        rho = rho_thresh if ratio > rho_thresh else ratio
        now = np.float64(reward[i]) - np.float64(value[i])
        gain[i] = rho * (now + (factor * goal if factor != 0.0 else 0.0))


@jit
def _add(values: Any, excess: Any, out: Any) -> None:
    full_width()
    for i in range(excess.size):
        out[i] = np.float64(values[i]) + excess[i]


@jit
def _shifted(goals: Any, following: Any, rows: Any, n: Any, by_time: Any, out: Any) -> None:
    """The targets one step later than those of a tile; `following` are those after it, and then its first."""
    size = rows * n
    if by_time:
        _copy(goals[1:size], out[: size - 1])
        for k in range(rows):
            out[(k + 1) * n - 1] = following[k]
            following[k] = goals[k * n]
    else:
        _copy(goals[n:size], out[: size - n])
        _copy(following[:n], out[size - n : size])
        _copy(goals[:n], following[:n])


@jit
def advantages(
    reward: Any, value: Any, next_value: Any, done: Any, terminated: Any, weight: Any, gamma: Any, lmbda: Any,
    rho_thresh: Any, c_thresh: Any, corrected: Any, advantage: Any, target: Any,
    time: Any, lanes: Any, by_time: Any, tile_time: Any, tile_lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """x(t) = rho(t) (r(t) + gamma W(t) - V(t)) + gamma lmbda c(t) x(t+1), nothing ahead of an end.

    rho and c are `weight` cut at their thresholds, W(t) is the next value, or 0 where step t terminated.
    The targets are V + x. The advantages are x, or, `corrected`, those of V-trace:
    rho(t) (r(t) + gamma (target of t+1) - V(t)). Blocks and tiles as in `lambda_returns`.
    """
    size = tile_time * tile_lanes
    rewards, values, nexts = _scratch(reward, size), _scratch(value, size), _scratch(next_value, size)
    stops, weights, flags = _scratch(terminated, size), _scratch(weight, size), _scratch(done, size)
    gammas, lmbdas = _scratch(gamma, size), _scratch(lmbda, size)
    a, b, tails = np.zeros(size), np.zeros(size), np.zeros(tile_lanes)
    goals, ahead, following = np.empty(size), np.empty(size), np.empty(tile_lanes)
    each = -(-lanes // tile_lanes)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * tile_lanes
        width = min(tile_lanes, lanes - first)
        tails[:] = 0.0
        for until in range(time, 0, -tile_time):
            t = max(0, until - tile_time)
            rows, n = (width, until - t) if by_time else (until - t, width)
            r = _tile(reward, row, t, first, rows, n, by_time, rewards)
            v = _tile(value, row, t, first, rows, n, by_time, values)
            w = _tile(next_value, row, t, first, rows, n, by_time, nexts)
            d = _done_tile(done, row, t, first, rows, n, by_time, until == time, flags)
            s = _tile(terminated, row, t, first, rows, n, by_time, stops)
            ratio = _tile(weight, row, t, first, rows, n, by_time, weights)
            g = _tile(gamma, row, t, first, rows, n, by_time, gammas)
            m = _tile(lmbda, row, t, first, rows, n, by_time, lmbdas)
            x = a[: rows * n]
            _gain_terms(r, v, w, d, s, ratio, g, m, rho_thresh, c_thresh, x, b)
            _scan(a, b, rows, n, by_time, tails)
            _add(v, x, goals)
            _put_tile(goals, target, row, t, first, rows, n, by_time)
            if corrected:
                _shifted(goals, following, rows, n, by_time, ahead)
                _correct(r, v, w, d, s, ratio, g, rho_thresh, ahead, x)
            _put_tile(a, advantage, row, t, first, rows, n, by_time)
