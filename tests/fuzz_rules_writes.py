"""Intended differences of calls that write: set, update, assignment, rename.

Where lite gives a result and tensordict does not, `written` does the write with NumPy, leaf by leaf.
"""

from __future__ import annotations

import numpy as np
from fuzz_assigned import assigned
from fuzz_case import Case, confused, path_of, ragged, rule
from fuzz_dense import agrees
from fuzz_sides import LITE, Mismatch, arrays, compare
from fuzz_values import nothing_below, shares_nodes
from fuzz_written import Leaves, flat, flat_before, written

import lite

IN_PLACE = ("set_", "inplace", "update_", "update_at_")


def says(case: Case, *pieces: str) -> bool:
    """Whether lite's error contains one of some texts."""
    return any(piece in str(case.ours_error) for piece in pieces)


def only_lite_fails(case: Case, error: str) -> bool:
    return case.error == error and not case.other


def only_tensordict_fails(case: Case, *pieces: str) -> bool:
    return not case.error and bool(case.other) and any(piece in case.message for piece in pieces)


@rule("too many indices")
def _(case: Case) -> bool:
    return (
        case.name in ("index", "set_index")
        and case.error in ("IndexError", "RuntimeError")
        and not case.other
        and says(case, "too many indices", "batch_dims==0 is not permitted")
    )


@rule("index out of bounds of a TensorDict without entries")
def _(case: Case) -> bool:
    return (
        case.name in ("index", "set_index")
        and only_lite_fails(case, "IndexError")
        and says(case, "out of bounds", "the mask has shape", "could not be broadcast")
        and (no_arrays(flat_before(case)) or no_source(case))
    )


def no_arrays(leaves: Leaves) -> bool:
    return all(leaf.dtype == object for leaf in leaves.values())


def no_source(case: Case) -> bool:
    """Whether an assignment has no arrays to write."""
    if case.name != "set_index":
        return False
    source = case.step.facts["source"](LITE, case.before())
    return isinstance(source, lite.TensorDict) and no_arrays(flat(source))


@rule("index out of bounds of a TensorDict without entries")
def _(case: Case) -> bool:
    # the source of `update_at_` is a row of it
    at_first = case.step.facts.get("how") == "update_at_" and case.target.batch_size[:1] == (0,)
    return at_first and only_lite_fails(case, "IndexError") and says(case, "out of bounds")


@rule("`update_` with unknown keys")
def _(case: Case) -> bool:
    unknown = only_lite_fails(case, "KeyError") and says(case, "not found in the dest tensordict")
    return case.step.facts.get("how") in ("update_", "set_") and unknown


@rule("`update_at_` of unknown keys")
def _(case: Case) -> bool:
    return case.step.facts.get("how") == "update_at_" and case.error == "KeyError" and says(case, "not found")


@rule("new non-tensor keys in an assignment")
def _(case: Case) -> bool:
    if case.name != "set_index" or not case.kind.startswith("objects"):
        return False
    before = flat_before(case)
    return tuple(case.path.split("/")[1:]) not in before and written(case)


@rule("`create_nested` below an existing node")
def _(case: Case) -> bool:
    if case.name != "create_nested" or not isinstance(case.step.facts["args"][0], tuple):
        return False
    key = case.step.facts["args"][0]
    kept = all(path in case.target for path in flat_before(case) if path[: len(key)] != key)
    return kept and (case.kind in ("keys", "batch_size") or only_lite_fails(case, "KeyError"))


@rule("moving a key to itself when missing, `safe=True`")
def _(case: Case) -> bool:
    args = case.step.facts.get("args", ())
    return case.name == "rename_key_" and path_of(args[0]) == path_of(args[1]) and not case.error


@rule('`rename_key_("n", ("n", "a"))`')
def _(case: Case) -> bool:
    args = case.step.facts.get("args", ())
    return (
        case.name == "rename_key_"
        and isinstance(args[1], tuple)
        and args[1][: len(path_of(args[0]))] == path_of(args[0])
    )


@rule("`rename_key_` into a node of another batch size")
def _(case: Case) -> bool:
    return case.name == "rename_key_" and only_lite_fails(case, "RuntimeError")


@rule("`update` of a locked TensorDict with itself")
def _(case: Case) -> bool:
    if case.name != "update" or not only_tensordict_fails(case, "Cannot modify locked TensorDict"):
        return False
    before, facts = case.before(), case.step.facts
    return facts["source"](LITE, before) is before[facts["target"]]


