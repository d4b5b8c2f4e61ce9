"""Writes of entries of a lazy stack: values are split along the stack dimension, a piece for each part.

All pieces belong to one plan of writes (`Writes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite._arrays.device import with_value
from lite._arrays.settings import list_to_stack
from lite._arrays.types import Array, HostArray, Path, Shape, Unbatched, computed, has_namespace, is_array
from lite._containers import assignment, lazy_entries, lazy_index
from lite._containers.dense import Dense
from lite._containers.lazy_entries import pieces_along
from lite._tree.collection import Entry, TensorCollection
from lite._tree.entry_errors import entry_error, error_path
from lite._tree.indexing import basic_shape, normalise, result_shape
from lite._tree.keys import NestedKey, require_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorStack
from lite._tree.protocol import Container, class_registry, item_shape, missing_key
from lite._tree.values import is_valid_leaf
from lite._tree.writes import Update, Writes, fits, planned, trimmed

# -- one entry --------------------------------------------------------------------------------------------


def set_path(stack: Any, path: Path, item: object, inplace: bool, writes: Writes | None = None) -> None:
    if len(path) == 1:
        stack._set_here(path[0], item, inplace, writes)
        return
    for depth in range(len(path) - 1, 0, -1):  # the innermost node that is there
        entry = stack._peek_entry(path[:depth])
        node = None if entry is None else stack._as_node(entry)
        if node is not None:
            with error_path(*path[:depth]):
                node._set_path(path[depth:], item, inplace, writes)
            return
    if entry is not None:
        raise KeyError(f"The entry {path[0]} is already present in tensordict {stack!r}.")
    with planned(writes) as plan:
        _create(stack, path, item, plan)


def set_here(stack: Any, key: str, item: object, inplace: bool, writes: Writes | None = None) -> None:
    if writes is None:
        if type(item) is not np.ndarray or not _set_rows(stack, key, item, inplace):
            with Writes() as own:
                set_here(stack, key, item, inplace, own)
        return
    inplace = inplace and stack._peek_entry(key) is not None
    if stack._locked and not inplace:
        if _is_entry(stack, key, item):
            return
        raise RuntimeError(LOCK_ERROR)
    with error_path(key):
        pieces = _pieces_to_copy(stack, key, item) if inplace else _pieces_of(stack, item)
        name = None if inplace else _new_name(stack, item)
    for part, piece in zip(stack.tensordicts, pieces, strict=True):
        part._set_here(key, piece, inplace, writes)
    if name is not None:
        writes.keep(stack)
        stack._dim_name = name


def _new_name(stack: Any, item: object) -> str | None:
    """The name of the stack dimension that storing a nested TensorDict adds; None if the stack has one.

    Raises:
        RuntimeError: the two names differ.
    """
    node = stack._as_node(item)
    names = None if node is None else node._names
    name = None if names is None or len(names) <= stack.stack_dim else names[stack.stack_dim]
    if name is None or name == stack._dim_name:
        return None
    if stack._dim_name is not None:
        raise RuntimeError(f"refine_names: cannot coerce TensorDict names {node._names} with {stack.names}.")
    return str(name)


def _set_rows(stack: Any, key: str, item: Array, inplace: bool) -> bool:
    """Set or copy the rows of an array in dense parts; False if a row is not a valid leaf.

    It takes half of the time of the plan of writes.
    """
    parts, dim = stack.tensordicts, stack.stack_dim
    if item.ndim <= dim or item.shape[dim] != len(parts):
        return False
    if not all(isinstance(part, Dense) and not part._converts for part in parts):
        return False
    rows = list(zip(parts, stack._pieces(item), strict=True))
    if inplace and all(key in part._data for part in parts):
        return assignment.write_shares([(part, {key: row}) for part, row in rows], ..., whole=True)
    for part, row in rows:
        held = part._locked or stack._locked or (inplace and key in part._data)
        if held or not is_valid_leaf(row, part._batch_size, part._device):
            return False
    for part, row in rows:
        part._data[key] = row
    return True


def _pieces_of(stack: Any, item: object) -> Sequence[Any]:
    """One piece per part: the items of a list, or the pieces of a value."""
    pieces = _list_items(stack, item)
    return stack._pieces(stack._convert(item)) if pieces is None else pieces


def _pieces_to_copy(stack: Any, key: str, item: object) -> Sequence[Any]:
    """As `_pieces_of`, for a value that is broadcast to the existing entry."""
    pieces = _list_items(stack, item)
    if pieces is not None:
        return pieces
    if type(item) is list:
        item = stack._to_entry(item)
    scalar = item.ndim == 0 if isinstance(item, np.ndarray) else np.isscalar(item)
    if scalar:
        return [item] * len(stack.tensordicts)
    shape = item_shape(stack, key)
    if isinstance(item, NonTensorStack) and -1 not in stack.batch_size:
        if not fits(item.batch_size, stack.batch_size):
            raise _not_updated(item.batch_size, stack.batch_size)
        item = item._broadcast(stack.batch_size)
    if isinstance(item, np.ndarray) and shape is not None and -1 not in shape and item.shape != shape:
        if not fits(item.shape, shape):
            raise _not_updated(item.shape, shape)
        item = np.broadcast_to(item, shape)
    return stack._pieces(stack._convert(item))


def _not_updated(shape: Shape, wanted: Shape) -> Exception:
    message = f"Failed to update {{key}} in tensordict: shape {shape} does not broadcast to {wanted}."
    return entry_error(ValueError, message)


def _list_items(stack: Any, item: object) -> Sequence[Any] | None:
    """The items of a list if there is one per part; their shapes may differ."""
    pieces = _unbound(item, stack.stack_dim) if type(item) is list and list_to_stack() else None
    return None if pieces is None or len(pieces) != len(stack.tensordicts) else pieces


def _unbound(item: Any, dim: int) -> Sequence[Any] | None:
    """The pieces of nested lists along a dimension, where level i of the lists is dimension i.

    None if there is no such level, or its lists differ in length.
    """
    if type(item) is not list:
        node = isinstance(item, Entry) or is_array(item)
        return pieces_along(item, dim) if node and item.ndim > dim else None
    if not dim:
        return item
    rows = [_unbound(row, dim - 1) for row in item]
    lengths = {-1 if row is None else len(row) for row in rows}
    if len(lengths) != 1 or -1 in lengths:
        return None
    return [list(column) for column in zip(*rows, strict=True)]


def _is_entry(stack: Any, key: str, item: object) -> bool:
    """Whether `item` is already the entry: the lazy stack of the parts' entries under the key."""
    node = stack._as_node(item)
    parts = None if node is None else node._parts()
    held = [id(part._get_entry(key)) for part in stack.tensordicts]
    return parts is not None and held == [id(part) for part in parts[0]]


