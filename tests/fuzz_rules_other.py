"""Intended differences of the other calls: shapes, indices, objects, names, errors.

What lite gives for indices and shape operations is compared with NumPy besides (see `fuzz_oracle`), so
that these rules only have to say what tensordict does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz_case import Case, broken, confused, lazy_somewhere, rule, shorter_below
from fuzz_dense import agrees, split_apart
from fuzz_oracle import pairwise
from fuzz_sides import in_order, is_container, is_objects, stacked
from fuzz_values import nothing_below, paths
from fuzz_written import written

STACKS = ("stack", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict")
# Errors of tensordict that name no mistake of the caller: the step, the class, a piece of the message.
ACCIDENTS = (
    ("set_index", "ValueError", "Invalid indexing arguments"),
    ("set_index", "NotImplementedError", "with a scalar False mask"),
    ("index", "NotImplementedError", "with a scalar False mask"),
    ("update", "TypeError", "Expected value to be one of types"),
    ("update", "NotImplementedError", "is not supported within"),
    ("reduce max", "TypeError", "received an invalid combination of arguments"),
    ("reduce min", "TypeError", "received an invalid combination of arguments"),
)
# What Python raises by itself: tensordict did not foresee the input.
UNFORESEEN = ("AttributeError", "AssertionError", "RecursionError", "UnboundLocalError", "ZeroDivisionError")


def listed(case: Case, table: tuple[tuple[str, str, str], ...]) -> bool:
    return any(
        case.name.startswith(name) and case.other == error and piece in case.message
        for name, error, piece in table
    )


def gives(case: Case) -> bool:
    """Whether lite gives a result that the oracle checks."""
    return not case.error and case.step.facts.get("oracle") is not None


def right(case: Case) -> bool:
    """Whether lite's result is that of one of the oracles."""
    if gives(case):
        return True
    if case.name == "split_keys":
        return split_apart(case)
    return ("source" in case.step.facts and written(case)) or agrees(case)


def has_objects(value: Any) -> bool:
    """Whether there is non-tensor data at any depth."""
    if is_objects(value) or not is_container(value):
        return is_objects(value)
    return any(map(has_objects, value.tensordicts if stacked(value) else value.values()))


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


@rule("internal errors on unforeseen input")
def _(case: Case) -> bool:
    unforeseen = case.other in UNFORESEEN and (bool(case.error) or right(case))
    return unforeseen or listed(case, ACCIDENTS)


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
    dropped = case.name.startswith(("apply", "arithmetic")) and case.kind == "keys"
    joins = case.name.startswith("reduce") and "do not fit" in str(case.ours_error)
    return 0 in case.target.batch_size and (dropped or joins)


@rule("names after `cat` along a negative dim")
def _(case: Case) -> bool:
    # too many of them, which shows when they are used
    indexes = case.other == "IndexError" and case.message == "list index out of range"
    return indexes and not case.error and any(case.target.names)


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    # nested names that tensordict lost or kept where it should not do not fit any more
    misfit = "length of the dimension names must equate" in case.message and gives(case)
    return misfit or (not case.error and "refine_names: cannot coerce" in case.message)


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


@rule("`flatten_keys(inplace=True)`")
def _(case: Case) -> bool:
    inplace = case.name == "flatten_keys" and bool(case.step.facts["kwargs"])
    if inplace and case.kind == "keys" and case.path.startswith("v"):
        return True  # a node that another variable holds, too
    return inplace and case.kind == "keys" and set(case.theirs.keys()) < set(case.ours.keys())


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


@rule("`empty(recurse=True, ...)`")
def _(case: Case) -> bool:
    return case.name == "empty" and bool(case.step.facts["kwargs"]) and case.kind == "keys"


@rule("too many indices")
def _(case: Case) -> bool:
    # tensordict indexes the arrays only, and raises what it happens to meet there, if there are any
    return case.name == "index" and case.error == "IndexError" and numpy_raises(case)


