"""Reading entries by key, and the views of keys, values and items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from lite._arrays.settings import get_defaults_to_none
from lite._arrays.types import Path, Shape
from lite._containers.ragged import read
from lite._tree.key_views import TensorDictKeysView, leaf_pairs, walk
from lite._tree.keys import NestedKey, require_path, to_path
from lite._tree.nontensor import NonTensorBase, unwrap
from lite._tree.protocol import MISSING, TensorDictCore


class ReadMixin(TensorDictCore):
    """`get`, item access, membership, `keys`, `values` and `items`."""

    __slots__ = ()

    def _get_path(self, path: Path) -> Any:
        """The entry at a path, or None; going through anything that has no keys is a miss."""
        node: Any = self
        for name in path[:-1]:
            node = self._as_node(node._peek(name))
            if node is None:
                return None
        return node._get_str(path[-1])

    def _peek_path(self, path: Path) -> Any:
        """Like `_get_path`, for those who only need to know whether there is an entry and of what kind."""
        node: Any = self
        for name in path[:-1]:
            node = self._as_node(node._peek(name))
            if node is None:
                return None
        return node._peek(path[-1])

    def _missing(self, path: Path) -> KeyError:
        """The KeyError for a path, listing the keys of the node where the search ended."""
        node: TensorDictCore = self
        for name in path[:-1]:
            entry = node._peek(name)
            child = self._as_node(entry)
            if child is None and entry is not None:
                kind = type(unwrap(entry) if isinstance(entry, NonTensorBase) else entry).__name__
                return KeyError(f"key {path} not found: the entry {name!r} is no TensorDict but a {kind}.")
            if child is None:
                break
            node = child
        else:
            name = path[-1]
        shown = repr(name).replace("'", '"')
        return KeyError(f"key {shown} not found in TensorDict with keys {sorted(node._keys())}")

    def get(self, key: NestedKey, default: Any = MISSING, **lazy_kwargs: Any) -> Any:
        """Return the entry at `key`: an array, a nested TensorDict, or a non-tensor wrapper.

        Args:
            key: a string, or a tuple for a nested entry.
            default: returned when the key is missing (None unless given).
            lazy_kwargs: how a lazy stack gives ragged leaves (see `LazyStackedTensorDict.get`);
                without effect on leaves that are one array already.

        Raises:
            KeyError: if `key` is not a nested key, or is missing while
                `set_get_defaults_to_none(False)` is in force.

        Example:
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": {"b": 1}})
            >>> td.get(("a", "b")), td.get("missing")
            (array(1), None)
        """
        path = (key,) if type(key) is str else require_path(key)
        if lazy_kwargs:
            node = self if len(path) == 1 else self._as_node(self._peek_path(path[:-1]))
            entry = None if node is None else read(node, path[-1], **lazy_kwargs)
        else:
            entry = self._get_path(path)
        if entry is not None:
            return entry
        if default is MISSING:
            if get_defaults_to_none():
                return None
            raise self._missing(path)
        return default

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """`get(key, default)`, indexed with `index` if there is such an entry."""
        entry = self._get_path(require_path(key))
        return self.get(key, default) if entry is None else entry[index]

    def get_item_shape(self, key: NestedKey) -> Shape:
        """Shape of an entry; in a lazy stack -1 where the parts differ, (-1,) where their ndim does."""
        path = require_path(key)
        node = self if len(path) == 1 else self._as_node(self._peek_path(path[:-1]))
        shape: Shape | None = None if node is None else node._item_shape(path[-1])
        if shape is None:
            raise self._missing(path)
        return shape

    def __getitem__(self, index: Any) -> Any:
        path = to_path(index) if isinstance(index, str) or type(index) is tuple else ()
        if not path:
            return self._index(index)
        entry = self._get_path(path)
        if entry is None:
            raise self._missing(path)
        return unwrap(entry) if isinstance(entry, NonTensorBase) else entry

    def __getitems__(self, index: Any) -> Any:
        """Batched fetch, for data loaders that ask for a list of indices."""
        return self._index(index)

    def get_non_tensor(self, key: NestedKey, default: Any = MISSING) -> Any:
        """Return the object stored under `key`, unwrapped."""
        entry = self.get(key, default)
        return unwrap(entry) if isinstance(entry, NonTensorBase) else entry

    def __contains__(self, key: object) -> bool:
        if type(key) is str:
            return self._peek(key) is not None
        path = to_path(key)
        if not path:
            raise RuntimeError("key must be a NestedKey (a str or a possibly tuple of str).")
        return self._peek_path(path) is not None

    def keys(
        self,
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
        return TensorDictKeysView(self, include_nested, leaves_only, is_leaf, sort)  # type: ignore[arg-type]

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[tuple[Any, Any]]:
        """The (key, entry) pairs, in the order of `keys` with the same arguments.

        Without arguments this is a live view, as `dict.items` gives it; a lazy stack and other arguments
        give the pairs of the moment, so that entries may be set while they are gone through.
        """
        if not (include_nested or leaves_only or sort):
            return self._items()
        if include_nested and leaves_only and is_leaf is None and not sort:
            pairs: list[tuple[Any, Any]] = []
            leaf_pairs(self._items(), None, pairs)
            return pairs
        found = walk(self, include_nested, leaves_only, is_leaf, start=None)
        if sort:
            found.sort(key=lambda pair: pair[0] if type(pair[0]) is str else ".".join(pair[0]))
        return found if sort or (include_nested and leaves_only) else iter(found)

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: Callable[[type], bool] | None = None,
        *,
        sort: bool = False,
    ) -> Iterable[Any]:
        """The entries, in the order of `keys` with the same arguments; see `items`."""
        if not (include_nested or leaves_only or sort):
            return self._values()
        return map(itemgetter(1), self.items(include_nested, leaves_only, is_leaf, sort=sort))

    @property
    def sorted_keys(self) -> list[str]:
        """Direct keys, sorted."""
        return sorted(self._keys())

    def is_empty(self) -> bool:
        """True if there is no leaf at any depth; non-tensor data counts as a leaf."""
        for name in self._keys():
            node = self._as_node(self._peek(name))
            if node is None or not node.is_empty():
                return False
        return True
