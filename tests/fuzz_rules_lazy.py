"""Intended differences around lazy stacks and ragged leaves."""

from __future__ import annotations

import numpy as np
from fuzz_case import Case, lazy_somewhere, ragged, repeated, rule, same_content
from fuzz_sides import is_container, stacked


@rule("lazy stacks stay lazy")
def _(case: Case) -> bool:
    return case.kind in ("lazy", "stack_dim", "parts") and same_content(case)


@rule("ragged leaves and exclusive keys take part in every shape operation")
def _(case: Case) -> bool:
    return (
        case.other == "RuntimeError"
        and not case.error
        and ("Failed to stack tensors" in case.message or "exclusive" in case.message)
        and (ragged(case.target) or any(ragged(a) for a, _ in case.variables))
    )


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    lazy = lazy_somewhere(case.target) or lazy_somewhere(case.ours)
    return case.kind == "names" and ("/" in case.path or lazy)


@rule("non-tensor data under `gather`, `flip` and comparisons")
def _(case: Case) -> bool:
    names = ("gather", "flip", "repeat_interleave", "arithmetic compare", "reshape")
    return case.kind in ("kind", "lazy") and case.name.startswith((*names, "split", "new_zeros"))


@rule("a lazy stack after its parts changed")
def _(case: Case) -> bool:
    return case.kind == "batch_size" and case.path.startswith("v")


@rule("exclusive keys under `clear` and `filter_empty_`")
def _(case: Case) -> bool:
    return case.name in ("clear", "filter_empty_") and case.kind == "keys"


@rule("`contiguous` and other copies of a locked lazy stack")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("contiguous", "unflatten_keys", "flatten_keys")


@rule("`view` of a lazy stack")
def _(case: Case) -> bool:
    return not case.error and "Cannot call `view` on a lazy" in case.message


@rule("writes to nested lazy stacks")
def _(case: Case) -> bool:
    return case.step.writes and not case.error and bool(case.other) and lazy_somewhere(case.target)


@rule("`auto_batch_size_` with lazy stacks and non-tensor data")
def _(case: Case) -> bool:
    if case.name == "auto_batch_size_" and lazy_somewhere(case.target):
        return True
    return case.name == "auto_batch_size_" and (
        0 in case.target.batch_size
        or case.kind in ("objects", "objects batch_size")
        or (not case.error and (stacked(case.target) or "lazy" in case.message))
    )


@rule("ragged operands stacked along different dims")
def _(case: Case) -> bool:
    return (
        case.name.startswith("arithmetic")
        and case.error == "RuntimeError"
        and not case.other
        and ragged(case.target)
    )


