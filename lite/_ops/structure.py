"""Operations on the set of keys: select, exclude, rename, flatten, split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from numpy import ndarray

from lite._arrays.types import Path
from lite._tree.collection import is_leaf_nontensor
from lite._tree.key_views import walk
from lite._tree.keys import NestedKey, require_path, to_key
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import MISSING, Container, T, class_registry, missing_key
from lite._tree.undo import flattened, remember, unflattened
from lite._tree.writes import Writes


def _with_entries(td: T, entries: Mapping[str, Any]) -> T:
    """Replace the entries of self by `entries`, which are known to fit, and return self."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    for name in list(td._keys()):
        td._remove(name)
    for name, entry in entries.items():
        td._put(name, entry)
    return td


def select(
    td: T, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False
) -> T:
    """Keep only some keys, in the given order; leaves are aliased.

    Args:
        keys: keys to keep; a nested key keeps its place in the tree.
        inplace: remove the others from self instead of building a new TensorDict.
        strict: raise KeyError for a missing key (else skip it).
        as_tensordict: return a TensorDict also when called on a tensorclass.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": 1, "n": {"b": 2, "c": 3}})
        >>> list(td.select("a", ("n", "b")).keys(True, True))
        ['a', ('n', 'b')]
    """
    own = td._data
    found: dict[str, Any] = {}
    for key in keys:
        entry = own.get(key) if type(key) is str else None
        if entry is None:
            break
        found[key] = entry  # type: ignore[index]
    else:
        if not inplace:
            return td._with(found)
        if type(td) is class_registry.dense and not td._locked:  # half of the time of moving entries
            td._data = found
            return td
        return _with_entries(td, found)
    out = td._selected([(k,) if type(k) is str else require_path(k) for k in keys], strict)
    return _with_entries(td, out._data) if inplace else out


def _selected(td: T, paths: list[Path], strict: bool) -> T:
    """`select` by flat paths."""
    own = td._data
    if len(paths) == 1:
        path = paths[0]
        name = path[0]
        entry = own.get(name)
        if entry is not None and len(path) == 1:
            return td._with({name: entry})
        if isinstance(entry, Container):
            return td._with({name: entry._selected([path[1:]], strict)})
    out: dict[str, Any] = {}
    # A nested key restricts its node to it, also if the node is selected too.
    nested: dict[str, list[Path]] = {}
    for path in paths:
        name = path[0]
        if name in own:
            out[name] = own[name]
            if len(path) > 1:
                nested[name] = [*nested.get(name, ()), path[1:]]
        elif strict:
            raise missing_key(td, path)
    for name, rest in nested.items():
        entry = out[name]
        node: Any = entry if isinstance(entry, Container) else td._as_node(entry)
        if node is not None:
            narrowed = node._selected(rest, strict)
            out[name] = narrowed if entry is node else td._rewrap(entry, narrowed)
        elif strict:
            raise missing_key(td, (name, *rest[0]))
        else:
            del out[name]
    return td._with(out)


def exclude(td: T, *keys: NestedKey, inplace: bool = False) -> T:
    """Drop some keys; missing ones are ignored, untouched nodes are aliased."""
    paths: Sequence[str | Path] = keys
    for key in keys:
        if type(key) is not str:
            paths = [k if type(k) is str else require_path(k) for k in keys]
            break
    out = td._excluded(paths)
    return _with_entries(td, out._data) if inplace else out


def _excluded(td: T, keys: Sequence[str | Path]) -> T:
    """`exclude` by strings and flat paths."""
    out = td._data.copy()
    nested: dict[str, list[Path]] = {}
    for key in keys:
        if type(key) is str:
            out.pop(key, None)
        elif len(key) == 1:
            out.pop(key[0], None)
        elif len(keys) == 1 and isinstance(out.get(key[0]), Container):
            out[key[0]] = out[key[0]]._excluded([key[1:]])
        else:
            nested[key[0]] = [*nested.get(key[0], ()), key[1:]]  # type: ignore[list-item]
    for name, rest in nested.items():
        entry = out.get(name)
        node: Any = entry if isinstance(entry, Container) else td._as_node(entry)
        if node is not None:
            narrowed = node._excluded(rest)
            out[name] = narrowed if entry is node else td._rewrap(entry, narrowed)
    return td._with(out)


