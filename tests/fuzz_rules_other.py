"""Intended differences of the other calls: shapes, indices, objects, names, errors."""

from __future__ import annotations

import numpy as np
from fuzz_case import INTERNAL, UNFORESEEN, Case, broken, elements, rule
from fuzz_sides import is_objects


@rule("internal errors on unforeseen input")
def _(case: Case) -> bool:
    unforeseen = case.other in INTERNAL or any(text in case.message for text in UNFORESEEN)
    return unforeseen and case.error != case.other


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    return case.kind == "identity" and case.ours is case.target


@rule("stack dim out of range")
def _(case: Case) -> bool:
    stacks = ("stack", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict")
    if case.name not in stacks or case.error != "IndexError" or case.other:
        return False
    return not -case.target.ndim - 1 <= case.step.facts["dim"] <= case.target.ndim


@rule("`flatten_keys(inplace=True)`")
def _(case: Case) -> bool:
    return case.name == "flatten_keys" and bool(case.step.facts["kwargs"]) and case.kind == "keys"


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    # flatten of one dimension forgets its name in tensordict, and fails for longer nested batch sizes
    args = case.step.facts.get("args", ())
    return case.name == "flatten" and len(args) == 2 and args[0] == args[1] and case.ours is case.target


@rule("`masked_select` of a named batch")
def _(case: Case) -> bool:
    return case.name == "masked_select" and case.kind == "names"


@rule("`numel()` of an empty batch")
def _(case: Case) -> bool:
    size = case.target.batch_size
    return (
        0 in size
        and not case.error
        and (
            case.name == "numel"
            or (case.name in ("reshape", "view", "unflatten") and case.other == "RuntimeError")
        )
    )


@rule("`split`, `chunk` of a dimension of size 0")
def _(case: Case) -> bool:
    return case.name in ("split", "chunk") and 0 in case.target.batch_size and not case.error


@rule("`empty(recurse=True, ...)`")
def _(case: Case) -> bool:
    return case.name == "empty" and bool(case.step.facts["kwargs"]) and case.kind == "keys"


@rule("bool beside an index array")
def _(case: Case) -> bool:
    return any(isinstance(item, bool) for item in case.index) and len(case.index) > 1


@rule("integer index apart from an index array")
def _(case: Case) -> bool:
    items = case.index  # an ellipsis stands between two others, even if it stands for nothing
    block = [i for i, item in enumerate(items) if isinstance(item, int | list | np.ndarray)]
    arrays = [i for i in block if not isinstance(items[i], int)]
    return bool(arrays) and len(arrays) < len(block) and block[-1] - block[0] + 1 != len(block)


@rule("order of keys after `unflatten_keys`")
def _(case: Case) -> bool:
    return case.kind == "key order" and case.name in ("flat_round", "unflatten_keys")


@rule("`get(as_list=True)` of non-tensor data")
def _(case: Case) -> bool:
    return case.name in ("read list", "read padded") and case.kind == "kind" and is_objects(case.theirs)


@rule('`td["a", "b"]` through an array')
def _(case: Case) -> bool:
    return case.other == "ValueError" and "Expected a TensorDictBase" in case.message


@rule("`select` of a key and of one below it")
def _(case: Case) -> bool:
    return case.name == "select" and (case.kind == "keys" or not case.error)


@rule("`exclude(inplace=True)`, `filter_empty_` when locked")
def _(case: Case) -> bool:
    return (
        case.error == "RuntimeError"
        and not case.other
        and case.target.is_locked
        and case.name in ("exclude", "filter_empty_", "select", "unflatten_keys")
    )


@rule("index dims out of range")
def _(case: Case) -> bool:
    d = case.step.facts.get("dim")
    return (
        case.name == "cat"
        and case.error == "RuntimeError"
        and not case.other
        and not -case.target.ndim <= d < case.target.ndim
    )


@rule("`abs`, `**`, `sub`, `exp` ... of a TensorDict without arrays")
def _(case: Case) -> bool:
    no_result = case.name == "arithmetic logic" and case.theirs is None
    return (
        case.name.startswith("arithmetic") and "at least one tensor" in case.message and not case.error
    ) or (no_result and not case.other and not case.error)


@rule("names of the dimensions that an index array makes")
def _(case: Case) -> bool:
    arrays = [i for i in case.index if isinstance(i, list | np.ndarray)]
    return case.kind == "names" and (len(arrays) > 1 or any(np.ndim(i) > 1 for i in arrays))


@rule("`gather` with an empty index")
def _(case: Case) -> bool:
    return case.name == "gather" and case.error == "RuntimeError" and 0 in case.target.batch_size


@rule("objects of a longer nested batch in `tolist` and `to_dict`")
def _(case: Case) -> bool:
    return case.name in ("tolist", "to_dict") and case.kind == "value"


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    return case.name.startswith("arithmetic") and case.error == "KeyError" and not case.other


@rule("results whose entries do not start with the batch size")
def _(case: Case) -> bool:
    return case.kind == "unreadable"


@rule("results whose entries do not start with the batch size")
def _(case: Case) -> bool:
    return (
        not case.error
        and not broken(case.ours)
        and (
            broken(case.theirs) or any(broken(theirs) and not broken(ours) for ours, theirs in case.variables)
        )
    )


@rule("operations on empty batches")
def _(case: Case) -> bool:
    return 0 in case.target.batch_size and (bool(case.other) != bool(case.error) or case.kind == "batch_size")


@rule("objects under `apply(batch_size=...)`")
def _(case: Case) -> bool:
    return case.name == "apply grow" and case.error == "RuntimeError" and not case.other


@rule("`reshape` to another number of elements, no entries")
def _(case: Case) -> bool:
    return (
        case.name in ("reshape", "view", "unflatten")
        and case.error == "RuntimeError"
        and case.target.is_empty()
    )


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    return case.kind.startswith(("objects batch_size", "batch_size")) and case.name.startswith(
        ("arithmetic compare", "squeeze")
    )


@rule("`where` with other keys")
def _(case: Case) -> bool:
    return case.name == "where" and case.error == "KeyError" and not case.other


@rule("dims out of range in `repeat_interleave`")
def _(case: Case) -> bool:
    return case.name == "repeat_interleave" and case.error == "IndexError" and not case.other


@rule("objects shared by the batch stay one object")
def _(case: Case) -> bool:
    return case.name == "read item" and case.kind == "value"


@rule("memory layout of results")
def _(case: Case) -> bool:
    return case.name == "view" and case.error == "ValueError" and not case.other


@rule("unlocking results of a locked TensorDict")
def _(case: Case) -> bool:
    return (
        case.name in ("is_locked", "unlock_", "with unlock")
        and not case.error
        and "locked graph" in case.message
    )


@rule("objects under `apply(batch_size=...)`")
def _(case: Case) -> bool:
    return case.name == "apply grow" and case.kind == "keys"


@rule("`repeat` of a list")
def _(case: Case) -> bool:
    return case.name == "repeat" and not case.error and not case.step.facts["args"]


@rule("`squeeze` of nested batches")
def _(case: Case) -> bool:
    return case.name == "squeeze" and not case.error and bool(case.other)


@rule("`get_at` of objects without rows")
def _(case: Case) -> bool:
    return case.name == "read get_at" and case.error == "IndexError" and not case.other


@rule("operations on empty batches")
def _(case: Case) -> bool:
    return case.kind.startswith("objects") and case.name == "index" and "[]" in repr(elements(case.ours))


@rule("`cat` of a TensorDict without entries")
def _(case: Case) -> bool:
    return case.name == "cat" and case.error == "RuntimeError" and not case.other and case.target.is_empty()


@rule("index of a mask beside None")
def _(case: Case) -> bool:
    return (
        case.name == "index"
        and not case.error
        and None in [i for i in case.index if not isinstance(i, np.ndarray)]
    )


@rule("lock of `where`, of array operands and of `contiguous`")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("where", "arithmetic rows", "contiguous", "arithmetic td")


@rule("negative dims and longer nested batches")
def _(case: Case) -> bool:
    negative = any(type(d) is int and d < 0 for d in case.step.facts.get("args", ()))
    return (
        case.name in ("transpose", "permute", "movedim")
        and negative
        and case.kind in ("values", "batch_size", "shape")
        and "/" in case.path
    )


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.name == "apply inplace" and not case.error and bool(case.other)


@rule("`where` with other keys")
def _(case: Case) -> bool:
    return case.name == "where" and (case.kind == "dtype" or case.error == "KeyError")


@rule("`reshape` to another number of elements, no entries")
def _(case: Case) -> bool:
    return case.name in ("reshape", "view", "unflatten") and case.error == "RuntimeError" and not case.other


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    return case.kind.startswith("objects") and case.name in ("view", "reshape", "flatten", "unflatten")


@rule("non-tensor entries on one side of arithmetic")
def _(case: Case) -> bool:
    return case.name.startswith("arithmetic") and not case.error and case.other == "KeyError"


@rule("index of nested batches")
def _(case: Case) -> bool:
    arrays = any(isinstance(i, np.ndarray | list) for i in case.index)
    return (
        case.name == "index"
        and arrays
        and ((not case.error and bool(case.other)) or case.kind == "batch_size")
    )


@rule("`exclude(inplace=True)`, `filter_empty_` when locked")
def _(case: Case) -> bool:
    return case.name in ("filter_empty_", "exclude") and case.error == "RuntimeError" and not case.other
