"""Steps of optimisers in NumPy, on flat arrays: what `lite/kernels/cpu/optimizers.py` compiles.

The first array is changed, the second is the gradient and only read, the others are state and changed. Those
that a setting does without are empty. The numbers come last, in the order of the kernels.
"""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array, is_interpreted


def _gradient(p: Array, g: Array, sign: float, decay: float) -> Array:
    """The direction to go against, which may be `g` itself."""
    if sign != 1:
        g = -g
    return g + decay * p if decay else g


def adam(p: Array, g: Array, first: Array, second: Array, top: Array, numbers: tuple[float, ...]) -> None:
    """Adam, AMSGrad with `top`, decoupled weight decay with `keep` below 1."""
    sign, decay, keep, new_first, old_second, new_second, rate, eps = numbers
    if is_interpreted(keep) or keep != 1:
        p *= keep
    g = _gradient(p, g, sign, decay)
    work = g - first
    work *= new_first
    first += work
    np.multiply(g, g, out=work)
    work *= new_second
    second *= old_second
    second += work
    if top.size:
        second = np.maximum(top, second, out=top)
    np.sqrt(second, out=work)
    work += eps
    np.divide(first, work, out=work)
    work *= rate
    p -= work


def sgd(p: Array, g: Array, buffer: Array, numbers: tuple[float, ...]) -> None:
    """Stochastic gradient descent, with `buffer` for momentum."""
    sign, decay, rate, old, new, ahead = numbers
    g = _gradient(p, g, sign, decay)
    if buffer.size:
        buffer *= old
        buffer += g * new
        g = g + buffer * ahead if ahead else buffer
    p -= g * rate


def rmsprop(
    p: Array, g: Array, square: Array, mean: Array, buffer: Array, numbers: tuple[float, ...]
) -> None:
    """RMSprop: centered with `mean`, with momentum with `buffer`."""
    sign, decay, rate, old, new, eps, momentum = numbers
    g = _gradient(p, g, sign, decay)
    work = g * g
    work *= new
    square *= old
    square += work
    if mean.size:
        mean += new * (g - mean)
        np.multiply(mean, mean, out=work)
        np.subtract(square, work, out=work)
        np.sqrt(work, out=work)
    else:
        np.sqrt(square, out=work)
    work += eps
    np.divide(g, work, out=work)
    if buffer.size:
        buffer *= momentum
        buffer += work
        np.multiply(buffer, rate, out=work)
    else:
        work *= rate
    p -= work


def lerp(target: Array, source: Array, numbers: tuple[float, ...]) -> None:
    """`target` a share nearer to `source`."""
    work = source - target
    work *= numbers[0]
    target += work
