"""Reading, writing and removing entries by key, and the views of keys, values and items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Any, overload

from numpy import ndarray

from lite._arrays.device import write_leaf
from lite._arrays.numbers import NUMBERS
from lite._arrays.settings import capture_non_tensor_stack, get_defaults_to_none
from lite._arrays.types import Array, HostArray, Shape, computed, has_namespace, is_array
from lite._containers.lazy import Lazy
from lite._containers.ragged import read
from lite._tree.entry_errors import error_path, write_error
from lite._tree.indexing import Index
from lite._tree.key_views import TensorDictKeysView, leaf_pairs, walk
from lite._tree.keys import NestedKey, require_path, to_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, unwrap
from lite._tree.protocol import MISSING, Container, T, class_registry, item_shape, key_hint, missing_key
from lite._tree.writes import Writes, fitting


def get(td: Container, key: NestedKey, default: object = MISSING, **lazy_kwargs: Any) -> Any:
    """Return the entry at `key`: an array, a nested TensorDict, or a non-tensor wrapper.

    Args:
        key: a string, or a tuple for a nested entry.
        default: returned when the key is missing (None unless given).
        lazy_kwargs: the form of ragged leaves of a lazy stack (see `LazyStackedTensorDict.get`);
            without effect on dense leaves.

    Raises:
        KeyError: `key` is not a nested key, or is missing under `set_get_defaults_to_none(False)`.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": {"b": 1}})
        >>> td.get(("a", "b")), td.get("missing")
        (array(1), None)
    """
    if type(key) is str and not lazy_kwargs:
        # A dense container has its direct entries in a dict, which is read without a further call.
        own = td._data
        entry = own.get(key)
        if entry is None and not own:  # a lazy stack holds none itself
            entry = td._get_entry(key)
    elif not lazy_kwargs:
        entry = dense_entry(td, key)
        if entry is None:
            entry = td._get_entry(require_path(key))
    else:
        path = require_path(key)
        node = td if len(path) == 1 else td._as_node(td._peek_entry(path[:-1]))
        entry = None if node is None else read(node, path[-1], **lazy_kwargs)
    if entry is not None:
        return entry
    if default is MISSING:
        if get_defaults_to_none():
            return None
        raise missing_key(td, require_path(key))
    return default


def dense_entry(td: Container, path: Any) -> Any:
    """The entry at a path through dense containers only; None for anything else."""
    node: Any = td if type(path) is tuple and path else None
    for name in path if node is not None else ():
        if type(name) is not str or not isinstance(node, Container):
            return None
        node = node._data.get(name)
    return node


def get_at(td: Container, key: NestedKey, index: object, default: object = MISSING) -> Any:
    """The entry at `key`, indexed; `default` if the key is missing."""
    entry = td._get_entry(require_path(key))
    return td.get(key, default) if entry is None else entry[index]


def get_item_shape(td: Container, key: NestedKey) -> Shape:
    """Shape of an entry; in a lazy stack -1 where the parts differ, (-1,) where their ndim does."""
    path = require_path(key)
    node = td if len(path) == 1 else td._as_node(td._peek_entry(path[:-1]))
    shape: Shape | None = None if node is None else item_shape(node, path[-1])
    if shape is None:
        raise missing_key(td, path)
    return shape


@overload
def getitem(td: Container, index: str | tuple[str, ...]) -> Array: ...
@overload
def getitem(td: Lazy, index: Index) -> Any: ...  # a part may be of any class
@overload
def getitem(td: T, index: Index) -> T: ...
def getitem(td: Container, index: Any) -> Any:
    """The entry at a key, or the elements at an index of the batch.

    To type checkers an entry is an array, as nearly all are; `get` returns nested TensorDicts and objects.
    """
    kind = type(index)
    if kind is str:
        entry = td._data.get(index)
    elif kind is not tuple and not isinstance(index, str):
        return td._index(index)
    else:
        first = type(index[0]) if index else None
        if first is int or first is slice:  # an index, as keys begin with a string
            return td._index(index)
        entry = dense_entry(td, index)
    found = type(entry)
    if found is ndarray or found is class_registry.dense:
        return entry
    if entry is None:
        path = (index,) if kind is str else to_path(index)
        if not path:
            return td._index(index)
        entry = td._get_entry(path)
        if entry is None:
            raise missing_key(td, path)
    return unwrap(entry) if isinstance(entry, NonTensorBase) else entry


def getitems(td: Container, index: object) -> Any:
    """The elements at a list of indices; data loaders call it."""
    return td._index(index)


def get_non_tensor(td: Container, key: NestedKey, default: object = MISSING) -> Any:
    """Return the object stored under `key`, unwrapped."""
    entry = td.get(key, default)
    if isinstance(entry, NonTensorStack) and capture_non_tensor_stack():
        with suppress(AttributeError):  # the objects differ
            return entry.data
    return unwrap(entry) if isinstance(entry, NonTensorBase) else entry


def contains(td: Container, key: object) -> bool:
    if type(key) is str:
        return key in td._data or td._peek_entry(key) is not None
    path = to_path(key)
    if not path:
        raise RuntimeError("key must be a NestedKey (a str or a possibly tuple of str).")
    return td._peek_entry(path) is not None


def keys(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    *,
    sort: bool = False,
) -> TensorDictKeysView:
    """A live, set-like view of the keys.

    Args:
        include_nested: also list keys of nested TensorDicts, as tuples.
        leaves_only: leave out nested TensorDicts, and non-tensor data unless `is_leaf` accepts it.
        is_leaf: predicate on the entry's type; see `default_is_leaf`, `is_leaf_nontensor`.
        sort: sort by the dotted key instead of insertion order.

    Example:
        >>> from lite import TensorDict
        >>> list(TensorDict({"a": 1, "n": {"b": 2}}).keys(True))
        ['a', ('n', 'b'), 'n']
    """
    if include_nested or leaves_only or sort:
        return TensorDictKeysView(td, (include_nested, leaves_only, is_leaf, sort))
    return TensorDictKeysView(td)


def items(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    *,
    sort: bool = False,
) -> Iterable[tuple[Any, Any]]:
    """The (key, entry) pairs, in the order of `keys` with the same arguments.

    Without arguments this is a live view, as `dict.items` is. On a lazy stack, or with arguments, it is a
    list of the current pairs, so entries may be set during the iteration.
    """
    if not (include_nested or leaves_only or sort):
        return td._items()
    if include_nested and leaves_only and is_leaf is None and not sort:
        pairs: list[tuple[Any, Any]] = []
        leaf_pairs(td._items(), None, pairs)
        return pairs
    found = walk(td, include_nested, leaves_only, is_leaf, start=None)
    if sort:
        found.sort(key=lambda pair: pair[0] if type(pair[0]) is str else ".".join(pair[0]))
    return found if sort or (include_nested and leaves_only) else iter(found)


def values(
    td: Container,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    *,
    sort: bool = False,
) -> Iterable[Any]:
    """The entries, in the order of `keys` with the same arguments; see `items`."""
    if not (include_nested or leaves_only or sort):
        own = td._data  # of a lazy stack none, as in `keys`
        return own.values() if own or td._parts() is None else (entry for _, entry in td._items())
    return map(itemgetter(1), td.items(include_nested, leaves_only, is_leaf, sort=sort))


def set(td: T, key: NestedKey, item: object, inplace: bool = False, *, non_blocking: bool = False) -> T:
    """Store `item` under `key`; arrays are aliased, never copied. Returns self.

    Missing intermediate TensorDicts are created. With `inplace=True` an existing entry's buffer is written
    (with casting and broadcasting) instead of replaced. In a lazy stack each part gets its rows.

    Raises:
        RuntimeError: the value's leading dimensions are not the batch size, or self is locked.
        KeyError: an intermediate key holds an array, or `key` is not a nested key.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> td = TensorDict(batch_size=[2]).set(("a", "b"), np.ones((2, 3)))
        >>> td["a", "b"].shape
        (2, 3)
        >>> stack = lazy_stack([TensorDict(), TensorDict()]).set("a", np.array([1, 2]))
        >>> stack[1]["a"]
        array(2)
    """
    if type(key) is str:
        td._set_here(key, item, inplace)
    else:
        td._set_path(to_path(key) or require_path(key), item, inplace)
    return td


def setitem(td: Container, index: object, value: object) -> None:
    if type(index) is str:
        td._set_here(index, value, False)
        return
    path = to_path(index) if isinstance(index, tuple | str) else ()
    if path:
        td._set_path(path, value, False)
    else:
        td._set_index(index, value)


def set_(td: T, key: NestedKey, item: object, *, non_blocking: bool = False) -> T:
    """Copy `item` into the existing entry `key` (casting, broadcasting); allowed when locked.

    A nested entry is updated as with `update_`.

    Raises:
        KeyError: the key, or one of the keys of a nested value, does not exist.
        ValueError: the value cannot be broadcast to the entry, or is of another kind.
    """
    target: Any = td._data.get(key) if type(key) is str else dense_entry(td, key)
    number = type(item) in NUMBERS
    ready = fitting(target, td._to_entry(item), ()) if number else fitting(target, item)
    if ready is not None:
        target[...] = ready
        return td
    path = require_path(key)
    current = td._peek_entry(path)
    if current is None:
        raise missing_key(td, path)
    node = td._as_node(current)
    if node is not None and (isinstance(item, Mapping) or td._as_node(item) is not None):
        with error_path(*path):
            node.update_(item)
    else:
        td._set_path(path, item, True)
    return td


def set_at_(td: T, key: NestedKey, value: object, index: object, *, non_blocking: bool = False) -> T:
    """Write `value` at `index` of the existing entry `key`: `td.get(key)[index] = value`."""
    path = require_path(key)
    node = td if len(path) == 1 else td._as_node(td._peek_entry(path[:-1]))
    target = None if node is None or node._parts() is not None else node._get_entry(path[-1])
    try:
        if is_array(target) and not has_namespace(target) and not isinstance(computed(value), HostArray):
            write_leaf(target, index, value)
            return td
        with Writes() as writes:
            td._set_at(path, value, index, writes)
    except (TypeError, ValueError) as error:
        raise write_error(path, index, error) from error
    return td


def set_non_tensor(td: T, key: NestedKey, value: object) -> T:
    """Store any object as non-tensor data, also one that `set` would turn into an array."""
    return td.set(key, NonTensorData(value, batch_size=td.batch_size))


def del_(td: T, key: NestedKey) -> T:
    """Remove an entry; KeyError if it is missing, RuntimeError if self is locked."""
    if type(key) is str and key in td._data and not td._locked:
        td._remove(key)
        return td
    path = require_path(key)
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    node: Container | None = td
    for name in path[:-1]:
        node = td._as_node(node._peek_entry(name)) if node is not None else None
        if node is None:
            raise KeyError(f"No sub-tensordict with key {name}.")
    if node is td:
        if td._peek_entry(path[-1]) is None:
            raise missing_key(td, path)
        td._remove(path[-1])
    elif node is not None:
        node.del_(path[-1])
    return td


def delitem(td: Container, key: NestedKey) -> None:
    td.del_(key)


def pop(td: Container, key: NestedKey, default: object = MISSING) -> Any:
    """Remove an entry and return it, or `default` if it is missing.

    Raises:
        KeyError: if the key is missing and no default is given.
        RuntimeError: if self is locked and the key exists.
    """
    entry = td._get_entry(key if type(key) is str else require_path(key))
    if entry is None:
        if default is MISSING:
            raise KeyError(
                f"You are trying to pop key `{key}` which is not in dict without providing default "
                f"value. Keys={td.keys(True)}{key_hint(td, key) if isinstance(key, str) else '.'}"
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


def setdefault(td: Container, key: NestedKey, default: object, inplace: bool = False) -> Any:
    """Store `default` if the key is missing; returns the stored entry."""
    if key in td:
        return td.get(key)
    with Writes() as writes:
        writes.keep(td)  # undone if `get` fails: a lazy stack stores ragged rows, but cannot stack them
        td.set(key, default, inplace=inplace)
        return td.get(key)


def create_nested(td: T, key: NestedKey) -> T:
    """Store an empty TensorDict under `key`; returns self."""
    return td.set(key, td._with({}))


def key_completions(td: Container) -> list[Any]:
    """The completions of a notebook after `td["`: all keys, nested ones as tuples."""
    return list(td.keys(True))
