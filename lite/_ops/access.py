"""Writing and removing entries by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy import ndarray

from lite._arrays.device import write_leaf
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import Path, is_array
from lite._tree.keys import NestedKey, require_path, to_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import MISSING, Container, T
from lite._tree.writes import Writes, fitting


def set(td: T, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False) -> T:
    """Store `item` under `key`; see `TensorDict.set`. In a lazy stack each part gets its rows.

    Raises:
        RuntimeError: the value's leading dimensions are not the batch size, or self is locked.
        KeyError: an intermediate key holds an array, or `key` is not a nested key.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> stack = lazy_stack([TensorDict(), TensorDict()]).set("a", np.array([1, 2]))
        >>> stack[1]["a"]
        array(2)
    """
    if type(key) is str:
        td._set_here(key, item, inplace)
    else:
        td._set_path(require_path(key), item, inplace)
    return td


def _set_path(td: Container, path: Path, item: Any, inplace: bool, writes: Writes | None = None) -> None:
    node: Container = td
    for depth, name in enumerate(path[:-1]):
        entry = node._peek(name)
        if entry is None:
            node._create(path[depth:], item, writes)
            return
        child = entry if isinstance(entry, Container) else td._as_node(entry)
        if child is None:
            raise KeyError(f"The entry {name} is already present in tensordict {node!r}.")
        node = child
    node._set_here(path[-1], item, inplace, writes)


def _create(td: Container, path: Path, item: Any, writes: Writes | None = None) -> None:
    """Store below nodes that do not exist yet; the value is converted before anything changes."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    chain = td._convert(item)
    if type(chain) is ndarray and td._names is None:  # then there is nothing that names reach
        for name in path[:0:-1]:
            chain = td._with({name: chain})
        path = path[:1]
    for name in path[:0:-1]:
        parent = td._blank()
        parent._put(name, chain)
        chain = parent
    if writes is None:
        td._put(path[0], chain)
    else:
        writes.put(td, path[0], chain)


def _set_here(td: Container, key: str, item: Any, inplace: bool, writes: Writes | None = None) -> None:
    if inplace:
        current = td._get_str(key)
        if current is not None:
            if writes is not None:
                _write_into(td, key, current, item, writes)
                return
            with Writes() as own:
                _write_into(td, key, current, item, own)
            return
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    entry = td._convert(item)
    if writes is None:
        td._put(key, entry)
    else:
        writes.put(td, key, entry)


def _write_into(td: Container, key: str, current: Any, item: Any, writes: Writes) -> None:
    if writes.take(current, item):
        return
    node = td._as_node(current)
    if node is not None:
        if not isinstance(item, Mapping) and td._as_node(item) is None:
            raise ValueError(
                f"Failed to update '{key}' in tensordict {td!r}: it is nested, and the value is a "
                f"{type(item).__name__}."
            )
        node._merge(item, writes)
        return
    if isinstance(current, NonTensorBase):
        entry = td._to_entry(item)
        if not isinstance(entry, NonTensorBase):
            raise ValueError(
                f"Failed to update '{key}' in tensordict {td!r}: it is non-tensor data, and the value "
                f"is a {type(entry).__name__}."
            )
        if isinstance(entry, NonTensorData):
            entry = entry._rebatch(current.batch_size)
        try:
            entry = entry._broadcast(current.batch_size)
        except ValueError as error:
            raise ValueError(
                f"Failed to update '{key}' in tensordict {td!r}: objects of shape {entry.batch_size} "
                f"do not broadcast to {current.batch_size}."
            ) from error
        writes.put(td, key, entry)  # replaced, as results of operations may hold the same objects
        return
    try:
        writes.copy(current, td._to_entry(item))
    except (TypeError, ValueError) as error:
        raise ValueError(f"Failed to update '{key}' in tensordict {td!r}: {error}") from error


def setitem(td: Container, index: Any, value: Any) -> None:
    if type(index) is str:
        td._set_here(index, value, False)
        return
    path = to_path(index) if isinstance(index, tuple | str) else ()
    if path:
        td._set_path(path, value, False)
    else:
        td._set_index(index, value)


