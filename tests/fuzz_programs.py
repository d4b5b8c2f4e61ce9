"""Random programs on TensorDicts: what each step does, written once for both libraries.

A program is a list of byte strings, one per step. A step reads its bytes as choices among what the
current state allows (`plan`), so that most steps are valid, and gives a function to run on each side.
The steps themselves are in `fuzz_steps_*.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fuzz_steps_combine
import fuzz_steps_index
import fuzz_steps_keys
import fuzz_steps_math
import fuzz_steps_reduce
import fuzz_steps_shape
from fuzz_sides import Dense, Lazy, Side
from fuzz_step import STEPS, Choices, Plan, Step, lazy_below
from fuzz_values import sizes, tree

__all__ = [
    "Choices",
    "Start",
    "Step",
    "fuzz_steps_combine",
    "fuzz_steps_index",
    "fuzz_steps_keys",
    "fuzz_steps_math",
    "fuzz_steps_reduce",
    "fuzz_steps_shape",
    "plan",
]

# What shares the parts of a lazy stack in one of the libraries, and copies them in the other.
COPIES = (
    "repeat", "repeat_interleave", "gather", "flip", "masked_select", "flatten_keys", "unflatten_keys",
    "flat_round", "where", "masked_fill", "split_keys",
)  # fmt: skip
# Steps that belong together. A program takes every other step from one family, so that what only shows
# in one setting (a missing key below a lock, the name of a dimension that goes) is met often.
FAMILIES: tuple[tuple[Plan, ...], ...] = (
    (),
    (fuzz_steps_keys.keys, fuzz_steps_keys.lock, fuzz_steps_keys.set_key, fuzz_steps_keys.update),
    (fuzz_steps_shape.shape, fuzz_steps_shape.metadata, fuzz_steps_shape.pick),
    (fuzz_steps_combine.combine, fuzz_steps_combine.stack_edit, fuzz_steps_keys.set_key),
    (fuzz_steps_index.set_index, fuzz_steps_index.get_index, fuzz_steps_index.poke),
    (fuzz_steps_reduce.reduction, fuzz_steps_reduce.scan),
)


class Start:
    """What a program starts with: its first value, whether that is locked, and its family of steps."""

    def __init__(self, data: bytes) -> None:
        c = Choices(data)
        self.tree: Dense | Lazy = tree(c.rest(), sizes(c), names=True)
        self.locked = c.one_in(4)
        self.family: tuple[Plan, ...] = c.pick(FAMILIES)

    def __repr__(self) -> str:
        return f"{self.tree}{', locked' if self.locked else ''}"

    def value(self, s: Side) -> Any:
        """The first value, anew on one side."""
        first = s.value(self.tree)
        return first.lock_() if self.locked else first


def plan(data: bytes, variables: list[Any], family: Sequence[Plan] = ()) -> Step:
    """The step that some bytes stand for, given lite's variables."""
    c = Choices(data)
    make = c.pick(family if family and c.one_in(2) else STEPS)
    at = len(variables) - 1 - c.pick([0, 0, 0, 1, 2]) % len(variables)
    found = make(c, variables, at)
    found.text = f"{found.text} on v{at}"
    found.facts.setdefault("target", at)
    if found.name in COPIES and lazy_below(variables[at]):
        found.last = True
    return found
