"""Whether containers that are stacked lazily have the same keys at every depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from lite._containers.dense import Dense
from lite._tree.protocol import Container

_ARRAYS = {ndarray}


def keys_differ(entries: Sequence[Any]) -> bool:
    """Whether one of some containers has a key, at any depth, that another lacks.

    The parts of lazy stacks among them, or in them, count as containers of their own; leaves as
    containers without keys. All are compared node by node: no path is built.
    """
    kinds = set(map(type, entries))
    if kinds == _ARRAYS:
        return False
    if len(kinds) == 1 and issubclass(kinds.pop(), Dense):
        dicts = [entry._data for entry in entries]
    else:
        dicts = [found for entry in entries for found in _dicts(entry)]
    if not dicts:
        return False
    if not all(map(dicts[0].keys().__eq__, map(dict.keys, dicts))):
        return True
    return any(keys_differ([found[key] for found in dicts]) for key in dicts[0])


def _dicts(entry: Any) -> list[dict[str, Any]]:
    """The entries of a container, or of each dense one in a lazy stack."""
    node = Container._as_node(entry)
    parts = None if node is None else node._parts()
    if parts is None:
        return [{} if node is None else node._entries()]
    return [found for part in parts[0] for found in _dicts(part)] or [{}]
