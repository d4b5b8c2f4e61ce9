"""Intended differences of indices and shape operations.

What lite gives for them is compared with NumPy besides (see `fuzz_oracle`), so that these rules only have
to say what tensordict does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz_assigned import assigned
from fuzz_case import Case, broken, confused, lazy_somewhere, rule, shorter_below
from fuzz_dense import agrees, split_apart
from fuzz_sides import in_order, is_container, stacked
from fuzz_written import written

STACKS = ("stack", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict")


def gives(case: Case) -> bool:
    """Whether lite gives a result that the oracle checks."""
    return not case.error and case.step.facts.get("oracle") is not None


def right(case: Case) -> bool:
    """Whether lite's result is that of one of the oracles."""
    if gives(case):
        return True
    if case.name == "split_keys":
        return split_apart(case)
    if case.name == "set_index" and assigned(case):
        return True
    return ("source" in case.step.facts and written(case)) or agrees(case)


def without_arrays(case: Case) -> bool:
    return not list(case.target.keys(True, True))


def longer_below(value: Any, ndim: int | None = None) -> bool:
    """Whether a nested batch size is longer than its parent's."""
    if not is_container(value):
        return False
    if ndim is not None and value.ndim > ndim:
        return True
    inner = value.tensordicts if stacked(value) else value.values()
    return any(longer_below(entry, value.ndim) for entry in inner)


def numpy_raises(case: Case) -> bool:
    try:
        np.zeros(case.target.batch_size)[case.step.facts["index"]]
    except IndexError:
        return True
    return False


@rule("operations on empty batches")
def _(case: Case) -> bool:
    # several of its errors: nothing to stack, no first row, no number of dims to be had from it
    none = 0 in case.target.batch_size or (is_container(case.ours) and 0 in case.ours.batch_size)
    return none and confused(case) and right(case)


@rule("operations on empty batches")
def _(case: Case) -> bool:
    return gives(case) and case.name == "index" and case.kind.startswith("objects") and 0 in case.ours.shape


@rule("operations on empty batches")
def _(case: Case) -> bool:
    # a lazy stack that broadcasts to one without parts
    if case.name != "arithmetic td" or case.error or "cannot be empty" not in case.message:
        return False
    sizes = [case.target.batch_size, case.variables[case.step.facts["other"]][0].batch_size]
    return stacked(case.ours) and not case.ours.tensordicts and case.ours.shape == np.broadcast_shapes(*sizes)


@rule("operations on empty batches")
def _(case: Case) -> bool:
    dropped = case.name.startswith(("apply", "arithmetic")) and case.kind == "keys"
    joins = case.name.startswith("reduce") and "do not fit" in str(case.ours_error)
    return 0 in case.target.batch_size and (dropped or joins)


@rule("names after `cat` along a negative dim")
def _(case: Case) -> bool:
    # too many of them, which shows when they are used
    indexes = case.other == "IndexError" and case.message == "list index out of range"
    return indexes and not case.error and any(case.target.names)


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    return case.kind == "identity" and case.ours is case.target


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    # flatten of one dimension forgets its name in tensordict, and fails for longer nested batch sizes
    args = case.step.facts.get("args", ())
    return case.name == "flatten" and len(args) == 2 and args[0] == args[1] and case.ours is case.target


@rule("stack dim out of range")
def _(case: Case) -> bool:
    if case.name not in STACKS or case.error != "IndexError" or case.other:
        return False
    return not -case.target.ndim - 1 <= case.step.facts["dim"] <= case.target.ndim


@rule("nested batch sizes that were made shorter")
def _(case: Case) -> bool:
    # tensordict counts the dims of an operation from those of the node
    shorter = shorter_below(case.before()[case.step.facts["target"]])
    return case.name == "expand" and "/" in case.path and shorter and not broken(case.ours)


@rule("`masked_select` of a named batch")
def _(case: Case) -> bool:
    return case.name == "masked_select" and case.kind == "names"


@rule("`numel()` of an empty batch")
def _(case: Case) -> bool:
    if 0 not in case.target.batch_size:
        return False
    if case.name == "numel":
        return bool(case.ours == 0 and case.theirs == 1)
    if gives(case) and case.kind == "batch_size" and without_arrays(case):
        return True
    return gives(case) and case.other == "RuntimeError" and "invalid for input of size 0" in case.message


@rule("`split`, `chunk` of a dimension of size 0")
def _(case: Case) -> bool:
    names = ("split", "chunk", "unflatten")
    return gives(case) and case.name in names and "split_size must be" in case.message