@rule("bool beside an index array")
def _(case: Case) -> bool:
    if case.name != "index" or not any(isinstance(item, bool) for item in case.index):
        return False
    return len(case.index) > 1 and (not case.error or numpy_raises(case))


@rule("integer index apart from an index array")
def _(case: Case) -> bool:
    items = case.index  # an ellipsis stands between two others, even if it stands for nothing
    block = [i for i, item in enumerate(items) if isinstance(item, int | list | np.ndarray)]
    arrays = [i for i in block if not isinstance(items[i], int)]
    apart = bool(arrays) and len(arrays) < len(block) and block[-1] - block[0] + 1 != len(block)
    return apart and not case.error


@rule("order of keys after `unflatten_keys`")
def _(case: Case) -> bool:
    return case.kind == "key order" and case.name in ("flat_round", "unflatten_keys")


@rule("`get(as_list=True)` of non-tensor data")
def _(case: Case) -> bool:
    return case.name in ("read list", "read padded") and case.kind == "kind" and is_objects(case.theirs)


@rule('`td["a", "b"]` through an array')
def _(case: Case) -> bool:
    through = case.other == "ValueError" and "Expected a TensorDictBase" in case.message
    return through and case.name.startswith(("read", "pop")) and case.error in ("", "KeyError")


@rule("`exclude(inplace=True)`, `filter_empty_` when locked")
def _(case: Case) -> bool:
    names = ("exclude", "filter_empty_", "select", "unflatten_keys")
    nodes = [case.target, *(case.target.tensordicts if stacked(case.target) else ())]
    locked = any(node.is_locked for node in nodes)
    return case.error == "RuntimeError" and not case.other and locked and case.name in names


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


@rule("`abs`, `**`, `sub`, `exp` ... of a TensorDict without arrays")
def _(case: Case) -> bool:
    if case.name == "arithmetic td" and case.error == "KeyError" and not case.other:
        return without_arrays(case)
    if case.error or not without_arrays(case) or not case.name.startswith(("arithmetic", "reduce", "scan")):
        return False
    return "at least one tensor" in case.message or (case.name == "arithmetic logic" and case.theirs is None)


@rule("operands of different batch sizes and numbers of features")
def _(case: Case) -> bool:
    two = case.name in ("arithmetic td", "arithmetic compare td") and not case.error
    refused = "batch dimension mismatch" in case.message or "must match the size of tensor" in case.message
    return two and refused and not lazy_somewhere(case.ours) and pairwise(case)


@rule("names of the dimensions that an index array makes")
def _(case: Case) -> bool:
    arrays = [i for i in case.index if isinstance(i, list | np.ndarray)]
    several = len(arrays) > 1 or any(np.ndim(i) > 1 for i in arrays)
    return case.name == "index" and case.kind == "names" and several


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    computes = case.name.startswith(("arithmetic", "double", "float"))
    return computes and case.kind == "keys" and not case.error and nothing_below(case.target)


@rule("`gather` with an empty index")
def _(case: Case) -> bool:
    return case.name == "gather" and case.error == "RuntimeError" and not case.step.facts["args"][1].size


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    # a node without arrays that only one side has
    if case.name != "arithmetic td" or case.error != "KeyError" or case.other:
        return False
    a, b = case.target, case.variables[case.step.facts["other"]][0]
    return array_keys(a) == array_keys(b) and "keys in tensordicts mismatch" in str(case.ours_error)


def array_keys(td: Any) -> set[Any]:
    return {tuple(key for key in path if isinstance(key, str)) for path in paths(td)}


@rule("objects of a longer nested batch in `tolist` and `to_dict`")
def _(case: Case) -> bool:
    return case.name in ("tolist", "to_dict") and case.kind == "value" and longer_below(case.target)


@rule("objects shared by the batch stay one object")
def _(case: Case) -> bool:
    reads = case.name in ("tolist", "to_dict", "read item")
    return reads and case.kind == "value" and has_objects(case.target)


@rule("numbers assigned to objects")
def _(case: Case) -> bool:
    return (
        case.name in ("tolist", "to_dict", "read item") and case.kind == "kind" and has_objects(case.target)
    )


