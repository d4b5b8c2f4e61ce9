"""Intended differences of calls that write: set, update, assignment, rename."""

from __future__ import annotations

import numpy as np
from fuzz_case import Case, path_of, rule


@rule("too many indices")
def _(case: Case) -> bool:
    return case.name in ("index", "set_index") and case.error == "IndexError" and case.other == ""


@rule("`update_` with unknown keys")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("update_",) and case.error == "KeyError" and not case.other


@rule("new non-tensor keys in an assignment")
def _(case: Case) -> bool:
    return case.name == "set_index" and case.kind.startswith("objects")


@rule("`create_nested` below an existing node")
def _(case: Case) -> bool:
    return case.name == "create_nested" and (case.kind == "keys" or case.error == "KeyError")


@rule("moving a key to itself when missing, `safe=True`")
def _(case: Case) -> bool:
    args = case.step.facts.get("args", ())
    return case.name == "rename_key_" and args[0] == args[1] and not case.error


@rule("`update` of a locked TensorDict with itself")
def _(case: Case) -> bool:
    return (
        case.name == "update"
        and case.target.is_locked
        and not case.error
        and case.step.facts["kind"] == "variable"
    )


@rule("`set_` of a key whose first level is missing")
def _(case: Case) -> bool:
    return (
        case.name == "set"
        and case.step.facts["how"] == "set_"
        and case.error == "KeyError"
        and not case.other
    )


@rule('`rename_key_("n", ("n", "a"))`')
def _(case: Case) -> bool:
    args = case.step.facts.get("args", ())
    return (
        case.name == "rename_key_"
        and isinstance(args[1], tuple)
        and args[1][: len(path_of(args[0]))] == path_of(args[0])
    )


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.step.writes and case.error == "ValueError" and not case.other


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    merged = case.step.facts.get("how") in ("set_", "inplace") and case.path.count("/") >= 1
    return case.kind == "keys" and (
        merged or case.name.startswith("arithmetic") or case.name in ("double", "float")
    )


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    how = case.step.facts.get("how")
    return (
        not case.error
        and case.other == "RuntimeError"
        and how in ("set_", "inplace", "update_at_", "update_")
    )


@rule("`set(key, array, inplace=True)` over non-tensor data")
def _(case: Case) -> bool:
    return case.name == "set" and not case.error and case.other == "ValueError"


@rule("nodes made on the way to a nested key")
def _(case: Case) -> bool:
    key = case.step.facts.get("key")
    return case.name == "set" and isinstance(key, tuple) and case.error == "RuntimeError" and not case.other


@rule("assignment through None")
def _(case: Case) -> bool:
    return case.name == "set_index" and None in [i for i in case.index if not isinstance(i, np.ndarray)]


@rule("numbers of another dtype in an assignment")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and not case.error and "source and destination dtypes match" in case.message
    )


@rule("`create_nested` below an existing node")
def _(case: Case) -> bool:
    return case.name == "create_nested" and isinstance(case.step.facts["args"][0], tuple)


@rule("`set(inplace=True)` of objects")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("inplace", "set_") and case.kind.startswith("objects")


@rule("`rename_key_` into a node of another batch size")
def _(case: Case) -> bool:
    return case.name == "rename_key_" and case.error == "RuntimeError" and not case.other


@rule("lists of arrays as values")
def _(case: Case) -> bool:
    value = case.step.facts.get("value") or next(iter(case.step.facts.get("args", ())), None)
    given = value.get("a") if isinstance(value, dict) else value
    return case.name in ("set", "replace") and type(given) is list


@rule("the same memory on both sides of an assignment")
def _(case: Case) -> bool:
    return case.step.writes and "single memory location" in case.message and not case.error


@rule("arrays with features under `td[i] = ...` of a batch without dims")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and case.error == "RuntimeError" and not case.target.ndim and not case.other
    )


@rule("`set_` of a dict over non-tensor data")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("set_", "inplace") and not case.error and bool(case.other)


@rule("numbers and rows written to nested batches")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and not case.error and "differs from the source batch size" in case.message
    )


@rule("`update_at_` of unknown keys")
def _(case: Case) -> bool:
    return (
        case.name == "update" and case.error in ("KeyError", "RuntimeError", "ValueError") and not case.other
    )


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return (
        case.kind == "keys"
        and case.path.startswith("v")
        and case.name in ("exclude", "select", "del_", "pop", "rename_key_")
    )


@rule("single bools as the index of an assignment")
def _(case: Case) -> bool:
    return case.name == "set_index" and any(isinstance(i, bool) for i in case.index)


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return case.kind in ("values", "keys") and case.path.startswith("v") and case.name == "update"


@rule("`update_` with unknown keys")
def _(case: Case) -> bool:
    return case.name == "update" and case.error == "KeyError"


@rule("numbers and rows written to nested batches")
def _(case: Case) -> bool:
    return (
        case.name == "set_index"
        and (not case.error) != (not case.other)
        and case.error in ("", "RuntimeError")
    )


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    return (
        case.step.facts.get("how") in ("set_", "inplace") and case.error == "RuntimeError" and not case.other
    )


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return case.name == "set_index" and case.kind == "values" and case.path.startswith("v")
