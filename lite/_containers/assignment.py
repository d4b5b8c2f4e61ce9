"""Writes of entries: under a key, from a source, or at an index of the batch.

Each function adds to the plan of writes of a call (`Writes`), so that all of them happen or none. Here are
the writes of dense containers and shared helpers; `lazy_writes` has those of lazy stacks. Past 600 lines, as
all of them write through one plan, whose order of checks and writes is read in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from lite._arrays.device import on_leaves, to_library_of, unwrap, wrap
from lite._arrays.foreign import class_name
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import Array, Path, Shape, Unbatched, has_namespace, is_array
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import entry_error, error_path, prefix_error_path
from lite._tree.indexing import basic_shape, normalise, result_shape, slice_length
from lite._tree.keys import require_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, element_objects
from lite._tree.protocol import Container, class_registry, key_hint, missing_key
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import keys_differ
from lite._tree.writes import Update, Writes, fits, fitting, planned, trimmed, without_overlap

_ALL = slice(None)
_TO_ALL = (
    ' A value other than a TensorDict or dict is written to every entry; td[index] = {"key": value} and '
    'td["key"][index] = value write to one.'
)
_copy = methodcaller("copy")

# -- one entry --------------------------------------------------------------------------------------------


def set_path(td: Container, path: Path, item: object, inplace: bool, writes: Writes | None = None) -> None:
    """Store an item at a path of a dense container; missing nodes are created, errors name the path."""
    node, depth, last = td, 0, len(path) - 1
    dense = class_registry.dense
    try:
        while depth < last:
            child: Any = node._data.get(path[depth])
            if type(child) is not dense:
                if child is None:
                    _create(node, path[depth:], item, writes)
                    return
                child = td._as_node(child)
                if child is None:
                    raise KeyError(f"The entry {path[depth]} is already present in tensordict {node!r}.")
            node = child
            depth += 1
            if type(node) is not dense:  # a lazy stack has its own way
                node._set_path(path[depth:], item, inplace, writes)
                return
        node._set_here(path[last], item, inplace, writes)
    except Exception as error:
        prefix_error_path(error, *path[:depth])
        raise


def _create(td: Container, path: Path, item: object, writes: Writes | None) -> None:
    """Store a value at a path whose nodes do not exist. The value is converted before anything changes."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    with error_path(*path):
        chain = td._convert(item)
    if type(chain) is ndarray and td._names is None:  # an array has no dimension names
        for name in path[:0:-1]:
            chain = td._with({name: chain})
    else:
        for name in path[:0:-1]:
            parent = td._with({})
            parent._put(name, chain)
            chain = parent
    if writes is None:
        td._put(path[0], chain)
    else:
        writes.put(td, path[0], chain)


def set_here(td: Container, key: str, item: object, inplace: bool, writes: Writes | None = None) -> None:
    """Store an item under a key of td itself; with `inplace`, write it into the existing entry.

    Raises:
        RuntimeError: td is locked, and the item is not written in place.
    """
    if inplace:
        current = td._get_entry(key)
        if current is not None:
            with planned(writes) as plan:
                _write_into(td, key, current, item, plan)
            return
    if td._locked:
        if item is not None and td._get_entry(key) is item:
            return  # from `td["x"] += 1`, which has changed the array in place before
        raise RuntimeError(LOCK_ERROR)
    try:
        entry = td._convert(item)
    except Exception as error:
        prefix_error_path(error, key)
        raise
    if writes is None:
        td._put(key, entry)
    else:
        writes.put(td, key, entry)


