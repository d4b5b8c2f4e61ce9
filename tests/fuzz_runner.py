"""Runs a program on both sides and compares everything after every step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fuzz_programs import Start, Step, plan
from fuzz_rules import explain, same_error
from fuzz_sides import (
    LITE,
    TORCH,
    Frozen,
    Mismatch,
    Side,
    compare,
    in_order,
    is_container,
    readable,
    snapshot,
    thaw,
)

# What copies or not depending on the layout in memory, which the libraries choose differently.
RESHAPES = ("reshape", "view", "flatten", "unflatten")
# What tensordict raises when it reads what it has put together itself.
UNREADABLE = (RuntimeError, IndexError, ValueError, TypeError, KeyError, AttributeError)
CHANGED_PARTS = ("changed after they had been stacked", "of different kinds")
VARIABLES = 4  # how many values a program keeps


class Log:
    """What a program did."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.errors = 0
        self.rule: str | None = None


class Outcome:
    """What a step gave on one side, or the error it raised."""

    def __init__(self, side: Side, step: Step, variables: list[Any]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        try:
            self.value = step.run(side, variables)
        except Exception as error:
            self.error = error

    def __repr__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:300]}"
        try:
            return repr(self.value)
        except Exception as error:  # tensordict cannot read what it has put together
            return f"unreadable: {error!r}"


def run_program(build: bytes, steps: list[bytes]) -> Log:
    """Run a program; raises `Mismatch` at a difference that no rule names."""
    log = Log()
    try:
        _run(log, build, steps)
    except AssertionError as error:
        error.log = log  # type: ignore[attr-defined]
        raise
    return log


def _run(log: Log, build: bytes, steps: list[bytes]) -> None:
    first = Start(build)
    log.steps.append(f"v0 = {first}")
    ours, theirs = [first.value(LITE)], [first.value(TORCH)]
    _compare_variables(ours, theirs)
    done: list[Step] = []
    for data in steps:
        step = plan(data, ours, first.family)
        step.facts["before"] = partial(_replay, first, tuple(done))
        done.append(step)
        log.steps.append(step.text)
        before = [snapshot(td) for td in ours]
        at = step.facts["target"]
        contiguous = in_order(ours[at]) and in_order(theirs[at])
        if step.writes:
            got = Outcome(LITE, step, ours)
        else:
            with Frozen(*ours):
                got = Outcome(LITE, step, ours)
            thaw([ours, got.value])
        expected = Outcome(TORCH, step, theirs)
        log.errors += got.error is not None
        if got.error is not None and [snapshot(td) for td in ours] != before:
            raise Mismatch("unchanged after an error", "", f"{got!r}")
        try:
            _compare_outcomes(got, expected, step)
            if got.error is None:
                _compare_variables(ours, theirs)
                _compare_identity(ours, theirs, got.value, expected.value)
        except Mismatch as mismatch:
            log.rule = explain(step, mismatch, got, expected, ours, theirs)
            if log.rule is None:
                raise
            _check_alone(step, ours, got)
            return
        except UNREADABLE as error:
            if any(text in str(error) for text in CHANGED_PARTS):  # lite's, where tensordict is out of date
                log.rule = "a lazy stack after its parts changed"
            elif readable((expected.value, *theirs)):
                raise
            else:
                log.rule = "results whose entries do not start with the batch size"
            _check_alone(step, ours, got)
            return
        if got.error is not None:
            try:
                _compare_variables(ours, theirs)
            except (Mismatch, *UNREADABLE):
                return  # tensordict changed a part of itself before it raised
            continue
        _keep(ours, theirs, got.value, expected.value)
        if step.last or (step.name in RESHAPES and not contiguous):
            # Who shares memory with whom may differ from now on.
            step.facts["separates"] = True
            try:
                ours[:], theirs[:] = [td.clone() for td in ours], [td.clone() for td in theirs]
                _compare_variables(ours, theirs)
            except (Mismatch, *UNREADABLE):
                return


def _check_alone(step: Step, ours: list[Any], got: Outcome) -> None:
    """Where tensordict differs, lite's values must at least be readable, and right by the oracle."""
    for value in (*ours, got.value):
        try:
            repr(value)
        except RuntimeError as error:  # of a lazy stack whose parts were changed, in both libraries
            if not any(text in str(error) for text in CHANGED_PARTS):
                raise
    if got.error is None and step.facts.get("oracle"):
        step.facts["oracle"].check(ours[step.facts["target"]], got.value)


def _replay(first: Start, steps: Sequence[Step]) -> list[Any]:
    """Lite's variables after some steps that gave no difference."""
    variables = [first.value(LITE)]
    for step in steps:
        got = Outcome(LITE, step, variables)
        if not step.writes:
            thaw([variables, got.value])  # as after a step with frozen arrays
        if got.error is None:
            results = got.value[:2] if isinstance(got.value, tuple) else (got.value,)
            for value in filter(is_container, results):
                if not any(known is value for known in variables):
                    variables.append(value)
            del variables[:-VARIABLES]
        if "separates" in step.facts:
            variables = [td.clone() for td in variables]
    return variables


def _compare_outcomes(got: Outcome, expected: Outcome, step: Step) -> None:
    if (got.error is None) != (expected.error is None):
        raise Mismatch("error", "", f"lite {got!r}, tensordict {expected!r}")
    if got.error is None:
        compare(got.value, expected.value)
    elif not same_error(step.name, got.error, expected.error):
        raise Mismatch("error class", "", f"lite {got!r}, tensordict {expected!r}")


def _compare_variables(ours: list[Any], theirs: list[Any]) -> None:
    for i, pair in enumerate(zip(ours, theirs, strict=True)):
        compare(*pair, f"v{i}")


def _containers(got: Any, expected: Any) -> list[tuple[Any, Any]]:
    pairs = list(zip(got, expected, strict=True))[:2] if isinstance(got, tuple) else [(got, expected)]
    return [pair for pair in pairs if is_container(pair[0])]


def _compare_identity(ours: list[Any], theirs: list[Any], got: Any, expected: Any) -> None:
    for mine, its in _containers(got, expected):
        known = [any(value is mine for value in ours), any(value is its for value in theirs)]
        if known[0] != known[1]:
            text = f"gives a variable: lite {known[0]}, tensordict {known[1]}"
            raise Mismatch("identity", "", text)


def _keep(ours: list[Any], theirs: list[Any], got: Any, expected: Any) -> None:
    """Make variables of the containers a step gave, unless they are variables already."""
    for mine, its in _containers(got, expected):
        if not any(value is mine for value in ours):
            ours.append(mine)
            theirs.append(its)
    del ours[:-VARIABLES], theirs[:-VARIABLES]
