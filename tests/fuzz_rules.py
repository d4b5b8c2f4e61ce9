"""The intended differences that random programs meet, by name.

A difference that no rule explains fails the test. The names are those of the rows in the README's
table of differences; `test_rules_are_documented` compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from fuzz_sides import Mismatch, is_container, is_objects, stacked

# NumPy and torch report the same mistake with different built-in exceptions.
SAME_ERRORS = {
    ("ValueError", "RuntimeError"),
    ("TypeError", "RuntimeError"),
    ("UFuncTypeError", "RuntimeError"),
    ("_UFuncNoLoopError", "RuntimeError"),
    ("IndexError", "RuntimeError"),
    ("RuntimeError", "IndexError"),
    ("RuntimeError", "ValueError"),
    ("KeyError", "RuntimeError"),
    ("IndexError", "ValueError"),
    ("ValueError", "IndexError"),
    ("AxisError", "IndexError"),
    ("RuntimeError", "KeyError"),
    ("RuntimeError", "TypeError"),
    ("ValueError", "KeyError"),
    ("KeyError", "ValueError"),
    ("KeyError", "IndexError"),
}
# The only rule that excuses lite for a change before an error.
HALF_WAY = "in-place updates of nested TensorDicts that fail half way"
# What tensordict raises where it did not foresee a case.
INTERNAL = ("AttributeError", "NotImplementedError", "RecursionError", "UnboundLocalError", "AssertionError")
# The same, where it is torch that notices.
UNFORESEEN = (
    "expand_as_right requires",
    "with no values is ambiguous",
    "Dimension specified as 0 but tensor has no dimensions",
    "received an invalid combination of arguments",
    "Expected value to be one of types",
    "Invalid indexing arguments",
    "not enough values to unpack",
)


class Case(NamedTuple):
    """A difference, and what led to it."""

    step: Any
    kind: str
    path: str
    ours: Any
    theirs: Any
    error: str  # the error class of lite, or ""
    other: str  # that of tensordict
    message: str  # the error message of tensordict
    ours_error: Any
    target: Any  # lite's variable that the step was called on, after the step
    variables: list[tuple[Any, Any]]

    @property
    def name(self) -> str:
        return str(self.step.name)

    @property
    def index(self) -> tuple[Any, ...]:
        found = self.step.facts.get("index", ())
        return found if type(found) is tuple else (found,)


RULES: dict[str, list[Callable[[Case], bool]]] = {}


def rule(name: str) -> Callable[[Callable[[Case], bool]], Callable[[Case], bool]]:
    def add(predicate: Callable[[Case], bool]) -> Callable[[Case], bool]:
        RULES.setdefault(name, []).append(predicate)
        return predicate

    return add


def same_error(ours: Exception, theirs: Exception) -> bool:
    pair = (type(ours).__name__, type(theirs).__name__)
    return pair[0] == pair[1] or pair in SAME_ERRORS


def explain(
    step: Any, mismatch: Mismatch, got: Any, expected: Any, ours: list[Any], theirs: list[Any]
) -> str | None:
    """The name of the rule that a difference falls under."""
    at = step.facts.get("target", 0)
    case = Case(
        step,
        mismatch.kind,
        mismatch.path,
        got.value,
        expected.value,
        type(got.error).__name__ if got.error is not None else "",
        type(expected.error).__name__ if expected.error is not None else "",
        str(expected.error) if expected.error is not None else "",
        got.error,
        ours[at],
        list(zip(ours, theirs, strict=True)),
    )
    for name, predicates in RULES.items():
        if (mismatch.kind == "unchanged after an error") != (name == HALF_WAY):
            continue
        if any(predicate(case) for predicate in predicates):
            return name
    return None


# -- ways to look at a case -------------------------------------------------------------------


def lazy_somewhere(value: Any) -> bool:
    """Whether there is a lazy stack in a container, at any depth."""
    if not is_container(value):
        return isinstance(value, tuple) and any(map(lazy_somewhere, value))
    return stacked(value) or any(lazy_somewhere(entry) for _, entry in value._items())


def ragged(value: Any) -> bool:
    """Whether the parts of a lazy stack, at any depth, differ in keys or shapes."""
    if not is_container(value):
        return False
    if not stacked(value):
        return any(ragged(entry) for _, entry in value._items())
    return -1 in value.batch_size or not value._is_stackable()


def elements(value: Any) -> Any:
    """The content by batch element, however it is arranged in lazy stacks."""
    if is_objects(value):
        return value.tolist()
    if not is_container(value):
        return np.asarray(value)
    if value.batch_dims:
        return [elements(row) for row in value.unbind(0)]
    return {key: elements(value.get(key)) for key in sorted(value.keys())}


def same_elements(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_elements, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_elements(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, rtol=2e-5, equal_nan=True)
    return bool(a == b)


def same_content(case: Case) -> bool:
    """Whether results and variables agree when lazy stacks are read element by element."""
    pairs = [*case.variables]
    if isinstance(case.theirs, tuple):
        pairs += zip(case.ours, case.theirs, strict=True)
    elif is_container(case.theirs):
        pairs.append((case.ours, case.theirs))
    try:
        return all(
            tuple(a.batch_size) == tuple(b.batch_size) and same_elements(elements(a), elements(b))
            for a, b in pairs
        )
    except Exception:  # tensordict's result may be one that it cannot read itself
        return False


def broken(value: Any) -> bool:
    """Whether an entry, at any depth, does not start with the batch size of what holds it."""
    if isinstance(value, tuple):
        return any(map(broken, value))
    if not is_container(value):
        return False
    size = tuple(value.batch_size)
    if stacked(value):
        return any(map(broken, value.tensordicts))
    try:
        entries = [value.get(key) for key in list(value.keys())]
    except Exception:  # tensordict cannot read what it has put together
        return True
    return any(
        tuple(getattr(e, "batch_size", None) or e.shape)[: len(size)] != size or broken(e) for e in entries
    )


# -- the rules --------------------------------------------------------------------------------


@rule("internal errors on unforeseen input")
def _(case: Case) -> bool:
    unforeseen = case.other in INTERNAL or any(text in case.message for text in UNFORESEEN)
    return unforeseen and case.error != case.other


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    return case.kind == "identity" and case.ours is case.target


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


@rule("too many indices")
def _(case: Case) -> bool:
    return case.name in ("index", "set_index") and case.error == "IndexError" and case.other == ""


@rule("stack dim out of range")
def _(case: Case) -> bool:
    d = case.step.facts.get("dim")
    return (
        case.error == "IndexError"
        and case.other == ""
        and d is not None
        and not -case.target.ndim - 1 <= d <= case.target.ndim
    )


@rule("`flatten_keys(inplace=True)`")
def _(case: Case) -> bool:
    return case.name == "flatten_keys" and bool(case.step.facts["kwargs"]) and case.kind == "keys"


@rule("`update_` with unknown keys")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("update_",) and case.error == "KeyError" and not case.other


def full_index(case: Case) -> bool:
    return all(item is Ellipsis or (type(item) is slice and item == slice(None)) for item in case.index)


@rule("operations that change nothing give self")
def _(case: Case) -> bool:
    # flatten of one dimension forgets its name in tensordict, and fails for longer nested batch sizes
    args = case.step.facts.get("args", ())
    return case.name == "flatten" and len(args) == 2 and args[0] == args[1] and case.ours is case.target


@rule("names in nested TensorDicts and lazy stacks")
def _(case: Case) -> bool:
    lazy = lazy_somewhere(case.target) or lazy_somewhere(case.ours)
    return case.kind == "names" and ("/" in case.path or lazy)


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


@rule("non-tensor data under `gather`, `flip` and comparisons")
def _(case: Case) -> bool:
    names = ("gather", "flip", "repeat_interleave", "arithmetic compare", "reshape")
    return case.kind in ("kind", "lazy") and case.name.startswith((*names, "split", "new_zeros"))


@rule("bool beside an index array")
def _(case: Case) -> bool:
    return any(isinstance(item, bool) for item in case.index) and len(case.index) > 1


@rule("integer index apart from an index array")
def _(case: Case) -> bool:
    items = [item for item in case.index if item is not Ellipsis]
    block = [i for i, item in enumerate(items) if isinstance(item, int | list | np.ndarray)]
    arrays = [i for i in block if not isinstance(items[i], int)]
    return bool(arrays) and len(arrays) < len(block) and block[-1] - block[0] + 1 != len(block)


@rule("new non-tensor keys in an assignment")
def _(case: Case) -> bool:
    return case.name == "set_index" and case.kind.startswith("objects")


@rule("`create_nested` below an existing node")
def _(case: Case) -> bool:
    return case.name == "create_nested" and (case.kind == "keys" or case.error == "KeyError")


@rule("order of keys after `unflatten_keys`")
def _(case: Case) -> bool:
    return case.kind == "key order" and case.name in ("flat_round", "unflatten_keys")


@rule("a lazy stack after its parts changed")
def _(case: Case) -> bool:
    return case.kind == "batch_size" and case.path.startswith("v")


@rule("exclusive keys under `clear` and `filter_empty_`")
def _(case: Case) -> bool:
    return case.name in ("clear", "filter_empty_") and case.kind == "keys"


@rule("moving a key to itself when missing, `safe=True`")
def _(case: Case) -> bool:
    args = case.step.facts.get("args", ())
    return case.name == "rename_key_" and args[0] == args[1] and not case.error


@rule("`contiguous` and other copies of a locked lazy stack")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("contiguous", "unflatten_keys", "flatten_keys")


@rule("`get(as_list=True)` of non-tensor data")
def _(case: Case) -> bool:
    return case.name in ("read list", "read padded") and case.kind == "kind" and is_objects(case.theirs)


@rule('`td["a", "b"]` through an array')
def _(case: Case) -> bool:
    return case.other == "ValueError" and "Expected a TensorDictBase" in case.message


@rule("`select` of a key and of one below it")
def _(case: Case) -> bool:
    return case.name == "select" and (case.kind == "keys" or not case.error)


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
        and args[1][: len(_path(args[0]))] == _path(args[0])
    )


def _path(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


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


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.step.writes and case.error == "ValueError" and not case.other


@rule("empty nested TensorDicts under casts and arithmetic")
def _(case: Case) -> bool:
    merged = case.step.facts.get("how") in ("set_", "inplace") and case.path.count("/") >= 1
    return case.kind == "keys" and (
        merged or case.name.startswith("arithmetic") or case.name in ("double", "float")
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


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    how = case.step.facts.get("how")
    return (
        not case.error
        and case.other == "RuntimeError"
        and how in ("set_", "inplace", "update_at_", "update_")
    )


@rule("`gather` with an empty index")
def _(case: Case) -> bool:
    return case.name == "gather" and case.error == "RuntimeError" and 0 in case.target.batch_size


@rule("`view` of a lazy stack")
def _(case: Case) -> bool:
    return not case.error and "Cannot call `view` on a lazy" in case.message


@rule("`set(key, array, inplace=True)` over non-tensor data")
def _(case: Case) -> bool:
    return case.name == "set" and not case.error and case.other == "ValueError"


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


@rule("objects of a longer nested batch in `tolist` and `to_dict`")
def _(case: Case) -> bool:
    return case.name in ("tolist", "to_dict") and case.kind == "value"


@rule("ragged operands stacked along different dims")
def _(case: Case) -> bool:
    return (
        case.name.startswith("arithmetic")
        and case.error == "RuntimeError"
        and not case.other
        and ragged(case.target)
    )


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


@rule("arrays as operands of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "arithmetic rows" and lazy_somewhere(case.target)


@rule("nodes made on the way to a nested key")
def _(case: Case) -> bool:
    key = case.step.facts.get("key")
    return case.name == "set" and isinstance(key, tuple) and case.error == "RuntimeError" and not case.other


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


@rule("operations on empty batches")
def _(case: Case) -> bool:
    return 0 in case.target.batch_size and (bool(case.other) != bool(case.error) or case.kind == "batch_size")


@rule("objects under `apply(batch_size=...)`")
def _(case: Case) -> bool:
    return case.name == "apply grow" and case.error == "RuntimeError" and not case.other


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


@rule("assignment through None")
def _(case: Case) -> bool:
    return case.name == "set_index" and None in [i for i in case.index if not isinstance(i, np.ndarray)]


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


@rule("`where` with other keys")
def _(case: Case) -> bool:
    return case.name == "where" and case.error == "KeyError" and not case.other


@rule("order of keys in a lazy stack")
def _(case: Case) -> bool:
    return case.kind == "key order" and lazy_somewhere(case.target)


@rule("numbers of another dtype in an assignment")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and not case.error and "source and destination dtypes match" in case.message
    )


@rule("objects of a lazy stack in `new_zeros`")
def _(case: Case) -> bool:
    return case.name == "new_zeros" and case.kind == "keys"


@rule("`popitem` of a lazy stack")
def _(case: Case) -> bool:
    return case.name == "popitem" and lazy_somewhere(case.target)


@rule("dims out of range in `repeat_interleave`")
def _(case: Case) -> bool:
    return case.name == "repeat_interleave" and case.error == "IndexError" and not case.other


@rule("`create_nested` below an existing node")
def _(case: Case) -> bool:
    return case.name == "create_nested" and isinstance(case.step.facts["args"][0], tuple)


def repeated(value: Any) -> bool:
    """Whether a part is in a lazy stack more than once."""
    if not is_container(value):
        return False
    if not stacked(value):
        return any(repeated(entry) for _, entry in value._items())
    return len({id(p) for p in value.tensordicts}) < len(value.tensordicts) or any(
        map(repeated, value.tensordicts)
    )


@rule("a part that is in a lazy stack more than once")
def _(case: Case) -> bool:
    return any(repeated(td) for td, _ in case.variables)


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    how = case.step.facts.get("how")
    inplace = how in ("set_", "inplace", "update_at_", "update_")
    return inplace and lazy_somewhere(case.target) and case.kind in ("values", "keys", "error", "shape")


@rule("`set(inplace=True)` of objects")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("inplace", "set_") and case.kind.startswith("objects")


@rule("objects shared by the batch stay one object")
def _(case: Case) -> bool:
    return case.name == "read item" and case.kind == "value"


@rule("merging and splitting dims around the dim of a lazy stack")
def _(case: Case) -> bool:
    return (
        case.name in ("flatten", "unflatten", "reshape", "view", "squeeze")
        and case.kind.startswith(("batch_size", "identity"))
        and (lazy_somewhere(case.target) or lazy_somewhere(case.ours))
    )


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


@rule("`rename_key_` into a node of another batch size")
def _(case: Case) -> bool:
    return case.name == "rename_key_" and case.error == "RuntimeError" and not case.other


@rule("lists of arrays as values")
def _(case: Case) -> bool:
    value = case.step.facts.get("value") or next(iter(case.step.facts.get("args", ())), None)
    given = value.get("a") if isinstance(value, dict) else value
    return case.name in ("set", "replace") and type(given) is list


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


@rule("`get_at` of objects without rows")
def _(case: Case) -> bool:
    return case.name == "read get_at" and case.error == "IndexError" and not case.other


@rule("operations on empty batches")
def _(case: Case) -> bool:
    return case.kind.startswith("objects") and case.name == "index" and "[]" in repr(elements(case.ours))


@rule("the same memory on both sides of an assignment")
def _(case: Case) -> bool:
    return case.step.writes and "single memory location" in case.message and not case.error


@rule("arrays with features under `td[i] = ...` of a batch without dims")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and case.error == "RuntimeError" and not case.target.ndim and not case.other
    )


@rule("`cat` of a TensorDict without entries")
def _(case: Case) -> bool:
    return case.name == "cat" and case.error == "RuntimeError" and not case.other and case.target.is_empty()


@rule("ragged rows in `update_`")
def _(case: Case) -> bool:
    update = case.name == "update" or case.step.facts.get("how") in ("update_", "inplace")
    return update and case.error == "RuntimeError" and not case.other


@rule("`set_` of a dict over non-tensor data")
def _(case: Case) -> bool:
    return case.step.facts.get("how") in ("set_", "inplace") and not case.error and bool(case.other)


@rule("numbers and rows written to nested batches")
def _(case: Case) -> bool:
    return (
        case.name == "set_index" and not case.error and "differs from the source batch size" in case.message
    )


@rule("index of a mask beside None")
def _(case: Case) -> bool:
    return (
        case.name == "index"
        and not case.error
        and None in [i for i in case.index if not isinstance(i, np.ndarray)]
    )


@rule("stacks and concatenations of different dtypes")
def _(case: Case) -> bool:
    combined = ("stack", "cat", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict", "set_index")
    return case.kind == "dtype" and case.name in combined


@rule("lock of `where`, of array operands and of `contiguous`")
def _(case: Case) -> bool:
    return case.kind == "lock" and case.name in ("where", "arithmetic rows", "contiguous", "arithmetic td")


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


@rule(HALF_WAY)
def _(case: Case) -> bool:
    names = "dimension names are non-unique"  # found when the node is in place already
    how = case.step.facts.get("how")
    return how in ("update_", "inplace", "set_", "update_at_") or (
        how is not None and names in str(case.ours_error)
    )


@rule("negative dims and longer nested batches")
def _(case: Case) -> bool:
    negative = any(type(d) is int and d < 0 for d in case.step.facts.get("args", ()))
    return (
        case.name in ("transpose", "permute", "movedim")
        and negative
        and case.kind in ("values", "batch_size", "shape")
        and "/" in case.path
    )


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return (
        case.kind == "values"
        and case.path.startswith("v")
        and lazy_somewhere(case.target)
        and (case.step.writes or case.name in ("update", "poke"))
    )


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return case.kind in ("values", "keys") and case.path.startswith("v") and case.name == "update"


@rule("expanded leaves are read-only")
def _(case: Case) -> bool:
    return case.name == "apply inplace" and not case.error and bool(case.other)


@rule("`split_keys` of exclusive keys")
def _(case: Case) -> bool:
    return case.name == "split_keys" and any(lazy_somewhere(a) for a, _ in case.variables)


@rule("unforeseen operations on lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("to_tensordict", "contiguous", "to_dict") and not case.error and bool(case.other)


@rule("`where` with other keys")
def _(case: Case) -> bool:
    return case.name == "where" and (case.kind == "dtype" or case.error == "KeyError")


@rule("`update_` with unknown keys")
def _(case: Case) -> bool:
    return case.name == "update" and case.error == "KeyError"


@rule("`reshape` to another number of elements, no entries")
def _(case: Case) -> bool:
    return case.name in ("reshape", "view", "unflatten") and case.error == "RuntimeError" and not case.other


@rule("batch size of non-tensor data after the batch size changed")
def _(case: Case) -> bool:
    return case.kind.startswith("objects") and case.name in ("view", "reshape", "flatten", "unflatten")


@rule("numbers and rows written to nested batches")
def _(case: Case) -> bool:
    return (
        case.name == "set_index"
        and (not case.error) != (not case.other)
        and case.error in ("", "RuntimeError")
    )


@rule("`auto_batch_size_` with lazy stacks and non-tensor data")
def _(case: Case) -> bool:
    return case.name == "auto_batch_size_" and case.kind == "batch_size"


@rule("values that broadcast to the batch size in `set_`, `set(inplace=True)` and `update_at_`")
def _(case: Case) -> bool:
    return (
        case.step.facts.get("how") in ("set_", "inplace") and case.error == "RuntimeError" and not case.other
    )


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


@rule("nodes shared by two TensorDicts")
def _(case: Case) -> bool:
    return case.name == "set_index" and case.kind == "values" and case.path.startswith("v")


@rule("stacks of lazy stacks that lie along different dims")
def _(case: Case) -> bool:
    # tensordict pairs the parts up all the same, which mixes their elements
    if case.name not in ("stack", "maybe_dense_stack", "lazy_stack") or not stacked(case.ours):
        return False
    return len({part.stack_dim for part in case.ours.tensordicts if stacked(part)}) > 1


@rule("masks over nested lazy stacks")
def _(case: Case) -> bool:
    return case.name in ("where", "masked_fill") and case.kind == "values" and lazy_somewhere(case.target)
