"""The modes of gradients (`enable_grad`, `no_grad`), and `backward`.

There are three states, of each thread: usually nothing is recorded but in functions that `grad` and its kin
call; under `enable_grad` parameters take part wherever they compute; under `no_grad` nothing is recorded.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import lite._transforms.grad.ufuncs  # noqa: F401  # which gives traced arrays their rules
from lite._arrays.public import belong_to
from lite._arrays.settings import run_within
from lite._arrays.types import Array, ArrayHolder, HostArray, Operand
from lite._transforms.grad.array import TracedArray, rules
from lite._transforms.grad.running import nestings, pauses, state
from lite._transforms.grad.tape import leaf, walk

_lock = threading.Lock()


class Mode:
    """A state of the thread that enters it, until it leaves; a function called with it runs in it."""

    def __init__(self, leaf: Callable[[Any], Any] | None, paused: bool) -> None:
        self._new = (leaf, paused)

    def __enter__(self) -> None:
        before = (state.leaf, state.paused, len(state.levels), self)
        state.before.append(before)
        try:
            state.leaf, state.paused = self._new
            if before[1] is not self._new[1]:
                _count()
        except BaseException:  # an interrupt
            state.leaf, state.paused, *_ = state.before.pop()
            raise

    def __exit__(self, *error: object) -> None:
        # Without a call until all is restored, as an interrupt comes at one; what it left inside goes, too.
        before, paused, place = state.before, state.paused, -1
        try:
            while before[place][3] is not self:
                place -= 1
        except IndexError:  # there is nothing to undo in a thread that ends the generator of another one
            return
        state.leaf, state.paused, levels, _ = before[place]
        del before[place:], state.levels[levels:]
        if paused is not state.paused:
            _count()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs in this state."""
        return run_within(functools.partial(Mode, *self._new), function)


def _set(leaf: Callable[[Any], Any] | None, paused: bool) -> None:
    before = state.paused
    state.leaf, state.paused = leaf, paused
    if paused is not before:
        _count()


def _count() -> None:
    """Count the thread, which has come under `no_grad` or has left it."""
    with _lock:
        pauses[0] += 1 if state.paused else -1


class enable_grad(Mode):
    """Parameters that require gradients take part wherever they compute; a context manager and decorator.

    What is computed from them has a method `backward`, which adds the derivative to their `grad`. The state
    is that of a thread: a block with an `await` in it records what other tasks compute, too, a decorated
    coroutine does not.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> from lite import nn
        >>> weight = nn.Parameter(np.array([1.0, 2.0]))
        >>> with lite.enable_grad():
        ...     loss = (weight * weight).sum()
        >>> loss.backward()
        >>> weight.grad
        array([2., 4.])

    Source:
        torch.enable_grad. It is off by default here, so that what only runs a network pays nothing.
    """

    def __init__(self) -> None:
        super().__init__(leaf, False)


class no_grad(Mode):
    """Record nothing, inside of `enable_grad` and of `grad` too; a context manager and decorator.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> def loss(x):
        ...     with lite.no_grad():
        ...         scale = x.sum()
        ...     return (x * scale).sum()
        >>> lite.grad(loss)(np.array([1.0, 2.0]))
        array([3., 3.])

    Source:
        torch.no_grad.
    """

    def __init__(self) -> None:
        super().__init__(state.base, True)


class set_grad_enabled(Mode):
    """`enable_grad` from the call on, or `no_grad` for a false `mode`; a context manager, too.

    Example:
        >>> import lite
        >>> with lite.set_grad_enabled(True):
        ...     lite.is_grad_enabled()
        True

    Source:
        torch.set_grad_enabled.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(leaf if mode else state.base, not mode)
        self._old = [(state.leaf, state.paused)]
        _set(*self._new)

    def __enter__(self) -> None:
        """The mode is set already; `__exit__` restores the mode before the constructor."""

    def __exit__(self, *error: object) -> None:
        paused = state.paused
        state.leaf, state.paused = self._old[-1]
        del self._old[-1]
        if paused is not state.paused:
            _count()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs in this state, which is not that of the thread."""
        _set(*self._old.pop())
        return super().__call__(function)


class functional(Mode):
    """Record only computations from arguments: for functions that `grad` and its kin call."""

    def __init__(self) -> None:
        super().__init__(state.base, False)


class differentiated(Mode):
    """Record what a function computes that a gradient of this level is taken of; parameters as outside."""

    def __init__(self, level: int) -> None:
        super().__init__(state.leaf, False)
        self._level = level
        self._floor: int | None = None

    def __enter__(self) -> None:
        levels = state.levels
        self._nested = bool(levels) or self._new[0] is not state.base
        if state.paused:
            self._floor, state.floor = state.floor, self._level
        super().__enter__()
        levels.append(self._level)
        if self._nested:
            with _lock:
                nestings[0] += 1

    def __exit__(self, *error: object) -> None:
        if self._nested:
            with _lock:
                nestings[0] -= 1
        if self._floor is not None:
            state.floor = self._floor
        super().__exit__(*error)


def is_grad_enabled() -> bool:
    """Whether parameters take part in derivatives: under `enable_grad`, not by default.

    Example:
        >>> import lite
        >>> lite.is_grad_enabled()
        False

    Source:
        torch.is_grad_enabled.
    """
    return state.leaf is not state.base


def backward(x: TracedArray, gradient: Operand, retain_graph: bool, inputs: Any) -> None:
    """See `TracedArray.backward`."""
    if x.node is None:
        raise RuntimeError("this array depends on no parameter: there is nothing to differentiate by.")
    if gradient is None:
        if x.size != 1:
            raise RuntimeError(
                f"backward() needs a gradient, of the shape {x.shape}, as this array is not a single number; "
                "sum() or mean() make one."
            )
        gradient = one_like(x.value)
    else:
        gradient = np.asarray(gradient, x.dtype)
        if gradient.shape != x.shape:
            raise RuntimeError(f"the gradient must have the shape {x.shape}, got {gradient.shape}.")
    wanted = [inputs] if isinstance(inputs, ArrayHolder) else inputs
    ids = None if wanted is None else {id(parameter) for parameter in wanted}
    for holder, share in walk([(x.node, gradient)], release=not retain_graph).items():
        if isinstance(holder, ArrayHolder) and (ids is None or id(holder) in ids):
            holder.accumulate_grad(share)


def one_like(value: Array) -> Array:
    """Ones of the shape of a value: the derivative of a number by itself."""
    return np.ones_like(value) if isinstance(value, HostArray) else np.ones(value.shape, value.dtype)


rules.backward = backward
for _mode in (enable_grad, no_grad, set_grad_enabled):
    belong_to("lite", _mode)
