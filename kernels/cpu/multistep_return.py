"""Windowed discounted sums that stop at episode ends, compiled for the CPU.

Time is cut into blocks of n steps. A window of n steps touches at most two of them: its part in the
first block is a sum that was built backwards from the block's end, its part in the second a sum built
forwards from that block's start. Both restart at every episode end, so a window is two numbers whatever
n is, nothing is ever subtracted, and a value can only reach the windows that hold it. Short windows are
summed term by term, over full vectors.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._jit import jit
from lite.kernels.cpu._width import full_width

_SHORT = 3  # steps: as many terms cost less than two recursions


@jit
def _steps(
    done: Any, n_steps: Any, powers: Any, steps: Any, index: Any, discount: Any, nonterminal: Any
) -> None:
    """One sequence: steps to the next observation, its index and what follows from them."""
    end = done.size - 1
    for i in range(done.size):
        back = np.uintp(done.size - 1 - i)
        end = done.size - 1 - i if done[back] else end
        index[back] = end
    for t in range(done.size):
        s = index[t] - t + 1
        s = n_steps if n_steps < s else s
        steps[t] = s
        index[t] = t + s - 1
        nonterminal[t] = s != 1
    for t in range(done.size):
        discount[t] = powers[np.uintp(steps[t])]


@jit
def _sums(
    reward: Any, done: Any, index: Any, n_steps: Any, gamma: Any, powers: Any, prefix: Any, out: Any
) -> None:
    """One sequence: the discounted sum of the rewards from t to index[t].

    Both sums of a block are built side by side, as each waits for its own last result. A total that starts
    anew is chosen, without a branch that nobody could foresee.
    """
    start, stop = ((done.size - 1) // n_steps) * n_steps, done.size
    while stop > 0:
        forward, scale, backward = 0.0, 1.0, 0.0
        for i in range(stop - start):
            ahead, back = np.uintp(start + i), np.uintp(stop - 1 - i)
            forward += scale * reward[ahead]
            prefix[ahead] = forward
            scale = 1.0 if done[ahead] else scale * gamma
            forward = 0.0 if done[ahead] else forward  # nobody reads across
            backward = reward[back] + (0.0 if done[back] else gamma * backward)
            out[back] = backward
        if stop < done.size:
            for t in range(start, stop):
                if index[t] >= stop:
                    out[t] += powers[np.uintp(stop - t)] * prefix[np.uintp(index[t])]
        start, stop = start - n_steps, start


@jit
def _short_sums(reward: Any, done: Any, n_steps: Any, gamma: Any, out: Any) -> None:
    """The same, for few steps: each term is one pass over the sequence."""
    full_width()
    for t in range(out.size):
        out[t] = reward[t]
    ahead, ends, first = out[1:], done[: done.size - 1], reward[: reward.size - 1]
    for _ in range(n_steps - 1):
        for t in range(ahead.size):  # what lies ahead is still that of one term less
            more = first[t] + gamma * ahead[t]
            out[t] = first[t] if ends[t] else more


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


def work_memory(time: int, dtype: DTypeLike) -> tuple[NDArray[Any], ...]:
    """For `sequences` of this length, with rewards of `dtype`."""
    types = np.float64, np.float64, dtype, np.bool_, np.int64, np.int64, np.float32, np.bool_
    return tuple(np.empty(time, kind) for kind in types)


@jit(entry=True)
def sequences(
    reward: Any, done: Any, time: Any, lanes: Any, features: Any, n_steps: Any, gamma: Any, powers: Any,
    sums: Any, steps: Any, index: Any, discount: Any, nonterminal: Any,
    totals: Any, prefix: Any, rewards: Any, flags: Any, counts: Any, ends: Any, factors: Any, more: Any,
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
            _line(done[base:], lanes, flags)
            _steps(flags, n_steps, powers, counts, ends, factors, more)
            _spread(counts, lanes, steps[base:])
            _spread(ends, lanes, index[base:])
            _spread(factors, lanes, discount[base:])
            _spread(more, lanes, nonterminal[base:])
            for f in range(features):
                place = base * features + f
                _line(reward[place:], lanes * features, rewards)
                if n_steps <= _SHORT:
                    _short_sums(rewards, flags, n_steps, gamma, totals)
                else:
                    _sums(rewards, flags, ends, n_steps, gamma, powers, prefix, totals)
                _spread(totals, lanes * features, sums[place:])
