"""Visit the arrays of a tree, and map over them with everything else kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lite._arrays.types import Array, is_array
from lite._tree.protocol import Container

T = TypeVar("T")


def leaves(td: Container) -> Iterator[Any]:
    """Every array at any depth; a lazy stack gives those of its parts, which are never stacked."""
    stacked = td._parts()
    if stacked is not None:
        for part in stacked[0]:
            yield from leaves(part)
        return
    for _, entry in td._items():
        if is_array(entry):
            yield entry
        else:
            node = td._as_node(entry)
            if node is not None:
                yield from leaves(node)


def map_kept(td: T, fn: Callable[[Array], Any]) -> T:
    """Replace every array; batch size, device, names, non-tensors and lock state are kept."""
    out: T = td._map_leaves(fn)  # type: ignore[attr-defined]
    if td.is_locked:  # type: ignore[attr-defined]
        out.lock_()  # type: ignore[attr-defined]
    return out
