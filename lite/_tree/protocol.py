"""The protocol of containers, which dense containers and lazy stacks implement.

Operations are functions of a `Container` and call the methods listed here: entries, writes, conversions,
metadata, names, lock, `with` statements. Methods that raise NotImplementedError are implemented by the two
classes of `lite._containers`. The last section declares operations that lower packages call as methods,
because subclasses override them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, Self, TypeVar

from numpy import ndarray

from lite._arrays.types import Array, Names, Path, Shape
from lite._tree import lock, undo
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection
from lite._tree.names import check_names, refine_names, set_names
from lite._tree.nontensor import NonTensorBase, unwrap
from lite._tree.shape import BatchShape
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.writes import Update, Writes

T = TypeVar("T", bound="Container")


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final[Any] = _Missing()


class ClassRegistry:
    """The public classes, for lower packages, which make instances of them but cannot import them.

    `lite._tensordict` sets its classes, once.
    """

    dense: type[Any]
    lazy: type[Any]

    @cached_property
    def tensorclass(self) -> type[Any]:
        """`TensorClass`; a lazy hook, as many programs have none."""
        from lite._tensorclass.tensorclass import TensorClass

        return TensorClass


class_registry = ClassRegistry()


class Container(BatchShape):
    """A mapping from keys to entries, which are arrays or `TensorCollection`s of one batch size."""

    __slots__ = (
        "__weakref__", "_before", "_contexts", "_lock_parents", "_locked", "_names", "_origin", "_source",
    )  # fmt: skip
    _converts: ClassVar[bool] = False  # whether a subclass converts arrays when they are stored
    _names: Names
    _data: dict[str, Any]  # the entries of a dense container; empty for a lazy stack
    _source: Any  # the folder that the leaves are mapped to, the buffer that they are views of, or None
    _locked: bool
    _before: bool | None  # whether it was locked before the last `lock_` or `unlock_`
    _lock_parents: Sequence[weakref.ref[Any]]
    _contexts: list[tuple[bool | None, Any]]
    _origin: tuple[weakref.ref[Any], BatchOp | undo.Inverse] | undo.Leave | None

    # -- entries ----------------------------------------------------------------------------------

    def _keys(self) -> Iterable[str]:
        """Direct keys, in order."""
        raise NotImplementedError

    def _items(self, peek: bool = False) -> Iterable[tuple[str, Any]]:
        """Direct (key, entry) pairs, in order; with `peek`, entries of `_peek_entry`."""
        raise NotImplementedError

    def _get_entry(self, key: str | Path) -> Any:
        """The entry at a direct key or a path; None if it is missing or the path leads through a leaf."""
        raise NotImplementedError

    def _peek_entry(self, key: str | Path) -> Any:
        """Like `_get_entry`, but a leaf of a lazy stack is the leaf of one part, as stacking takes time.

        It tells whether there is an entry, and its class.
        """
        raise NotImplementedError

    def _put(self, key: str, entry: object) -> None:
        """Store a converted and checked entry, also if self is locked."""
        raise NotImplementedError

    def _remove(self, key: str) -> None:
        """Drop a direct entry; KeyError(key) if there is none."""
        raise NotImplementedError

    def _to_entry(self, value: object) -> Any:
        """Convert a user's value to an entry, without checking its shape."""
        raise NotImplementedError

    def _convert(self, value: object) -> Any:
        """Convert a user's value to an entry that fits the batch size and device."""
        raise NotImplementedError

    # -- writing, as part of the writes of a call (lite/_containers/assignment.py, lazy_writes.py) ------

    def _set_here(self, key: str, item: object, inplace: bool, writes: Writes | None = None) -> None:
        """Store a user's value as the direct entry `key`, or write it into the array there if `inplace`."""
        raise NotImplementedError

    def _set_path(self, path: Path, item: object, inplace: bool, writes: Writes | None = None) -> None:
        """`_set_here` at a path. Missing nodes are created."""
        raise NotImplementedError

    def _set_at(self, path: Path, value: object, index: object, writes: Writes) -> None:
        """Write a value at an index of the entry at a path."""
        raise NotImplementedError

    def _set_index(self, index: object, value: object, writes: Writes | None = None) -> None:
        """Write a value, or the entries of a container, at an index of the batch."""
        raise NotImplementedError

    def _take_batch(self, source: object, how: Update) -> None:
        """Give every node the batch size of the source. Nodes whose size changes lose their leaves.

        The caller sets the entries of the source next, which replace them.

        Raises:
            RuntimeError: sizes differ, and either the source lacks a key, or `inplace` or `chosen` is given.
        """
        raise NotImplementedError

    def _update(self, source: object, how: Update) -> None:
        """Set the chosen entries of a source; nested ones merge."""
        raise NotImplementedError

    # -- conversions and parts ------------------------------------------------------------------

    @staticmethod
    def _as_node(entry: object) -> Any:
        """The container behind an entry (a nested TensorDict, or a tensorclass's), else None."""
        if isinstance(entry, Container):
            return entry
        return getattr(entry, "_tensordict", None) if isinstance(entry, TensorCollection) else None

    @staticmethod
    def _rewrap(entry: object, node: Any) -> Any:
        """Give a transformed node the class of the entry it came from (for tensorclasses)."""
        wrap = getattr(entry, "_wrap_tensordict", None)
        return node if wrap is None else wrap(node)

    def _with(self, entries: dict[str, Any]) -> Self:
        """An unlocked container of the same batch size, device and names, which takes over `entries`."""
        raise NotImplementedError

    def _parts(self) -> tuple[Sequence[Any], int] | None:
        """The stacked containers and their stack dimension; None unless self is a lazy stack.

        Operations on each entry (pointwise operations, apply, casts, repr) visit the parts, as ragged entries
        and entries of one part cannot be stacked.
        """
        return None

    def _from_parts(self, parts: Sequence[Any]) -> Self:
        """An unlocked lazy stack of other containers of one batch size, with the stack dimension of self."""
        raise NotImplementedError

    def _replace_content(self, out: Self) -> Self:
        """Replace the content of self by that of `out`, a result computed from self, and return self.

        Nested containers keep their identity and get the content of the nested results. The caller has
        checked the locks.
        """
        raise NotImplementedError

    def _save(self) -> Any:
        """The state that `_reset` restores; arrays are not copied."""
        raise NotImplementedError

    def _reset(self, saved: object) -> None:
        """Restore a state that `_save` returned."""
        raise NotImplementedError

    # -- metadata -------------------------------------------------------------------------------

    @property
    def batch_size(self) -> Shape:
        """Shape that all entries share as their leading dimensions."""
        raise NotImplementedError

    @batch_size.setter
    def batch_size(self, value: object) -> None:
        raise NotImplementedError

    @property
    def device(self) -> str | None:
        """Device that entries are moved to, or None."""
        raise NotImplementedError

    # -- names of the dimensions (names.py) -----------------------------------------------------

    @property
    def names(self) -> list[str | None]:
        """One name (or None) per batch dimension; ValueError where parts of a lazy stack disagree."""
        found = self._names
        return [None] * self.ndim if found is None else list(found)

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        set_names(self, check_names(value, self.ndim))

    refine_names = refine_names

    # -- the lock (lock.py) ---------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        """Whether the key set is frozen."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def _lock_children(self) -> list[Any]:
        """The direct nested nodes, which are locked with self."""
        raise NotImplementedError

    lock_ = lock.lock_
    unlock_ = lock.unlock_

    # -- `with` statements (undo.py) ------------------------------------------------------------

    _shaped = undo.shaped
    __enter__ = undo.enter
    __exit__ = undo.leave

    # -- operations that lower packages call by name; `lite._tensordict` lists them ---------------

    # mypy reads these. Pyright would take them for the types of TensorDict's methods, and reads no branch for
    # a system that is not the one at hand.
    if os.name == "any":
        __getitem__: Callable[..., Any]
        apply: Callable[..., Any]
        argsort: Callable[..., Any]
        clamp: Callable[..., Any]
        clear: Callable[..., Self]
        clone: Callable[..., Self]
        contiguous: Callable[..., Any]
        del_: Callable[..., Self]
        detach: Callable[..., Self]
        empty: Callable[..., Self]
        entry_class: Callable[..., type]
        exclude: Callable[..., Self]
        filter_non_tensor_data: Callable[..., Self]
        flip: Callable[..., Self]
        get: Callable[..., Any]
        get_item_shape: Callable[..., Shape]
        consolidate: Callable[..., Self]
        is_memmap: Callable[..., bool]
        isclose: Callable[..., Self]
        items: Callable[..., Any]
        keys: Callable[..., Any]
        load_memmap_: Callable[..., Self]
        masked_fill_: Callable[..., Self]
        memmap: Callable[..., Any]
        pop: Callable[..., Any]
        repeat: Callable[..., Self]
        roll: Callable[..., Self]
        select: Callable[..., Self]
        set: Callable[..., Self]
        set_: Callable[..., Self]
        to: Callable[..., Self]
        to_dict: Callable[..., Any]
        tolist: Callable[..., Any]
        update: Callable[..., Self]
        update_: Callable[..., Self]
        update_at_: Callable[..., Self]
        where: Callable[..., Any]
        _excluded: Callable[..., Self]
        _on: Callable[..., Self]
        _rows: Callable[..., Any]
        _selected: Callable[..., Self]
        _take: Callable[..., Self]

    def __contains__(self, key: object) -> bool:
        raise NotImplementedError

    def is_empty(self) -> bool:
        raise NotImplementedError


