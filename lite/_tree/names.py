"""Dimension names: validation, and propagation to nested TensorDicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy import ndarray

from lite._arrays.types import Names

T = TypeVar("T", bound=Any)


def check_names(names: Sequence[str | None] | None, ndim: int) -> Names:
    """Validate names against the number of batch dimensions; all-None becomes None."""
    if names is None:
        return None
    out = list(names)
    if len(out) != ndim:
        raise ValueError(
            "the length of the dimension names must equate the tensordict batch_dims attribute. "
            f"Got {out} for batch_dims {ndim}."
        )
    given = [name for name in out if name is not None]
    if any(not isinstance(name, str) for name in given):
        raise TypeError(f"names must be strings or None, got {out}.")
    if len(set(given)) != len(given):
        raise ValueError(f"Some dimension names are non-unique: {out}.")
    return out if given else None


def collect_names(td: Any, names: Names, found: list[tuple[Any, Names]], but: str | None = None) -> None:
    """Append (container, new names) to `found` for the whole tree except the direct entry `but`.

    Raises:
        ValueError: a nested container would get two dimensions of one name.
    """
    found.append((td, names))
    stacked = td._parts()
    if stacked is not None:
        parts, dim = stacked
        inner = None if names is None else check_names([*names[:dim], *names[dim + 1 :]], len(names) - 1)
        for part in parts:
            collect_names(part, inner and list(inner), found)
        return
    for key, entry in td._items():
        node = None if type(entry) is ndarray or key == but else td._as_node(entry)
        if node is not None:
            own = [None] * node.ndim if node._names is None else list(node._names)
            head = [None] * td.ndim if names is None else names
            collect_names(node, check_names([*head, *own[td.ndim :]], node.ndim), found)


def set_names(td: Any, names: Names) -> None:
    """Set the names in the whole tree, or nowhere if they conflict in a nested container."""
    found: list[tuple[Any, Names]] = []
    collect_names(td, names, found)
    for node, new in found:
        node._names = new


def refine_names(td: T, *names: Any) -> T:
    """Name dimensions that have no name yet; `...` stands for the names in between.

    Raises:
        RuntimeError: a dimension already has another name.
    """
    given = list(names)
    if Ellipsis in given:
        at = given.index(Ellipsis)
        tail = given[at + 1 :]
        given = given[:at] + td.names[at : td.ndim - len(tail)] + tail
    merged = check_names(given, td.ndim) or [None] * td.ndim
    for old, new in zip(td.names, merged, strict=True):
        if old is not None and old != new:
            raise RuntimeError(f"refine_names: cannot coerce TensorDict names {td.names} with {list(names)}.")
    td.names = merged
    return td
