"""The live, set-like view that `TensorDict.keys` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from lite._collection import default_is_leaf, is_leaf_nontensor
from lite._keys import Path, to_path

if TYPE_CHECKING:
    from lite._base import TensorDictBase


def walk(
    node: TensorDictBase,
    nested: bool,
    leaves_only: bool,
    is_leaf: Callable[[type], bool] | None,
    peek: bool = False,
) -> list[tuple[Path, Any]]:
    """(path, entry) pairs: leaves in insertion order, a node after its content.

    With `peek` an entry may be a stand-in of its type, which costs a lazy stack nothing.
    """
    predicate = default_is_leaf if is_leaf is None else is_leaf
    known = is_leaf is None or is_leaf is is_leaf_nontensor  # both take arrays for leaves
    found: list[tuple[Path, Any]] = []
    _collect(node, (), nested, leaves_only, predicate, known, peek, found)
    return found


def _collect(
    node: TensorDictBase,
    prefix: Path,
    nested: bool,
    leaves_only: bool,
    is_leaf: Callable[[type], bool],
    known: bool,
    peek: bool,
    found: list[tuple[Path, Any]],
) -> None:
    lazy = peek and node._parts() is not None
    for name, entry in ((name, node._peek(name)) for name in node._keys()) if lazy else node._items():
        kind = type(entry)
        path = (*prefix, name)
        if known and kind is np.ndarray:
            found.append((path, entry))
            continue
        leaf = is_leaf(kind)
        if nested and not leaf:
            child = node._as_node(entry)
            if child is not None:
                _collect(child, path, nested, leaves_only, is_leaf, known, peek, found)
        if leaf or not leaves_only:
            found.append((path, entry))


class TensorDictKeysView(Set[Any]):
    """Keys of a TensorDict; nested keys are tuples, listed before the node that holds them."""

    __slots__ = ("_args", "_sort", "_td")

    def __init__(
        self,
        td: TensorDictBase,
        include_nested: bool,
        leaves_only: bool,
        is_leaf: Callable[[type], bool] | None,
        sort: bool,
    ) -> None:
        self._td = td
        self._args = (include_nested, leaves_only, is_leaf)
        self._sort = sort

    @classmethod
    def _from_iterable(cls, it: Any) -> Any:
        return set(it)

    def __iter__(self) -> Iterator[Any]:
        nested, leaves_only, is_leaf = self._args
        if not nested and not leaves_only:
            keys: list[Any] = list(self._td._keys())
        else:
            keys = [p[0] if len(p) == 1 else p for p, _ in walk(self._td, nested, leaves_only, is_leaf, True)]
        if self._sort:
            keys.sort(key=lambda key: key if isinstance(key, str) else ".".join(key))
        return iter(keys)

    def __len__(self) -> int:
        nested, leaves_only, is_leaf = self._args
        if not nested and not leaves_only:
            return sum(1 for _ in self._td._keys())
        return len(walk(self._td, nested, leaves_only, is_leaf, True))

    def __contains__(self, key: object) -> bool:
        path = to_path(key)
        if not path:
            raise TypeError(
                "TensorDict keys are always strings. Membership checks are only supported for strings or "
                "non-empty tuples of strings (for nested TensorDicts)"
            )
        nested, leaves_only, is_leaf = self._args
        if len(path) > 1 and not nested:
            raise TypeError(
                "Nested membership checks with tuples of strings is only supported when setting "
                "`include_nested=True`."
            )
        entry = self._td._peek_path(path)
        if entry is None:
            return False
        return not leaves_only or (default_is_leaf if is_leaf is None else is_leaf)(type(entry))

    def __repr__(self) -> str:
        nested, leaves_only, _ = self._args
        return f"{type(self).__name__}({list(self)}, include_nested={nested}, leaves_only={leaves_only})"
