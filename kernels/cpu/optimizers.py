"""Steps of optimisers over the flat memory of one parameter, compiled for the CPU.

Each array is read and written once. `c` holds the coefficients of the step in the dtype of the parameter, in
the order of `lite/optim/formulas.py`, which computes the same with NumPy. Arrays of options that are off are
empty.
"""

import numpy as np

from lite.kernels._types import Floats
from lite.kernels.backends.jit import jit
from lite.kernels.cpu.vectors.width import full_width


@jit(entry=True)
def adam(p: Floats, g: Floats, first: Floats, second: Floats, top: Floats, c: Floats) -> None:
    """Adam, AMSGrad with `top`, decoupled weight decay with `keep` below 1."""
    full_width()
    sign, decay, keep, new_first, old_second, new_second, rate, eps = (
        c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
    )  # fmt: skip
    amsgrad = top.size > 0
    for i in range(p.size):
        x = p[i] * keep
        d = sign * g[i]
        d = d + decay * x if decay != 0 else d
        first[i] += new_first * (d - first[i])
        second[i] = second[i] * old_second + new_second * d * d
        spread = second[i]
        if amsgrad:
            high = top[i] if top[i] > spread else spread
            top[i] = high if top[i] == top[i] else top[i]
            spread = top[i]
        p[i] = x - rate * first[i] / (np.sqrt(spread) + eps)


@jit(entry=True)
def sgd(p: Floats, g: Floats, buffer: Floats, c: Floats) -> None:
    """Stochastic gradient descent, with `buffer` for momentum."""
    full_width()
    sign, decay, rate, old, new, ahead = c[0], c[1], c[2], c[3], c[4], c[5]
    moving, nesterov = buffer.size > 0, ahead != 0
    for i in range(p.size):
        d = sign * g[i]
        d = d + decay * p[i] if decay != 0 else d
        if moving:
            buffer[i] = old * buffer[i] + new * d
            d = d + ahead * buffer[i] if nesterov else buffer[i]
        p[i] -= rate * d


@jit(entry=True)
def rmsprop(p: Floats, g: Floats, square: Floats, mean: Floats, buffer: Floats, c: Floats) -> None:
    """RMSprop: centered with `mean`, with momentum with `buffer`."""
    full_width()
    sign, decay, rate, old, new, eps, momentum = c[0], c[1], c[2], c[3], c[4], c[5], c[6]
    centered, moving = mean.size > 0, buffer.size > 0
    for i in range(p.size):
        d = sign * g[i]
        d = d + decay * p[i] if decay != 0 else d
        square[i] = square[i] * old + new * d * d
        spread = square[i]
        if centered:
            mean[i] += new * (d - mean[i])
            spread = spread - mean[i] * mean[i]
        change = d / (np.sqrt(spread) + eps)
        if moving:
            buffer[i] = momentum * buffer[i] + change
            change = buffer[i]
        p[i] -= rate * change


@jit(entry=True)
def lerp(target: Floats, source: Floats, c: Floats) -> None:
    """Move `target` towards `source` by the share c[0] of the difference."""
    full_width()
    for i in range(target.size):
        target[i] += c[0] * (source[i] - target[i])
