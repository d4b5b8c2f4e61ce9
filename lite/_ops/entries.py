"""Joining, moving and inspecting entries of one TensorDict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lite._arrays.device import unwrap, wrap
from lite._arrays.types import HOST_LEAVES, Array, Path, as_array, computed, has_namespace, is_array, raw
from lite._tree.collection import is_leaf_nontensor
from lite._tree.key_views import walk
from lite._tree.keys import NestedKey, require_path, to_key
from lite._tree.lock import LOCK_ERROR
from lite._tree.names import check_names, set_names
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import MISSING, Container, T, class_registry, missing_key
from lite._tree.walks import keep, leaves, map_tree, nodes
from lite._tree.writes import Writes


def cat_tensors(td: T, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> T:
    """Replace arrays by their concatenation; returns self.

    Args:
        keys: the entries to join; they are removed unless `keep_entries`.
        out_key: key of the joined array.
        dim: dimension of the arrays (batch or feature) to join along.
        keep_entries: keep the joined entries.

    Raises:
        KeyError: an entry is missing.
        RuntimeError: self is locked, or the result does not start with the batch size.
        ValueError: no key is given, or shapes do not fit.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.zeros((2, 3)), "b": np.ones((2, 1))}, batch_size=[2])
        >>> td.cat_tensors("a", "b", out_key="ab", dim=-1)["ab"].shape
        (2, 4)
    """
    return _join(td, np.concatenate, keys, out_key, dim, keep_entries)


def stack_tensors(td: T, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False) -> T:
    """Replace arrays by their stack along a new dimension; see `cat_tensors`."""
    return _join(td, np.stack, keys, out_key, dim, keep_entries)


def _join(
    td: T, join: Callable[..., Array], keys: Sequence[NestedKey], out_key: NestedKey, dim: int, keep: bool
) -> T:
    paths = [require_path(key) for key in keys]
    target = require_path(out_key)
    if td.is_locked:
        raise RuntimeError(LOCK_ERROR)
    arrays = []
    for path in paths:
        entry = td._get_entry(path)
        if entry is None:
            raise missing_key(td, path)
        if not is_array(entry):
            raise TypeError(f"the entry {to_key(path)!r} must be an array, got a {type(entry).__name__}.")
        arrays.append(entry)
    # Converted before anything is removed, so that an error leaves self unchanged.
    joined = td._convert(join(arrays, dim))
    with Writes() as writes:
        _keep_where_locked(writes, td, (*paths, target))
        if not keep:
            for path in dict.fromkeys(paths):
                if path != target:
                    td.del_(to_key(path))
        return td.set(to_key(target), joined)


def _keep_where_locked(writes: Writes, td: Container, paths: Sequence[Path]) -> None:
    """Save an unlocked container before changes at paths, if they are in nodes, which may be locked."""
    if max(map(len, paths), default=1) > 1:
        writes.keep(td)


def cat_from_tensordict(
    td: Container, dim: int = 0, *, sorted: bool | Sequence[NestedKey] | None = None, out: Any = None
) -> Array:
    """All arrays, nested ones included, concatenated into one.

    Args:
        dim: dimension of the arrays to join along.
        sorted: True for alphabetical order; a list of the keys to join, in order; else the order of
            insertion.
        out: array that receives the result.

    Raises:
        ValueError: there is no array, or shapes do not fit.
    """
    return unwrap(np.concatenate(_ordered(td, sorted), dim, out=out))


def stack_from_tensordict(
    td: Container, dim: int = 0, *, sorted: bool | Sequence[NestedKey] | None = None, out: Any = None
) -> Array:
    """All arrays stacked into one along a new dimension; see `cat_from_tensordict`."""
    return unwrap(np.stack(_ordered(td, sorted), dim, out=out))


def _ordered(td: Container, order: bool | Sequence[NestedKey] | None) -> list[Array]:
    if order is None or order is False:
        keys: Any = td.keys(True, True)
    else:
        keys = td.keys(True, True, sort=True) if order is True else order
    found = []
    for key in keys:
        entry = td._get_entry(require_path(key))
        if entry is None:
            raise missing_key(td, require_path(key))
        found.append(as_array(computed(wrap(entry))))
    return found


def separates(
    td: T, *keys: NestedKey, default: object = MISSING, strict: bool = True, filter_empty: bool = True
) -> T:
    """Move entries to a new TensorDict, which is returned.

    Args:
        keys: the entries to take.
        default: value of entries that are missing.
        strict: raise KeyError for a missing entry without default (else it is left out).
        filter_empty: remove nodes of self that become empty.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict(a=1, b=2)
        >>> td.separates("a")["a"], list(td.keys())
        (array(1), ['b'])
    """
    if td.is_locked:
        raise RuntimeError(LOCK_ERROR)
    paths = [require_path(key) for key in keys]
    # What is in a node that is taken goes with it.
    paths = [path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))]
    found = {path: td._get_entry(path) for path in paths}
    out = td._with({})
    for path, entry in found.items():
        if entry is None and default is MISSING:
            if strict:
                raise missing_key(td, path)
            continue
        out._set_path(path, default if entry is None else entry, False)
    with Writes() as writes:
        _keep_where_locked(writes, td, paths)
        for path, entry in found.items():
            if entry is not None:
                td.del_(to_key(path))
        return out if not filter_empty else _without_empty_nodes(td, paths, out)


def _without_empty_nodes(td: Container, paths: list[Path], out: object) -> Any:
    for path in paths:
        for n in range(len(path) - 1, 0, -1):
            node = td._as_node(td._get_entry(path[:n]))
            if node is not None and node.is_empty():
                td.del_(to_key(path[:n]))
    return out


def filter_non_tensor_data(td: T) -> T:
    """A TensorDict without non-tensor entries, at any depth; arrays are aliased."""
    return map_tree(td, keep, lambda payload, _: None)


def non_tensor_items(td: Container, include_nested: bool = False) -> tuple[tuple[NestedKey, Any], ...]:
    """(key, non-tensor entry) pairs, of nested TensorDicts too if `include_nested`."""
    found = walk(td, include_nested, False, is_leaf_nontensor, True)  # ragged arrays cannot be stacked
    paths = [path for path, entry in found if isinstance(entry, NonTensorBase)]
    return tuple((to_key(path), td._get_entry(path)) for path in paths)


def is_non_tensor(td: Container, key: NestedKey) -> bool:
    """Whether an entry is non-tensor data; KeyError if there is none."""
    return issubclass(td.entry_class(key), NonTensorBase)


def entry_class(td: Container, key: NestedKey) -> type:
    """The type of an entry, without stacking it; KeyError if there is none.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict(a=1, s="x").entry_class("s").__name__
        'NonTensorData'
    """
    path = require_path(key)
    entry = td._peek_entry(path)
    if entry is None:
        raise missing_key(td, path)
    return type(entry)


def depth(td: Container) -> int:
    """The depth of the deepest leaf; 0 if all leaves are direct entries.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": {"b": {"c": 1}}}).depth
        2
    """
    paths = walk(td, True, True, is_leaf_nontensor, True)
    return max((len(path) for path, _ in paths), default=1) - 1


def data_ptr(td: Container, *, storage: bool = False) -> Any:
    """Addresses of the arrays, as a TensorDict of integers without batch size.

    A lazy stack becomes a node with its parts under "0", "1", ...

    Args:
        storage: the address of the memory that the array is a view of.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> parts = [TensorDict(a=np.ones(2)), TensorDict(a=np.zeros(2))]
        >>> sorted(lazy_stack(parts).data_ptr().keys(True, True))
        [('0', 'a'), ('1', 'a')]
    """
    return map_tree(
        td,
        lambda leaf, _: np.asarray(_address(leaf, storage), np.int64),
        lambda *_: None,
        lambda _, entries: class_registry.dense(entries),
        lambda stack: class_registry.dense(
            {str(i): part for i, part in enumerate((stack._parts() or [()])[0])}
        ),
    )


def auto_device_(td: T) -> T:
    """Set `device` to the device of all arrays, or to None if they differ; returns self."""
    devices = {_device(leaf) for leaf in leaves(td)}
    device = devices.pop() if len(devices) == 1 else None
    for node in nodes(td):
        if node._parts() is None:
            node._device = device
    return td


def _device(leaf: object) -> str | None:
    return None if has_namespace(leaf) else "cpu" if isinstance(leaf, HOST_LEAVES) else "cuda"


def rename_(td: T, *names: object, **rename_map: str) -> T:
    """Rename the dimensions: all of them, or by `old="new"`; None alone removes all names; returns self.

    Raises:
        ValueError: both forms together, a wrong number of names, or an unknown old name.
    """
    if names and rename_map:
        raise ValueError("Passed both a name map and a name list. Only one is accepted.")
    if rename_map:
        old: list[str | None] = td.names
        unknown = [name for name in rename_map if name not in old]
        if unknown:
            raise ValueError(f"Names to rename were not part of the tensordict names: {unknown} vs {old}.")
        new: list[Any] = [None if name is None else rename_map.get(name, name) for name in old]
    else:
        new = [None] * td.ndim if names == (None,) else list(names)
    set_names(td, check_names(new, td.ndim))
    return td


def rename(td: T, *names: object, **rename_map: str) -> T:
    """A shallow copy with other dimension names; see `rename_`."""
    out: Any = td._clone(False)
    return out.rename_(*names, **rename_map)


def _address(leaf: Array, storage: bool) -> int:
    base: Any = raw(leaf)
    if has_namespace(base):
        return int(base.unsafe_buffer_pointer())
    while storage and isinstance(base.base, np.ndarray):
        base = base.base
    return base.__array_interface__["data"][0]