@rule("`set_` of a key whose first level is missing")
def _(case: Case) -> bool:
    facts = case.step.facts
    return (
        facts.get("how") == "set_"
        and only_lite_fails(case, "KeyError")
        and path_of(facts["key"])[:-1] not in case.target
    )


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    expanded = any(not array.flags.writeable for array in arrays(case.target))
    return case.step.writes and case.error == "ValueError" and says(case, "read-only") and expanded


@rule("`update_`, `set_`, `td[i] = ...` of non-tensors in a locked TensorDict")
def _(case: Case) -> bool:
    in_place = case.name == "set_index" or case.step.facts.get("how") in IN_PLACE
    if case.name == "apply inplace":  # the objects of an unlocked TensorDict can be locked there
        zeros = not any(array.any() for array in arrays(case.target) if array.dtype != object)
        return zeros and only_tensordict_fails(case, "Cannot modify locked TensorDict", "Failed to update")
    texts = ("Cannot modify locked TensorDict", *(["Failed to update"] if case.target.is_locked else []))
    return in_place and only_tensordict_fails(case, *texts) and written(case)


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    refused = only_tensordict_fails(case, "batch dimension mismatch", "must match the existing size")
    return case.step.facts.get("how") in IN_PLACE and (refused or confused(case)) and written(case)


@rule("one object per row over one object, in place")
def _(case: Case) -> bool:
    refused = only_tensordict_fails(case, "Failed to update", "Cannot update a NonTensorDataBase")
    return case.step.facts.get("how") in IN_PLACE and refused and written(case)


@rule("`set_` of an object over a nested TensorDict")
def _(case: Case) -> bool:
    in_place = case.step.facts.get("how") in ("set_", "inplace")
    return in_place and only_lite_fails(case, "ValueError") and says(case, "it is nested, and the value")


@rule("nodes made on the way to a nested key")
def _(case: Case) -> bool:
    return (
        case.name == "set"
        and isinstance(case.step.facts["key"], tuple)
        and (
            (only_lite_fails(case, "RuntimeError") and says(case, "batch dimension mismatch"))
            or case.kind == "names"
        )
    )


@rule("assignment through None")
def _(case: Case) -> bool:
    if case.name != "set_index" or not any(item is None for item in case.index):
        return False
    refused = only_lite_fails(case, "RuntimeError") and says(case, "cannot write a", "shape mismatch")
    return refused or (not case.error and (written(case) or ragged(case.target)))


@rule("numbers of another dtype in an assignment")
def _(case: Case) -> bool:
    refused = only_tensordict_fails(case, "source and destination dtypes match")
    return case.name == "set_index" and refused and written(case)


@rule("the same memory on both sides of an assignment")
def _(case: Case) -> bool:
    if not case.error and case.kind == "values":  # read and written in turns
        at_first = case.step.facts.get("how") == "update_at_"
        return (at_first and written(case)) or (case.name == "set_index" and assigned(case))
    if only_lite_fails(case, "ValueError") and says(case, "does not fit the shape"):
        return starts_alike(case)  # tensordict does not look at what starts at the same place
    if not only_tensordict_fails(case, "single memory location"):
        return False
    return written(case) or (assigned(case) if case.name == "set_index" else agrees(case))


def starts_alike(case: Case) -> bool:
    """Whether an array of the source starts at the same place in memory as the one that it is to go to."""
    before = case.before()
    source, target = case.step.facts["source"](LITE, before), before[case.step.facts["target"]]
    if not isinstance(source, lite.TensorDict):
        return False
    shared = set(source.keys(True, True)) & set(target.keys(True, True))
    pairs = [(source.get(key), target.get(key)) for key in shared]
    return any(a.ctypes.data == b.ctypes.data and a.shape != b.shape for a, b in pairs)


@rule("lists of arrays as values")
def _(case: Case) -> bool:
    if case.name == "replace":
        given = case.step.facts["args"][0].get("a")
    else:
        given = case.step.facts.get("value")
    return case.name in ("set", "replace") and type(given) is list


@rule("numbers and rows written to nested batches")
def _(case: Case) -> bool:
    return case.name == "set_index" and confused(case) and (written(case) or shared_objects(case))