def _write_into(td: Container, key: str, current: object, item: object, writes: Writes) -> None:
    """Plan to write an item into the existing entry at a key, which keeps its array, node or shape."""
    if writes.try_copy(current, item):
        return
    node = td._as_node(current)
    if node is not None:
        if not isinstance(item, Mapping) and td._as_node(item) is None:
            raise _update_error(key, f"it is nested, and the value is a {type(item).__name__}.")
        with error_path(key):
            merge(node, item, writes)
        return
    if isinstance(current, NonTensorBase):
        entry = td._to_entry(item)
        if not isinstance(entry, NonTensorBase):
            raise _update_error(key, f"it is non-tensor data, and the value is a {type(entry).__name__}.")
        if isinstance(entry, NonTensorData):
            entry = entry._rebatch(current.batch_size)
        size = entry.batch_size
        if not fits(size, current.batch_size):
            reason = f"objects of shape {size} do not broadcast to {current.batch_size}."
            raise _update_error(key, reason)
        entry = entry._broadcast(current.batch_size)
        writes.put(td, key, entry)  # replaced, as results of operations may share the objects
        return
    try:
        writes.copy(current, td._to_entry(item), place=(td, key))
    except (TypeError, ValueError) as error:
        raise _update_error(key, str(error)) from error


def _update_error(key: str, reason: str) -> Exception:
    return entry_error(ValueError, f"Failed to update {{key}} in tensordict: {reason}", (key,))


def set_at(td: Container, path: Path, value: object, index: object, writes: Writes) -> None:
    """Plan `set_at_`."""
    if td._peek_entry(path) is None:
        raise missing_key(td, path)
    if len(path) > 1:
        # Delegated to the node, as a nested lazy stack must write to its parts, not to its stacked copy.
        td._as_node(td._peek_entry(path[0]))._set_at(path[1:], value, index, writes)
        return
    key = path[0]
    entry = td._get_entry(key)
    node = td._as_node(entry)
    if node is not None:
        if isinstance(value, (TensorCollection, Mapping)):
            require_fields(entry, value)
        node._set_index(index, value, writes)
    elif isinstance(entry, NonTensorBase):
        if index is Ellipsis or type(index) is tuple:
            index = tuple(normalise(index, entry.batch_size))
        objects = td._to_entry(value) if type(value) is list else None  # of the rows, unless numbers
        new = objects if isinstance(objects, NonTensorBase) else value
        writes.put(td, key, entry._assign(index, new))
    else:
        writes.copy(entry, td._to_entry(value), index, place=(td, key))


# -- the entries of a source --------------------------------------------------------------------------------


def merge(td: Container, source: object, writes: Writes) -> None:
    """Plan `update(source, inplace=True)`."""
    node = td._as_node(source)
    if node is not None and node is not td:
        match_batch(td, node)
    if node is not td:
        td._update(source, Update(writes, inplace=True))


def match_batch(td: Container, source: Container) -> None:
    """Raise RuntimeError if the batch sizes of a target and a source differ (see `batch_sizes_match`)."""
    if not batch_sizes_match(td, source):
        raise RuntimeError(
            "update_batch_size must be set to True to be able to update tensordicts of different batch "
            f"size. Got self.batch_size={td.batch_size} and source.batch_size={source.batch_size}."
        )


def batch_sizes_match(td: Container, source: Container) -> bool:
    """Whether one of the two batch sizes starts with the other."""
    mine, theirs = td.batch_size, source.batch_size
    return mine[: len(theirs)] == theirs[: len(mine)]


def take_batch(td: Container, source: Any, how: Update) -> None:
    """Give td and its nested nodes the batch sizes of a source, for `update(update_batch_size=True)`.

    Entries that the source is about to replace are removed, as they have the old size.
    """
    node = td._as_node(source)
    differs = node is not None and not batch_sizes_match(td, node)
    if differs:
        require_resizable(td, node, how)
        missing = set(td._keys()) - set(node._keys())
        if missing:
            raise entry_error(
                RuntimeError,
                f"Some keys of the dest tensordict are not present in the source ({sorted(missing)}){{at}}: "
                "the batch size cannot be updated.",
            )
        how.writes.keep(td)
        for key in list(td._keys()):
            if td._as_node(td._peek_entry(key)) is None or td._as_node(node._peek_entry(key)) is None:
                td._remove(key)
    pairs = source.items() if node is None else node._items(True)
    for key, value in pairs:
        path = require_path(key)
        target, rest = td._as_node(td._peek_entry(path)), how.of_entry(path)
        mergeable = isinstance(value, Mapping) or td._as_node(value) is not None
        if mergeable and rest is not None and target is not None and target is not value:
            with error_path(*path):
                target._take_batch(value, rest)
    if differs:
        td.batch_size = node.batch_size


