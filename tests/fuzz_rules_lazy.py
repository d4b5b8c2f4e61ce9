"""Intended differences around lazy stacks and ragged leaves.

Where lite gives a result that tensordict does not give, the rule applies only if the result is the one
worked out without lazy stacks (`fuzz_dense`).
"""

from __future__ import annotations

from typing import Any

from fuzz_case import (
    Case,
    broken,
    lazy_somewhere,
    rule,
    same_content,
)
from fuzz_dense import (
    agrees,
    common_keys,
    fails_alike,
    flipped,
    padded,
    split_apart,
)
from fuzz_metadata import locked_alike, locks_agree, names_agree, names_differ, names_fit, parts_agree
from fuzz_sides import arrays, is_container, stacked


def lazy(case: Case) -> bool:
    return lazy_somewhere(case.ours) or any(lazy_somewhere(td) for td, _ in case.variables)


def fails(case: Case, *pieces: str) -> bool:
    """Whether tensordict alone fails, with a message that contains one of the pieces."""
    return not case.error and any(piece in case.message for piece in pieces) and agrees(case)


@rule("lazy stacks stay lazy")
def _(case: Case) -> bool:
    if case.kind == "lazy" and is_container(case.theirs) and -1 in case.theirs.batch_size:
        return stacked(case.ours) and not stacked(case.theirs)  # a dense one cannot be ragged
    return case.kind in ("lazy", "stack_dim", "parts") and (same_content(case) or agrees(case))


@rule("ragged leaves and exclusive keys take part in every shape operation")
def _(case: Case) -> bool:
    names = (
        "index",
        "masked_select",
        "flip",
        "gather",
        "reshape",
        "flatten_keys",
        "flat_round",
        "split_keys",
    )
    return case.name in names and fails(
        case, "Failed to stack tensors", "exclusive", "got keys", "Sizes of tensors must match"
    )


@rule("ragged leaves and exclusive keys take part in every shape operation")
def _(case: Case) -> bool:
    refused = case.name == "flip" and "Failed to stack tensors" in case.message
    return refused and not case.error and stacked(case.target) and flipped(case)


@rule("ragged leaves and exclusive keys take part in every shape operation")
def _(case: Case) -> bool:
    texts = ("Failed to stack tensors", "not found in any of the stacked")
    if case.name == "numel" and -1 in case.target.batch_size:
        return bool(case.ours == sum(part.numel() for part in parts(case.target)))
    if case.error or not any(text in case.message for text in texts):
        return False
    if case.name == "read shape":
        return -1 in case.ours
    return case.name == "split_keys" and split_apart(case)


@rule("ragged leaves and exclusive keys take part in every shape operation")
def _(case: Case) -> bool:
    if case.name == "read padded" and case.other == "RuntimeError" and not case.error:
        return (
            "must match the size" in case.message and isinstance(case.step.facts["key"], str) and padded(case)
        )
    results = case.name == "split_keys" and case.kind == "keys" and case.path.startswith("[")
    return results and lazy_somewhere(case.target) and split_apart(case)


@rule("`get(as_padded_tensor=True)` of rows that differ in more than their length")
def _(case: Case) -> bool:
    if case.name != "read padded" or case.other or "cannot pad" not in str(case.ours_error):
        return False
    rows = arrays(case.target.get(case.step.facts["key"], as_list=True))
    return len({row.shape[1:] for row in rows}) > 1


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    # `split_keys(inplace=True)` replaces the nodes that it takes keys from
    return case.name == "split_keys" and case.kind == "keys" and case.path.startswith("v")


@rule("stacks of lazy stacks that lie along different dims")
def _(case: Case) -> bool:
    # tensordict pairs the parts up all the same, which mixes their elements
    if case.name not in ("stack", "maybe_dense_stack", "lazy_stack", "cat") or case.error:
        return False
    if "must have same stack dim" in case.message:
        return agrees(case)
    return lazy(case) and case.kind in ("values", "shape", "keys", "batch_size", "stack_dim") and agrees(case)


