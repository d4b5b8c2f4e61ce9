"""A difference that a random program met, how to look at it, and the register of the intended ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from fuzz_sides import is_container, is_objects, stacked

# NumPy and torch report the same mistake with different built-in exceptions, or of two mistakes each
# library finds another first: lite's class, tensordict's, and the steps that may differ so.
SAME_ERRORS = (
    # shapes that do not broadcast, arrays that are read-only, dims named twice
    (
        "ValueError",
        "RuntimeError",
        ("arithmetic", "where", "set", "set_index", "update", "poke", "read padded", "reduce", "view"),
    ),
    # dtypes that cannot be written in place, arguments that exclude each other
    ("TypeError", "RuntimeError", ("arithmetic in place", "reduce")),
    ("UFuncTypeError", "RuntimeError", ("arithmetic",)),
    ("_UFuncNoLoopError", "RuntimeError", ("arithmetic", "reduce", "scan")),
    # dims, indices and masks out of range, where tensordict looks at shapes or ragged entries first
    ("IndexError", "RuntimeError", ("index", "set_index", "update", "gather", "squeeze", "reduce", "scan")),
    ("IndexError", "RuntimeError", ("masked_fill", "masked_select", "where")),
    ("IndexError", "RuntimeError", ("stack", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict")),
    ("IndexError", "ValueError", ("repeat_interleave", "set_index")),
    ("RuntimeError", "IndexError", ("cat", "set", "set_index", "rename_key_", "update", "scan", "reduce")),
    ("RuntimeError", "ValueError", ("expand", "set", "set_index", "update", "view", "arithmetic")),
    ("RuntimeError", "ValueError", ("split_keys",)),
    ("RuntimeError", "KeyError", ("cat", "split_keys", "flatten_keys", "set_index", "to_dict")),
    ("RuntimeError", "KeyError", ("rename_key_", "update")),
    ("RuntimeError", "TypeError", ("reduce", "gather", "scan")),
    # a TensorDict for an array, beside which lite may find the index out of range first
    ("RuntimeError", "TypeError", ("set_index",)),
    ("IndexError", "TypeError", ("set_index",)),
    ("ValueError", "IndexError", ("reduce", "set_index")),
    ("ValueError", "TypeError", ("update",)),
    # keys that are missing, where tensordict looks at locks and shapes first, or stops at an array
    ("KeyError", "RuntimeError", ("popitem", "select", "set", "setdefault", "update", "where", "arithmetic")),
    ("KeyError", "RuntimeError", ("create_nested", "set_index", "rename_key_")),
    ("KeyError", "IndexError", ("update",)),
    ("KeyError", "ValueError", ("read", "rename_key_", "split_keys", "pop", "set", "arithmetic")),
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

    def before(self) -> list[Any]:
        """Lite's variables as they were before the step, anew at each call."""
        found: list[Any] = self.step.facts["before"]()
        return found

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


def same_error(name: str, ours: Exception, theirs: Exception) -> bool:
    """Whether two errors of a step report the same mistake."""
    a, b = type(ours).__name__, type(theirs).__name__
    names = (name, name.split(" ")[0])  # "reduce" stands for all reductions
    return a == b or any((a, b) == (x, y) and any(n in steps for n in names) for x, y, steps in SAME_ERRORS)


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
        if len(case.ours) != len(case.theirs):
            return False
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


def shorter_below(value: Any) -> bool:
    """Whether a nested batch size is shorter than its parent's."""
    if not is_container(value) or stacked(value):
        return False
    nodes = [entry for entry in value.values() if is_container(entry) and not is_objects(entry)]
    return any(node.ndim < value.ndim or shorter_below(node) for node in nodes)


def full_index(case: Case) -> bool:
    return all(item is Ellipsis or (type(item) is slice and item == slice(None)) for item in case.index)


def path_of(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def repeated(value: Any) -> bool:
    """Whether a part is in a lazy stack more than once."""
    if not is_container(value):
        return False
    if not stacked(value):
        return any(repeated(entry) for _, entry in value._items())
    return len({id(p) for p in value.tensordicts}) < len(value.tensordicts) or any(
        map(repeated, value.tensordicts)
    )


def confused(case: Case) -> bool:
    """Whether tensordict alone fails, and not because something is locked or has no such key."""
    shapes = case.other in ("RuntimeError", "IndexError", "ValueError") and not case.error
    return shapes and "locked" not in case.message
