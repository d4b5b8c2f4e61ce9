"""Operations that join TensorDicts of the same keys."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.fuzz.choices import Choices, dim
from helpers.fuzz.keys import any_objects
from helpers.fuzz.model import One, Refused, Rows, Tree, copied, elements, has_rows, regular, spread
from helpers.fuzz.numbers import like
from helpers.fuzz.register import Call, Var, calls, operation
from numpy.lib.array_utils import normalize_axis_index as axis


def check(items: list[Any]) -> None:
    if len({item.shape for item in items}) > 1:
        raise Refused("RuntimeError")


def lazily(items: list[Any], d: int) -> Any:
    check(items)
    d = axis(d, len(items[0].shape) + 1)
    names = items[0].names[:]
    names.insert(d, None)
    locked = all(item.locked for item in items)
    return Rows(np.stack([elements(copied(item)) for item in items], d), d, names, locked)


def joined(items: list[Any], how: Callable[..., Any], d: int) -> Any:
    """Entries of the same key joined; nodes in turn."""
    first = items[0]
    if any(isinstance(item, Rows) for item in items):
        names = first.names[:]
        if how is np.stack:
            names.insert(d, None)
        return Rows(how([elements(copied(item)) for item in items], d), d, names)
    if any(item.entries.keys() != first.entries.keys() for item in items):
        raise Refused
    entries = {}
    for key in first.entries:
        values = [item.entries[key] for item in items]
        if isinstance(values[0], Tree | Rows):
            entries[key] = joined(values, how, d)
        elif (
            all(value == values[0] for value in values if isinstance(values[0], One))
            and isinstance(values[0], One)
            and how is np.concatenate
        ):
            entries[key] = values[0]
        else:
            entries[key] = how([spread(v, i.shape) for v, i in zip(values, items, strict=True)], d)
    shape = how([np.empty(item.shape, bool) for item in items], d).shape
    names = first.names[:]
    if how is np.stack:
        names.insert(d, None)
    return Tree(shape, entries, names, kind=first.kind)


@operation()
def stack(td: Any, items: list[Any], d: int) -> Any:
    items = [td, *items]
    check(items)
    return joined(items, np.stack, axis(d, len(td.shape) + 1))


@operation()
def cat(td: Any, items: list[Any], d: int) -> Any:
    return joined([td, *items], np.concatenate, axis(d, len(td.shape)))


@operation()
def lazy_stack(td: Any, items: list[Any], d: int) -> Any:
    return lazily([td, *items], d)


@operation()
def maybe_dense_stack(td: Any, items: list[Any], d: int) -> Any:
    found = lazily([td, *items], d)
    return stack(td, items, d) if regular(found) and not has_rows(td) else found


@calls(6)
def join(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    if 0 in td.shape and any_objects(td):
        return Call("clone")
    name = c.pick(["stack", "cat", "lazy_stack", "maybe_dense_stack", "stack", "cat"])
    other = like(td, c)
    kind = c.pick(["like", "self", "three", "one", "without"])
    if kind == "without" and name in ("stack", "cat") and isinstance(other, Tree):
        other.entries.pop("a", None)
    if has_rows(td) and name in ("stack", "cat"):  # which refuse what lies along another dim
        kind = "self"
    items = {"self": [Var(at)], "three": [other, copied(other)], "one": []}.get(kind, [other])
    if kind == "self" and name in ("lazy_stack", "maybe_dense_stack"):
        items = [other]
    return Call(name, (items, dim(c, len(td.shape) + (name != "cat"))))