def require_resizable(td: Container, source: Container, how: Update) -> None:
    """Raise RuntimeError if an option of the call or the lock forbids a change of the batch size."""
    if how.inplace or how.chosen is not None:
        option = "inplace=True" if how.inplace else "keys_to_update"
        raise entry_error(
            RuntimeError,
            f"self and source have different batch sizes{{at}}, {td.batch_size} and {source.batch_size}, "
            f"which {option} does not allow.",
        )
    if td._locked:
        raise RuntimeError(LOCK_ERROR)


def source_items(td: Container, source: Any) -> Any:
    """The keys and entries of a source, which may change meanwhile if it is a container."""
    node = td._as_node(source)
    if node is not None:
        return ((key, node._get_entry(key)) for key in list(node._keys()))
    if not hasattr(source, "items"):  # an AttributeError, as in tensordict
        raise AttributeError(f"the source must be a TensorDict or a dict, got {class_name(source)}.")
    return source.items()


def update(td: Container, source: Any, how: Update) -> None:
    """Plan `update` or `update_`: set the entries of a source, nested ones one by one, as `how` says."""
    if how.existing:
        _copy_entries(td, source, how)
        return
    writes = how.writes
    for key, value in source_items(td, source):
        path = require_path(key)
        rest = how.of_entry(path)
        if rest is None:
            continue
        mergeable = isinstance(value, Mapping) or td._as_node(value) is not None
        if mergeable and not (how.is_leaf is not None and how.is_leaf(type(value))):
            target = td._as_node(td._peek_entry(path))
            if target is None and rest.chosen is not None:
                td._set_path(path, td._with({}), False, writes)
                target = td._as_node(td._peek_entry(path))
            if target is not None and target is not value:
                require_known(td._peek_entry(path), value)
                if not how.inplace:
                    target = _as_lazy(td, path, target, value, writes)
                with error_path(*path):
                    target._update(value, rest)
                continue
        td._set_path(path, copied(value) if how.clone else value, how.inplace, writes)


def _as_lazy(td: Container, path: Path, target: Any, value: object, writes: Writes) -> Any:
    """The node at `path`, replaced by a lazy stack if the source's node is one."""
    node = td._as_node(value)
    if not is_lazy(node) or is_lazy(target):
        return target
    dim = node._parts()[1]
    if target.batch_size[: dim + 1] != node.batch_size[: dim + 1]:
        return target
    stack = node._from_parts([part._clone(False) for part in target.unbind(dim)])
    td._set_path(path, td._rewrap(td._peek_entry(path), stack), False, writes)
    return td._as_node(td._peek_entry(path))  # a container with names stores a copy


def copied(value: object) -> Any:
    """A deep copy of a container, a copy of an array; other values are returned unchanged."""
    if isinstance(value, TensorCollection):
        return value._clone(True)
    return on_leaves(_copy, value) if is_array(value) else value


def _copy_entries(td: Container, source: object, how: Update) -> None:
    """Plan `update_`: copy the leaves of a source into existing entries; see `Update.strict`."""
    node: Any = td._as_node(source)
    if how.strict and how.chosen is None and is_lazy(node) and keys_differ(node.tensordicts):
        raise KeyError("The source has keys in some of its parts only; strict=False ignores them.")
    for path, value in leaf_items(td, source, ()):
        rest, both_lazy = how.of_entry(path), _both_lazy(td, path, value)
        if rest is None or (rest.chosen is not None and not both_lazy):
            continue
        if both_lazy:
            node, other = td._as_node(td._get_entry(path)), td._as_node(value)
            if other.ndim < node.ndim and other.batch_size != node.batch_size[: other.ndim]:
                other = other.expand(node.batch_size)  # as for arrays
            with error_path(*path):
                match_batch(node, other)
                node._update(other, rest._replace(above=(*how.above, *path)))
        elif td._peek_entry(path) is not None:
            td._set_path(path, value, True, how.writes)
        elif how.strict:
            hint = key_hint(td, path[0]) if len(path) == 1 else ""
            raise KeyError(f"The key {(*how.above, *path)} was not found in the dest tensordict{hint or '.'}")


