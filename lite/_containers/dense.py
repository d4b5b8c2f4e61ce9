"""What a TensorDict does to its dict of entries as a whole: index, reshape, split, copy, map.

Nearly all entries are plain arrays, so each loop asks for those first, by exact type, and sends the
rest to the protocol of `TensorCollection`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from operator import itemgetter, methodcaller
from typing import Any, Self

import numpy as np
from numpy import ndarray

from lite._arrays.device import on_leaves, parse_device
from lite._arrays.types import Array, Names, Shape
from lite._containers.assignment import set_index
from lite._containers.batch_size import BatchSizeMixin, parse_batch_size
from lite._tree.batch_ops import BatchOp, Index, Piece, Take
from lite._tree.collection import TensorCollection
from lite._tree.indexing import basic_shape, result_names, slice_length, views
from lite._tree.keys import NestedKey, to_path
from lite._tree.names import check_names
from lite._tree.protocol import MISSING
from lite._tree.writes import Writes

_ALL = slice(None)
_new = object.__new__
_copy = methodcaller("copy")


class DenseMixin(BatchSizeMixin):
    """Operations on every entry of a dict at once."""

    __slots__ = ("_device",)
    _device: str | None

    @classmethod
    def _make(
        cls, data: dict[str, Any], batch_size: Shape, device: str | None = None, names: Names = None
    ) -> Self:
        """The constructor that trusts its arguments: entries are known to fit."""
        self = _new(cls)
        self._data = data
        self._batch_size = batch_size
        self._device = device
        self._names = names
        self._locked = False
        self._lock_parents = ()
        return self

    def _with(self, entries: dict[str, Any]) -> Self:
        # As `_make`, whose call would cost a third of it: every select, copy and rename ends here.
        out = _new(type(self))
        out._data = entries
        out._batch_size = self._batch_size
        out._device = self._device
        out._names = self._names
        out._locked = False
        out._lock_parents = ()
        return out

    def __getitem__(self, index: Any) -> Any:
        kind = type(index)
        if kind is tuple:
            first = type(index[0]) if index else None
            if first is int or first is slice:  # no key path begins like that
                return self._index(index)
            entry = self._reach(index)
        elif kind is str:
            entry = self._data.get(index)
        elif kind is int or not isinstance(index, str):
            return self._index(index)
        else:
            entry = None
        kind = type(entry)
        return entry if kind is ndarray or kind is type(self) else super().__getitem__(index)

    def get(self, key: NestedKey, default: Any = MISSING, **lazy_kwargs: Any) -> Any:
        """Return the entry at `key`; see `LazyStackedTensorDict.get` for the other arguments.

        A missing key gives `default`, or None.

        Raises:
            KeyError: `key` is not a nested key, or it is missing while `set_get_defaults_to_none(False)`
                is in force.

        Example:
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": {"b": 1}})
            >>> td.get(("a", "b")), td.get("missing")
            (array(1), None)
        """
        entry = self._data.get(key) if type(key) is str else self._reach(key)
        if entry is None and type(key) is tuple:
            entry = self._reach(to_path(key))  # with tuples in it
        if entry is None or lazy_kwargs:
            return super().get(key, default, **lazy_kwargs)
        return entry

    def _reach(self, path: Any) -> Any:
        """The entry at a flat path through nothing but TensorDicts; None for all other keys."""
        if type(path) is str:
            return self._data.get(path)
        node: Any = self if path and type(path) is tuple else None
        for name in path if node is not None else ():
            if type(name) is not str or not isinstance(node, DenseMixin):
                return None
            node = node._data.get(name)
        return node

    def __contains__(self, key: object) -> bool:
        return key in self._data if type(key) is str else super().__contains__(key)

    def _entries(self) -> dict[str, Any]:
        return self._data

    def _flat(self) -> dict[str, Any] | None:
        for value in self._data.values():
            if type(value) is not ndarray:
                return None
        return self._data

    def _arrays(self) -> int:
        """The number of arrays at any depth; 0 if there is anything but arrays and TensorDicts."""
        count = 0
        for value in self._data.values():
            if type(value) is ndarray:
                count += 1
            elif type(value) is type(self):
                below = value._arrays()
                if not below:  # or nothing in it, which is rare
                    return 0
                count += below
            else:
                return 0
        return count

    def is_empty(self) -> bool:
        """True if there is no leaf at any depth; non-tensor data counts as a leaf."""
        for value in self._data.values():
            if type(value) is ndarray:
                return False
            node = self._as_node(value)
            if node is None or not node.is_empty():
                return False
        return True

    def _run(self, op: BatchOp) -> Self:
        array = op.array
        data: dict[str, Any] = {}
        for key, value in self._data.items():
            if type(value) is ndarray:
                data[key] = array(value)
            elif isinstance(value, TensorCollection):
                data[key] = value._run(op)
            else:
                data[key] = on_leaves(array, value)
        size = self._batch_size
        names = self._names
        if names is not None:
            head = op.names(names[: op.ndim]) or [None] * len(op.shape)
            names = check_names([*head, *names[op.ndim :]], len(op.shape) + len(size) - op.ndim)
        out = self._make(data, op.shape + size[op.ndim :], self._device, names)
        if self._locked and op.keeps_lock:
            out.lock_()
        return out

    def _index(self, index: Any) -> Any:
        size = self._batch_size
        if not size:
            return super()._index(index)
        # The most frequent indices need no normalisation.
        kind = type(index)
        names = self._names
        if kind is int:
            n = size[0]
            if not -n <= index < n:
                raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}.")
            return self._basic(index, (index, Ellipsis), size[1:], names and names[1:])
        if kind is slice:
            if index.start is index.stop is index.step is None:
                return self
            return self._basic(index, index, (slice_length(index, size[0]), *size[1:]), names)
        if kind is tuple and len(index) <= len(size):
            shape = basic_shape(index, size)
            if shape is not None:
                if shape == size and index.count(_ALL) == len(index):
                    return self
                if names is not None:
                    names = [name for name, item in zip_longest(names, index) if type(item) is not int]
                return self._basic(index, (*index, Ellipsis), shape, names)
        if kind is tuple and (found := views(index, size)) is not None:
            items, shape = found
            if shape == size and items.count(_ALL) == len(items):
                return self
            if names is not None:
                names = result_names(items, names, len(shape))
            return self._basic(items, (*items, Ellipsis), shape, names)
        if kind is range or (kind is list and set(map(type, index)) == {int}):
            index = np.asarray(index)
            kind = ndarray
        # An array checks the bounds of `rows`, so there must be one.
        if kind is ndarray and index.ndim == 1 and self._arrays():
            if index.dtype.kind == "b" and index.shape == size[:1]:
                return self._run(Take(size, 0, index.nonzero()[0]))
            if index.dtype.kind == "i":
                return self._run(Take(size, 0, index))
        return super()._index(index)

    def _basic(self, index: Any, at: Any, shape: Shape, names: Names, kind: type[Index] = Index) -> Self:
        """The views at an index of integers and slices; `at` is what it is for an array.

        Same as running an operation of `kind`, which costs as much as three views to make and so is made
        only where an entry is neither an array nor a TensorDict. With an ellipsis NumPy returns an array
        also where no dimension is left.
        """
        data: dict[str, Any] = {}
        for key, value in self._data.items():
            if type(value) is ndarray:
                data[key] = value[at]
            elif kind is Index and isinstance(value, DenseMixin):
                data[key] = value._index(index)
            else:
                op = kind(len(self._batch_size), shape, index if type(index) is tuple else (index,), names)
                data[key] = (
                    value._run(op) if isinstance(value, TensorCollection) else on_leaves(op.array, value)
                )
        if names is not None:
            names = check_names(names, len(shape))
        out = self._make(data, shape, self._device, names)
        if self._locked and kind.keeps_lock:
            out.lock_()
        return out

    def _slice(self, dim: int, start: int, stop: int) -> Self:
        size = self._batch_size
        at = (_ALL,) * dim + (slice(start, stop),)
        return self._basic(at, at, size[:dim] + (stop - start,) + size[dim + 1 :], self._names, Piece)

    def _take(self, dim: int, indices: Array) -> Self:
        return self._run(Take(self._batch_size, dim, indices))

    def _rows(self, dim: int) -> list[dict[str, Any]]:
        """The entries of every index of batch dimension `dim`."""
        n = self._batch_size[dim]
        rows: list[dict[str, Any]] = [{} for _ in range(n)]
        for key, value in self._data.items():
            column = value.unbind(dim) if isinstance(value, TensorCollection) else _unbound(value, dim, n)  # type: ignore[attr-defined]
            for row, item in zip(rows, column, strict=True):
                row[key] = item
        return rows

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split into one TensorDict per index of batch dimension `dim`, which disappears."""
        d = self._dim(dim)
        size = self._batch_size
        names = self._names
        if names is not None:
            names = check_names(names[:d] + names[d + 1 :], len(size) - 1)
        rest = size[:d] + size[d + 1 :]
        make, device = self._make, self._device
        return tuple([make(row, rest, device, names) for row in self._rows(d)])

    def _set_index(self, index: Any, value: Any, writes: Writes | None = None) -> None:
        set_index(self, index, value, writes)

    def _save(self) -> Any:
        return (
            self._data.copy(), self._batch_size, self._device, self._names, self._locked, self._lock_parents
        )  # fmt: skip

    def _reset(self, saved: Any) -> None:
        (
            self._data, self._batch_size, self._device, self._names, self._locked, self._lock_parents
        ) = saved  # fmt: skip

    def _rebatch(self, batch_size: Shape) -> Self:
        out = self._clone(False)
        out.batch_size = batch_size
        return out

    def _clone(self, recurse: bool) -> Self:
        data = self._data.copy()
        for key, value in data.items():
            if type(value) is not ndarray and isinstance(value, TensorCollection):
                data[key] = value._clone(recurse)
            elif recurse:
                data[key] = value.copy() if type(value) is ndarray else on_leaves(_copy, value)
        out = self._with(data)
        if out._names is not None:
            out._names = list(out._names)
        return out

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        data = {
            key: fn(value)
            if type(value) is ndarray
            else value._map_leaves(fn)
            if isinstance(value, TensorCollection)
            else on_leaves(fn, value)
            for key, value in self._data.items()
        }
        return self._make(data, self._batch_size, self._device, self._names)

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = None, names: Any = None
    ) -> Self:
        """Same metadata without leaves; `recurse=True` keeps the tree of nested TensorDicts."""
        own = self._names
        if not recurse and batch_size is device is names is None:
            # As `_with`, whose call would cost a third of it.
            out = _new(type(self))
            out._data = {}
            out._batch_size = self._batch_size
            out._device = self._device
            out._names = own and own.copy()
            out._locked = False
            out._lock_parents = ()
            return out
        size = self._batch_size if batch_size is None else parse_batch_size(batch_size)
        kept = own if names is None and size == self._batch_size else names
        out = self._make({}, size, self._device if device is None else parse_device(device))
        if kept is not None:
            out._names = check_names(kept, len(size))
        if recurse:
            for key, value in self._data.items():
                node = self._as_node(value)
                if node is not None:
                    inner = None if batch_size is None else size + node.batch_size[len(self._batch_size) :]
                    out._data[key] = self._rewrap(value, node.empty(True, batch_size=inner, device=device))
        return out


def _unbound(value: Any, dim: int, n: int) -> Any:
    """The views of an array at every index of one dimension, to iterate over."""
    if type(value) is ndarray and value.ndim > 1:
        return value if dim == 0 else np.moveaxis(value, dim, 0)
    # Iterating over one dimension gives scalars, and leaves are arrays.
    at = (slice(None),) * dim
    pick = [itemgetter((*at, i, Ellipsis)) for i in range(n)]
    if isinstance(value, ndarray):
        return [fn(value) for fn in pick]
    return [on_leaves(fn, value) for fn in pick]