@rule("too many indices")
def _(case: Case) -> bool:
    # tensordict indexes the arrays only, and raises what it happens to meet there, if there are any
    return case.name == "index" and case.error == "IndexError" and numpy_raises(case)


@rule("bool beside an index array")
def _(case: Case) -> bool:
    if case.name != "index" or not any(isinstance(item, bool) for item in case.index):
        return False
    return len(case.index) > 1 and (not case.error or numpy_raises(case))


@rule("bool beside an index array")
def _(case: Case) -> bool:
    # a step that assigns the first of the rows that it picks, where NumPy picks none
    if case.name != "set_index" or case.step.facts["kind"] != "row" or case.other:
        return False
    bools = any(isinstance(item, bool) for item in case.index) and len(case.index) > 1
    picked = np.zeros(case.target.batch_size, bool)[case.step.facts["index"]]
    return bools and case.error == "IndexError" and picked.shape[:1] == (0,)


@rule("integer index apart from an index array")
def _(case: Case) -> bool:
    items = case.index  # an ellipsis stands between two others, even if it stands for nothing
    block = [i for i, item in enumerate(items) if isinstance(item, int | list | np.ndarray)]
    arrays = [i for i in block if not isinstance(items[i], int)]
    apart = bool(arrays) and len(arrays) < len(block) and block[-1] - block[0] + 1 != len(block)
    return apart and not case.error


@rule("index dims out of range")
def _(case: Case) -> bool:
    if case.name != "cat" or case.error != "RuntimeError" or case.other:
        return False
    return not -case.target.ndim <= case.step.facts["dim"] < case.target.ndim


@rule("`cat` of batch sizes that differ")
def _(case: Case) -> bool:
    # torch leaves out empty arrays of one dim, whatever the shape of the others
    raised = case.name == "cat" and case.error == "RuntimeError" and not case.other
    empty = any(td.batch_size == (0,) for td, _ in case.variables)
    return raised and empty and "batch sizes must agree" in str(case.ours_error)


@rule("names of the dimensions that an index array makes")
def _(case: Case) -> bool:
    arrays = [i for i in case.index if isinstance(i, list | np.ndarray)]
    several = len(arrays) > 1 or any(np.ndim(i) > 1 for i in arrays)
    return case.name == "index" and case.kind == "names" and several


@rule("`gather` with an empty index")
def _(case: Case) -> bool:
    return case.name == "gather" and case.error == "RuntimeError" and not case.step.facts["args"][1].size


@rule("`reshape` to another number of elements, no entries")
def _(case: Case) -> bool:
    reshapes = case.name in ("reshape", "view", "unflatten")
    return reshapes and case.error == "RuntimeError" and not case.other and without_arrays(case)


@rule("dims out of range in `repeat_interleave`")
def _(case: Case) -> bool:
    if case.name != "repeat_interleave" or case.error != "IndexError" or case.other:
        return False
    return not -case.target.ndim <= case.step.facts["kwargs"]["dim"] < case.target.ndim


@rule("memory layout of results")
def _(case: Case) -> bool:
    if gives(case) and case.name == "view" and "view size is not compatible" in case.message:
        return True  # zeros_like and the like keep the order of dims in memory in torch
    return case.name == "view" and case.error == "ValueError" and not case.other and not in_order(case.target)


@rule("`repeat` of a list")
def _(case: Case) -> bool:
    return case.name == "repeat" and gives(case) and not case.step.facts["args"]


@rule("`squeeze` of nested batches")
def _(case: Case) -> bool:
    pieces = ("view() received an invalid combination", "not enough values to unpack")
    return case.name == "squeeze" and gives(case) and any(piece in case.message for piece in pieces)


@rule("index of a mask beside None")
def _(case: Case) -> bool:
    return case.name == "index" and gives(case) and any(item is None for item in case.index)


@rule("negative dims and longer nested batches")
def _(case: Case) -> bool:
    negative = any(type(d) is int and d < 0 for d in case.step.facts.get("args", ()))
    permutes = case.name in ("transpose", "permute", "movedim")
    return permutes and negative and gives(case) and longer_below(case.target) and "/" in case.path


@rule("index of nested batches")
def _(case: Case) -> bool:
    arrays = any(isinstance(i, np.ndarray | list) for i in case.index)
    nested = longer_below(case.target) and not lazy_somewhere(case.target)
    return case.name == "index" and arrays and gives(case) and nested
