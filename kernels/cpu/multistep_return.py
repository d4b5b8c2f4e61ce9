"""Windowed discounted sums that stop at episode ends, compiled for the CPU.

Sums of 2m steps are two of m, m steps apart, where the episode goes on between them: windows of any length
take a few passes over full vectors, at most twice as many as their length has binary digits.

Nothing is ever subtracted, and a value can only reach the windows that hold it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._arrays import aligned_zeros
from lite.kernels._jit import jit
from lite.kernels.cpu.vectors.width import full_width

_PIECE = (
    8192  # steps summed together, and those that their windows reach: they stay in the second-level cache
)
_APART = 16  # numbers between the pieces of memory: of a power of two, all would meet in the same lines


@jit
def _last(done: Any, left: Any) -> None:
    """To `left`: where the episode of each step ends."""
    end = done.size - 1
    for i in range(done.size):
        t = done.size - 1 - i
        end = t if done[np.uintp(t)] else end
        left[np.uintp(t)] = end


@jit
def _steps(
    left: Any, n_steps: Any, powers: Any, steps: Any, index: Any, discount: Any, nonterminal: Any
) -> Any:
    """One sequence: steps to the next observation, its index and what follows from them.

    `left` has the ends of the episodes, and then how many steps of them follow each. Returns how many
    steps the longest one has.
    """
    full_width()
    longest = 0
    for t in range(left.size):
        after = left[t] - t
        left[t] = after
        longest = after if after > longest else longest
        s = n_steps if n_steps <= after else after + 1
        steps[t] = s
        index[t] = t + s - 1
        nonterminal[t] = s != 1
    for t in range(left.size):
        discount[t] = powers[np.uintp(steps[t])]
    return longest + 1


@jit
def _join(near: Any, far: Any, distance: Any, scale: Any, left: Any, out: Any) -> None:
    """Windows of `near`, and where the episode goes on so far, those of `far` that begin at their end."""
    full_width()
    both = near.size - distance
    for t in range(both):
        more = near[t] + scale * far[np.uintp(t + distance)]
        out[t] = more if left[t] >= distance else near[t]
    for t in range(both, near.size):
        out[t] = near[t]


@jit
def _passes(reward: Any, left: Any, n_steps: Any, longest: Any, powers: Any, out: Any, other: Any) -> Any:
    """One sequence: the discounted sums of windows of n_steps, in the one of `out` and `other` it returns.

    The digits of n_steps say how: windows twice as long, and one step more where a digit is 1.
    """
    total = n_steps
    if longest <= n_steps:  # every window ends with its episode: one of 2**k steps is the same
        total = 1
        while total < longest:
            total *= 2
    digit = 1
    while 2 * digit <= total:
        digit *= 2
    for t in range(reward.size):
        out[t] = reward[t]
    length = 1
    while digit > 1:
        digit //= 2
        _join(out, out, length, powers[np.uintp(length)], left, other)
        out, other = other, out
        length *= 2
        if total & digit:
            _join(reward, out, 1, powers[np.uintp(1)], left, other)
            out, other = other, out
            length += 1
    return out


@jit
def _line(values: Any, stride: Any, out: Any) -> None:
    """Every `stride`-th value, as many as `out` holds."""
    for i in range(out.size):
        out[i] = values[np.uintp(i * stride)]


@jit
def _spread(line: Any, stride: Any, out: Any) -> None:
    """The other way."""
    for i in range(line.size):
        out[np.uintp(i * stride)] = line[i]


def work_memory(time: int) -> tuple[NDArray[Any], ...]:
    """For `sequences` of this length."""
    apart = -(-time // 8) * 8 + _APART
    memory = aligned_zeros(4 * apart)
    totals, other, rewards, left = (memory[start : start + time] for start in range(0, 4 * apart, apart))
    types = np.bool_, np.int64, np.int64, np.float32, np.bool_
    return totals, other, rewards, left.view(np.int64), *(np.empty(time, kind) for kind in types)


@jit(entry=True)
def sequences(
    reward: Any, done: Any, time: Any, lanes: Any, features: Any, n_steps: Any, gamma: Any, powers: Any,
    sums: Any, steps: Any, index: Any, discount: Any, nonterminal: Any,
    totals: Any, other: Any, rewards: Any, left: Any,
    flags: Any, counts: Any, ends: Any, factors: Any, more: Any,
    start: Any, stop: Any,
) -> None:  # fmt: skip
    """Outer rows `start` to `stop`.

    `reward` and `sums` are (outer, time, lanes, features), the other arrays (outer, time, lanes), all flat;
    `powers[k]` is gamma**k for k from 0 to n_steps. Sequences that do not lie in one piece are worked out
    in one, because only that is fast. From `totals` to `more`: memory to work in, from `work_memory`.
    """
    for o in range(start, stop):
        for lane in range(lanes):
            base = o * time * lanes + lane
            if lanes == 1:
                until = base + time
                flags, counts, ends = done[base:until], steps[base:until], index[base:until]
                factors, more = discount[base:until], nonterminal[base:until]
            else:
                _line(done[base:], lanes, flags)
            _last(flags, left)
            longest = _steps(left, n_steps, powers, counts, ends, factors, more)
            if lanes > 1:
                _spread(counts, lanes, steps[base:])
                _spread(ends, lanes, index[base:])
                _spread(factors, lanes, discount[base:])
                _spread(more, lanes, nonterminal[base:])
            for f in range(features):
                place = base * features + f
                _line(reward[place:], lanes * features, rewards)
                ahead = longest if longest < n_steps else n_steps
                piece = _PIECE if 4 * ahead < _PIECE else 4 * ahead
                for since in range(0, time, piece):
                    until = since + piece if since + piece < time else time
                    beyond = until + ahead if until + ahead < time else time
                    found = _passes(
                        rewards[since:beyond], left[since:beyond], n_steps, longest, powers,
                        totals[: beyond - since], other[: beyond - since],
                    )  # fmt: skip
                    _spread(
                        found[: until - since], lanes * features, sums[place + since * lanes * features :]
                    )