def shared_objects(case: Case) -> bool:
    """Whether the source is nothing but objects shared by its batch, which fit any batch."""
    source = case.step.facts["source"](LITE, case.before())
    return isinstance(source, lite.TensorDict) and all(
        isinstance(entry, lite.NonTensorData) for entry in source.values()
    )


@rule("numbers assigned to objects")
def _(case: Case) -> bool:
    if case.name == "set_index" and case.kind.startswith("objects") and assigned(case):
        return True
    number = case.name == "set_index" and case.step.facts["kind"] == "number"
    refused = only_tensordict_fails(case, "Cannot update a NonTensorDataBase", "Cannot modify locked")
    return number and (refused or case.kind.startswith("objects")) and written(case)


@rule("assignments of other shapes to no rows")
def _(case: Case) -> bool:
    if case.name != "set_index" or not only_lite_fails(case, "RuntimeError"):
        return False
    picked = np.zeros(case.target.batch_size, bool)[case.step.facts["index"]]
    return picked.size == 0 and says(case, "shape mismatch", "differs from the source", "cannot write a")


@rule("assignments of other shapes to no rows")
def _(case: Case) -> bool:
    in_place = case.step.facts.get("how") in IN_PLACE and 0 in case.target.batch_size
    return in_place and only_lite_fails(case, "ValueError") and says(case, "Failed to update")


@rule("arrays assigned to a nested TensorDict")
def _(case: Case) -> bool:
    refused = case.name == "set_index" and only_lite_fails(case, "RuntimeError")
    return refused and says(case, "cannot write a ndarray to the TensorDict")


@rule("single bools as the index of an assignment")
def _(case: Case) -> bool:
    single = any(isinstance(item, bool) for item in case.index)
    return case.name == "set_index" and single and not case.error and written(case)


@rule("views of one object per row")
def _(case: Case) -> bool:
    # what holds the same objects does not change with the target
    if not case.path.startswith("v") or not case.kind.startswith("objects"):
        return False
    seen = case.variables[int(case.path[1:].split("/")[0])][0]
    # what a ragged target must hold is not worked out
    return case.step.writes and seen is not case.target and (written(case) or ragged(case.target))


@rule("entries below non-tensor data")
def _(case: Case) -> bool:
    return case.name == "set" and only_lite_fails(case, "KeyError") and says(case, "is already present")


@rule("`auto_batch_size_` with lazy stacks and non-tensor data")
def _(case: Case) -> bool:
    if case.name != "auto_batch_size_":
        return False
    # there the object itself gets another batch size, whoever else holds it; rows of objects are lazy
    elsewhere = case.kind.startswith("objects") and case.path.startswith("v")
    at = int(case.path[1:].split("/")[0]) if elsewhere else 0
    shared = elsewhere and case.variables[at][0] is not case.target
    return shared or only_tensordict_fails(case, "Received a new batch size")


@rule("`auto_batch_size_` beside an empty nested TensorDict")
def _(case: Case) -> bool:
    grown = case.name == "auto_batch_size_" and case.kind == "batch_size"
    return grown and nothing_below(case.target) and len(case.ours.batch_size) < len(case.theirs.batch_size)


@rule("objects of `update_` beside arrays")
def _(case: Case) -> bool:
    return case.step.facts.get("how") == "update_" and case.kind.startswith("objects") and written(case)


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    # a variable that is not the target changes with it, because they hold the same node
    if not case.path.startswith("v"):
        return False
    i, at = int(case.path[1:].split("/")[0]), case.step.facts["target"]
    before = case.before()
    sharing = [
        shares_nodes(old, before[at]) or shares_nodes(new, case.target)
        for old, (new, _) in zip(before, case.variables, strict=True)
    ]
    if i == at or not sharing[i]:
        return False
    try:
        for j, pair in enumerate(case.variables):
            if j == at or not sharing[j]:
                compare(*pair)
    except Mismatch:
        return False
    return True


@rule("objects assigned through an index array of several dims")
def _(case: Case) -> bool:
    several = any(np.ndim(item) > 1 for item in case.index if isinstance(item, np.ndarray))
    return case.name == "set_index" and several and case.kind.startswith("objects") and written(case)


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    return only_tensordict_fails(case, "dim names match") and (case.name == "update" or agrees(case))


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    if not only_tensordict_fails(case, "the NonTensorData"):
        return False
    return case.name == "batch_size" or (case.name == "set" and written(case))
