"""For code that also runs inside `grad`: what a parameter computes as.

`lite.nn` imports this file at once and the rest of `grad` when it is used, so it knows nothing of the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

pauses = [0]  # the number of threads under `no_grad`, a cheap first check
nestings = [0]  # the number of gradients that run inside of another one, likewise
complexes = [False]  # whether there were complex numbers in a gradient, likewise


class _State(threading.local):
    """The state of one thread.

    Attributes:
        leaf: makes what a parameter computes as: a traced array under `enable_grad`, else `base`.
        base: the same where no gradient is wanted: None for its array, unless a graph is traced.
        paused: whether nothing is recorded: under `no_grad`.
        before: `leaf` and `paused` as they were before each mode that is entered.
        levels: levels of the gradients that run, the innermost last.
        floor: gradients of lower levels record nothing: they run outside of a `no_grad`.
        for_complex: whether a rule runs that makes complex numbers of real ones.
    """

    def __init__(self) -> None:
        self.leaf: Callable[[Any], Any] | None = None
        self.base: Callable[[Any], Any] | None = None
        self.paused = False
        self.before: list[tuple[Callable[[Any], Any] | None, bool]] = []
        self.levels: list[int] = []
        self.floor = -1
        self.for_complex = False


state = _State()


def leaf(parameter: Any) -> Any:
    """The value that a parameter computes with: its array, or a traced one if a gradient is wanted."""
    make = state.leaf
    return parameter.data if make is None else make(parameter)
