"""tensordict as a side of random programs, and the differences from it that are meant.

A program ends at the first difference, and at the first internal error of tensordict. Lite's result has been
compared with the model before, so a rule only has to tell which difference this is: by the operation, by what
differs, and by what tensordict says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.fuzz.choices import SIZES, Choices, tree
from helpers.fuzz.model import Mismatch, Rows, Tree, compare, has_rows, objects, spread
from helpers.fuzz.numbers import BINARY, CASTS, UNARY
from helpers.fuzz.programs import Outcome, Program
from helpers.fuzz.reductions import REDUCTIONS, SCANS
from helpers.fuzz.register import Call
from helpers.fuzz.sides import LITE, MODEL, Library

torch = pytest.importorskip("torch", reason="needs the parity extra")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")

PAIRS = ("max", "min", "cummax", "cummin")


class Reference(Library):
    """tensordict, with its tensors read as arrays."""

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, np.ndarray) and given.dtype == object:
            return tensordict.NonTensorStack.from_list(given.tolist())
        return super().value(given, variables)

    def read(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().numpy()
        if isinstance(value, torch.Size):
            return list(value)
        return super().read(value)

    def run(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if "dtype" in kwargs:
            kwargs["dtype"] = getattr(torch, kwargs["dtype"])
        found = super().run(name, td, args, kwargs)
        if name in PAIRS and type(found).__module__ == "torch.return_types":
            return tuple(found[0]) if isinstance(found[0], tuple) else tuple(found)
        return found


TORCH = Reference(tensordict, torch.from_numpy)


class Rule(NamedTuple):
    """A difference that is meant: all that is given must hold.

    Attributes:
        row: how its row in the table of differences begins.
        names: the operations.
        kinds: what differs.
        says: pieces of tensordict's error message, one of which must be there.
        lazy: whether a lazy stack must take part.
    """

    row: str
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    lazy: bool = False


NUMERIC = (*(f"operator {name}" for name in (*BINARY, "and_", "or_")), *UNARY, *CASTS, *REDUCTIONS, *SCANS)
RULES: list[Rule] = []


def rule_of(call: Call, mismatch: Mismatch, message: str, lazy: bool) -> Rule | None:
    """The rule that explains a difference."""
    for rule in RULES:
        if (
            (not rule.names or call.name in rule.names)
            and (not rule.kinds or mismatch.kind in rule.kinds)
            and (not rule.says or any(piece in message for piece in rule.says))
            and (lazy or not rule.lazy)
        ):
            return rule
    return None


def by_row(value: Any, shape: tuple[int, ...] = ()) -> Any:
    """The same, with one object per element where the batch shares one."""
    if isinstance(value, Rows):
        return Rows(
            objects([by_row(row) for row in value.array.ravel()], value.shape),
            value.dim,
            value.names,
            value.locked,
        )
    if isinstance(value, Tree):
        return Tree(
            value.shape,
            {k: by_row(v, value.shape) for k, v in value.entries.items()},
            value.names,
            value.locked,
        )
    if isinstance(value, list):
        return [by_row(item) for item in value]
    return spread(value, shape)


INTERNAL = ("AttributeError", "RecursionError", "UnboundLocalError", "AssertionError", "NotImplementedError")


class Compared(Program):
    """A program that runs on tensordict as well.

    Attributes:
        compared: how many steps gave the same.
        rule: the rule that explains the difference at which the program ended.
    """

    sides = (MODEL, LITE, TORCH)

    def __init__(self, start: bytes) -> None:
        self.compared = 0
        self.rule: Rule | None = None
        self.internal = False
        super().__init__(start)

    def first(self, c: Choices) -> Any:
        sizes = [size for size in SIZES if 0 not in size]
        return tree(c.rest(), c.pick(sizes), names=True, nested_lazy=False)

    def check_others(self, call: Call, at: int, outcomes: list[Outcome]) -> None:
        got, expected = outcomes[1:]
        lazy = has_rows(self.variables[0][at]) or any(map(has_rows, call.args))
        try:
            self._compare(got, expected, lazy)
        except Mismatch as mismatch:
            self.ended = True
            if type(expected.error).__name__ in INTERNAL or mismatch.kind == "internal":
                self.internal = True
                return
            self.rule = rule_of(call, mismatch, str(expected.error), lazy)
            if self.rule is None:
                raise
        else:
            self.compared += 1

    def _compare(self, got: Outcome, expected: Outcome, lazy: bool) -> None:
        if (got.error is None) != (expected.error is None):
            raise Mismatch("error", "", got, expected)
        if got.error is None:
            compare(by_row(LITE.read(got.value)), by_row(self._read(expected.value)), by_element=lazy)
        for i, (ours, theirs) in enumerate(zip(*self.variables[1:], strict=True)):
            try:
                compare(
                    by_row(LITE.read(ours)),
                    by_row(self._read(theirs)),
                    f"v{i}",
                    has_rows(self.variables[0][i]),
                )
            except Mismatch as mismatch:
                if got.error is not None:
                    mismatch.kind = "half done"
                raise

    def _read(self, value: Any) -> Any:
        try:
            return TORCH.read(value)
        except Exception as error:
            raise Mismatch("internal", "", "", error) from error
