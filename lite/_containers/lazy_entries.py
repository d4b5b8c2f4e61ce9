"""Reads of entries of a lazy stack: an entry is found in each part, and then stacked.

Most parts are TensorDicts of arrays and TensorDicts, whose dicts are read directly. Other parts are read by
their methods, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, NamedTuple

from numpy import ndarray

from lite._arrays.types import Array, Path, Shape
from lite._containers.joining import JoinFunctions, join_column
from lite._containers.ragged import stack_arrays, stack_objects
from lite._tree.collection import Entry
from lite._tree.entry_errors import entry_error, prefix_error_path
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, class_registry
from lite._tree.walks import keys_differ


def pieces_along(entry: Entry | Array, dim: int) -> Sequence[Any]:
    """The pieces of an array or a collection along a dimension."""
    if isinstance(entry, Entry):
        return entry.unbind(dim)
    at: tuple[Any, ...] = (slice(None),) * dim
    return [entry[(*at, i, ...)] for i in range(entry.shape[dim])] if entry.ndim > dim else []


def _dicts(stack: Any) -> list[dict[str, Any]] | None:
    """The dicts of entries of all parts; None if one is empty, as that of a lazy stack always is."""
    dicts = [part._data for part in stack.tensordicts]
    return dicts if all(dicts) else None


def keys(stack: Any) -> Iterable[str]:
    return _shared_keys(stack, _dicts(stack))


def _shared_keys(stack: Any, dicts: list[dict[str, Any]] | None) -> list[str]:
    if not stack.tensordicts:
        return []
    first, *others = [part._keys() for part in stack.tensordicts] if dicts is None else dicts
    return sorted(set(first).intersection(*others))


def get_entry(stack: Any, key: str | Path) -> Any:
    path = (key,) if isinstance(key, str) else key
    entries = _part_entries(stack.tensordicts, path)
    if entries is None:
        try:
            entries = _until_missing(stack.tensordicts, lambda part: part._get_entry(path))
        except RuntimeError:  # a part is ragged at a nested key, which matters only if all parts have it
            if stack._peek_entry(path) is None:
                return None
            raise
    return stacked(stack, path, entries)


def stacked(stack: Any, path: Path, entries: list[Any]) -> Any:
    """The stack of the entries of the parts at a path; None if a part has none."""
    if not entries:
        return None
    try:
        out = join_column(entries, READ, stack.stack_dim)
    except RuntimeError as error:
        prefix_error_path(error, *path)
        raise
    if stack._dim_name is not None and (node := stack._as_node(out)) is not None:
        node._dim_name = stack._dim_name
    return out


def _lazy_stack(nodes: list[Any], dim: int, name: str | None = None) -> Any:
    """A lazy stack of containers. Their batch sizes may differ, but not their numbers of dimensions."""
    try:
        sizes = [node._batch_size for node in nodes]  # takes a third of the time of the property
    except AttributeError:
        sizes = [node.batch_size for node in nodes]
    if sizes.count(sizes[0]) < len(sizes) and len(set(map(len, sizes))) > 1:
        raise entry_error(RuntimeError, f"the entries{{at}} of a lazy stack are of different kinds: {sizes}.")
    return class_registry.lazy._make(nodes, dim, name)


READ = JoinFunctions("read from a lazy stack", stack_arrays, stack_objects, _lazy_stack)


def peek_entry(stack: Any, key: str | Path) -> Any:
    """The stack of nested containers at a path, or the leaf of one part."""
    path = (key,) if isinstance(key, str) else key
    entries = _part_entries(stack.tensordicts, path)
    if entries is None:
        entries = _until_missing(stack.tensordicts, lambda part: part._peek_entry(path))
    return _peeked(stack, path, entries)


def _peeked(stack: Any, path: Path, entries: list[Any]) -> Any:
    found = set(map(type, entries))
    if not entries or NoneType in found:
        return None
    if type(entries[0]) is ndarray:
        return entries[0]
    if found == {class_registry.dense}:
        try:
            return _lazy_stack(entries, stack.stack_dim, stack._dim_name)
        except RuntimeError as error:
            prefix_error_path(error, *path)
            raise
    leaf = next((entry for entry in entries if stack._as_node(entry) is None), None)
    return stacked(stack, path, entries) if leaf is None else leaf


def items(stack: Any, peek: bool = False) -> Iterable[tuple[str, Any]]:
    dicts = _dicts(stack)
    shared = _shared_keys(stack, dicts)
    if not dicts:
        read = stack._peek_entry if peek else stack._get_entry
        return ((key, read(key)) for key in shared)
    one = _peeked if peek else stacked
    return (
        (key, entry)  # of an array `_peeked` gives that of the first part: no other is asked
        if peek and type(entry := dicts[0][key]) is ndarray
        else (key, one(stack, (key,), [entries.get(key) for entries in dicts]))
        for key in shared
    )


def _part_entries(parts: Sequence[Any], path: Path) -> list[Any] | None:
    """The entry of each part at a path through TensorDicts; None if the path leads through anything else."""
    found = []
    dense = class_registry.dense
    try:
        for node in parts:
            for name in path:
                if type(node) is not dense:
                    return None
                node = node._data[name]
            found.append(node)
    except KeyError:
        return [None]  # a stack lacks an entry that one part lacks
    return found


def _until_missing(parts: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """`read(part)` for each part, up to the first None."""
    found = []
    for part in parts:
        found.append(read(part))
        if found[-1] is None:
            break
    return found


def is_stackable(stack: Any) -> bool:
    """Whether all entries can be stacked: parts have one batch size and the same keys, leaves one shape.

    Shapes are compared, nothing is stacked.
    """
    if -1 in stack.batch_size or keys_differ(stack.tensordicts):
        return False
    forms = [_form(stack, key) for key in stack._keys()]
    return all(form is not None and (form.node is None or is_stackable(form.node)) for form in forms)


class _Form(NamedTuple):
    """The properties of an entry that decide whether it can be stacked with others."""

    kind: type
    shape: Shape
    node: Any = None  # the container, whose entries have not been read


def _form(td: Container, key: str) -> _Form | None:
    """The `_Form` of an entry; None if it cannot be read."""
    stacked = td._parts()
    if stacked is None:
        entry = td._get_entry(key)
        node = td._as_node(entry)
        if node is not None:
            return _Form(Container, node.batch_size, node)
        return _Form(NonTensorBase if isinstance(entry, NonTensorBase) else ndarray, tuple(entry.shape))
    parts, dim = stacked
    forms = [form for part in parts if (form := _form(part, key)) is not None]
    shapes = [form.shape for form in forms]
    if len(forms) < len(parts) or len({(form.kind, len(form.shape)) for form in forms}) > 1:
        return None
    kind, shape, node = forms[0]
    if node is not None:
        node = class_registry.lazy._make([form.node for form in forms], dim)
    elif len(set(shapes)) > 1:
        if kind is ndarray:
            return None
        ragged = next(i for i, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1)
        shape = shape[:ragged]  # objects along later dimensions become lists
    return _Form(kind, (*shape[:dim], len(parts), *shape[dim:]), node)


def has_node(td: Container, path: Path) -> bool:
    """Whether at least one part has a node at a path."""
    if td._as_node(td._peek_entry(path)) is not None:
        return True
    parts = td._parts()
    return parts is not None and any(has_node(part, path) for part in parts[0])
