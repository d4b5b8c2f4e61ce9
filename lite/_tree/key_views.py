"""The live, set-like view that `TensorDict.keys` returns, and the traversal in the order of keys.

`walk` is not in `walks.py`, as it differs from the traversals there: it yields paths, yields a node after its
content, takes a predicate for leaves, and does not stack the leaves of a lazy stack where only keys are
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from numpy import ndarray

from lite._arrays.types import Path
from lite._tree.collection import default_is_leaf, is_leaf_nontensor
from lite._tree.keys import to_path
from lite._tree.protocol import Container

_NAMES = (False, False, None, False)  # what is listed unless one asks for more


def walk(
    node: Container, nested: bool, leaves_only: bool, is_leaf: Callable[[type], bool] | None,
    peek: bool = False, *, start: Path | None = (), separator: str | None = None,
) -> list[tuple[Any, Any]]:  # fmt: skip
    """(path, entry) pairs: leaves in insertion order, a node after its content.

    Args:
        node: where to start.
        nested: descend into nested nodes.
        leaves_only: leave out nodes.
        is_leaf: predicate on the type of an entry.
        peek: yield entries of `_peek_entry`, so that a lazy stack does not stack its leaves.
        start: prefix of the paths; None yields public keys, which are strings at the top level.
        separator: joins the parts of a path, instead of tuples; needs `start=None`.
    """
    found: list[tuple[Any, Any]] = []
    # for both predicates arrays are leaves and containers are not
    known = is_leaf is None or is_leaf is is_leaf_nontensor
    how = (nested, leaves_only, is_leaf or default_is_leaf, known, peek, separator)
    _collect(node, start, how, found)
    return found


def leaf_pairs(items: Iterable[tuple[str, Any]], prefix: Path | None, found: list[tuple[Any, Any]]) -> None:
    """A faster `walk` for its most frequent case, the arrays of the whole tree."""
    for name, entry in items:
        key: Any = name if prefix is None else (*prefix, name)
        if type(entry) is ndarray:
            found.append((key, entry))
            continue
        child: Any = entry if isinstance(entry, Container) else Container._as_node(entry)
        if child is not None:
            outer = (name,) if prefix is None else key
            leaf_pairs(child._items(), outer, found)
        elif default_is_leaf(type(entry)):
            found.append((key, entry))


def _nested_keys(node: Container, prefix: Path, leaves_only: bool, found: list[Any]) -> None:
    """The public keys of the whole tree, in the order of `walk`."""
    for name, entry in node._items(True):
        if type(entry) is not ndarray:
            child: Any = entry if isinstance(entry, Container) else Container._as_node(entry)
            if child is not None:
                _nested_keys(child, (*prefix, name), leaves_only, found)
            if leaves_only and (child is not None or not default_is_leaf(type(entry))):
                continue
        found.append((*prefix, name) if prefix else name)


def _count_nested(node: Container, leaves_only: bool) -> int:
    """The number of keys. It is worth a function, as `list(view)` calls `len(view)` first."""
    count = 0
    for _, entry in node._items(True):
        if type(entry) is not ndarray:
            child: Any = entry if isinstance(entry, Container) else Container._as_node(entry)
            if child is not None:
                count += _count_nested(child, leaves_only)
            if leaves_only and (child is not None or not default_is_leaf(type(entry))):
                continue
        count += 1
    return count


def _collect(
    node: Container,
    prefix: Any,
    how: tuple[bool, bool, Callable[[type], bool], bool, bool, str | None],
    found: list[tuple[Any, Any]],
) -> None:
    nested, leaves_only, is_leaf, known, peek, separator = how
    for name, entry in node._items(peek):
        key: Any = name if prefix is None else (*prefix, name) if separator is None else prefix + name
        if known and type(entry) is ndarray:
            found.append((key, entry))
            continue
        leaf, child = False, entry
        if not (known and isinstance(entry, Container)):  # saves two calls for each node
            leaf = is_leaf(type(entry))
            child = None if leaf else node._as_node(entry)
        if nested and child is not None:
            outer: Any = (name,) if prefix is None else key
            if separator is not None:
                outer = key + separator
            _collect(child, outer, how, found)
        if leaf or not leaves_only:
            found.append((key, entry))


class TensorDictKeysView(Set[Any]):
    """Keys of a TensorDict; nested keys are tuples, listed before the node that holds them.

    Args:
        td: the TensorDict.
        how: whether to descend, whether to leave out nodes, the predicate on the type of a leaf, and whether
            to sort; None for the names at the root.
    """

    __slots__ = ("_how", "_td")

    def __init__(
        self, td: Container, how: tuple[bool, bool, Callable[[type], bool] | None, bool] | None = None
    ) -> None:
        self._td = td
        self._how = how

    @classmethod
    def _from_iterable(cls, it: Any) -> Any:
        return set(it)

    def __iter__(self) -> Iterator[Any]:
        if self._how is None:
            return iter(self._td._data or self._td._keys())
        nested, leaves_only, is_leaf, sort = self._how
        keys: list[Any] = []
        if nested and is_leaf is None:
            _nested_keys(self._td, (), leaves_only, keys)
        elif nested or leaves_only:
            keys = [key for key, _ in walk(self._td, nested, leaves_only, is_leaf, True, start=None)]
        else:
            keys = list(self._td._keys())
        if sort:
            keys.sort(key=lambda key: key if isinstance(key, str) else ".".join(key))
        return iter(keys)

    def __len__(self) -> int:
        if self._how is None:
            return len(self._td._data or list(self._td._keys()))
        nested, leaves_only, is_leaf, _ = self._how
        if not nested and not leaves_only:
            return len(list(self._td._keys()))
        if nested and is_leaf is None:
            return _count_nested(self._td, leaves_only)
        return len(walk(self._td, nested, leaves_only, is_leaf, True))

    def __contains__(self, key: object) -> bool:
        how = self._how
        if type(key) is str and (how is None or not how[1]):
            entries = self._td._data  # of a lazy stack none, as in `__iter__`
            return key in entries if entries else self._td._peek_entry(key) is not None
        nested, leaves_only, is_leaf, _ = how or _NAMES
        path = to_path(key)
        if not path:
            raise TypeError(
                "TensorDict keys are always strings. Membership checks are only supported for strings or "
                "non-empty tuples of strings (for nested TensorDicts)"
            )
        if len(path) > 1 and not nested:
            raise TypeError(
                "Nested membership checks with tuples of strings is only supported when setting "
                "`include_nested=True`."
            )
        entry = self._td._peek_entry(path)
        if entry is None:
            return False
        return not leaves_only or (default_is_leaf if is_leaf is None else is_leaf)(type(entry))

    def __repr__(self) -> str:
        nested, leaves_only, *_ = self._how or _NAMES
        return f"{type(self).__name__}({list(self)}, include_nested={nested}, leaves_only={leaves_only})"