def item_shape(td: Container, key: str) -> Shape | None:
    """Shape of a direct entry, -1 where stacked ones differ; None if there is no such entry."""
    stacked = td._parts()
    if stacked is None:
        entry = td._get_entry(key)
        return None if entry is None else tuple(entry.shape)
    parts, dim = stacked
    shapes = [shape for part in parts if (shape := item_shape(part, key)) is not None]
    if not shapes or len(shapes) < len(parts):
        return None
    if all(isinstance(part._peek_entry(key), UnbatchedTensor) for part in parts):
        return shapes[0]
    if len(set(map(len, shapes))) > 1:
        return (-1,)
    merged = [n[0] if len(set(n)) == 1 else -1 for n in zip(*shapes, strict=True)]
    return (*merged[:dim], len(shapes), *merged[dim:])


def plain_arrays(td: Container) -> dict[str, Array] | None:
    """The dict of entries, not to be changed, if there are some and all are plain NumPy arrays; else None."""
    for value in td._data.values():
        if type(value) is not ndarray:
            return None
    return td._data or None


def missing_key(td: Container, path: Path) -> KeyError:
    """The KeyError for a path, listing the keys of the node where the search ended."""
    node = td
    for name in path[:-1]:
        entry = node._peek_entry(name)
        child = td._as_node(entry)
        if child is None and entry is not None:
            kind = type(unwrap(entry) if isinstance(entry, NonTensorBase) else entry).__name__
            return KeyError(f"key {path} not found: the entry {name!r} is not a TensorDict but a {kind}.")
        if child is None:
            break
        node = child
    else:
        name = path[-1]
    shown = repr(name).replace("'", '"')
    keys = sorted(node._keys())
    return KeyError(f"key {shown} not found in TensorDict with keys {keys}{key_hint(node, name)}")


def key_hint(td: Container, name: str) -> str:
    """The end of an error message about a missing key: a nested or similar key that may be meant."""
    paths = [tuple(name.split(separator)) for separator in "./" if separator in name]
    nodes = [(key, td._as_node(td._peek_entry(key))) for key in td._keys()]
    paths += [(key, name) for key, node in nodes if node is not None]
    for path in paths:
        if td._peek_entry(path) is not None:
            # A KeyError prints the repr of its text, which escapes single quotes.
            return f"; nested entries are read with a tuple: {path}".replace("'", '"')
    from difflib import get_close_matches  # imported here, as `import lite` is faster without

    similar = get_close_matches(name, td._keys(), 1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