def set_(td: T, key: NestedKey, item: Any, *, non_blocking: bool = False) -> T:
    """Copy `item` into the existing entry `key` (casting, broadcasting); allowed when locked.

    A nested entry is updated as with `update_`.

    Raises:
        KeyError: the key, or one of the keys of a nested value, does not exist.
        ValueError: the value cannot be broadcast to the entry, or is of another kind.
    """
    target = td._reach(key)
    number = type(item) in NUMBERS
    ready = fitting(target, td._to_entry(item), ()) if number else fitting(target, item)
    if ready is not None:
        target[...] = ready
        return td
    path = require_path(key)
    current = td._peek_path(path)
    if current is None:
        raise td._missing(path)
    node = td._as_node(current)
    if node is not None and (isinstance(item, Mapping) or td._as_node(item) is not None):
        node.update_(item)
    else:
        td._set_path(path, item, True)
    return td


def set_at_(td: T, key: NestedKey, value: Any, index: Any, *, non_blocking: bool = False) -> T:
    """Write `value` at `index` of the existing entry `key`: `td.get(key)[index] = value`."""
    path = require_path(key)
    node = td if len(path) == 1 else td._as_node(td._peek_path(path[:-1]))
    target = None if node is None or node._parts() is not None else node._get_str(path[-1])
    if is_array(target):
        write_leaf(target, index, value)
        return td
    with Writes() as writes:
        td._set_at(path, value, index, writes)
    return td


def _set_at(td: Container, path: Path, value: Any, index: Any, writes: Writes) -> None:
    """`set_at_` as part of other writes."""
    if td._peek_path(path) is None:
        raise td._missing(path)
    if len(path) > 1:
        # By its own node: a nested lazy stack must write to its parts, not to what it stacks.
        td._as_node(td._peek(path[0]))._set_at(path[1:], value, index, writes)
        return
    key = path[0]
    entry = td._get_str(key)
    node = td._as_node(entry)
    if node is not None:
        node._set_index(index, value, writes)
    elif isinstance(entry, NonTensorBase):
        writes.put(td, key, entry._assign(index, value))
    else:
        writes.copy(entry, td._to_entry(value), index)


def set_non_tensor(td: T, key: NestedKey, value: Any) -> T:
    """Store any object as non-tensor data, also one that `set` would turn into an array."""
    return td.set(key, NonTensorData(value, batch_size=td.batch_size))


def del_(td: T, key: NestedKey) -> T:
    """Remove an entry; KeyError if it is missing, RuntimeError if self is locked."""
    path = require_path(key)
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    node: Container | None = td
    for name in path[:-1]:
        node = td._as_node(node._peek(name)) if node is not None else None
        if node is None:
            raise KeyError(f"No sub-tensordict with key {name}.")
    if node is td:
        td._remove(path[-1])
    elif node is not None:
        node.del_(path[-1])
    return td


def delitem(td: Container, key: NestedKey) -> None:
    td.del_(key)


def pop(td: Container, key: NestedKey, default: Any = MISSING) -> Any:
    """Remove an entry and return it, or `default` if it is missing.

    Raises:
        KeyError: if the key is missing and no default is given.
        RuntimeError: if self is locked and the key exists.
    """
    entry = td._get_path(require_path(key))
    if entry is None:
        if default is MISSING:
            raise KeyError(
                f"You are trying to pop key `{key}` which is not in dict without providing default "
                f"value. Keys={td.keys(True)}."
            )
        return default
    td.del_(key)
    return entry


def popitem(td: Container) -> tuple[str, Any]:
    """Remove and return the (key, entry) inserted last."""
    names = list(td._keys())
    if not names:
        raise KeyError("popitem(): the TensorDict is empty.")
    return names[-1], td.pop(names[-1])


def clear(td: T) -> T:
    """Remove every entry; returns self."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    for name in list(td._keys()):
        td._remove(name)
    return td


def setdefault(td: Container, key: NestedKey, default: Any, inplace: bool = False) -> Any:
    """Store `default` if the key is missing; returns the stored entry."""
    if key in td:
        return td.get(key)
    with Writes() as writes:
        writes.keep(td)  # rows of different shapes can be stored in a lazy stack, but not be returned
        td.set(key, default, inplace=inplace)
        return td.get(key)


def create_nested(td: T, key: NestedKey) -> T:
    """Store an empty TensorDict under `key`; returns self."""
    return td.set(key, td._blank())
