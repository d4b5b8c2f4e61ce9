"""Returns and advantages in NumPy, for `returns` where nothing is compiled.

The entry points have the arguments of those in `returns`, which document them. There are no tiles: the terms
of a recursion are computed for all steps at once, and the recursion runs over all sequences one step at a
time. Scratch memory is not used.
"""

from collections.abc import Iterator

import numpy as np

from lite.kernels._types import Array, Bools, Floats, Operand

_FEW = 64  # sequences: with fewer, a loop over Python's numbers is faster than a call of NumPy for each step


def _pieces(
    time: int, lanes: int, tile_lanes: int, start: int, stop: int
) -> Iterator[tuple[int, int, int, int]]:
    """Blocks `start` to `stop` as (first row, rows, first lane, lanes)."""
    each = -(-lanes // tile_lanes)
    if not time or start >= stop:
        return
    if each == 1:
        yield start, stop - start, 0, lanes
        return
    for row in range(start // each, (stop - 1) // each + 1):
        first = max(start - row * each, 0) * tile_lanes
        yield row, 1, first, min((stop - row * each) * tile_lanes, lanes) - first


def _by_step(operand: Operand, piece: tuple[int, int, int, int], time: int, by_time: bool) -> Array:
    """A view of an operand as (time, rows, lanes)."""
    flat, *strides = operand
    row, rows, first, width = piece
    apart, lane, step = strides if by_time else (strides[0], strides[2], strides[1])
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[row * apart + first * lane :], (time, rows, width), (step * size, apart * size, lane * size)
    )


def _walk_back(a: Array, b: Array, x: Array | float) -> Floats:
    """Solve x(t) = a(t) + b(t) x(t+1) backwards from `x`, the one after the last step."""
    shape, time = a.shape, len(a)
    a, b = a.reshape(time, -1).astype(np.float64), b.reshape(time, -1)
    x = np.broadcast_to(x, shape[1:]).reshape(-1)
    if a.shape[1] < _FEW:
        for lane in range(a.shape[1]):
            line, factors, ahead = a[:, lane].tolist(), b[:, lane].tolist(), float(x[lane])
            for t in range(time - 1, -1, -1):
                if factors[t] != 0.0:
                    line[t] += factors[t] * ahead
                ahead = line[t]
            a[:, lane] = line
    else:
        for t in range(time - 1, -1, -1):
            a[t] += np.where(b[t] != 0.0, b[t] * x, 0.0)
            x = a[t]
    return a.reshape(shape)


def _returns(
    reward: Array, value: Array, done: Array, terminated: Array, gamma: Array | float, lmbda: Array | float
) -> Floats:
    """G(t) = r(t) + gamma ((1 - lmbda) W(t) + lmbda G(t+1)), with W(t) in place of G(t+1) at an end."""
    bootstrap = np.where(terminated, 0.0, value)
    kept = np.where(lmbda == 1.0, 0.0, (1.0 - lmbda) * bootstrap)
    ahead = np.where(done, bootstrap, kept)
    a = reward + np.where(gamma != 0.0, gamma * ahead, 0.0)
    return _walk_back(a, np.where(done, 0.0, gamma * lmbda), bootstrap[-1])


def lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, a: Floats, b: Floats, tails: Floats, time: int, lanes: int, by_time: bool, merged: bool,
    tile_time: int, tile_lanes: int, start: int, stop: int,
) -> None:  # fmt: skip
    for piece in _pieces(time, lanes, tile_lanes, start, stop):
        operands = (reward, value, done, terminated, gamma, lmbda)
        found = _returns(*[_by_step(operand, piece, time, by_time) for operand in operands])
        _by_step((*out[:3], 1), piece, time, by_time)[:] = found


def short_lambda_returns(
    reward: Floats, value: Floats, done: Bools, terminated: Bools, gamma: float, lmbda: float, out: Floats,
    memory: Floats, time: int,
) -> None:  # fmt: skip
    r, v, d, s, target = [flat.reshape(-1, time).T for flat in (reward, value, done, terminated, out)]
    target[:] = _returns(r, v, d, s, np.float64(gamma), np.float64(lmbda))


