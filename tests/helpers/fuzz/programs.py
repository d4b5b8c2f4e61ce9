"""Random programs: planned from bytes, run on the model and on other sides, compared after every step."""

from __future__ import annotations

import random
from typing import Any

from helpers.fuzz import exchanges, joins, keys, moves, numbers, reductions, writes
from helpers.fuzz.choices import SIZES, Choices, tree
from helpers.fuzz.model import Mismatch, One, Refused, Rows, Tree, compare, has_rows, is_node, regular
from helpers.fuzz.register import IN_PLACE, PLANS, VIEWS, Call
from helpers.fuzz.sides import LITE, MODEL, Model

__all__ = ["Program", "exchanges", "joins", "keys", "moves", "numbers", "reductions", "writes"]

VARIABLES = 4  # how many values a program keeps
# What the model raises, and the classes of lite's errors for it.
ERRORS = {
    KeyError: ("KeyError", "ValueError"),  # beside an array that is read-only
    Refused: ("RuntimeError", "ValueError", "IndexError", "TypeError", "KeyError"),
    IndexError: ("IndexError", "RuntimeError", "ValueError"),
    ValueError: ("ValueError", "RuntimeError", "IndexError"),
    TypeError: ("TypeError", "ValueError", "RuntimeError", "UFuncTypeError", "_UFuncOutputCastingError"),
}


def nodes(value: Any) -> set[int]:
    """The identities of all nodes of a tree."""
    return {id(value)}.union(*map(nodes, value.entries.values())) if isinstance(value, Tree) else set()


def is_ragged(value: Any) -> bool:
    """Whether there are rows of several shapes in an argument."""
    if isinstance(value, dict | list):
        return any(map(is_ragged, value.values() if isinstance(value, dict) else value))
    return is_node(value) and not regular(value)


def is_instance(node: Any) -> bool:
    """Whether this is an instance of a tensorclass, or a stack of some."""
    return any(tree.kind for tree in (node.array.ravel() if isinstance(node, Rows) else [node]))


def reorder(model: Any, other: Any) -> None:
    """Give a tree the order of keys of another one, where lazy stacks leave it open."""
    if isinstance(model, Tree) and isinstance(other, Tree):
        model.entries = {key: model.entries[key] for key in other.entries}
        for key, value in model.entries.items():
            reorder(value, other.entries[key])


class Outcome:
    """What a call gave on one side, or the error it raised."""

    def __init__(self, side: Model, call: Call, variables: list[Any], at: int) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        try:
            self.value = side.call(call, variables, at)
        except NotImplementedError:
            raise
        except Exception as error:
            self.error = error

    def __repr__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:300]}"
        try:
            return repr(self.value)
        except Exception as error:  # a library cannot read what it has put together
            return f"unreadable: {error!r}"


