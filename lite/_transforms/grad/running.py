"""The state of running gradients, and the array that a parameter computes with in them.

`lite.nn` always imports this file, but the rest of `grad` on first use, so this file imports none of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

pauses = [0]  # the number of threads under `no_grad`, a cheap first check
nestings = [0]  # the number of gradients that run inside of another one, likewise
complexes = [False]  # whether a gradient had complex numbers, likewise


class _State(threading.local):
    """The state of one thread.

    Attributes:
        leaf: maps a parameter to the array that it computes with: traced under `enable_grad`, else `base`.
        base: this map without a gradient: None for the parameter's own array, unless a graph is traced.
        paused: whether `no_grad` is active, so that nothing is recorded.
        before: `leaf`, `paused` and the number of levels before each mode that was entered, and this mode.
        levels: levels of the running gradients, the innermost last.
        floor: gradients of lower levels record nothing: they run outside of a `no_grad`.
        for_complex: whether a rule runs that returns complex numbers for real ones.
    """

    def __init__(self) -> None:
        self.leaf: Callable[[Any], Any] | None = None
        self.base: Callable[[Any], Any] | None = None
        self.paused = False
        self.before: list[tuple[Callable[[Any], Any] | None, bool, int, object]] = []
        self.levels: list[int] = []
        self.floor = -1
        self.for_complex = False


state = _State()


def leaf(parameter: Any) -> Any:
    """The value that a parameter computes with: its array, or a traced one if a gradient is wanted."""
    make = state.leaf
    return parameter.data if make is None else make(parameter)