def fixed_lambda_returns(
    reward: Operand, value: Operand, done: Operand, terminated: Operand, gamma: Operand, lmbda: Operand,
    out: Operand, a: Floats, b: Floats, tails: Floats, time: int, lanes: int, by_time: bool, merged: bool,
    tile_time: int, tile_lanes: int, start: int, stop: int,
) -> None:  # fmt: skip
    for piece in _pieces(time, lanes, tile_lanes, start, stop):
        operands = (reward, value, done, terminated, gamma, lmbda, (*out[:3], 1))
        rewards, values, ends, stops, gammas, lmbdas, target = (
            _by_step(operand, piece, time, by_time) for operand in operands
        )
        total = np.zeros(target.shape)  # of each origin, from the step t on
        for t in range(time - 1, -1, -1):
            bootstrap = np.where(stops[t], 0.0, values[t])
            factor, mix, last = gammas[: t + 1], lmbdas[: t + 1], ends[t] | (t == time - 1)
            mixed = np.where(mix == 1.0, total[: t + 1], (1.0 - mix) * bootstrap + mix * total[: t + 1])
            ahead = np.where(last | (mix == 0.0), bootstrap, mixed)
            total[: t + 1] = rewards[t] + np.where(factor != 0.0, factor * ahead, 0.0)
            target[t] = total[t]


def _ratios(learner: Floats, actor: Floats, least: float) -> Floats:
    x = learner - actor
    return np.where(x < least, 0.0, np.exp(x)).astype(np.float64)


def _gains(
    reward: Array, value: Array, following: Array, done: Array, terminated: Array, gamma: Array | float,
    lmbda: Array | float, ratio: Array | None, rho_thresh: float = 1.0, c_thresh: float = 1.0,
    corrected: bool = False,
) -> tuple[Floats, Floats]:  # fmt: skip
    """The advantages and targets of `advantages`; without weights `ratio` is None."""
    value = value.astype(np.float64)
    bootstrap, gain, factor = np.where(terminated, 0.0, following), reward - value, gamma * lmbda
    rho: Array | float = np.float64(1.0)
    if ratio is not None:
        rho = np.where(ratio > rho_thresh, rho_thresh, ratio)
        factor = factor * np.where(ratio > c_thresh, c_thresh, ratio)
    a = (gain + np.where(gamma != 0.0, gamma * bootstrap, 0.0)) * rho
    excess = _walk_back(a, np.where(done, 0.0, factor), 0.0)
    target = value + excess
    if ratio is None or not corrected:
        return excess, target
    goal = np.where(done, following, np.concatenate([target[1:], bootstrap[-1:]]))
    ahead = np.where(terminated, 0.0, goal)
    return rho * (gain + np.where(gamma != 0.0, gamma * ahead, 0.0)), target


def advantages(
    reward: Operand, value: Operand, next_value: Operand, done: Operand, terminated: Operand,
    weight: tuple[Operand, Operand, tuple[float, ...]] | None, gamma: Operand, lmbda: Operand,
    rho_thresh: float, c_thresh: float, corrected: bool, advantage: Operand, target: Operand, a: Floats,
    b: Floats, tails: Floats, goals: Floats, ahead: Floats, ratios: Floats, time: int, lanes: int,
    by_time: bool, merged: bool, tile_time: int, tile_lanes: int, start: int, stop: int,
) -> None:  # fmt: skip
    for piece in _pieces(time, lanes, tile_lanes, start, stop):
        operands = (reward, value, next_value, done, terminated, gamma, lmbda, *(weight or ())[:2])
        r, v, f, d, s, g, m, *logs = [_by_step(operand, piece, time, by_time) for operand in operands]
        ratio = None if weight is None else _ratios(logs[0], logs[1], weight[2][0])
        found = _gains(r, v, f, d, s, g, m, ratio, rho_thresh, c_thresh, corrected)
        for out, values in zip((advantage, target), found, strict=True):
            _by_step((*out[:3], 1), piece, time, by_time)[:] = values


def short_advantages(
    reward: Floats, value: Floats, next_value: Floats, done: Bools, terminated: Bools, gamma: float,
    lmbda: float, advantage: Floats, target: Floats, memory: Floats, time: int,
) -> None:  # fmt: skip
    r, v, f, d, s = [flat.reshape(-1, time).T for flat in (reward, value, next_value, done, terminated)]
    found = _gains(r, v, f, d, s, np.float64(gamma), np.float64(lmbda), None)
    advantage.reshape(-1, time).T[:], target.reshape(-1, time).T[:] = found