def rename_key_(td: T, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> T:
    """Move an entry to another (possibly nested) key; returns self.

    Raises:
        KeyError: `old_key` is missing, or `safe` and `new_key` exists.
        TypeError: a key is neither a string nor a tuple of strings.
        RuntimeError: self is locked.
    """
    old, new = (
        ((old_key,), (new_key,)) if type(old_key) is type(new_key) is str else rename_paths(old_key, new_key)
    )
    if old == new:
        return td
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    entry = td._get_entry(old)
    if entry is None:
        raise missing_key(td, old)
    if safe and td._get_entry(new) is not None:
        raise KeyError(f"key {to_key(new)} already present in TensorDict.")
    if len(old) == len(new) == 1 and td._parts() is None:
        td._put(new[0], entry)  # known to fit
        td._remove(old[0])
        return td
    if new[: len(old)] == old:
        # Moved into itself: the old key must be free for the new node.
        td.del_(to_key(old))
        td._set_path(new, entry, False)
        return td
    with Writes() as writes:  # the node of the old key may be locked
        td._set_path(new, entry, False, writes)
        if old[: len(new)] != new:
            td.del_(to_key(old))
    return td


def rename_paths(old_key: object, new_key: object) -> tuple[Path, Path]:
    return _rename_path(old_key, "old_name"), _rename_path(new_key, "new_name")


def rename_keys(td: T, mapping: Mapping[NestedKey, NestedKey], *, strict: bool = True) -> T:
    """Rename several entries at once, in a new TensorDict; leaves are aliased.

    All entries are taken out before the first is put back, so keys can be exchanged. Nodes of which nothing
    is left go, too. The result is not locked.

    Args:
        mapping: the new key of each old one.
        strict: raise KeyError for a missing key (else skip it).

    Raises:
        KeyError: a key is missing, or is empty.
        TypeError: a key is neither a string nor a tuple of strings.
        ValueError: two old or two new keys are equal, or one in the other; a new key is there already, or
            leads through a leaf.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": 1, "b": 2, "n": {"c": 3}})
        >>> td.rename_keys({"a": "b", "b": "a", ("n", "c"): "c"}).to_dict()
        {'b': array(1), 'a': array(2), 'c': array(3)}
    """
    pairs = [(_renamed_path(old), _renamed_path(new)) for old, new in mapping.items()]
    for what, paths in (("old", [old for old, _ in pairs]), ("new", [new for _, new in pairs])):
        for path, following in pairwise(sorted(paths)):
            if following[: len(path)] == path:
                both = f"{to_key(path)!r} and {to_key(following)!r}"
                raise ValueError(f"the {what} keys {both} are equal, or one is in the other.")
    out: T = td._clone(False)
    moved = []
    for old, new in pairs:
        entry = out._get_entry(old)
        if entry is None and strict:
            raise missing_key(td, old)
        if entry is not None and old != new:
            moved.append((old, new, entry))
    for old, _, _ in moved:
        out.del_(to_key(old))
    for old, _, _ in moved:
        for n in range(len(old) - 1, 0, -1):
            node = out._get_entry(old[:n])
            if isinstance(node, Container) and not node._keys() and node.is_empty():
                out.del_(to_key(old[:n]))
    for _, new, entry in moved:
        if not _is_free(out, new):
            raise ValueError(f"the new key {to_key(new)!r} is there already, or leads through a leaf.")
        out._set_path(new, entry, False)
    return out


def _renamed_path(key: object) -> Path:
    if not isinstance(key, str | tuple):
        raise TypeError(f"keys must be strings or tuples of strings, got {type(key)}.")
    return require_path(key)


def flatten_keys(
    td: T, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
) -> T:
    """Move nested entries to the top level under joined keys; empty nodes are dropped.

    Raises:
        KeyError: two keys become equal.

    Example:
        >>> from lite import TensorDict
        >>> list(TensorDict({"a": 1, "n": {"b": 2}}).flatten_keys().keys())
        ['a', 'n.b']
    """
    predicate = is_leaf_nontensor if is_leaf is None else is_leaf
    found = walk(td, True, True, predicate, start=None, separator=separator)
    entries = dict(found)
    if len(entries) < len(found):
        names = [name for name, _ in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise KeyError(f"Flattening keys in tensordict causes keys {twice} to collide.")
    if inplace:
        return _with_entries(td, entries)
    return remember(td, td._with(entries), unflattened(separator))


def unflatten_keys(td: T, separator: str = ".", inplace: bool = False) -> T:
    """Inverse of `flatten_keys`: keys that contain `separator` become nested.

    Raises:
        KeyError: a key would be both an entry and a node.
    """
    out: T = td._with({})
    made: dict[Path, Any] = {(): out}  # the nodes created here, which entries of self fit
    for name, entry in td._items():
        path = tuple(name.split(separator))
        node = None if type(entry) is ndarray else td._as_node(entry)
        # Nodes are copied, so that new entries do not go into the nodes of self.
        value = entry if node is None else td._rewrap(entry, node._clone(False))
        parent = made.get(path[:-1])
        if parent is None:
            parent = _create_node(path[:-1], made)
        if parent is None:
            if not _is_free(out, path):
                raise _overridden(path)
            out._set_path(path, value, False)
        elif path[-1] in parent._data:
            raise _overridden(path)
        else:
            parent._put(path[-1], value)
    if inplace:
        return _with_entries(td, out._data)
    return remember(td, out, flattened(separator))


def _is_free(td: Container, path: Path) -> bool:
    """Whether there is no entry at a path, and the path leads through no leaf."""
    for n in range(1, len(path) + 1):
        taken = td._get_entry(path[:n])
        if taken is not None and (n == len(path) or td._as_node(taken) is None):
            return False
    return True


def split_keys(
    td: T,
    *key_sets: Iterable[NestedKey] | Mapping[NestedKey, NestedKey],
    inplace: bool = False,
    default: object = MISSING,
    strict: bool = True,
    reproduce_struct: bool = False,
) -> tuple[T, ...]:
    """Distribute entries over one TensorDict per key set, plus one with the rest.

    Every entry goes to one of them: later sets do not see entries that an earlier one took.

    Args:
        key_sets: iterables of keys, or mappings from key to new key.
        inplace: remove the taken entries from self, and return self as the rest.
        default: value of missing keys.
        strict: raise KeyError for a missing key without default.
        reproduce_struct: keep the tree of nested TensorDicts in all results, also where they are empty.

    Raises:
        KeyError: a key is missing or in two sets, `strict`, and there is no default.
        RuntimeError: self is locked, and `inplace`.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": 1, "n": {"b": 2, "c": 3}})
        >>> first, rest = td.split_keys([("n", "b")])
        >>> list(first.keys(True, True)), list(rest.keys(True, True))
        ([('n', 'b')], ['a', ('n', 'c')])
    """
    pairs: list[list[tuple[Path, Path]]] = []
    for key_set in key_sets:
        renamed = key_set if isinstance(key_set, Mapping) else {k: k for k in key_set}
        pairs.append([(require_path(k), require_path(v)) for k, v in renamed.items()])
    if inplace and td._locked:
        raise RuntimeError(LOCK_ERROR)
    source: Any = td if inplace else td._clone(False)  # so that results share no nodes with self
    outputs: list[T] = []
    taken: dict[Path, None] = {}
    for group in pairs:
        out: T = td.empty(recurse=True) if reproduce_struct else td._with({})
        for old, new in group:
            entry = _untaken(source, old, taken)
            if entry is None:
                if default is MISSING and strict:
                    raise missing_key(td, old) if td._peek_entry(old) is None else _taken_twice(old)
                if default is MISSING:
                    continue
                entry = default
            else:
                taken[old] = None
            out._set_path(new, entry, False)
        outputs.append(out)
    left = source._excluded(list(taken))._data
    rest: T = td._with(left if reproduce_struct else _without_empty(td, left))
    return (*outputs, _with_entries(td, {k: rest._get_entry(k) for k in rest._keys()}) if inplace else rest)


def _untaken(td: Container, path: Path, taken: Mapping[Path, None]) -> Any:
    """The entry at a path without its taken entries; None if it is missing or taken itself."""
    if any(path[:n] in taken for n in range(1, len(path) + 1)):
        return None
    entry = td._get_entry(path)
    node = td._as_node(entry)
    if node is None:
        return entry
    nested = [other[len(path) :] for other in taken if other[: len(path)] == path]
    return td._rewrap(entry, node._excluded(nested)) if nested else entry


def filter_empty_(td: T) -> T:
    """Remove nested TensorDicts without any leaf; returns self."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    for name in list(td._keys()):
        node = td._as_node(td._peek_entry(name))
        if node is not None and node.is_empty():
            td._remove(name)
        elif node is not None:
            node.filter_empty_()
    return td


def _create_node(path: Path, made: dict[Path, Any]) -> Any:
    """Create the node at a path and its parents; None if another node or leaf is at one of the paths."""
    parent = made.get(path[:-1])
    if parent is None:
        parent = _create_node(path[:-1], made)
    if parent is None or path[-1] in parent._data:
        return None
    node = made[path] = parent._data[path[-1]] = parent._with({})  # with the names of its parent
    return node


def _overridden(path: Path) -> KeyError:
    return KeyError(
        f"Unflattening key(s) in tensordict will override an existing for unflattened key {path}."
    )


def _taken_twice(path: Path) -> KeyError:
    return KeyError(f"key {to_key(path)!r}, or one above it, is in the key sets more than once.")


def _without_empty(td: Container, entries: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, entry in entries.items():
        node = td._as_node(entry)
        if node is None:
            out[name] = entry
        elif not node.is_empty():
            out[name] = td._rewrap(entry, node._clone(False).filter_empty_())
    return out


def _rename_path(key: object, argument: str) -> Path:
    try:
        return require_path(key)
    except KeyError:
        raise TypeError(f"Expected {argument} to be a string or tuple of strings, got {type(key)}.") from None
