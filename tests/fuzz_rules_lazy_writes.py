"""Intended differences where lazy stacks are written to, and entries removed from them."""

from __future__ import annotations

import numpy as np
from fuzz_assigned import assigned
from fuzz_case import Case, confused, elements, lazy_somewhere, ragged, repeated, rule, same_elements
from fuzz_dense import agrees, fails_alike, last_places, parts_apart, popped, without_empty
from fuzz_rules_lazy import fails, lazy, parts
from fuzz_sides import LITE, is_container, stacked
from fuzz_written import written


@rule("exclusive keys under `clear` and `filter_empty_`")
def _(case: Case) -> bool:
    if case.name == "filter_empty_":
        if "not found in TensorDict" in case.message and not case.error:
            source = case.before()[case.step.facts["target"]]
            return same_elements(*(without_empty(elements(td)) for td in (case.target, source)))
        return (case.kind == "keys" and lazy(case) and agrees(case)) or fails(
            case, "not found in any of", "No sub-tensordict with key"
        )
    return case.name == "clear" and case.kind == "keys" and not any(td.keys() for td in parts(case.target))


@rule("assignments to lazy stacks")
def _(case: Case) -> bool:
    if case.name != "set_index" or not lazy(case):
        return False
    if case.error:
        text = str(case.ours_error)
        if not case.other and "which differs from the source batch size" in text:
            return True  # as for dense ones
        if not case.other and "Cannot modify locked" in text:
            return any(part.is_locked for part in parts(case.target))
        other_shape = ragged(case.target) and "shape mismatch at key" in text
        return other_shape or fails_alike(case)
    return case.kind == "objects" or spread(case) or agrees(case) or assigned(case)


@rule("a part that is in a lazy stack more than once")
def _(case: Case) -> bool:
    if repeated(case.target) and not case.error and (agrees(case) or parts_apart(case)):
        return True
    if case.step.facts.get("how") == "inplace" and not case.error and case.kind == "values":
        return stacked(case.target) and repeated(case.target) and last_places(case)
    return case.name == "set_index" and confused(case) and assigned(case)


@rule("`popitem` of a lazy stack")
def _(case: Case) -> bool:
    if case.name != "popitem" or not stacked(case.target):
        return False
    if case.error:  # the last common key is ragged
        return not case.other and "Failed to stack tensors" in str(case.ours_error)
    common = list(case.before()[case.step.facts["target"]].keys())
    return case.ours[0] == common[-1] and (popped(case) or agrees(case))


@rule("updates of lazy stacks")
def _(case: Case) -> bool:
    how = case.step.facts.get("how")
    both = how is not None and case.kind == "error class"
    if both and "Failed to update" in str(case.ours_error):
        return True
    if how in ("set", "setitem", "setdefault"):
        return fails(case, "Incompatible dim")
    if how in ("update", "clone"):
        refused = "in a lazy TD" in case.message or "Incompatible dim" in case.message
        return fails_alike(case) if case.error else refused and agrees(case)
    if how == "inplace" and case.error == "RuntimeError" and "Failed to stack" in str(case.ours_error):
        # a dense node becomes no lazy stack in place
        return not case.other and ragged(case.step.facts["source"](LITE, case.before()))
    if how in ("update_", "update_at_") and case.error == "RuntimeError" and not case.other:
        # ragged rows do not broadcast to more batch dims, nor arrays to ragged ones
        source, ndim = case.step.facts["source"](LITE, case.before()), case.target.ndim
        if is_container(source) and source.ndim < ndim - (how == "update_at_"):
            texts = ("Failed to stack", "batch dimension mismatch")
            return ragged(case.target) and any(text in str(case.ours_error) for text in texts)
    if how == "inplace" and case.name == "set" and not case.error and "Failed to update" in case.message:
        return stored(case)  # objects that only some parts have are no entry of the stack
    if how == "update_" and case.error == "ValueError" and "Failed to update" in str(case.ours_error):
        from_lazy = lazy_somewhere(case.step.facts["source"](LITE, case.before()))
        return not case.other and (from_lazy or fails_alike(case))
    if how not in ("set_", "inplace", "update_at_", "update_") or not lazy_somewhere(case.target):
        return False
    if case.error:
        return fails_alike(case)
    if how == "inplace" and case.name == "update" and case.kind == "values" and copied_whole(case):
        return True
    return agrees(case) or (how in ("set_", "inplace") and written(case))


def spread(case: Case) -> bool:
    """Whether a value with fewer feature dims than its target was written, which each part broadcasts."""
    if case.kind != "values" or not case.path.startswith("v"):
        return False
    at, *middle, key = case.path.split("/")
    source = case.step.facts["source"](LITE, case.before())
    if not is_container(source) or key not in source:
        return False
    part = case.variables[int(at[1:])][0]
    for name in middle:
        part = part.tensordicts[int(name[1:-1])] if name.startswith("<") else part.get(name)
    return bool(source.get(key).ndim - source.ndim < len(part.get_item_shape(key)) - part.ndim)


def copied_whole(case: Case) -> bool:
    """Whether the arrays of the source, at the top, were broadcast to the whole entries that there were."""
    before = case.before()
    target, source = before[case.step.facts["target"]], case.step.facts["source"](LITE, before)
    shared = [key for key in target.keys() if key in source and isinstance(source[key], np.ndarray)]  # noqa: SIM118
    pairs = [(np.array(target.get(key)), case.target.get(key), source[key]) for key in shared]
    for expected, _, value in pairs:
        expected[...] = value
    return any(case.path.endswith(f"/{key}") for key in shared) and all(
        np.array_equal(ours, expected) for expected, ours, _ in pairs
    )


def stored(case: Case) -> bool:
    """Whether an entry that the target lacked was stored, and no other changed."""
    before, key = case.before()[case.step.facts["target"]], case.step.facts["key"]
    if key in before:
        return False
    value = case.step.facts["source"](LITE, case.before())
    rest = [without_empty(elements(td.exclude(key))) for td in (case.target, before)]
    return same_elements(*rest) and same_elements(elements(case.target.get(key)), elements(value))