def _create(stack: Any, path: Path, item: object, writes: Writes) -> None:
    if stack._locked or any(part.is_locked for part in stack.tensordicts):
        raise RuntimeError(LOCK_ERROR)
    node = stack._with({})
    with error_path(path[0]):
        node._set_path(path[1:], item, False)
    for part, child in zip(stack.tensordicts, node.tensordicts, strict=True):
        if part._peek_entry(path[0]) is None and not lazy_entries.has_node(part, path[:1]):
            writes.put(part, path[0], child)
        else:  # some parts have the node and other entries in it
            part._set_path(path, child._get_entry(path[1:]), False, writes)


def set_at(stack: Any, path: Path, value: Any, index: object, writes: Writes) -> None:
    if stack._peek_entry(path) is None:
        raise missing_key(stack, path)
    if -1 in stack.get_item_shape(path):
        whole = not isinstance(value, TensorCollection) and np.ndim(value) == 0
        stack.select(path)._set_index(index, value if whole else {path: value}, writes)
        return
    entry = stack._get_entry(path)
    if not is_array(entry):
        assignment.set_at(stack, path, value, index, writes)
        return
    # The stacked entry is a copy, so it is written back to the parts.
    value = stack._to_entry(value)
    if has_namespace(entry) or isinstance(computed(value), HostArray):
        entry = with_value(entry, index, computed(value))
    else:
        with Writes() as now:
            now.copy(entry, value, index)
    for part, row in zip(stack.tensordicts, stack._pieces(entry), strict=True):
        part._set_at(path, row, ..., writes)


# -- the entries of a source --------------------------------------------------------------------------------


