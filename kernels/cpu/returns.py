"""Returns and advantages: recursions backwards in time, compiled for the CPU.

Every operand is flat memory and its strides for (row, time, lane); see `_sequences.py`. What follows an
episode's end is left out by a branch, never multiplied by zero: NaN and infinity do not cross it. Indices
are unsigned, which spares the compiled code the question whether they count from the end.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit

BLOCK = 16  # as in _sequences.py


@jit
def _at(base: Any, lane: Any, stride: Any) -> Any:
    return np.uintp(base + lane * stride)


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
def lambda_returns(
    reward: Any, value: Any, done: Any, terminated: Any, gamma: Any, lmbda: Any, out: Any,
    time: Any, lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """G(t) = r(t) + gamma ((1 - lmbda) W(t) + lmbda G(t+1)), with W(t) in place of G(t+1) at an end.

    W(t) is the value after step t, or 0 where it terminated.
    """
    rewards, ro, rt, rl = reward
    values, vo, vt, vl = value
    ends, do, dt, dl = done
    stops, so, st, sl = terminated
    gammas, go, gt, gl = gamma
    lmbdas, lo, lt, ll = lmbda
    outs, oo, ot, ol = out
    each = -(-lanes // BLOCK)
    tails = np.zeros(BLOCK)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * BLOCK
        width = min(BLOCK, lanes - first)
        for t in range(time - 1, -1, -1):
            last = t == time - 1
            r = row * ro + t * rt + first * rl
            v = row * vo + t * vt + first * vl
            d = row * do + t * dt + first * dl
            s = row * so + t * st + first * sl
            g = row * go + t * gt + first * gl
            m = row * lo + t * lt + first * ll
            o = row * oo + t * ot + first * ol
            for k in range(width):
                following = np.float64(values[_at(v, k, vl)])
                bootstrap = 0.0 if stops[_at(s, k, sl)] else following
                tail = bootstrap if ends[_at(d, k, dl)] | last else tails[np.uintp(k)]
                ahead = _mixed(bootstrap, tail, lmbdas[_at(m, k, ll)])
                total = np.float64(rewards[_at(r, k, rl)]) + _times(gammas[_at(g, k, gl)], ahead)
                tails[np.uintp(k)] = total
                outs[_at(o, k, ol)] = total


@jit
def fixed_lambda_returns(
    reward: Any, value: Any, done: Any, terminated: Any, gamma: Any, lmbda: Any, out: Any,
    time: Any, lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """As `lambda_returns`, but the return of a step uses that step's gamma and lmbda for all that follows."""
    rewards, ro, rt, rl = reward
    values, vo, vt, vl = value
    ends, do, dt, dl = done
    stops, so, st, sl = terminated
    gammas, go, gt, gl = gamma
    lmbdas, lo, lt, ll = lmbda
    outs, oo, ot, ol = out
    each = -(-lanes // BLOCK)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * BLOCK
        for lane in range(first, min(first + BLOCK, lanes)):
            end = time - 1
            for origin in range(time - 1, -1, -1):
                if ends[_at(row * do + lane * dl, origin, dt)]:
                    end = origin
                factor = gammas[_at(row * go + lane * gl, origin, gt)]
                mix = lmbdas[_at(row * lo + lane * ll, origin, lt)]
                total = 0.0
                for t in range(end, origin - 1, -1):
                    following = np.float64(values[_at(row * vo + lane * vl, t, vt)])
                    bootstrap = 0.0 if stops[_at(row * so + lane * sl, t, st)] else following
                    ahead = _mixed(bootstrap, bootstrap if t == end else total, mix)
                    total = np.float64(rewards[_at(row * ro + lane * rl, t, rt)]) + _times(factor, ahead)
                outs[_at(row * oo + lane * ol, origin, ot)] = total


@jit
def advantages(
    reward: Any, value: Any, next_value: Any, done: Any, terminated: Any, weight: Any, gamma: Any, lmbda: Any,
    rho_thresh: Any, c_thresh: Any, corrected: Any, advantage: Any, target: Any,
    time: Any, lanes: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """x(t) = rho(t) (r(t) + gamma W(t) - V(t)) + gamma lmbda c(t) x(t+1), nothing ahead of an end.

    rho and c are `weight` cut at their thresholds, W(t) is the next value, or 0 where step t terminated.
    The targets are V + x. The advantages are x, or, `corrected`, those of V-trace:
    rho(t) (r(t) + gamma (target of t+1) - V(t)).
    """
    rewards, ro, rt, rl = reward
    values, vo, vt, vl = value
    nexts, no, nt, nl = next_value
    ends, do, dt, dl = done
    stops, so, st, sl = terminated
    weights, wo, wt, wl = weight
    gammas, go, gt, gl = gamma
    lmbdas, lo, lt, ll = lmbda
    gains, ao, at, al = advantage
    targets, to, tt, tl = target
    each = -(-lanes // BLOCK)
    tails, goals = np.zeros(BLOCK), np.zeros(BLOCK)
    for block in range(start, stop):
        row = block // each
        first = (block - row * each) * BLOCK
        width = min(BLOCK, lanes - first)
        for t in range(time - 1, -1, -1):
            last = t == time - 1
            r = row * ro + t * rt + first * rl
            v = row * vo + t * vt + first * vl
            n = row * no + t * nt + first * nl
            d = row * do + t * dt + first * dl
            s = row * so + t * st + first * sl
            w = row * wo + t * wt + first * wl
            g = row * go + t * gt + first * gl
            m = row * lo + t * lt + first * ll
            a = row * ao + t * at + first * al
            o = row * to + t * tt + first * tl
            for k in range(width):
                present = np.float64(values[_at(v, k, vl)])
                following = np.float64(nexts[_at(n, k, nl)])
                stopped = stops[_at(s, k, sl)]
                ended = ends[_at(d, k, dl)] | last
                bootstrap = 0.0 if stopped else following
                factor = gammas[_at(g, k, gl)]
                ratio = np.float64(weights[_at(w, k, wl)])
                rho = rho_thresh if ratio > rho_thresh else ratio
                trace = factor * lmbdas[_at(m, k, ll)] * (c_thresh if ratio > c_thresh else ratio)
                now = np.float64(rewards[_at(r, k, rl)]) - present
                gain = rho * (now + _times(factor, bootstrap))
                x = gain + (0.0 if ended else _times(trace, tails[np.uintp(k)]))
                if corrected:
                    goal = bootstrap if ended else (0.0 if stopped else goals[np.uintp(k)])
                    gain = rho * (now + _times(factor, goal))
                else:
                    gain = x
                tails[np.uintp(k)] = x
                goals[np.uintp(k)] = present + x
                gains[_at(a, k, al)] = gain
                targets[_at(o, k, tl)] = present + x
