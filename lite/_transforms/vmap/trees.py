"""`in_dims` and `out_dims` for nested arguments and results: one dimension for each leaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Mismatch(ValueError):
    """The structure of `in_dims` or `out_dims` is not that of the value."""


def _is_node(value: Any) -> bool:
    return type(value) in (list, tuple, dict) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def flatten(value: Any) -> tuple[list[Any], Any]:
    """The leaves of nested lists, tuples, named tuples and dicts, and the structure for `unflatten`."""
    if not _is_node(value):
        return [value], None
    leaves: list[Any] = []
    children = []
    for item in value.values() if type(value) is dict else value:
        nested, structure = flatten(item)
        leaves += nested
        children.append((len(nested), structure))
    keys = list(value) if type(value) is dict else None
    return leaves, (type(value), keys, children)


def unflatten(leaves: list[Any], structure: Any) -> Any:
    """The inverse of `flatten`."""
    if structure is None:
        return leaves[0]
    cls, keys, children = structure
    items = []
    start = 0
    for count, child in children:
        items.append(unflatten(leaves[start : start + count], child))
        start += count
    if keys is not None:
        return dict(zip(keys, items, strict=True))
    return cls(*items) if hasattr(cls, "_fields") else cls(items)


def broadcast_prefix(dims: Any, value: Any, accept: Callable[[Any], bool]) -> list[Any]:
    """One dimension for each leaf of `value`; a dimension for a node holds for all its leaves.

    Raises:
        Mismatch: `dims` has another structure.
        ValueError: `accept` refuses an item of `dims`.
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
    return [dim for nested, item in pairs for dim in broadcast_prefix(nested, item, accept)]


def outline(value: Any) -> str:
    """The structure of a value, for messages."""
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {outline(item)}" for key, item in value.items()) + "}"
    if _is_node(value):
        return f"{type(value).__name__}({', '.join(map(outline, value))})"
    return "*"
