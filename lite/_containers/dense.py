"""The container that holds its entries in a dict, and its operations on all entries.

Nearly all entries are plain arrays, so each loop tests for their exact type first and uses the protocol
`Entry` for all others. Past 600 lines because it is one class, and every method reads the slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from operator import itemgetter, methodcaller
from typing import Any, Self

import numpy as np
from numpy import ndarray

from lite._arrays.device import move, on_leaves, parse_device
from lite._arrays.dtypes import NUMBERS
from lite._arrays.types import Array, Names, Path, Shape
from lite._containers import assignment
from lite._tree.batch_ops import BatchOp, Index, Take
from lite._tree.collection import Entry, TensorCollection
from lite._tree.entry_errors import entry_error, error_path, prefix_error_path
from lite._tree.indexing import result_names, slice_length, views
from lite._tree.keys import require_path
from lite._tree.lock import lock_nested, require_unlocked
from lite._tree.names import check_names, collect_names, set_names
from lite._tree.nontensor import NonTensorData
from lite._tree.protocol import Container, class_registry, plain_arrays
from lite._tree.shape import parse_batch_size
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.values import as_tree, fit_leaf, fit_node, invalid_keys, is_valid_leaf, to_entry
from lite._tree.writes import Writes, fitting

_ALL = slice(None)
_SHARED = (NonTensorData, UnbatchedTensor)  # entries with one value for the whole batch
_new = object.__new__
_copy = methodcaller("copy")


class Dense(Container):
    """A container that holds its entries in a dict."""

    __slots__ = ("_batch_size", "_data", "_device")
    _data: dict[str, Any]
    _batch_size: Shape
    _device: str | None

    @classmethod
    def _make(
        cls, data: dict[str, Any], batch_size: Shape, device: str | None = None, names: Names = None
    ) -> Self:
        """The constructor without checks, for entries that are known to fit."""
        self = _new(cls)
        self._data = data
        self._batch_size = batch_size
        self._device = device
        self._names = names
        self._locked = False
        self._lock_parents = ()
        return self

    def _with(self, entries: dict[str, Any]) -> Self:
        # A copy of `_make`, whose call would make `select` and `copy` of a few entries 14 to 21% slower.
        out = _new(type(self))
        out._data = entries
        out._batch_size = self._batch_size
        out._device = self._device
        out._names = self._names
        out._locked = False
        out._lock_parents = ()
        return out

    def _take_over(self, source: object) -> None:
        """Store the entries of a source other than a dict in this empty container."""
        node = self._as_node(source)
        if node is not None:
            for key in node._keys():
                with error_path(key):
                    self._data[key] = self._convert(node._get_entry(key))
        elif isinstance(source, Mapping):
            self._fill(source)
        else:
            raise ValueError(
                "A TensorDict source is expected to be a TensorDictBase sub-type or a dictionary, found "
                f"type(source)={type(source)}. TensorDict.from_list takes a list of rows, "
                "from_any pandas' data frames, dataclasses and structured arrays, lite.from_arrow tables."
            )

    def _fill(self, source: Mapping[Any, Any]) -> None:
        """Store the entries of a mapping in this empty container."""
        others = invalid_keys(source, self._batch_size, self._device) if type(source) is dict else None
        if others is not None:
            self._data = data = dict(source)
            if not others:
                return
            for key in others:
                try:
                    data[key] = self._convert(data[key])
                except Exception as error:
                    prefix_error_path(error, key)
                    raise
            for key in others:
                entry = data[key]
                if (
                    type(entry) is not class_registry.dense
                    or self._names is not None
                    or entry._names is not None
                ):
                    self._put(key, entry)
            return
        if type(source) is dict and (tree := as_tree(source)) is not None:
            self._fill(tree)
            return
        for key, value in source.items():
            self._set_path(require_path(key), value, False)

    # -- protocol -----------------------------------------------------------------------------

    def _keys(self) -> Iterable[str]:
        return self._data

    def _get_entry(self, key: str | Path) -> Any:
        return self._data.get(key) if isinstance(key, str) else self._below(key, "_get_entry")

    def _peek_entry(self, key: str | Path) -> Any:
        return self._data.get(key) if isinstance(key, str) else self._below(key, "_peek_entry")

    def _below(self, path: Path, method: str) -> Any:
        """The entry at a path, of which nodes that are not dense read the rest by their method."""
        node: Any = self
        for depth, name in enumerate(path):
            if not isinstance(node, Dense):
                inner = self._as_node(node)
                return None if inner is None else getattr(inner, method)(path[depth:])
            node = node._data.get(name)
        return node

    def _items(self, peek: bool = False) -> Iterable[tuple[str, Any]]:
        return self._data.items()

    _set_path = assignment.set_path
    _set_at = assignment.set_at
    _set_index = assignment.set_index
    _take_batch = assignment.take_batch
    _update = assignment.update

    def _set_here(self, key: str, item: object, inplace: bool, writes: Writes | None = None) -> None:
        if inplace:
            current: Any = self._data.get(key)
            if writes is None:
                ready = fitting(current, item)
                if ready is not None:
                    current[...] = ready
                    return
            elif writes.try_copy(current, item):
                return
        # `is_valid_leaf` without its call, which takes a fifth of the time.
        elif (
            type(item) is ndarray
            and not self._locked
            and (not (size := self._batch_size) or item.shape[: len(size)] == size)
            and item.dtype in NUMBERS
            and (self._device is None or self._device == "cpu")
        ):
            if writes is not None:
                writes.keep(self)
            self._data[key] = item
            return
        assignment.set_here(self, key, item, inplace, writes)

    def _put(self, key: str, entry: object) -> None:
        if type(entry) is ndarray:
            self._data[key] = entry
            return
        node = entry if isinstance(entry, Dense) else self._as_node(entry)
        if node is None:
            self._data[key] = entry
            return
        named: list[tuple[Any, Names]] = []
        if self._names is not None:
            entry, node = self._named(entry, node)  # raises before anything changes
        elif node._names is not None and self._batch_size:
            head = check_names(list(node._names[: self.ndim]), self.ndim)
            if head is not None:
                collect_names(self, head, named, but=key)
        self._data[key] = entry
        if self._locked:
            lock_nested(getattr(node, "_tensordict", node), self)
        for other, names in named:
            other._names = names

    def _remove(self, key: str) -> None:
        del self._data[key]

    def _to_entry(self, value: object) -> Any:
        return to_entry(value, self._batch_size, self._node_from)

    def _node_from(self, mapping: Mapping[Any, Any]) -> Any:
        node = class_registry.dense._make({}, self._batch_size, self._device, self._names)
        if type(mapping) is not dict or mapping:
            node._fill(mapping)
        return node

    def _convert(self, value: Any) -> Any:
        if type(value) is dict:
            return self._node_from(value)  # of self's batch size and device
        size = self._batch_size
        if is_valid_leaf(value, size, self._device):
            return value
        if (
            type(value) is class_registry.dense
            and value is not self
            and value._batch_size[: len(size)] == size
            and (self._device is None or value._device == self._device)
        ):
            return value
        entry = value if isinstance(value, TensorCollection) else self._to_entry(value)
        if isinstance(entry, Entry):
            if entry is self:
                raise ValueError("a TensorDict cannot be stored inside itself.")
            entry = fit_node(entry, size)
            if self._device is not None and not entry._is_non_tensor:
                entry = entry.to(self._device)
            return entry
        if size and entry.shape[: len(size)] != size:
            fit_leaf(entry, size)
        return entry if self._device is None else move(entry, self._device)

    def _lock_children(self) -> list[Any]:
        nodes = []
        for value in self._data.values():
            if isinstance(value, Dense):
                nodes.append(value)
            elif type(value) is not ndarray and (node := self._as_node(value)) is not None:
                nodes.append(getattr(node, "_tensordict", node))  # a typed TensorDict has the lock of its own
        return nodes

    def _named(self, entry: object, node: Container) -> tuple[Any, Any]:
        """An entry and its node with the names of self; containers without names are copied first."""
        wanted: Any = self._names
        own = [None] * node.ndim if node._names is None else node._names
        head, rest = own[: len(wanted)], own[len(wanted) :]
        if head == wanted:
            return entry, node
        if any(name is not None and name != other for name, other in zip(head, wanted, strict=True)):
            raise RuntimeError(f"refine_names: cannot coerce TensorDict names {own} with {[*wanted, *rest]}.")
        node = node._clone(False)
        set_names(node, check_names([*wanted, *rest], node.ndim))
        return self._rewrap(entry, node), node

    # -- metadata -----------------------------------------------------------------------------

    @property
    def device(self) -> str | None:
        """Device that entries are moved to, or None; change it with `to`."""
        return self._device

    @device.setter
    def device(self, value: object) -> None:
        raise RuntimeError(
            "device cannot be set using tensordict.device = device, because device cannot be updated "
            "in-place. To update device, use tensordict.to(new_device), which will return a new tensordict."
        )

    # -- the batch size ---------------------------------------------------------------------------

    @property
    def batch_size(self) -> Shape:
        """Shape that all entries share as their leading dimensions; assign to change it.

        Raises:
            RuntimeError: on assignment, if an entry does not start with the new batch size.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        new = parse_batch_size(value)
        if new == self._batch_size:
            return
        _check_batch_size(self, new)
        for entry in self._data.values():
            node = self._as_node(entry)
            if node is not None and len(node.batch_size) < len(new):
                node.batch_size = new
        self._data = {
            key: entry._rebatch(new)
            if isinstance(entry, UnbatchedTensor)
            or (isinstance(entry, NonTensorData) and entry.batch_size[: len(new)] != new)
            else entry
            for key, entry in self._data.items()
        }
        self._batch_size = new
        if self._names is not None:
            set_names(self, check_names([*self._names, *[None] * len(new)][: len(new)], len(new)))

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the longest leading shape that all direct entries share.

        Args:
            batch_dims: at most this many dimensions, also for nested TensorDicts.
            keep_compliant_size: leave nested batch sizes longer than the cap as they are.
        """
        shapes: list[Shape] = []
        for entry in self._data.values():
            node = self._as_node(entry)
            if node is not None and node._parts() is None:
                if not (keep_compliant_size and batch_dims is not None and node.ndim >= batch_dims):
                    node.auto_batch_size_(batch_dims, keep_compliant_size)
                shapes.append(node.batch_size)
            elif not isinstance(entry, _SHARED) or (isinstance(entry, NonTensorData) and entry.batch_size):
                shapes.append(tuple(entry.shape))
        found = tuple(map(itemgetter(0), takewhile(_equal, zip(*shapes, strict=False))))
        self.batch_size = (found if shapes else self._batch_size)[:batch_dims]
        if batch_dims is not None and not keep_compliant_size:
            for key, entry in self._data.items():
                if isinstance(entry, NonTensorData) and len(entry.batch_size) > self.ndim:
                    self._data[key] = entry._rebatch(self._batch_size)
        return self

    # -- all entries at once ----------------------------------------------------------------------

    def _count_arrays(self) -> int:
        """The number of arrays at any depth; 0 if there is anything but arrays and TensorDicts."""
        count = 0
        for value in self._data.values():
            if type(value) is ndarray:
                count += 1
            elif type(value) is type(self):
                count_of_child = value._count_arrays()
                if not count_of_child:  # an empty TensorDict counts as other entries, which is rare
                    return 0
                count += count_of_child
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

    def _mapped(self, array: Callable[[Any], Any], method: str, argument: object) -> dict[str, Any]:
        """The entries after `array` of arrays, and after a method of the protocol `Entry` of all others."""
        data: dict[str, Any] = {}
        for key, value in self._data.items():
            if type(value) is ndarray:
                data[key] = array(value)
            elif isinstance(value, Entry):
                data[key] = getattr(value, method)(argument)
            else:
                data[key] = on_leaves(array, value)
        return data

    def _run(self, op: BatchOp) -> Self:
        data = self._mapped(op.array, "_run", op)
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
        """`td[index]` for an index of the batch; the frequent ones take a shorter way."""
        size = self._batch_size
        if not size:
            return super()._index(index)
        # The most frequent indices skip `normalise`, which takes two to five times as long as the views.
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
        if kind is tuple and (found := views(index, size)) is not None:
            items, shape = found
            if shape == size and items.count(_ALL) == len(items):
                return self
            if names is not None:
                names = result_names(items, names, len(shape))
            return self._basic(items, (*items, Ellipsis), shape, names)
        if kind is range or (kind is list and set(map(type, index)) == {int}):
            index = np.asarray(index) if index else np.zeros(0, np.intp)
            kind = ndarray
        # Rows, in a third of the time. NumPy checks the bounds of the index, so there must be an array.
        if kind is ndarray and index.ndim == 1 and self._count_arrays():
            if index.dtype.kind == "b" and index.shape == size[:1]:
                return self._run(Take(size, 0, index.nonzero()[0]))
            if index.dtype.kind == "i":
                return self._run(Take(size, 0, index))
        return super()._index(index)

    def _basic(self, index: object, at: Any, shape: Shape, names: Names) -> Self:
        """The views at an index of integers and slices; `at` is the index for arrays.

        The result is that of an `Index`. Creating one costs as much as three views, so it is created only for
        entries that are neither arrays nor TensorDicts. `at` ends with an ellipsis, so that NumPy returns an
        array also if no dimension is left.
        """
        data: dict[str, Any] = {}
        for key, value in self._data.items():
            if type(value) is ndarray:
                data[key] = value[at]
            elif isinstance(value, Dense):
                data[key] = value._index(index)
            else:
                op = Index(len(self._batch_size), shape, index if type(index) is tuple else (index,), names)
                data[key] = value._run(op) if isinstance(value, Entry) else on_leaves(op.array, value)
        if names is not None:
            names = check_names(names, len(shape))
        return self._make(data, shape, self._device, names)

    def _slice(self, dim: int, start: int, stop: int) -> Self:
        if plain_arrays(self) is None:
            return super()._slice(dim, start, stop)
        # Takes three quarters of the time of a `Piece`.
        size = self._batch_size
        at = (_ALL,) * dim + (slice(start, stop),)
        out = self._basic(at, at, size[:dim] + (stop - start,) + size[dim + 1 :], self._names)
        return out.lock_() if self._locked else out

    def _take(self, dim: int, indices: Array) -> Self:
        return self._run(Take(self._batch_size, dim, indices))

    def _rows(self, dim: int) -> list[dict[str, Any]]:
        """One dict of entries per index of batch dimension `dim`."""
        n = self._batch_size[dim]
        rows: list[dict[str, Any]] = [{} for _ in range(n)]
        for key, value in self._data.items():
            column = value.unbind(dim) if isinstance(value, Entry) else _unbound(value, dim, n)
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

    def _replace_inplace(self, out: object, name: str) -> Self:
        """Replace the entries, batch size and names of self by those of `out`, which was computed from it."""
        require_unlocked(self)
        return self._replace_content(out)

    def _replace_content(self, out: Any) -> Self:
        if out is self:
            return self
        data = out._data
        for key, entry in data.items():
            held = None if type(entry) is ndarray else self._data.get(key)
            node, made = self._as_node(held), self._as_node(entry)
            if node is not None and made is not None and (node._parts() is None) == (made._parts() is None):
                node._replace_content(made)
                data[key] = held
        self._data, self._batch_size, self._names = data, out.batch_size, out._names
        return self

    def _save(self) -> Any:
        return (
            self._data.copy(),
            self._batch_size,
            self._device,
            self._names,
            self._locked,
            self._lock_parents,
        )

    def _reset(self, saved: Any) -> None:
        (self._data, self._batch_size, self._device, self._names, self._locked, self._lock_parents) = saved

    def _rebatch(self, batch_size: Shape) -> Self:
        out = self._clone(False)
        out.batch_size = batch_size
        return out

    def _clone(self, recurse: bool) -> Self:
        data = self._data.copy()
        for key, value in data.items():
            if type(value) is not ndarray and isinstance(value, Entry):
                data[key] = value._clone(recurse)
            elif recurse:  # a call of `_copy` would take 30% longer
                data[key] = value.copy() if type(value) is ndarray else on_leaves(_copy, value)
        out = self._with(data)
        if out._names is not None:
            out._names = list(out._names)
        return out

    def _map_leaves(self, fn: Callable[[Any], Any]) -> Self:
        return self._make(self._mapped(fn, "_map_leaves", fn), self._batch_size, self._device, self._names)

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = None, names: Any = None
    ) -> Self:
        """Same metadata without leaves; `recurse=True` keeps the tree of nested TensorDicts."""
        own = self._names
        if not recurse and batch_size is device is names is None:  # takes two thirds of the time
            out = self._with({})
            out._names = own and own.copy()
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


def _check_batch_size(td: Container, new: Shape) -> None:
    """Raise RuntimeError unless the shapes of all entries start with the new batch size."""
    for key, entry in td._data.items():
        node = td._as_node(entry)
        if isinstance(entry, _SHARED) or (node is not None and node.is_empty()):
            continue
        if node is not None and node._parts() is None and len(node.batch_size) < len(new):
            with error_path(key):
                _check_batch_size(node, new)
            continue
        if tuple(entry.shape[: len(new)]) != new:
            kind = type(entry).__name__
            raise entry_error(
                RuntimeError,
                f"the {kind} {{key}} has shape {tuple(entry.shape)} which is incompatible with the "
                f"batch-size {new}.",
                (key,),
            )


def _equal(sizes: tuple[int, ...]) -> bool:
    return len(set(sizes)) == 1


def _unbound(value: object, dim: int, n: int) -> Any:
    """An iterable of the views of an array at every index of one dimension."""
    if type(value) is ndarray and value.ndim > 1:
        return value if dim == 0 else np.moveaxis(value, dim, 0)
    # Iterating over a 1-d array gives scalars, but leaves must be arrays.
    at = (slice(None),) * dim
    pick = [itemgetter((*at, i, Ellipsis)) for i in range(n)]
    if isinstance(value, ndarray):
        return [fn(value) for fn in pick]
    return [on_leaves(fn, value) for fn in pick]