def update(stack: Any, source: object, how: Update) -> None:
    shares = _matching_parts(stack, source)
    if shares is None:
        whole, shares = _split_source(stack, source)
        assignment.update(stack, whole, how)
    if shares:
        for part, other in zip(stack.tensordicts, shares, strict=True):
            part._update(other, how)


def take_batch(stack: Any, source: object, how: Update) -> None:
    node, dim, parts = stack._as_node(source), stack.stack_dim, stack.tensordicts
    if node is None:
        assignment.take_batch(stack, source, how)
        return
    if node.ndim <= dim:
        if not assignment.batch_sizes_match(stack, node):
            raise entry_error(
                RuntimeError,
                f"a source of batch size {node.batch_size} has no dim {dim}, the stack dim of the target"
                f"{{at}} of batch size {stack.batch_size}.",
            )
        return
    rows = node.unbind(dim)
    if len(rows) != len(parts):
        assignment.require_resizable(stack, node, how)
        how.writes.keep(stack)
        model = parts[0]._with({}) if parts else None
        parts += [(row if model is None else model)._with({}) for row in rows[len(parts) :]]
        del parts[len(rows) :]
    for part, row in zip(parts, rows, strict=True):
        part._take_batch(row, how)


def _split_source(stack: Any, source: Any) -> tuple[Any, Sequence[Any]]:
    """Split a source into entries that are set on the whole stack and entries that are set on each part.

    Set on each part are nested entries that merge into entries of only some parts, and lazy stacks along
    another dimension, whose rows may be ragged.
    """
    pairs = dict(assignment.source_items(stack, source))
    some = {key: value for key, value in pairs.items() if _set_per_part(stack, key, value)}
    if not some:
        return source, ()
    whole = {key: value for key, value in pairs.items() if key not in some}
    shares = [stack._pieces(stack._convert(value)) for value in some.values()]
    return whole, [dict(zip(some, pieces, strict=True)) for pieces in zip(*shares, strict=True)]


def _set_per_part(stack: Any, key: NestedKey, value: object) -> bool:
    node, path = stack._as_node(value), require_path(key)
    if node is None and not isinstance(value, Mapping):
        return False
    if stack._peek_entry(path) is not None:
        return isinstance(node, class_registry.lazy) and not lazy_entries.is_stackable(node)
    return any(lazy_entries.has_node(part, path) for part in stack.tensordicts)


def _matching_parts(stack: Any, source: object) -> Sequence[Any] | None:
    """The parts of a lazy stack for the parts of the target; None if the source is not such a stack.

    Raises:
        ValueError: the stack dimensions are equal but the numbers of parts differ.
    """
    node, dim = stack._as_node(source), stack.stack_dim
    if not isinstance(node, class_registry.lazy):
        return None
    if node.stack_dim != dim:
        rows = node.batch_size[dim : dim + 1] == (len(stack.tensordicts),)
        return node.unbind(dim) if rows else None
    if len(node.tensordicts) != len(stack.tensordicts):
        raise ValueError("cannot update stacked tensordicts with different shapes.")
    return node.tensordicts


# -- at an index of the batch ------------------------------------------------------------------------------


def set_index(stack: Any, index: object, value: object, writes: Writes | None = None) -> None:
    items = index if type(index) is tuple else (index,)
    # Of arrays NumPy may move the dimensions to the front.
    if not stack.stack_dim and {int, slice}.issuperset(map(type, items)) and isinstance(value, Container):
        first, rest = items[0] if items else ..., items[1:] or ...
        parts = stack.tensordicts
        if type(first) is int and -len(parts) <= first < len(parts):
            part = parts[first]
            if basic_shape(items[1:], part.batch_size) == value.batch_size:
                part._set_index(rest, value, writes)  # no other part is asked
                return
        if writes is None and type(first) is slice and _write_slice(parts[first], rest, value):
            return
    with planned(writes) as plan:
        _assign(stack, index, value, plan)


def _write_slice(parts: Sequence[Any], rest: object, value: Container) -> bool:
    """Write the rows of a value to parts by the fast path."""
    if value.batch_size[:1] != (len(parts),) or not all(isinstance(part, Dense) for part in parts):
        return False
    return assignment.write_shares(list(zip(parts, value.unbind(0), strict=True)), rest)