def leaf_items(td: Container, source: Any, prefix: Path) -> Iterator[tuple[Path, Any]]:
    """The paths and leaves of a source; a lazy stack that meets a lazy stack of td counts as a leaf."""
    for key, value in source_items(td, source):
        path = prefix + require_path(key)
        if (isinstance(value, Mapping) or td._as_node(value) is not None) and not _both_lazy(td, path, value):
            yield from leaf_items(td, value, path)
        else:
            yield path, value


def _both_lazy(td: Container, path: Path, value: object) -> bool:
    """Whether a value and its target are lazy stacks, which are copied by parts as leaves may be ragged."""
    return is_lazy(td._as_node(value)) and is_lazy(td._as_node(td._peek_entry(path)))


def is_lazy(node: Container) -> bool:
    return node is not None and node._parts() is not None


# -- at an index of the batch ------------------------------------------------------------------------------


def set_index(td: Container, index: object, value: object, writes: Writes | None = None) -> None:
    """`td[index] = value`. Nothing is written unless all values fit."""
    if writes is not None or not write_arrays(td, index, value):
        with planned(writes) as plan:
            _plan(td, index, value, plan)


def _plan(td: Any, index: Any, value: Any, writes: Writes) -> None:
    """Plan the writes of `td[index] = value`; entries that td lacks are allocated first."""
    items = normalise(index, td._batch_size)
    shape = result_shape(items, td._batch_size)
    if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
        value = td._make({}, shape, td._device).update(value)
    node = td._as_node(value)
    if node is None:
        _fill_index(td, items, shape, value, writes)
        return
    node = fit_assigned(node, shape, td._batch_size, index)
    if not td._data.keys() >= set(node._keys()):
        node = node._clone(False)  # it may be or contain the container that gets new entries
    for key in node._keys():
        source, target = node._get_entry(key), td._data.get(key)
        if isinstance(target, Unbatched):  # has no batch dimensions to index
            continue
        if target is None:
            if td._locked:
                raise RuntimeError(LOCK_ERROR)
            if isinstance(source, UnbatchedTensor):
                writes.put(td, key, source._rebatch(td._batch_size))
                continue
            writes.put(td, key, td._rewrap(source, _allocate(td, source, len(shape))))
            target = td._data[key]  # a container with names stores a copy of a node
        own, other = td._as_node(target), td._as_node(source)
        objects = isinstance(target, NonTensorBase)
        if objects and isinstance(source, np.ndarray):
            source = element_objects(source, len(shape))
        if (own is None) != (other is None) or isinstance(source, NonTensorBase) != objects:
            raise entry_error(
                RuntimeError,
                f"cannot write a {type(source).__name__} to the {type(target).__name__}{{at}}.",
                (key,),
            )
        if objects:
            try:
                new = target._assign(items, source)
            except ValueError as error:
                raise entry_error(ValueError, f"cannot write to key {{key}}: {error}", (key,)) from error
            writes.put(td, key, new)
        elif own is not None:
            with error_path(key):
                require_fields(target, source)
                own._set_index(items, other, writes)
        else:
            _plan_leaf(td, key, target, items, shape, source, writes)


def require_fields(target: object, source: object) -> None:
    """Raise ValueError if a tensorclass lacks entries of a source.

    Raises:
        ValueError: the source is a tensorclass with other fields, or has keys that are not fields.
    """
    fields: Any = getattr(target, "_fields", None)
    if fields is None or type(source) is type(target):
        return
    other: Any = getattr(source, "_fields", None)
    if other is None or isinstance(source, type(target)):
        require_known(target, source)
    elif wrong := set(other) ^ set(fields):
        raise _unfitting(target, source, f"{sorted(wrong)} are not fields of both")


