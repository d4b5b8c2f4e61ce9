"""The intended differences that random programs meet, by name.

A difference that no rule explains fails the test. The names are those of the rows in the README's
table of differences; `test_rules_are_documented` compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fuzz_rules_lazy
import fuzz_rules_lazy_writes
import fuzz_rules_other
import fuzz_rules_reduce
import fuzz_rules_shape
import fuzz_rules_writes
from fuzz_case import RULES, Case, same_error
from fuzz_sides import Mismatch

__all__ = [
    "RULES",
    "explain",
    "fuzz_rules_lazy",
    "fuzz_rules_lazy_writes",
    "fuzz_rules_other",
    "fuzz_rules_reduce",
    "fuzz_rules_shape",
    "fuzz_rules_writes",
    "same_error",
]


def explain(
    step: Any, mismatch: Mismatch, got: Any, expected: Any, ours: list[Any], theirs: list[Any]
) -> str | None:
    """The name of the rule that a difference falls under."""
    at = step.facts.get("target", 0)
    case = Case(
        step,
        mismatch.kind,
        mismatch.path,
        got.value,
        expected.value,
        type(got.error).__name__ if got.error is not None else "",
        type(expected.error).__name__ if expected.error is not None else "",
        str(expected.error) if expected.error is not None else "",
        got.error,
        ours[at],
        list(zip(ours, theirs, strict=True)),
    )
    for name, predicates in RULES.items():
        if any(_applies(predicate, case) for predicate in predicates):
            return name
    return None


def _applies(predicate: Callable[[Case], bool], case: Case) -> bool:
    try:
        return predicate(case)
    except (ValueError, RuntimeError, IndexError, KeyError):  # it cannot read what there is
        return False