class Program:
    """A program that runs on the model and on lite.

    Args:
        start: bytes that stand for the first value.
    """

    sides: tuple[Model, ...] = (MODEL, LITE)

    def __init__(self, start: bytes) -> None:
        c = Choices(start)
        first = self.first(c)
        self.variables = [[side.value(first, [])] for side in self.sides]
        self.log = [f"v0 = {first}"]
        self.ended = False
        if c.one_in(5):
            self.step(Call("lock_"), 0)

    def first(self, c: Choices) -> Any:
        """The value that the program starts with."""
        return tree(c.rest(), c.pick(SIZES), names=True)

    def run(self, data: bytes) -> None:
        """Plan a step for the model's variables and run it on all sides."""
        if self.ended:
            return
        c = Choices(data)
        variables = self.variables[0]
        at = len(variables) - 1 - c.pick([0, 0, 0, 1, 2]) % len(variables)
        self.step(c.pick(PLANS)(c, variables, at), at)

    def step(self, call: Call, at: int) -> None:
        """Run a call; raises `Mismatch` where lite is not as the model."""
        self.log.append(f"{call} on v{at}")
        lazy = has_rows(self.variables[0][at])
        try:
            outcomes = [
                Outcome(side, call, v, at) for side, v in zip(self.sides, self.variables, strict=True)
            ]
        except NotImplementedError:  # in the model, which leaves open what happens
            self.log.pop()
            return
        expected, got = outcomes[:2]
        if "Failed to stack" in str(got.error) and (expected.error or any(map(is_ragged, call.args))):
            self.ended = True  # ragged stacks that lie along different dims cannot be paired; or two mistakes
            return
        self.check(call, at, expected, got)
        for i, (model, ours) in enumerate(zip(*self.variables[:2], strict=True)):
            compare(LITE.read(ours), model, f"v{i}")
        self.check_others(call, at, outcomes)
        if expected.error is None and not self.ended:
            self.keep(call, lazy, [outcome.value for outcome in outcomes])

    def check(self, call: Call, at: int, expected: Outcome, got: Outcome) -> None:
        if (got.error is None) != (expected.error is None):
            raise Mismatch("error", "", got, expected)
        if expected.error is None:
            compare(LITE.read(got.value), expected.value, by_element=has_rows(self.variables[0][at]))
            if call.name in IN_PLACE and got.value is not None and got.value is not self.variables[1][at]:
                raise Mismatch("identity", "", "another TensorDict", "the TensorDict itself")
            return
        wanted = next(names for kind, names in ERRORS.items() if isinstance(expected.error, kind))
        if isinstance(expected.error, Refused) and expected.error.args:
            wanted = expected.error.args
        if type(got.error).__name__ not in wanted:
            raise Mismatch("error class", "", got, wanted)

    def check_others(self, call: Call, at: int, outcomes: list[Outcome]) -> None:
        """Compare with further sides, where there are any."""

    def keep(self, call: Call, lazy: bool, values: list[Any]) -> None:
        """Make variables of the nodes a call gave, which later steps read and write."""
        several = isinstance(values[0], tuple | list) and not isinstance(values[0], One)
        for new in list(zip(*values, strict=True))[:2] if several else [tuple(values)]:
            model = new[0]
            if not is_node(model) or is_instance(model):
                continue  # what methods a tensorclass has is tested beside it
            known = [any(v is x for v in old) for x, old in zip(new, self.variables, strict=True)]
            if known[0] != known[1]:
                raise Mismatch("identity", "", f"gives a variable: {known[1]}", known[0])
            if any(known) or (has_rows(model) and 0 in model.shape):
                continue
            # Views share memory as NumPy's do. Who shares parts of lazy stacks, or nodes, is not fixed.
            shared = nodes(model) & set().union(*map(nodes, self.variables[0]))
            if call.name not in VIEWS or lazy or has_rows(model) or shared:
                new = tuple(side.clone(x) for side, x in zip(self.sides, new, strict=True))
            if lazy:
                reorder(new[0], LITE.read(new[1]))
            for x, old in zip(new, self.variables, strict=True):
                old.append(x)
        for old in self.variables:
            del old[:-VARIABLES]


def run(kind: type[Program], seed: int) -> Program:
    """Run the program of a seed. If it fails, the error lists the fewest of its steps that fail, too."""
    r = random.Random(seed)
    start, steps = r.randbytes(48), [r.randbytes(16) for _ in range(r.randrange(1, 9))]
    try:
        return _run(kind, start, steps)
    except AssertionError as error:
        failed = error
    for i in reversed(range(len(steps))):
        try:
            _run(kind, start, [*steps[:i], *steps[i + 1 :]])
        except AssertionError as error:
            failed = error
            del steps[i]
    raise failed


def _run(kind: type[Program], start: bytes, steps: list[bytes]) -> Program:
    program = kind(start)
    try:
        for step in steps:
            program.run(step)
    except AssertionError as error:
        for line in program.log:
            error.add_note(line)
        raise
    return program
