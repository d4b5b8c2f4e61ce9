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
from helpers.fuzz.exchanges import INTO
from helpers.fuzz.model import Mismatch, Rows, Tree, compare, has_rows, objects, spread
from helpers.fuzz.numbers import BINARY, CASTS, UNARY
from helpers.fuzz.programs import Outcome, Program
from helpers.fuzz.reductions import REDUCTIONS, SCANS
from helpers.fuzz.register import Call
from helpers.fuzz.sides import LITE, MODEL, Library
from parity.compare import SAME_ERRORS

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
        ours: pieces of lite's error message.
        lazy: whether a lazy stack must take part.
    """

    row: str
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    lazy: bool = False


ARITHMETIC = (*(f"operator {name}" for name in (*BINARY, "and_", "or_")), *UNARY, *CASTS, "add_")
NUMERIC = (*ARITHMETIC, *REDUCTIONS, *SCANS, "where", "masked_fill")
WRITES = ("assign", "set_", "set in place", "update_", "update in place", "update_at_")
MOVES = (
    "reshape", "view", "flatten", "unflatten", "unsqueeze", "squeeze", "permute", "transpose", "movedim",
    "expand", "split", "chunk", "unbind", "repeat", "repeat_interleave", "gather", "flip", "roll",
    "masked_select", "index",
)  # fmt: skip
EXTREMES = ("prod", "amax", "amin", "max", "min")
READS = ("clone", "get", "item", "setdefault", "pop", "to_dict", "flatten_keys")
STACKS = ("cat", "stack", "lazy_stack", "maybe_dense_stack")
RULES = [
    Rule("dtypes of results", NUMERIC, ("dtype",)),
    Rule("dtypes of results", NUMERIC, ("error",),
        ("floating point", "infer output dtype", "'Bool'", "result type")),
    Rule("calls that fail half way", kinds=("half done",)),
    Rule("classes of errors", ("squeeze",), ("error",),
        ("out of range", "invalid combination", "not enough values")),
    Rule("classes of errors", ("expand", "repeat_interleave", *STACKS, *WRITES), ("error class",)),
    Rule("too many indices", ("index", "assign"), ("error",), ours=("not permitted", "too many indices")),
    Rule("missing keys in `update_`", WRITES, ("error",), ours=("not found",)),
    Rule("broadcast leaves", (*WRITES, "zero_", "add_"), ("error",), ours=("read-only",)),
    Rule("shapes and dims that do not fit", (*STACKS, "set names"), ("error",),
        ours=("names", "must be in")),
    Rule("shapes and dims that do not fit", ("split", "repeat_interleave", "unflatten"), ("error",),
        ours=("size", "dim")),
    Rule("dims of `sum(dim, reduce=True)`; dims named twice", REDUCTIONS, ("error",), ours=("twice",)),
    Rule("operations of a locked TensorDict that replace entries", kinds=("error",),
        ours=("Cannot modify locked",)),
    Rule("names of the dims that index arrays make", ("index",), ("names",)),
    Rule("names and lock after an operation", kinds=("names", "lock")),
    Rule("names and lock after an operation", kinds=("error",),
        says=("refine_names", "dim names", "non-unique")),
    Rule("`numel()` of an empty batch", ("numel",), ("value",)),
    Rule("`numel()` of an empty batch", ("view", "reshape"), ("batch_size",)),
    Rule("`numel()` of an empty batch", ("view", "reshape"), ("error",), ("for input of size 0",)),
    Rule("names and lock after an operation", ("unlock_",), ("error",), ("part of a locked graph",)),
    Rule("`roll` without dims", ("roll",), ("values", "error")),
    Rule("`//`, `@`", ("cumsum", "cumprod", "sort"), ("error", "error class"), ("has no attribute",)),
    Rule("`rename_key_(", ("create_nested", "rename_key_", "flatten_keys"),
        ("keys", "batch_size", "error")),
    Rule("new non-tensor keys in an assignment", ("assign", "update_at_"), ("type", "value")),
    Rule("values of another dtype", WRITES, ("error",),
        ("dtypes match", "must match", "shape mismatch", "broadcast")),
    Rule("values of another dtype", WRITES, ("error",), ("Invalid indexing", "batch dimension")),
    Rule("objects given to `update_`", WRITES, ("error",), ("locked", "Failed to update", "NonTensor")),
    Rule("objects given to `update_`", WRITES, ("error",), ours=("it is nested",)),
    Rule("objects given to `update_`", WRITES, ("type", "value", "kind")),
    Rule("`set_`, `update_`, `td[i] = ...`", WRITES,
        ("error", "values", "keys", "unreadable", "batch_size", "shape"), lazy=True),
    Rule("reductions over a dim with one object per element", (*REDUCTIONS, *SCANS),
        ("keys", "kind", "parts")),
    Rule("reductions over a dim with one object per element", REDUCTIONS, ("error",), ("recursion",)),
    Rule("`prod`, `amax`", EXTREMES, ("batch_size", "values", "shape")),
    Rule("`prod`, `amax`", EXTREMES, ("error",),
        ("call_on_nested", "NoneType", "dim", "Dim", "batch", "shape")),
    Rule("`sum(dim=None)`", REDUCTIONS, ("batch_size", "shape")),
    Rule("nested batch sizes longer", SCANS, ("batch_size",)),
    Rule("empty nodes and non-tensor data", (*MOVES, *ARITHMETIC), ("kind", "keys")),
    Rule("empty nodes and non-tensor data", ARITHMETIC, ("error",), ("at least one tensor",)),
    Rule("empty nodes and non-tensor data", MOVES, ("error",), ("Cannot call `view`",)),
    Rule("operands with other numbers of features", ARITHMETIC, ("error",),
        ("dest shape", "expand_as_right")),
    Rule("operands: a dense TensorDict", ARITHMETIC, ("error",), lazy=True),
    Rule("an integer or None apart from index arrays", ("index",),
        ("error", "values", "unreadable", "shape"), lazy=True),
    Rule("negative steps, `np.True_` as index", ("index", "assign"), ("shape", "values", "batch_size")),
    Rule("results of operations", kinds=("values", "batch_size", "shape"), names=MOVES, lazy=True),
    Rule("ragged leaves", (*MOVES, *REDUCTIONS), ("error",),
        ("Failed to stack", "exclusive", "must match"), lazy=True),
    Rule("ragged leaves", ("is_empty",), ("value",), lazy=True),
    Rule("one object for the whole batch", (*MOVES, *READS), ("kind", "type", "parts", "shape", "value")),
    Rule("`split`, `chunk` of a dim of size 0", ("split", "chunk"), ("error",), ("must be a positive",)),
    Rule("an integer or None apart from index arrays", STACKS, ("error",), ("same stack dim",)),
    Rule("shapes and dims that do not fit", (*MOVES, "assign"), ("error",),
        ours=("invalid", "out of bounds")),
    Rule("shapes and dims that do not fit", REDUCTIONS, ("error",), ours=("Incompatible dim",)),
    Rule("names and lock after an operation", kinds=("error",), says=("length of the dimension names",)),
    Rule("negative steps, `np.True_` as index", ("index", "assign"), ("error",),
        ("must be in the range", "zip()")),
    Rule("ragged leaves", ("filter_empty_", "split_keys"), ("error",), lazy=True),
    Rule("empty nodes and non-tensor data", ARITHMETIC, ("error",), ("unsupported operand",)),
    Rule("empty nodes and non-tensor data", ("apply double", "apply other"), ("keys",)),
    Rule("results of operations", MOVES, ("error",), ("within the range of",), lazy=True),
    Rule("operands with other numbers of features", ARITHMETIC, ("values",), lazy=True),
    Rule("results of operations", SCANS, ("values",), lazy=True),
    Rule("one object per row", ("index",), ("unreadable",)),
    Rule("one object per row", kinds=("shape of objects",)),
    Rule("missing keys in `update_`", ("set", "set item"), ("error",), ours=("already present",)),
    Rule("order of `keys(True)`", ("to_dict",), ("key order",)),
    Rule("`out=`", tuple(f"into {name}" for name in INTO)),
    Rule("`load_state_dict`: one object per row", ("state dict", "state dict of nothing")),
]  # fmt: skip


def rule_of(call: Call, kind: str, ours: str, theirs: str, lazy: bool) -> Rule | None:
    """The rule that explains a difference."""
    for rule in RULES:
        if (
            (not rule.names or call.name in rule.names)
            and (not rule.kinds or kind in rule.kinds)
            and (not rule.says or any(piece in theirs for piece in rule.says))
            and (not rule.ours or any(piece in ours for piece in rule.ours))
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


def is_internal(error: BaseException | None) -> bool:
    """Whether an error tells of no mistake of the caller."""
    return type(error).__name__ in INTERNAL or any(piece in str(error) for piece in ACCIDENTS)


INTERNAL = ("AttributeError", "RecursionError", "UnboundLocalError", "AssertionError", "NotImplementedError")


ACCIDENTS = (
    "list index out of range", "pop index out of range", "object is not subscriptable",
    "missing 1 required positional", "items cannot be empty", "tuple index out of range", "zip() argument",
    "Expected a TensorDictBase instance", "Incompatible dim 0 for tensordict with shape torch.Size([])",
)  # fmt: skip


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
            self.rule = rule_of(call, mismatch.kind, str(got.error), str(expected.error), lazy)
            error = expected.error or mismatch.__cause__
            self.internal = self.rule is None and is_internal(error)
            if self.rule is None and not self.internal:
                raise
        else:
            self.compared += 1

    def _compare(self, got: Outcome, expected: Outcome, lazy: bool) -> None:
        if (got.error is None) != (expected.error is None):
            raise Mismatch("error", "", got, expected)
        names = type(got.error).__name__, type(expected.error).__name__
        if names[0] != names[1] and names not in SAME_ERRORS:
            raise Mismatch("error class", "", got, expected)
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
            raise Mismatch("unreadable", "", "", error) from error
