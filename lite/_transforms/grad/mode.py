"""Whether parameters take part in derivatives by themselves, and whether anything is noted at all.

There are three states, of each thread: usually nothing is noted but in functions that `grad` and its kin
call; under `enable_grad` parameters take part wherever they compute; under `no_grad` nothing is noted.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

OUTERMOST = -1  # level of what was computed from parameters: every map inside is an inner transformation
pauses = [0]  # how many `no_grad` run in all threads: a quick first question


class _State(threading.local):
    def __init__(self) -> None:
        self.parameters = False  # whether parameters take part
        self.paused = False
        self.make_leaf: Any = None


_state = _State()


def is_grad_enabled() -> bool:
    """Whether parameters take part in derivatives: under `enable_grad`, and not by default.

    Example:
        >>> import lite
        >>> lite.is_grad_enabled()
        False
    """
    return _state.parameters


def recording() -> bool:
    """Whether computations with traced arrays are noted: everywhere but under `no_grad`."""
    return not _state.paused


def leaf(parameter: Any) -> Any:
    """What a parameter computes as: a traced array where gradients by it are wanted, else its array."""
    if not _state.parameters or not getattr(parameter, "requires_grad", False):
        return parameter.data
    return _leaves[0](parameter)


_leaves: list[Callable[[Any], Any]] = []  # how leaves are made, which needs more than this file knows


class _Mode:
    """A state of this thread while a block or a decorated function runs."""

    def __init__(self, parameters: bool, paused: bool) -> None:
        self._new = (parameters, paused)
        self._old: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._old.append((_state.parameters, _state.paused))
        self._set(*self._new)

    def __exit__(self, *error: object) -> None:
        self._set(*self._old.pop())

    @staticmethod
    def _set(parameters: bool, paused: bool) -> None:
        with _lock:
            pauses[0] += paused - _state.paused
        _state.parameters, _state.paused = parameters, paused

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs in this state."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)():  # type: ignore[call-arg]
                return function(*args, **kwargs)

        return call


_lock = threading.Lock()


class enable_grad(_Mode):
    """Parameters that require gradients take part wherever they compute; a context manager and decorator.

    What is computed from them has a method `backward`, which adds to their `grad`.

    Source:
        torch.enable_grad; other than there, this is off by default.
    """

    def __init__(self) -> None:
        super().__init__(True, False)


class no_grad(_Mode):
    """Nothing is noted for derivatives, also not inside of `grad`; a context manager and decorator.

    Source:
        torch.no_grad.
    """

    def __init__(self) -> None:
        super().__init__(False, True)


class functional(_Mode):
    """Only what is computed from arguments is noted; for functions that `grad` and its kin call."""

    def __init__(self) -> None:
        super().__init__(False, False)