@rule("results whose entries do not start with the batch size")
def _(case: Case) -> bool:
    if case.error or broken(case.ours):
        return False
    return (
        case.kind == "unreadable"
        or broken(case.theirs)
        or any(broken(theirs) and not broken(ours) for ours, theirs in case.variables)
    )


@rule("objects under `apply(batch_size=...)`")
def _(case: Case) -> bool:
    # what tensordict meets after it
    accident = ("", "IndexError", "ValueError")
    raised = case.error == "RuntimeError" and case.other in accident
    return case.name == "apply grow" and has_objects(case.target) and (raised or case.kind == "keys")


@rule("`reshape` to another number of elements, no entries")
def _(case: Case) -> bool:
    reshapes = case.name in ("reshape", "view", "unflatten")
    return reshapes and case.error == "RuntimeError" and not case.other and without_arrays(case)


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    moved = case.name in ("view", "reshape", "flatten", "unflatten", "squeeze", "index", "transpose")
    reduced = case.name.startswith("reduce")
    stale = case.kind.startswith("objects") or "must be within the range of the number" in case.message
    return gives(case) and (moved or reduced) and stale and has_objects(case.target)


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    # an object that two TensorDicts share gets the new batch size in both of them in tensordict
    return case.name == "batch_size" and case.kind.startswith("objects") and case.path.startswith("v")


@rule("`where` with other keys")
def _(case: Case) -> bool:
    trees = case.name == "where" and case.step.facts["other"] == "tree"
    return trees and (case.kind == "dtype" or case.error == "KeyError")


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


@rule("unlocking results of a locked TensorDict")
def _(case: Case) -> bool:
    unlocks = case.name in ("is_locked", "unlock_", "with unlock")
    return unlocks and not case.error and "locked graph" in case.message


@rule("`repeat` of a list")
def _(case: Case) -> bool:
    return case.name == "repeat" and gives(case) and not case.step.facts["args"]


@rule("`squeeze` of nested batches")
def _(case: Case) -> bool:
    pieces = ("view() received an invalid combination", "not enough values to unpack")
    return case.name == "squeeze" and gives(case) and any(piece in case.message for piece in pieces)


@rule("`get_at` of objects without rows")
def _(case: Case) -> bool:
    objects = case.name == "read get_at" and is_objects(case.target.get(case.step.facts["key"]))
    return objects and case.error == "IndexError" and not case.other


@rule("index of a mask beside None")
def _(case: Case) -> bool:
    return case.name == "index" and gives(case) and any(item is None for item in case.index)


@rule("lock of `where`, of array operands and of `contiguous`")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("where", "arithmetic rows", "contiguous", "arithmetic td")


@rule("negative dims and longer nested batches")
def _(case: Case) -> bool:
    negative = any(type(d) is int and d < 0 for d in case.step.facts.get("args", ()))
    permutes = case.name in ("transpose", "permute", "movedim")
    return permutes and negative and gives(case) and longer_below(case.target) and "/" in case.path


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.name == "apply inplace" and not case.error and "single memory location" in case.message


@rule("non-tensor entries on one side of arithmetic")
def _(case: Case) -> bool:
    if case.name == "arithmetic compare td" and case.error == "KeyError" and not case.other:
        return "is an array on one side" in str(case.ours_error)
    return case.name.startswith("arithmetic") and not case.error and case.other == "KeyError"


@rule("index of nested batches")
def _(case: Case) -> bool:
    arrays = any(isinstance(i, np.ndarray | list) for i in case.index)
    nested = longer_below(case.target) and not lazy_somewhere(case.target)
    return case.name == "index" and arrays and gives(case) and nested


@rule("`sign` of NaN")
def _(case: Case) -> bool:
    return case.name == "arithmetic unary" and " sign " in case.step.text and case.kind == "values"


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    reads = case.name in ("read item", "read get", "read default", "read items", "read get_at")
    return reads and case.kind == "dtype" and lazy_somewhere(case.target)