@rule("masks over nested lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("where", "masked_fill") and case.kind == "values" and lazy(case) and agrees(case)


@rule("ragged operands stacked along different dims")
def _(case: Case) -> bool:
    return (
        case.name.startswith("arithmetic")
        and case.error == "RuntimeError"
        and case.other in ("", "KeyError")
        and "Failed to stack" in str(case.ours_error)
    )


@rule("`view` of a lazy stack")
def _(case: Case) -> bool:
    if case.error and not case.other:  # to another shape without elements, which tensordict does not give
        shape = case.step.facts.get("args")
        return case.name == "view" and 0 in case.target.batch_size and tuple(case.theirs.batch_size) != shape
    return case.name in ("view", "flatten", "unflatten", "squeeze") and fails(
        case, "Cannot call `view` on a lazy"
    )


# What tensordict gets wrong, or fails in, when it moves elements of lazy stacks about.
MOVES = (
    "index", "masked_select", "flatten", "unflatten", "reshape", "view", "squeeze", "unsqueeze", "expand",
    "split", "chunk", "transpose", "movedim", "permute", "unbind", "repeat", "repeat_interleave",
)  # fmt: skip


@rule("indices and shapes of lazy stacks")
def _(case: Case) -> bool:
    if case.name == "index" and "of a ragged batch of size" in str(case.ours_error):
        return True  # elements of a ragged batch have no numbers
    if case.kind == "identity":  # the part itself
        return lazy(case) and any(case.ours is td for td, _ in case.variables)
    results = ("batch_size", "objects batch_size", "objects", "unreadable", "values", "shape")
    if case.name in MOVES and case.kind in results and lazy(case) and agrees(case):
        return True
    return case.name in MOVES and fails(
        case,
        "scalar False mask inside a tuple",
        "tuple index out of range",
        "Stack dim is too big",
        "must be within the range of the number of dimensions",
        "not enough values to unpack",
        'missing 1 required positional arguments: "repeats"',
        "list index out of range",
        "pop index out of range",
        "items cannot be empty",
        "'Tensor' object has no attribute 'batch_size'",
    )


@rule("arrays as operands of a lazy stack")
def _(case: Case) -> bool:
    if case.name == "arithmetic rows" and case.kind == "values" and lazy_somewhere(case.target):
        return agrees(case)
    return case.name in ("arithmetic rows", "where") and fails(
        case, "expand_as_right requires", "is incompatible with dest shape"
    )


@rule("entries that only some parts have under `apply` and reductions")
def _(case: Case) -> bool:
    if not case.name.startswith(("apply", "reduce", "scan", "arithmetic")) or case.error or not lazy(case):
        return False
    return "Failed to reconstruct the lazy stack" in case.message or "'values_only'" in case.message


@rule("a lazy stack with a dense TensorDict")
def _(case: Case) -> bool:
    # tensordict looks for the numbers of parts among the keys, or broadcasts from the left
    if case.name == "arithmetic td" and case.other == "KeyError":
        return lazy(case) and fails(case, "")
    if case.name == "maybe_dense_stack":
        return fails(case, "'dict' object has no attribute")
    compared = (
        "Could not compare tensordicts",
        "Incompatible expanded shape",
        "Mismatching argument",
        "attribute 'tensordicts'",
        "batch dimension mismatch",
        "Cannot expand",
    )
    if case.name != "arithmetic compare td":
        return False
    return fails(case, *compared) or (case.kind == "batch_size" and lazy(case) and agrees(case))


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    if case.kind != "names":
        return False
    if not lazy(case):
        return "/" in case.path and names_fit((case.ours, case.target))
    if case.name == "index" and names_differ(case.theirs):
        return agrees(case)
    return names_agree(case)


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    # tensordict raises later, when it meets what it has lost, or gives a name too few
    if "refine_names: cannot coerce" in case.message or "dimension names are non-unique" in case.message:
        return not case.error and names_fit((case.ours, case.target))
    if case.kind != "names" or case.path or not is_container(case.theirs):
        return False
    try:
        return len(case.theirs.names) != case.theirs.ndim
    except (IndexError, ValueError):  # a stack without parts; parts that disagree
        return True


@rule("names given to a lazy stack")
def _(case: Case) -> bool:
    return case.name in ("names", "unflatten") and fails(case, "already taken")


@rule("non-tensor data under `gather`, `flip` and comparisons")
def _(case: Case) -> bool:
    names = (
        "gather",
        "flip",
        "repeat_interleave",
        "arithmetic compare",
        "arithmetic compare td",
        "reshape",
        "split",
        "new_zeros",
    )
    return case.kind in ("kind", "lazy", "keys") and case.name in names and agrees(case)


@rule("exclusive keys under `to_dict`, `flatten_keys` and `unflatten_keys`")
def _(case: Case) -> bool:
    # tensordict does not count those of objects
    names = ("to_dict", "flatten_keys", "unflatten_keys", "flat_round", "set_index")
    return case.name in names and "exclusive keys" in str(case.ours_error)


def parts(value: Any) -> list[Any]:
    return [leaf for part in value.tensordicts for leaf in parts(part)] if stacked(value) else [value]


@rule("lock of the parts of a lazy stack")
def _(case: Case) -> bool:
    if case.kind != "lock":
        return False
    ours, theirs = case.ours, case.theirs
    if case.path.startswith("v"):
        ours, theirs = case.variables[int(case.path[1:].split("/")[0])]
    elif case.path.startswith("["):
        ours, theirs = (value[int(case.path[1:].split("]")[0])] for value in (ours, theirs))
    if stacked(ours) and not ours.tensordicts:  # where no part could say it
        return ours.is_locked == case.target.is_locked
    if case.name == "index" and not case.path.startswith("v"):
        own = set(map(id, parts(case.target)))
        if all(id(part) in own for part in parts(ours)):  # the parts themselves
            return True
    if not parts_agree(ours, "is_locked"):
        return False
    if ours.is_locked == theirs.is_locked and locked_alike(ours, ours.is_locked):
        return lazy(case)  # tensordict locks some of it
    return not parts_agree(theirs, "is_locked") or (lazy(case) and locks_agree(case))


@rule("lock of the parts of a lazy stack")
def _(case: Case) -> bool:
    # which another lazy stack of the same parts has locked as well
    if case.name not in ("is_locked", "unlock_", "with unlock") or case.other or not stacked(case.target):
        return False
    own = set(map(id, parts(case.target)))
    others = [td for td, _ in case.variables if td is not case.target and stacked(td) and td.is_locked]
    shared = any(id(part) in own for td in others for part in parts(td))
    return shared and "locked graph" in str(case.ours_error)


@rule("a lazy stack after its parts changed")
def _(case: Case) -> bool:
    if case.name in ("read keys", "read contains") and case.kind == "value":
        return lazy(case) and (common_keys(case) if case.name == "read keys" else agrees(case))
    if case.name == "read keys" and "not found in TensorDict" in case.message:
        return not case.error and common_keys(case)  # nodes that only some parts have
    return case.kind == "batch_size" and not parts_agree([td for _, td in case.variables], "batch_size")


@rule("`auto_batch_size_` with lazy stacks and non-tensor data")
def _(case: Case) -> bool:
    # objects per element are a lazy stack in tensordict
    refused = "in a lazy TD" in case.message or "Failed to stack tensors" in case.message
    if case.name != "auto_batch_size_" or not (refused or case.kind.startswith("objects")):
        return False
    before = case.before()[case.step.facts["target"]]
    if stacked(before) and before.batch_size != case.target.batch_size:
        return False
    longest = max(len(before.batch_size), *case.step.facts["args"], len(case.target.batch_size))
    return not broken(case.target) and len(case.target.batch_size) <= longest


@rule("sizes of `split` and `unflatten` of a lazy stack")
def _(case: Case) -> bool:
    return (
        case.name in ("split", "unflatten")
        and case.error == "RuntimeError"
        and not case.other
        and fails_alike(case)
    )


@rule("entries of different kinds in a lazy stack")
def _(case: Case) -> bool:
    if case.name == "cat" and "cannot be concatenated" in str(case.ours_error):
        return not case.other and "TensorDict (" in str(case.ours_error)  # a node with an object or array
    read = case.name.startswith("read") and case.error == "RuntimeError"
    return read and not case.other and "of different kinds" in str(case.ours_error)


@rule("`is_empty` of a lazy stack")
def _(case: Case) -> bool:
    if case.name == "is_empty" and "not found in TensorDict" in case.message:
        return bool(case.ours) == (not list(arrays(case.target)))
    return case.name == "is_empty" and stacked(case.target) and not case.ours


@rule("order of keys in a lazy stack")
def _(case: Case) -> bool:
    return case.kind == "key order" and lazy(case) and same_content(case)


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    combined = ("stack", "cat", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict", "set_index")
    if case.kind == "dtype" and case.name == "flatten_keys":
        return agrees(case)  # tensordict stacks the parts in between
    return case.kind == "dtype" and case.name in (*combined, "contiguous")
