"""Random programs: planned from bytes, run on the model and on other sides, compared after every step."""

from __future__ import annotations

from typing import Any

from helpers.fuzz import joins, keys, moves, numbers, reductions, writes
from helpers.fuzz.choices import SIZES, Choices, tree
from helpers.fuzz.model import Mismatch, One, Refused, Tree, compare, has_rows, regular
from helpers.fuzz.register import IN_PLACE, PLANS, VIEWS, Call
from helpers.fuzz.sides import MODEL, Model

__all__ = ["Program", "joins", "keys", "moves", "numbers", "reductions", "writes"]

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
        return repr(self.value) if self.error is None else f"{type(self.error).__name__}: {self.error}"


class Program:
    """A program that runs on the model and on a library.

    Args:
        start: bytes that stand for the first value.
        side: the library.
    """

    def __init__(self, start: bytes, side: Model) -> None:
        c = Choices(start)
        first = tree(c.rest(), c.pick(SIZES), names=True)
        self.side = side
        self.ended = False
        self.log = [f"v0 = {first}"]
        self.expected, self.got = ([s.value(first, [])] for s in (MODEL, side))
        if c.one_in(5):
            self.step(Call("lock_"), 0)

    def run(self, data: bytes) -> None:
        """Plan a step for the model's variables and run it on both sides."""
        if self.ended:
            return
        c = Choices(data)
        at = len(self.expected) - 1 - c.pick([0, 0, 0, 1, 2]) % len(self.expected)
        self.step(c.pick(PLANS)(c, self.expected, at), at)

    def step(self, call: Call, at: int) -> None:
        """Run a call; raises `Mismatch` where the library is not as the model."""
        self.log.append(f"{call} on v{at}")
        try:
            expected = Outcome(MODEL, call, self.expected, at)
        except NotImplementedError:
            self.log.pop()
            return
        got = Outcome(self.side, call, self.got, at)
        if isinstance(got.error, RuntimeError) and not all(map(regular, [self.expected[at], *call.args])):
            self.ended = True  # ragged stacks that lie along different dims cannot be paired
            return
        if (got.error is None) != (expected.error is None):
            raise Mismatch("error", "", got, expected)
        if expected.error is None:
            compare(self.side.read(got.value), expected.value, by_element=has_rows(self.expected[at]))
            if call.name in IN_PLACE and got.value is not None and got.value is not self.got[at]:
                raise Mismatch("identity", "", "another TensorDict", "the TensorDict itself")
        else:
            self._compare_errors(got.error, expected.error)
        for i, pair in enumerate(zip(self.got, self.expected, strict=True)):
            compare(self.side.read(pair[0]), pair[1], f"v{i}")
        if expected.error is None:
            self._keep(call, got.value, expected.value, has_rows(self.expected[at]))

    def _compare_errors(self, got: Any, expected: Any) -> None:
        wanted = next(names for kind, names in ERRORS.items() if isinstance(expected, kind))
        wanted = expected.args if isinstance(expected, Refused) and expected.args else wanted
        if type(got).__name__ not in wanted:
            raise Mismatch("error class", "", f"{type(got).__name__}: {got}", wanted)

    def _keep(self, call: Call, got: Any, expected: Any, lazy: bool) -> None:
        """Make variables of the nodes a call gave, which later steps read and write."""
        pairs = [(got, expected)]
        if isinstance(expected, tuple | list) and not isinstance(expected, One):
            pairs = list(zip(got, expected, strict=True))[:2]
        for mine, model in pairs:
            if not hasattr(model, "entries") and not hasattr(model, "dim"):
                continue
            known = [
                any(value is new for value in old) for new, old in ((mine, self.got), (model, self.expected))
            ]
            if known[0] != known[1]:
                raise Mismatch("identity", "", f"gives a variable: {known[0]}", known[1])
            if known[0] or (has_rows(model) and 0 in model.shape):
                continue
            # Views share memory as NumPy's do. Who shares parts of lazy stacks, or nodes, is not fixed.
            if (
                call.name not in VIEWS
                or lazy
                or has_rows(model)
                or nodes(model) & set().union(*map(nodes, self.expected))
            ):
                mine, model = self.side.clone(mine), MODEL.clone(model)
            if lazy:
                reorder(model, self.side.read(mine))
            self.got.append(mine)
            self.expected.append(model)
        del self.got[:-VARIABLES], self.expected[:-VARIABLES]
