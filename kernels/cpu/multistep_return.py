"""Windowed discounted sums that stop at episode ends, compiled for the CPU.

Time is cut into blocks of n steps. A window of n steps touches at most two of them: its part in the
first block is a sum that was built backwards from the block's end, its part in the second a sum built
forwards from that block's start. Both restart at every episode end, so a window is two numbers whatever
n is, nothing is ever subtracted, and a value can only reach the windows that hold it.
"""

from typing import Any

import numpy as np

from lite.kernels._jit import jit


@jit
def _steps(
    done: Any, n_steps: Any, powers: Any, steps: Any, index: Any, discount: Any, nonterminal: Any
) -> None:
    """One sequence: steps to the next observation, its index and what follows from them."""
    last = done.size - 1
    end = last
    for t in range(last, -1, -1):
        if done[t]:
            end = t
        s = min(n_steps, end - t + 1)
        steps[t] = s
        index[t] = t + s - 1
        discount[t] = powers[s]
        nonterminal[t] = s != 1


@jit
def _sums(
    reward: Any, done: Any, index: Any, n_steps: Any, gamma: Any, powers: Any, prefix: Any, out: Any
) -> None:
    """One sequence: the discounted sum of the rewards from t to index[t]."""
    total = 0.0
    scale = 1.0
    left = 0  # steps left in the block
    for t in range(done.size):
        if left == 0:
            total, scale, left = 0.0, 1.0, n_steps
        total += scale * reward[t]
        scale *= gamma
        prefix[t] = total
        left -= 1
        if done[t]:
            total, scale = 0.0, 1.0  # nobody reads across; the block goes on
    block_end = done.size - 1
    block_start = (block_end // n_steps) * n_steps
    total = 0.0
    for t in range(done.size - 1, -1, -1):
        if t < block_start:
            block_end = block_start - 1
            block_start -= n_steps
            total = 0.0
        if done[t]:
            total = 0.0
        total = reward[t] + gamma * total
        beyond = index[t]
        out[t] = total + powers[block_end + 1 - t] * prefix[beyond] if beyond > block_end else total


@jit
def sequences(
    reward: Any, done: Any, n_steps: Any, gamma: Any, powers: Any,
    sums: Any, steps: Any, index: Any, discount: Any, nonterminal: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Outer rows `start` to `stop`.

    `reward` and `sums` are (outer, time, lanes, features), the other arrays (outer, time, lanes);
    `powers[k]` is gamma**k for k from 0 to n_steps.
    """
    time, lanes, features = reward.shape[1:]
    prefix = np.empty(time)
    for o in range(start, stop):
        for lane in range(lanes):
            flags, ends = done[o, :, lane], index[o, :, lane]
            _steps(
                flags, n_steps, powers, steps[o, :, lane], ends, discount[o, :, lane], nonterminal[o, :, lane]
            )
            for f in range(features):
                values, out = reward[o, :, lane, f], sums[o, :, lane, f]
                _sums(values, flags, ends, n_steps, gamma, powers, prefix, out)
