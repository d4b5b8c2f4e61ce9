"""Random programs on TensorDicts: what each step does, written once for both libraries.

A program is a list of byte strings, one per step. A step reads its bytes as choices among what the
current state allows (`plan`), so that most steps are valid, and gives a function to run on each side.
The steps themselves are in `fuzz_steps_*.py`.
"""

from __future__ import annotations

from typing import Any

import fuzz_steps_combine
import fuzz_steps_index
import fuzz_steps_keys
import fuzz_steps_math
import fuzz_steps_reduce
import fuzz_steps_shape
from fuzz_step import STEPS, Choices, Step, lazy_below
from fuzz_values import sizes, tree

__all__ = [
    "Choices",
    "Step",
    "fuzz_steps_combine",
    "fuzz_steps_index",
    "fuzz_steps_keys",
    "fuzz_steps_math",
    "fuzz_steps_reduce",
    "fuzz_steps_shape",
    "plan",
    "sizes",
    "tree",
]

# What shares the parts of a lazy stack in one of the libraries, and copies them in the other.
COPIES = (
    "repeat", "repeat_interleave", "gather", "flip", "masked_select", "flatten_keys", "unflatten_keys",
    "flat_round", "where", "masked_fill", "split_keys",
)  # fmt: skip


def plan(data: bytes, variables: list[Any]) -> Step:
    """The step that some bytes stand for, given lite's variables."""
    c = Choices(data)
    make = c.pick(STEPS)
    at = len(variables) - 1 - c.pick([0, 0, 0, 1, 2]) % len(variables)
    found = make(c, variables, at)
    found.text = f"{found.text} on v{at}"
    found.facts.setdefault("target", at)
    if found.name in COPIES and lazy_below(variables[at]):
        found.last = True
    return found