def require_known(target: object, source: Any) -> None:
    """Raise ValueError if a source has keys that are not fields of a tensorclass."""
    fields: Any = getattr(target, "_fields", None)
    if fields is None:
        return
    node = Container._as_node(source)
    names = (require_path(key)[0] for key in source) if node is None else node._keys()
    if wrong := [name for name in names if name not in fields]:
        raise _unfitting(target, source, f"{sorted(wrong)} are not fields of it")


def _unfitting(target: object, source: object, why: str) -> Exception:
    kinds = f"a {type(source).__name__} to a {type(target).__name__}"
    return entry_error(ValueError, f"cannot write {kinds}{{at}}: {why}.")


def _plan_leaf(
    td: Any, key: str, target: Any, items: tuple[Any, ...], shape: Shape, source: Any, writes: Writes
) -> None:
    """Plan to write an array to an array at an index, `shape` being the indexed batch size."""
    wanted = shape + tuple(target.shape[len(td._batch_size) :])
    if source.shape != wanted:
        source = trimmed(source, len(wanted))
    require_fit((key,), tuple(source.shape), wanted)
    try:
        writes.copy(target, source, items, wanted, (td, key))
    except ValueError as error:
        raise entry_error(ValueError, f"cannot write to key {{key}}: {error}", (key,)) from error


def require_fit(path: Path, shape: Shape, wanted: Shape) -> None:
    """Raise RuntimeError if a value of a shape does not broadcast to the indexed shape."""
    if not fits(shape, wanted):
        raise entry_error(
            RuntimeError,
            f"shape mismatch{{at}}: value of shape {shape} cannot be written to the indexed shape {wanted}.",
            path,
        )


# -- the fast path ------------------------------------------------------------------------------------------


def write_arrays(td: Container, index: Any, source: object) -> bool:
    """`td[index] = source` for a dense container by the fast path; False if it does not apply."""
    kind = type(index)
    if kind is slice:
        index = Ellipsis if index == _ALL else index
    elif kind is ndarray and index.dtype.kind == "b" and index.shape == td.batch_size[:1]:
        index = index.nonzero()[0]
    elif kind is range or (kind is list and set(map(type, index)) == {int}):
        index = np.asarray(index, np.intp)
    return (type(source) is type(td) or type(source) in NUMBERS) and write_shares(((td, source),), index)


Pairs: TypeAlias = list[tuple[Array, Array]]


def write_shares(shares: Sequence[tuple[Any, Any]], index: Any, whole: bool = False) -> bool:
    """The fast path of writes: arrays and numbers that fit exactly, or after a cast, need no plan of writes.

    Assignments at an index, `update_`, `update(inplace=True)` and `update_at_` try it first, as it takes 3
    microseconds for five arrays, and a plan (`Writes`) 13. All values are collected before the first write.

    Args:
        shares: pairs of a dense container and the container, dict or number that is written to it.
        index: where, in the batch of each.
        whole: whether the batch sizes of sources need not be that of the index, as all is written.

    Returns:
        Whether all was written; nothing was, if a value needs more than a cast.
    """
    found: Pairs = []
    objects: list[tuple[Container, str, NonTensorBase]] = []
    for td, source in shares:
        shape = None if whole else _simple_shape(index, td._batch_size)
        if shape is None and not whole:
            return False
        if not whole and type(source) in NUMBERS:
            if not _fill(td, td._to_entry(source), found):
                return False
        elif not _collect(td, source, shape, found, objects):
            return False
    if objects:
        with Writes() as writes:
            for node, key, entry in objects:
                writes.put(node, key, entry)
    if len(shares) > 1:  # a source may overlap several parts of a lazy stack
        targets = [target for target, _ in found]
        found = list(zip(targets, without_overlap(targets, [value for _, value in found]), strict=True))
    for target, value in found:  # the first write raises if an index array is out of bounds
        target[index] = value
    return bool(found or objects)


def _fill(td: Container, number: Array, found: Pairs) -> bool:
    """Collect (array, number of its dtype) for all leaves; False if an entry is not an array."""
    for target in td._data.values():
        if type(target) is class_registry.dense:
            if not _fill(target, number, found):
                return False
        else:
            ready = fitting(target, number, ())
            if ready is None:
                return False
            found.append((target, ready))
    return True


