"""What a step of a random program is, and the register of all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fuzz_sides import Side, stacked

import lite


class Choices:
    """Bytes read as choices; 0 is always the simplest."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def below(self, n: int) -> int:
        if self.at >= len(self.data) or n <= 1:
            return 0
        self.at += 1
        return self.data[self.at - 1] % n

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def one_in(self, n: int) -> bool:
        return self.below(n) == 1

    def rest(self) -> Choices:
        """All that is left, for a part that needs more choices than there are bytes."""
        seed = int.from_bytes(self.data[self.at :], "little")
        return Choices(np.random.default_rng(seed).bytes(64) if seed else b"")


class Step:
    """A planned step.

    Attributes:
        name: the operation.
        text: the operation with its arguments.
        run: what to call with a side and its variables.
        writes: whether it may write into arrays that exist.
        last: go on with copies, because tensordict stores new arrays instead of writing.
        facts: what the rules want to know about the arguments.
    """

    def __init__(
        self,
        name: str,
        text: str,
        run: Callable[[Side, list[Any]], Any],
        writes: bool = False,
        last: bool = False,
        **facts: Any,
    ) -> None:
        self.name = name
        self.text = text
        self.run = run
        self.writes = writes
        self.last = last
        self.facts = facts


Plan = Callable[[Choices, list[Any], int], Step]
STEPS: list[Plan] = []


def step(weight: int = 1) -> Callable[[Plan], Plan]:
    def add(plan: Plan) -> Plan:
        STEPS.extend([plan] * weight)
        return plan

    return add


def method(name: str, at: int, *args: Any, writes: bool = False, **kwargs: Any) -> Step:
    """Call a method with arguments that `Side.value` builds."""

    def run(s: Side, v: list[Any]) -> Any:
        return getattr(v[at], name)(*map(s.value, args), **{k: s.value(a) for k, a in kwargs.items()})

    shown = ", ".join([*(repr(a) for a in args), *(f"{k}={a!r}" for k, a in kwargs.items())])
    return Step(name, f"{name}({shown})", run, writes, args=args, kwargs=kwargs)


def lazy_below(td: Any) -> bool:
    """Whether there is a lazy stack in a tree."""
    if stacked(td):
        return True
    return any(lazy_below(entry) for _, entry in td._items() if isinstance(entry, lite.TensorDictBase))


def dim(c: Choices, ndim: int) -> int:
    """Mostly a dimension there is."""
    return c.below(2 * ndim + 2) - ndim - 1 if c.one_in(6) or not ndim else c.below(2 * ndim) - ndim
