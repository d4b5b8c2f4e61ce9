"""Arguments and results as flat lists, with one dimension for each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Mismatch(ValueError):
    """The dimensions do not have the structure of what they are given for."""


def _is_node(value: Any) -> bool:
    return type(value) in (list, tuple, dict) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def flatten(value: Any) -> tuple[list[Any], Any]:
    """Items of nested lists, tuples, named tuples and dicts, and what `unflatten` needs to put them back."""
    if not _is_node(value):
        return [value], None
    items = value.values() if type(value) is dict else value
    flat: list[Any] = []
    plans = []
    for item in items:
        below, plan = flatten(item)
        flat += below
        plans.append((len(below), plan))
    keys = list(value) if type(value) is dict else None
    return flat, (type(value), keys, plans)


def unflatten(flat: list[Any], plan: Any) -> Any:
    """The inverse of `flatten`."""
    if plan is None:
        return flat[0]
    kind, keys, plans = plan
    items = []
    start = 0
    for count, below in plans:
        items.append(unflatten(flat[start : start + count], below))
        start += count
    if keys is not None:
        return dict(zip(keys, items, strict=True))
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def spread(dims: Any, value: Any, accept: Callable[[Any], bool]) -> list[Any]:
    """One dimension for each item of `value`, from dimensions that stop at a level above.

    Raises:
        Mismatch: `dims` has another structure.
        ValueError: an item of `dims` that `accept` does not know.
    """
    if not _is_node(dims):
        if not accept(dims):
            raise ValueError(dims)
        return [dims] * len(flatten(value)[0])
    if not _is_node(value) or len(dims) != len(value) or (type(dims) is dict) != (type(value) is dict):
        raise Mismatch
    if type(dims) is dict:
        if set(dims) != set(value):
            raise Mismatch
        pairs = [(dims[key], item) for key, item in value.items()]
    else:
        pairs = list(zip(dims, value, strict=True))
    return [dim for below, item in pairs for dim in spread(below, item, accept)]


def outline(value: Any) -> str:
    """The structure of a value, for messages."""
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {outline(item)}" for key, item in value.items()) + "}"
    if _is_node(value):
        return f"{type(value).__name__}({', '.join(map(outline, value))})"
    return "*"