@rule("arrays as operands of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "arithmetic rows" and lazy_somewhere(case.target)


@rule("a lazy stack after its parts changed")
def _(case: Case) -> bool:
    return (
        not case.error
        and case.other == "ValueError"
        and "range of the number of dimensions" in case.message
        and lazy_somewhere(case.target)
    )


@rule("lock of the parts of a lazy stack")
def _(case: Case) -> bool:
    return case.kind == "lock" and "/" in case.path


@rule("empty lazy stacks")
def _(case: Case) -> bool:
    results = case.ours if isinstance(case.ours, tuple) else (case.ours,)
    return any(
        lazy_somewhere(td) and 0 in td.batch_size for td in (case.target, *results) if is_container(td)
    )


@rule("sizes of `split` of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "split" and case.error == "RuntimeError" and lazy_somewhere(case.target)


@rule("unforeseen operations on lazy stacks")
def _(case: Case) -> bool:
    return (
        not case.error
        and bool(case.other)
        and (lazy_somewhere(case.target) or any(lazy_somewhere(a) for a, _ in case.variables))
    )


@rule("assignments to parts of a lazy stack")
def _(case: Case) -> bool:
    different = ("keys", "values", "lazy", "shape", "error")
    return case.name == "set_index" and lazy_somewhere(case.target) and case.kind in different


@rule("several index arrays on a lazy stack")
def _(case: Case) -> bool:
    return len([i for i in case.index if isinstance(i, list | np.ndarray)]) > 1 and lazy_somewhere(
        case.target
    )


@rule("`is_empty` of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "is_empty" and lazy_somewhere(case.target)


@rule("order of keys in a lazy stack")
def _(case: Case) -> bool:
    return case.kind == "key order" and lazy_somewhere(case.target)


@rule("objects of a lazy stack in `new_zeros`")
def _(case: Case) -> bool:
    return case.name == "new_zeros" and case.kind == "keys"


@rule("`popitem` of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "popitem" and lazy_somewhere(case.target)


@rule("a part that is in a lazy stack more than once")
def _(case: Case) -> bool:
    return any(repeated(td) for td, _ in case.variables)


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    how = case.step.facts.get("how")
    inplace = how in ("set_", "inplace", "update_at_", "update_")
    return inplace and lazy_somewhere(case.target) and case.kind in ("values", "keys", "error", "shape")


@rule("merging and splitting dims around the dim of a lazy stack")
def _(case: Case) -> bool:
    return (
        case.name in ("flatten", "unflatten", "reshape", "view", "squeeze")
        and case.kind.startswith(("batch_size", "identity"))
        and (lazy_somewhere(case.target) or lazy_somewhere(case.ours))
    )


@rule("names given to a lazy stack")
def _(case: Case) -> bool:
    return case.name == "names" and "already taken" in case.message


@rule("index of nested lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("index", "masked_select") and not case.error and lazy_somewhere(case.target)


@rule("unforeseen operations on lazy stacks")
def _(case: Case) -> bool:
    # where() keeps the dtype of the lazy stack; to_dict() gives 0-d arrays as objects
    return (case.name == "where" and case.kind == "dtype" and lazy_somewhere(case.target)) or (
        case.name == "to_dict" and case.kind == "kind"
    )


@rule("ragged rows in `update_`")
def _(case: Case) -> bool:
    update = case.name == "update" or case.step.facts.get("how") in ("update_", "inplace")
    return update and case.error == "RuntimeError" and not case.other


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    combined = ("stack", "cat", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict", "set_index")
    return case.kind == "dtype" and case.name in combined


@rule("a lazy stack after its parts changed")
def _(case: Case) -> bool:
    return case.name in ("read keys", "read contains", "arithmetic compare td") and any(
        lazy_somewhere(a) for a, _ in case.variables
    )


@rule("exclusive keys under `flatten_keys` and `unflatten_keys`")
def _(case: Case) -> bool:
    return (
        case.name in ("flatten_keys", "unflatten_keys", "flat_round")
        and case.error == "RuntimeError"
        and not case.other
    )


@rule("`set_index` of a longer nested batch")
def _(case: Case) -> bool:
    return (
        case.name == "set_index"
        and case.error == "RuntimeError"
        and not case.other
        and lazy_somewhere(case.target)
    )


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return (
        case.kind == "values"
        and case.path.startswith("v")
        and lazy_somewhere(case.target)
        and (case.step.writes or case.name in ("update", "poke"))
    )


@rule("`split_keys` of exclusive keys")
def _(case: Case) -> bool:
    return case.name == "split_keys" and any(lazy_somewhere(a) for a, _ in case.variables)


@rule("unforeseen operations on lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("to_tensordict", "contiguous", "to_dict") and not case.error and bool(case.other)


@rule("`auto_batch_size_` with lazy stacks and non-tensor data")
def _(case: Case) -> bool:
    return case.name == "auto_batch_size_" and case.kind == "batch_size"


@rule("stacks of lazy stacks that lie along different dims")
def _(case: Case) -> bool:
    # tensordict pairs the parts up all the same, which mixes their elements
    if case.name not in ("stack", "maybe_dense_stack", "lazy_stack") or not stacked(case.ours):
        return False
    return len({part.stack_dim for part in case.ours.tensordicts if stacked(part)}) > 1


@rule("masks over nested lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("where", "masked_fill") and case.kind == "values" and lazy_somewhere(case.target)