def _collect(td: Any, source: Any, shape: Shape | None, found: Pairs, objects: list[tuple[Any, ...]]) -> bool:
    """Collect (array, value) for all leaves; False if one does not fit.

    Args: shape: the batch size of the values; None to write all of each array, and objects, too.
    """
    dense = class_registry.dense
    if type(source) is dense or (isinstance(source, Container) and source._parts() is None):
        if shape is not None and source._batch_size != shape:
            return False
        source = source._data
    elif type(source) is not dict or shape is not None:
        return False
    targets = td._data
    ndim = len(td._batch_size)
    wanted = own = None  # cached, as most targets have the shape of the one before
    for key, value in source.items():
        target = targets.get(key)
        if type(target) is ndarray:
            if shape is not None and target.shape != own:
                own = target.shape
                wanted = shape + own[ndim:]
            ready = fitting(target, value, wanted)
            if ready is None:
                return False
            found.append((target, ready))
        elif type(target) is dense or (isinstance(target, Container) and target._parts() is None):
            inner = None if shape is None else shape + target._batch_size[ndim:]
            if not _collect(target, value, inner, found, objects):
                return False
        # Objects are replaced, as results of operations may share them.
        elif (
            shape is None
            and isinstance(value, NonTensorBase)
            and isinstance(target, NonTensorBase)
            and target.batch_size == value.batch_size
        ):
            objects.append((td, key, value))
        else:
            return False
    return True


def _simple_shape(index: Any, size: Shape) -> Shape | None:
    """The batch size after an index of the most frequent forms; None for all others."""
    kind = type(index)
    if kind is int:
        return size[1:] if size and -size[0] <= index < size[0] else None
    if kind is slice:
        return (slice_length(index, size[0]), *size[1:]) if size else None
    if kind is tuple:
        return basic_shape(index, size)
    if kind is ndarray and index.ndim == 1 and index.dtype.kind == "i" and size:
        return (len(index), *size[1:])
    return size if index is Ellipsis else None


def _fill_index(td: Container, items: tuple[Any, ...], shape: Shape, value: object, writes: Writes) -> None:
    """Write one value to every entry."""
    array = value if type(value) is ndarray else td._to_entry(value)
    if not has_namespace(array):
        array = np.asarray(array)
    for key, entry in list(td._data.items()):
        node = td._as_node(entry)
        if node is not None:
            with error_path(key):
                node._set_index(items, value, writes)
        elif isinstance(entry, NonTensorBase):
            writes.put(td, key, entry._assign(items, value))
        elif not isinstance(entry, Unbatched):
            try:
                _plan_leaf(td, key, entry, items, shape, array, writes)
            except Exception as error:
                if hasattr(error, "about"):
                    error.about += _TO_ALL
                    prefix_error_path(error)
                raise


def fit_assigned(source: Any, shape: Shape, batch_size: Shape, index: object) -> Any:
    """The source of an assignment, expanded to the indexed batch size if it broadcasts."""
    own = source.batch_size
    if own == shape:
        return source
    if own and own == shape[len(shape) - len(own) :]:
        return source.expand(shape)
    try:
        return source._rebatch(shape)
    except RuntimeError as error:
        if not own:  # one element, unless the shapes of its entries start with the indexed batch size
            return source.expand(shape)
        raise RuntimeError(
            f"indexed destination TensorDict batch size is {shape} (batch_size = {batch_size}, "
            f"index={index}), which differs from the source batch size {own}"
        ) from error


def _allocate(td: Any, source: Any, indexed_ndim: int) -> Any:
    """A new entry of zeros for the whole batch, with the features of a value for a part of it."""
    batch_size = td._batch_size
    if isinstance(source, NonTensorBase):
        return NonTensorStack._wrap(np.full(batch_size, None, dtype=object))
    if isinstance(source, TensorCollection):
        size = batch_size + source.batch_size[indexed_ndim:]
        return td._make({}, size)
    zeros = np.zeros(batch_size + source.shape[indexed_ndim:], source.dtype)
    return unwrap(to_library_of(wrap(source), zeros)) if has_namespace(source) else zeros