def side_by_side(td: Container, source: object) -> Sequence[tuple[Any, Any]]:
    """Pairs of a dense container and a source, one for each part of a lazy stack; none if they differ."""
    stacked = td._parts()
    if stacked is None:
        return ((td, source),)
    parts, dim = stacked
    if not isinstance(source, Container) or any(part._parts() is not None for part in parts):
        return ()
    others = source._parts()
    if others is None and source.batch_size == td.batch_size:
        return list(zip(parts, source.unbind(dim), strict=True))
    if others is None or others[1] != dim or len(others[0]) != len(parts):
        return ()
    return list(zip(parts, others[0], strict=True))


def _assign(stack: Any, index: object, value: object, writes: Writes) -> None:
    """`stack[index] = value`, written to the arrays of the parts."""
    items = normalise(index, stack.batch_size)
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        blank = lazy_index.select(stack, items)._with({})
        blank.update(value)
        value = blank
    node = stack._as_node(value)
    if node is None:
        _fill(stack, items, value, writes)
        return
    size = stack.batch_size
    if -1 not in size:
        shape = result_shape(items, size)
        node = _broadcast_source(stack, assignment.fit_assigned(node, shape, size, items), shape)
    own = set(map(id, stack.tensordicts))
    shares = [
        # A part may also be a source; its old content is what counts.
        (part, rest, source._clone(False) if id(source) in own else source)
        for part, rest, source in _part_sources(stack, items, node)
    ]
    for part, rest, source in shares:
        part._set_index(rest, source, writes)


def _broadcast_source(stack: Any, node: Container, shape: Shape) -> Any:
    """A source with leaves broadcast to the stacked targets, as for a dense TensorDict.

    Broadcasting them in each part would align other dimensions.
    """
    out = node
    for path in map(require_path, node.keys(True, True)):
        if stack._peek_entry(path) is None:
            continue
        target, own = stack.get_item_shape(path), node.get_item_shape(path)
        wanted = shape + target[stack.ndim :]
        if own == wanted or -1 in target or -1 in own:
            continue
        leaf = node._get_entry(path)
        if isinstance(leaf, np.ndarray) and not isinstance(leaf, Unbatched):
            leaf = trimmed(leaf, len(wanted))
            assignment.require_fit(path, leaf.shape, wanted)
            out = node._clone(False) if out is node else out
            out._set_path(path, np.broadcast_to(leaf, wanted), False)
    return out


def _targets(stack: Any, items: tuple[Any, ...]) -> tuple[list[tuple[Any, tuple[Any, ...]]], int, Shape]:
    """Pairs (part, index into the part); where their dimensions are in the indexed batch, and their sizes."""
    split = lazy_index.split_index(items, stack.stack_dim)
    if split is None:
        ids, used = lazy_index.element_ids(stack, items)
        return [lazy_index.coordinates(stack, int(i), used) for i in ids.flat], 0, ids.shape
    if isinstance(split.picked, int):
        return [(lazy_index.at(stack.tensordicts, split.picked), split.rest)], split.at, ()
    ids = np.arange(len(stack.tensordicts))[split.picked]
    return [(stack.tensordicts[i], split.rest) for i in ids.flat], split.at, ids.shape


def _part_sources(
    stack: Any, items: tuple[Any, ...], node: Container
) -> list[tuple[Any, tuple[Any, ...], Any]]:
    """Triples (part, index into the part, source of the part)."""
    targets, at, shape = _targets(stack, items)
    if node.batch_size[at : at + len(shape)] != shape:
        raise RuntimeError(
            f"indexed destination TensorDict batch size has {shape} at dim {at}, which differs from the "
            f"source batch size {node.batch_size}"
        )
    sources = lazy_index.unbind_range(node, at, at + len(shape) - 1) if shape else [node]
    return [(part, rest, source) for (part, rest), source in zip(targets, sources, strict=True)]


def _fill(stack: Any, items: tuple[Any, ...], value: Any, writes: Writes) -> None:
    """Write one value to every leaf, broadcasting as NumPy does."""
    if np.ndim(value) == 0:
        for part, rest in _targets(stack, items)[0]:
            part._set_index(rest, value, writes)
        return
    for key in list(stack._keys()):
        if isinstance(stack._peek_entry(key), Unbatched):
            continue
        try:
            stack._set_at((key,), value, items, writes)
        except ValueError as error:
            raise entry_error(ValueError, f"cannot write to key {{key}}: {error}", (key,)) from error
