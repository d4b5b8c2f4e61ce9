"""Windowed discounted sums that stop at episode ends, compiled for the CPU.

A sum over 2m steps is the sum of two sums over m steps, if the episode continues between them. So windows of
n steps take at most 2 log2(n) passes over full vectors. No window crosses the end of an episode, so
consecutive sequences in memory are processed together, as many at a time as fit a cache.

Nothing is subtracted, so a value only affects the windows that contain it. The order of summation depends on
`n_steps` alone, never on the rest of the batch, and no product fuses with a sum: chunks of a stream give the
bits that the whole of it gives, and NumPy's form gives them, too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import aligned_zeros
from lite.kernels._types import Bools, Floats, Ints
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.width import full_width

_PIECE = 2048  # steps summed together: they stay in the first caches
_APART = 16  # numbers between parts of scratch memory: powers of two would meet in the same cache sets


def _plain_ends(done: Bools, time: int, index: Ints) -> None:
    ends = np.where(done.reshape(-1, time), np.arange(time), time - 1)
    index.reshape(-1, time)[:] = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]


@jit(plain=_plain_ends)
def _ends(done: Bools, time: int, index: Ints) -> None:
    """To `index`: where the episode of each step ends, in sequences of `time` steps."""
    for first in range(0, done.size, time):
        end = time - 1
        for i in range(time):
            t = time - 1 - i
            end = t if done[np.uintp(first + t)] else end
            index[np.uintp(first + t)] = end


def _plain_windows(index: Ints, time: int, n_steps: int, steps: Ints, nonterminal: Bools) -> int:
    ends = index.reshape(-1, time)
    after = ends - np.arange(time)
    windows = np.minimum(n_steps, after + 1)
    steps.reshape(-1, time)[:] = windows
    ends[:] = windows + np.arange(-1, time - 1)
    nonterminal.reshape(-1, time)[:] = windows != 1
    return int(after.max()) + 1


@jit(plain=_plain_windows)
def _windows(index: Ints, time: int, n_steps: int, steps: Ints, nonterminal: Bools) -> int:
    """Steps to the next observation, and its index in place of the ends; returns the longest episode."""
    full_width()
    longest = 0
    for first in range(0, index.size, time):
        for t in range(time):
            k = np.uintp(first + t)
            after = index[k] - t
            longest = after if after > longest else longest
            s = n_steps if n_steps <= after else after + 1
            steps[k] = s
            index[k] = t + s - 1
            nonterminal[k] = s != 1
    return longest + 1


def _plain_discounts(powers: Floats, steps: Ints, out: Floats) -> None:
    out[:] = powers[steps]


@jit(plain=_plain_discounts)
def _discounts(powers: Floats, steps: Ints, out: Floats) -> None:
    full_width()
    for t in range(steps.size):
        out[t] = powers[np.uintp(steps[t])]


def _plain_extend(near: Floats, far: Floats, distance: int, scale: float, steps: Ints) -> None:
    both = max(near.size - distance, 0)
    np.add(near[:both], scale * far[distance:], out=near[:both], where=steps[:both] > distance)


def _plain_double(near: Floats, distance: int, scale: float, steps: Ints, out: Floats) -> None:
    out[:] = near
    _plain_extend(out, near, distance, scale, steps)


@jit(plain=_plain_double, fuse=False)
def _double(near: Floats, distance: int, scale: float, steps: Ints, out: Floats) -> None:
    """Double windows: add those that begin `distance` steps later, if the episode continues."""
    full_width()
    both = near.size - distance
    for t in range(both):
        more = near[t] + scale * near[np.uintp(t + distance)]
        out[t] = more if steps[t] > distance else near[t]
    for t in range(both, near.size):
        out[t] = near[t]


@jit(plain=_plain_extend, fuse=False)
def _extend(near: Floats, far: Floats, distance: int, scale: float, steps: Ints) -> None:
    """Add windows of `far` that begin `distance` steps later to `near`, if the episode continues."""
    full_width()
    for t in range(near.size - distance):
        more = near[t] + scale * far[np.uintp(t + distance)]
        near[t] = more if steps[t] > distance else near[t]


def _plain_copy(values: Floats, out: Floats) -> None:
    out[:] = values[: out.size]


@jit(plain=_plain_copy)
def _copy(values: Floats, out: Floats) -> None:
    for t in range(out.size):
        out[t] = values[t]


@jit
def _sums(
    reward: Floats, steps: Ints, n_steps: int, longest: int, powers: Floats, window: Floats, other: Floats,
    spare: Floats,
) -> Floats:  # fmt: skip
    """The discounted sums over windows, in one of the last three arrays, which is returned.

    `window` doubles once for each binary digit of `n_steps`; where the digit is 1, it is added to the total.
    No episode is longer than `longest`.
    """
    _copy(reward, window)
    total, reached, length = window, 0, 1
    while True:
        if n_steps & length:
            if reached:
                _extend(total, window, reached, powers[np.uintp(reached)], steps)
            else:
                total = window
            reached += length
        if reached >= n_steps or reached >= longest:
            return total
        if length < longest:
            _double(window, length, powers[np.uintp(length)], steps, other)
            window, other = other, spare if reached == length else window  # `total` may be the window
        length *= 2


def work_memory(steps: int, n_steps: int) -> NDArray[Any]:
    """Scratch memory for `sequences` of `steps` in total: a piece, and the reach of its last windows."""
    if steps > _PIECE:
        steps = min(steps, 9 * max(_PIECE // 8, n_steps))
    return aligned_zeros(3 * (steps + _APART + -steps % 8))


@jit(entry=True)
def sequences(
    reward: Floats, done: Bools, time: int, n_steps: int, powers: Floats, sums: Floats, steps: Ints,
    index: Ints, discount: Floats, nonterminal: Bools, memory: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """Sequences `start` to `stop`, each of `time` steps.

    `reward` and `sums` are (features, sequences, time), the other arrays (sequences, time), all flat;
    `powers[k]` is gamma**k for k from 0 to n_steps. `memory` to work in is from `work_memory`.
    """
    second, third = memory.size // 3, 2 * memory.size // 3
    together = _PIECE // time if time < _PIECE else 1
    for row in range(start, stop, together):
        first = row * time
        last = (row + together) * time if row + together < stop else stop * time
        _ends(done[first:last], time, index[first:last])
        longest = _windows(index[first:last], time, n_steps, steps[first:last], nonterminal[first:last])
        _discounts(powers, steps[first:last], discount[first:last])
        ahead = longest if longest < n_steps else n_steps
        piece = _PIECE if 8 * ahead < _PIECE else 8 * ahead
        for base in range(0, reward.size, done.size):
            for since in range(first, last, piece):
                until = since + piece if since + piece < last else last
                beyond = until + ahead if until + ahead < last else last
                n = beyond - since
                found = _sums(
                    reward[base + since : base + beyond], steps[since:beyond], n_steps, longest, powers,
                    memory[:n], memory[second : second + n], memory[third : third + n],
                )  # fmt: skip
                _copy(found, sums[base + since : base + until])
