"""Intended differences of the other calls: keys, locks, objects, arithmetic, errors."""

from __future__ import annotations

from typing import Any

from fuzz_case import Case, broken, lazy_somewhere, rule
from fuzz_dense import agrees, split_apart
from fuzz_metadata import locked_alike
from fuzz_oracle import pairwise
from fuzz_rules_shape import gives, longer_below, right, without_arrays
from fuzz_sides import arrays, is_container, is_objects, stacked
from fuzz_values import nothing_below, paths

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


def has_objects(value: Any) -> bool:
    """Whether there is non-tensor data at any depth."""
    if is_objects(value) or not is_container(value):
        return is_objects(value)
    return any(map(has_objects, value.tensordicts if stacked(value) else value.values()))


@rule("internal errors on unforeseen input")
def _(case: Case) -> bool:
    unforeseen = case.other in UNFORESEEN and (bool(case.error) or right(case))
    return unforeseen or listed(case, ACCIDENTS)


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    # nested names that tensordict lost or kept where it should not do not fit any more
    misfit = "length of the dimension names must equate" in case.message
    if misfit and (gives(case) or (not case.error and agrees(case))):
        return True
    return not case.error and "refine_names: cannot coerce" in case.message


@rule("`flatten_keys(inplace=True)`")
def _(case: Case) -> bool:
    inplace = case.name == "flatten_keys" and bool(case.step.facts["kwargs"])
    if inplace and case.kind == "keys" and case.path.startswith("v"):
        return True  # a node that another variable holds, too
    if inplace and not case.error and "Cannot modify locked" in case.message:
        return agrees(case)  # a nested node that was locked before has become entries of self
    return inplace and case.kind == "keys" and set(case.theirs.keys()) < set(case.ours.keys())


@rule("`empty(recurse=True, ...)`")
def _(case: Case) -> bool:
    if case.name != "empty" or not case.step.facts["kwargs"]:
        return False
    # nodes that only some parts of a nested lazy stack have
    missing = not case.error and "not found in TensorDict" in case.message
    return case.kind == "keys" or (missing and not list(arrays(case.ours)))


@rule("order of keys after `unflatten_keys`")
def _(case: Case) -> bool:
    return case.kind == "key order" and case.name in ("flat_round", "unflatten_keys")


@rule("`get(as_list=True)` of non-tensor data")
def _(case: Case) -> bool:
    return case.name in ("read list", "read padded") and case.kind == "kind" and is_objects(case.theirs)


@rule('`td["a", "b"]` through an array')
def _(case: Case) -> bool:
    through = case.other == "ValueError" and "Expected a TensorDictBase" in case.message
    if through and case.name == "split_keys":
        return not case.error and split_apart(case)
    return through and case.name.startswith(("read", "pop")) and case.error in ("", "KeyError")


@rule("`exclude(inplace=True)`, `filter_empty_` when locked")
def _(case: Case) -> bool:
    names = ("exclude", "filter_empty_", "select", "unflatten_keys")
    if case.kind == "lock" and case.name == "exclude":  # a locked node of an unlocked one is replaced
        return bool(case.step.facts["kwargs"]) and agrees(case)
    raised = case.error == "RuntimeError" and not case.other and "locked" in str(case.ours_error)
    return raised and locked_somewhere(case.target) and case.name in names


def locked_somewhere(value: Any) -> bool:
    """Whether a container or a node of it is locked."""
    if is_objects(value) or not is_container(value):
        return False
    return value.is_locked or any(
        map(locked_somewhere, value.tensordicts if stacked(value) else value.values())
    )


@rule("`abs`, `**`, `sub`, `exp` ... of a TensorDict without arrays")
def _(case: Case) -> bool:
    if case.name == "arithmetic td" and case.error == "KeyError" and not case.other:
        return without_arrays(case)
    if case.error or not without_arrays(case) or not case.name.startswith(("arithmetic", "reduce", "scan")):
        return False
    return "at least one tensor" in case.message or (case.name == "arithmetic logic" and case.theirs is None)


@rule("operands with different numbers of features")
def _(case: Case) -> bool:
    chosen = case.name == "where" and "tree" in case.step.facts
    two = case.name in ("arithmetic td", "arithmetic compare td") or chosen
    refused = "batch dimension mismatch" in case.message or "must match the size of tensor" in case.message
    met = case.kind in ("shape", "values")
    return two and not case.error and (refused or met) and pairwise(case)


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    computes = case.name.startswith(("arithmetic", "double", "float"))
    return computes and case.kind == "keys" and not case.error and nothing_below(case.target)


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
    if broken(case.ours) or (case.error and "incompatible with the batch-size" not in str(case.ours_error)):
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


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    if case.name.startswith("arithmetic compare") and case.kind == "batch_size" and has_objects(case.target):
        return agrees(case)  # an empty node in place of an object
    if case.name == "new_zeros" and case.kind.startswith("objects") and not case.path.startswith("v"):
        entry = case.ours.get(tuple(case.path[1:].split("/")))
        return bool(is_objects(entry) and entry.batch_size[: case.ours.ndim] == case.ours.batch_size)
    moved = case.name in ("view", "reshape", "flatten", "unflatten", "squeeze", "index", "transpose")
    reduced = case.name.startswith(("reduce", "scan"))
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


@rule("unlocking results of a locked TensorDict")
def _(case: Case) -> bool:
    copies = case.name in ("repeat", "repeat_interleave", "gather")
    if case.kind == "lock" and copies and not case.path.startswith("v"):
        # some nodes of the copy stay locked in tensordict
        return locked_alike(case.ours, case.theirs.is_locked)
    if case.kind == "lock" and case.name == "split_keys" and case.path.startswith("["):
        return all(locked_alike(td, td.is_locked) for td in case.ours)
    unlocks = case.name in ("is_locked", "unlock_", "with unlock")
    return unlocks and not case.error and "locked graph" in case.message


@rule("`get_at` of objects without rows")
def _(case: Case) -> bool:
    objects = case.name == "read get_at" and is_objects(case.target.get(case.step.facts["key"]))
    return objects and case.error == "IndexError" and not case.other


@rule("lock of `where`, of array operands and of `contiguous`")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("where", "arithmetic rows", "contiguous", "arithmetic td")


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.name == "apply inplace" and not case.error and "single memory location" in case.message


@rule("non-tensor entries on one side of arithmetic")
def _(case: Case) -> bool:
    if case.name == "arithmetic compare td" and case.error == "KeyError" and not case.other:
        return "is an array on one side" in str(case.ours_error)
    return case.name.startswith("arithmetic") and not case.error and case.other == "KeyError"


@rule("`sign` of NaN")
def _(case: Case) -> bool:
    return case.name == "arithmetic unary" and " sign " in case.step.text and case.kind == "values"


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    reads = case.name in ("read item", "read get", "read default", "read items", "read get_at", "new_zeros")
    return reads and case.kind == "dtype" and lazy_somewhere(case.target)
