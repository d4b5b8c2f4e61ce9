"""The lazy stack: a container that holds other containers and stacks an entry when it is read.

`lazy_entries` reads entries, `lazy_writes` writes them, and `lazy_index` indexes and reshapes the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from lite._arrays.device import parse_device
from lite._arrays.types import Array, Names, Shape
from lite._containers import lazy_entries, lazy_index, lazy_writes
from lite._containers.dense import Dense
from lite._containers.lazy_entries import pieces_along
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import Entry, TensorCollection
from lite._tree.entry_errors import error_path, shape_error
from lite._tree.indexing import is_traced
from lite._tree.lock import LOCK_ERROR
from lite._tree.names import check_names, set_names
from lite._tree.protocol import Container, class_registry
from lite._tree.shape import parse_batch_size
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.values import to_entry

_new = object.__new__


class Lazy(Container):
    """A container that holds its parts; its entries are the stacked entries of the parts."""

    __slots__ = ("_dim_name", "_empty_device", "_empty_size", "stack_dim", "tensordicts")
    _data: Any = MappingProxyType({})  # the entries are in the parts
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None
    _empty_size: Shape
    _empty_device: str | None  # only set for a stack without parts

    def __init__(
        self,
        *tensordicts: Any,
        stack_dim: int = 0,
        batch_size: Sequence[int] | int | None = None,
        device: str | None = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        kinds = set(map(type, tensordicts))
        # Dense parts are read by their slots: properties would take as long as all the rest.
        dense = all(issubclass(kind, Dense) for kind in kinds)
        given = dense or all(issubclass(kind, Container) for kind in kinds)
        parts: list[Any] = list(tensordicts) if given else [_part(td) for td in tensordicts]
        size = None if batch_size is None else parse_batch_size(batch_size)
        ndim = parts[0].ndim if parts else len(size or ())
        sizes = _distinct([part._batch_size if dense else part.batch_size for part in parts])
        if len({len(size) for size in sizes}) > 1 or (strict_shape and len(sizes) > 1):
            raise RuntimeError(
                "batch sizes in tensordicts differs, LazyStackedTensorDict cannot be created. "
                f"Got {[part.batch_size for part in parts]}."
            )
        devices = _distinct([part._device if dense else part.device for part in parts])
        if len(devices) > 1:
            raise RuntimeError(f"devices differ, got {' and '.join(sorted(str(d) for d in devices))}")
        if not -ndim - 1 <= stack_dim <= ndim:
            raise IndexError(f"stack_dim must be in [{-ndim - 1}, {ndim}], got {stack_dim}.")
        self.tensordicts = parts
        self.stack_dim = stack_dim % (ndim + 1)
        self._dim_name = None
        self._empty_size = () if parts else size or ()
        self._locked = False
        self._lock_parents = ()
        if not parts and device is not None:
            self._empty_device = parse_device(device)
        if parts and size is not None and size != self.batch_size:
            raise RuntimeError(f"batch_size is {self.batch_size} for these parts, got batch_size={size}.")
        if stack_dim_name is not None:
            names = self.names
            names[self.stack_dim] = stack_dim_name
            check_names(names, len(names))
            self._dim_name = stack_dim_name

    @classmethod
    def _make(cls, parts: list[Any], dim: int, name: str | None = None, empty_size: Shape = ()) -> Self:
        """The constructor without checks; `empty_size` is the batch size of a part if there are no parts."""
        self = _new(cls)
        self.tensordicts = parts
        self.stack_dim = dim
        self._dim_name = name
        self._empty_size = empty_size
        self._locked = False
        self._lock_parents = ()
        return self

    def _like(
        self, parts: Sequence[Any], dim: int, name: str | None = None, inner: Shape | None = None
    ) -> Self:
        return self._make(list(parts), dim, name, self._empty_size if inner is None else inner)

    def _parts(self) -> tuple[Sequence[Any], int]:
        return self.tensordicts, self.stack_dim

    def _from_parts(self, parts: Sequence[Any]) -> Self:
        return self._like(parts, self.stack_dim, self._dim_name)

    def _pieces(self, entry: Entry | Array) -> Sequence[Any]:
        """The pieces of an entry of the whole stack, one per part."""
        return pieces_along(entry, self.stack_dim)

    def _part_size(self) -> Shape:
        """The batch size of the parts, with -1 where they differ."""
        try:
            found = [part._batch_size for part in self.tensordicts]
        except AttributeError:
            found = [part.batch_size for part in self.tensordicts]
        if not found:
            return self._empty_size
        if found.count(found[0]) == len(found):
            return found[0]
        sizes = set(found)
        if len({len(size) for size in sizes}) > 1:
            raise RuntimeError(
                f"the parts of a lazy stack have different numbers of batch dimensions: {sorted(sizes)}. "
                "They were changed after they had been stacked."
            )
        return tuple(n[0] if len(set(n)) == 1 else -1 for n in zip(*sizes, strict=True))

    # -- protocol -----------------------------------------------------------------------------

    _keys = lazy_entries.keys
    _get_entry = lazy_entries.get_entry
    _peek_entry = lazy_entries.peek_entry
    _items = lazy_entries.items
    _set_path = lazy_writes.set_path
    _set_here = lazy_writes.set_here
    _set_at = lazy_writes.set_at
    _take_batch = lazy_writes.take_batch
    _update = lazy_writes.update
    _set_index = lazy_writes.set_index

    def __contains__(self, key: object) -> bool:
        node = None if type(key) is str else self._as_node(key)
        if node is not None:
            return any(self._as_node(part) is node for part in self.tensordicts)
        return (
            all(key in part for part in self.tensordicts) if self.tensordicts else super().__contains__(key)
        )

    def __len__(self) -> int:
        return super().__len__() if self.stack_dim else len(self.tensordicts)  # asks no part

    def is_empty(self) -> bool:
        """True if no part has a leaf."""
        return all(part.is_empty() for part in self.tensordicts)

    def _put(self, key: str, entry: Any) -> None:
        for part, piece in zip(self.tensordicts, self._pieces(entry), strict=True):
            part._put(key, piece)

    def _remove(self, key: str) -> None:
        if all(part._peek_entry(key) is None for part in self.tensordicts):
            raise KeyError(key)
        for part in self.tensordicts:
            if part._peek_entry(key) is not None:
                part._remove(key)

    def _to_entry(self, value: object) -> Any:
        return to_entry(value, self.batch_size, self._node_from)

    def _node_from(self, mapping: Mapping[Any, Any]) -> Any:
        return self._with({}).update(mapping)

    def _convert(self, value: object) -> Any:
        if value is self:
            raise ValueError("a TensorDict cannot be stored inside itself.")
        entry = self._to_entry(value)
        if isinstance(entry, UnbatchedTensor):
            return entry._rebatch(self.batch_size)
        shape, size = tuple(entry.shape), self.batch_size
        fits = len(shape) >= len(size) and all(n in (-1, own) for n, own in zip(size, shape, strict=False))
        if not fits and isinstance(entry, TensorCollection):
            return entry._rebatch(size)
        if not fits:
            raise shape_error(size, shape)
        return entry

    def _with(self, entries: Mapping[str, Any]) -> Self:
        out = self._from_parts([part._with({}) for part in self.tensordicts])
        for key, entry in entries.items():
            out._put(key, entry)
        return out

    def _lock_children(self) -> list[Any]:
        return self.tensordicts

    # -- metadata -----------------------------------------------------------------------------

    @property
    def batch_size(self) -> Shape:
        """Batch size of the parts with their number inserted at `stack_dim`; -1 where they differ."""
        size, dim = self._part_size(), self.stack_dim
        return (*size[:dim], len(self.tensordicts), *size[dim:])

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        new = parse_batch_size(value)
        if new != self.batch_size:
            raise RuntimeError(
                f"the batch size of a lazy stack follows from its parts ({self.batch_size}) and cannot be "
                f"set to {new}: modifying the batch size of a lazy representation is not permitted. Call "
                "`contiguous()` first."
            )

    @property
    def is_locked(self) -> bool:
        """Whether the key set is frozen, by the stack's own lock or because every part is locked."""
        parts = self.tensordicts
        return self._locked or (bool(parts) and all(part.is_locked for part in parts))

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Any:
        """A dense TensorDict with the entries that all parts share, stacked.

        Raises:
            NotImplementedError: `inplace`, as a lazy stack cannot become dense.
            RuntimeError: a leaf is ragged, or the batch size is.
        """
        if inplace:
            self._replace_inplace(self, "contiguous")
        if -1 in self.batch_size:
            raise RuntimeError(f"a ragged batch of size {self.batch_size} cannot become dense.")
        entries = {}
        for key in self._keys():
            entry = self._get_entry(key)
            node = self._as_node(entry)
            with error_path(key):
                entries[key] = (
                    entry if node is None else self._rewrap(entry, node.contiguous(canonical=canonical))
                )
        return class_registry.dense._make(entries, self.batch_size, self.device, self._names)

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Do nothing, as the batch size of a lazy stack follows from its parts.

        Raises:
            RuntimeError: `batch_dims` is smaller than the number of batch dimensions.
        """
        self.batch_size = self.batch_size if batch_dims is None else self.batch_size[:batch_dims]
        return self

    def numel(self) -> int:
        """Number of batch elements; ragged parts count their own."""
        return sum(part.numel() for part in self.tensordicts)

    @property
    def device(self) -> str | None:
        """The device that all parts share, or None; for a stack without parts, the one that was given."""
        if not self.tensordicts:
            return getattr(self, "_empty_device", None)
        devices = {part.device for part in self.tensordicts}
        return devices.pop() if len(devices) == 1 else None

    @device.setter
    def device(self, value: object) -> None:
        raise RuntimeError("device cannot be set using tensordict.device = device; use `to(device)`.")

    # -- names of the dimensions: those of the parts, asked each time as they can be renamed alone ---

    def _found_names(self) -> set[tuple[str | None, ...] | None]:
        return {None if part._names is None else tuple(part._names) for part in self.tensordicts}

    @property
    def _names(self) -> Names:
        """The names of results: dimensions that the parts name differently have no name."""
        found = self._found_names()
        own, dim = self._dim_name, self.stack_dim
        if found and None not in found:
            columns = zip(*found, strict=True)
            inner = [names[0] if len(set(names)) == 1 else None for names in columns]
        elif own is None:
            return None
        else:
            inner = [None] * len(self._part_size())
        if own is None and not any(inner):
            return None
        # A part can be renamed without a check by the stack.
        inner = [None if name == own else name for name in inner]
        return [*inner[:dim], own, *inner[dim:]]

    @_names.setter
    def _names(self, names: Names) -> None:
        self._dim_name = None if names is None else names[self.stack_dim]

    @property
    def names(self) -> list[str | None]:
        """One name (or None) per batch dimension; ValueError where parts disagree."""
        found = self._found_names()
        if len(found) > 1:
            raise ValueError(f"the names of the stacked tensordicts differ: {sorted(map(str, found))}.")
        return [None] * self.ndim if self._names is None else self._names

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        set_names(self, check_names(value, self.ndim))

    # -- batch operations ---------------------------------------------------------------------

    def _run(self, op: BatchOp) -> Any:
        out = lazy_index.run(self, op)
        if op.keeps_lock and self.is_locked and not out.is_locked:  # true if it has the same parts
            out.lock_()
        return out

    def _index(self, index: object) -> Any:
        if type(index) is int and not self.stack_dim:
            return lazy_index.at(self.tensordicts, index)
        if type(index) is slice and not self.stack_dim and index != slice(None):
            parts = self.tensordicts[index]
            if parts:  # no other part is asked: in a stack of 10,000 a fortieth of the time for a few
                return self._like(parts, 0, self._dim_name)
        return super()._index(index)

    def _select(self, items: tuple[Any, ...]) -> Any:
        return self.contiguous()._select(items) if is_traced(items) else lazy_index.select(self, items)

    def _replace_inplace(self, out: object, name: str) -> Self:
        raise NotImplementedError(
            f"{name}(inplace=True) is not supported on {type(self).__name__}; call .to_tensordict() first or "
            "use inplace=False."
        )

    def _replace_content(self, out: Any) -> Self:
        self.tensordicts, self.stack_dim = list(out.tensordicts), out.stack_dim
        self._dim_name, self._empty_size = out._dim_name, out._empty_size
        return self

    def _save(self) -> Any:
        return list(self.tensordicts), self._dim_name, self._locked, self._lock_parents

    def _reset(self, saved: Any) -> None:
        self.tensordicts, self._dim_name, self._locked, self._lock_parents = saved

    def _rebatch(self, batch_size: Shape) -> Self:
        own, dim = self.batch_size, self.stack_dim
        if own[: len(batch_size)] == batch_size:
            return self
        if len(batch_size) <= dim or batch_size[dim] != own[dim]:
            raise shape_error(batch_size, own)
        inner = batch_size[:dim] + batch_size[dim + 1 :]
        return self._from_parts([part._rebatch(inner) for part in self.tensordicts])

    def _clone(self, recurse: bool) -> Self:
        return self._from_parts([part._clone(recurse) for part in self.tensordicts])

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        return self._from_parts([part._map_leaves(fn) for part in self.tensordicts])

    # -- the list of parts --------------------------------------------------------------------

    def insert(self, index: int, tensordict: object) -> Self:
        """Insert a part before `index`.

        Raises:
            RuntimeError: the stack is locked.
            TypeError: `tensordict` is not a TensorDict.
            ValueError: its batch size or device is not that of the parts.
        """
        self.tensordicts[index:index] = self._new_parts([tensordict])
        return self

    def append(self, tensordict: object) -> Self:
        """Add a part at the end; see `insert`."""
        return self.insert(len(self.tensordicts), tensordict)

    def extend(self, tensordict: Any) -> Self:
        """Add every TensorDict of a sequence, or every part of a TensorDict along `stack_dim`.

        Raises what `insert` raises, and then adds none of them.
        """
        node = self._as_node(tensordict)
        self.tensordicts += self._new_parts(tensordict if node is None else node.unbind(self.stack_dim))
        return self

    def _new_parts(self, tensordicts: Iterable[Any]) -> list[Any]:
        """The new parts from a user's TensorDicts; raises if one of them does not fit."""
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        first = self.tensordicts[0] if self.tensordicts else None
        shared: tuple[Shape, str | None] | None = None  # batch size and device of the parts
        nodes: list[Any] = []
        for td in tensordicts:
            node = self._as_node(td)
            if node is None:
                raise TypeError(f"Expected new value to be a TensorDict, got {type(td)}.")
            own, on = node.batch_size, node.device
            # One like the first fits, and no other is asked: in a stack of 10,000 a hundredth of the time.
            if first is None or own != first.batch_size or on != first.device:
                size, device = shared = shared or (self._part_size(), self.device)
                if len(size) != len(own) or any(n not in (-1, m) for n, m in zip(size, own, strict=True)):
                    raise ValueError(f"Batch sizes differ: the parts have {size}, the new one {own}.")
                if first is None:  # which sets the device
                    first, shared = node, (size, on)
                elif on != device:
                    raise ValueError(f"Devices differ: the parts have {device}, the new one {on}.")
            nodes.append(node)
        return nodes

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split along a batch dimension; along `stack_dim` this gives the parts themselves."""
        if dim == self.stack_dim or self._dim(dim) == self.stack_dim:
            return tuple(self.tensordicts)
        self._require_regular(dim, "unbind")
        return super().unbind(dim)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension; along `stack_dim` the parts are distributed."""
        self._require_regular(dim, "split")
        return super().split(split_size, dim)

    def _slice(self, dim: int, start: int, stop: int) -> Self:
        if dim != self.stack_dim or start == stop:
            return super()._slice(dim, start, stop)
        return self._like(self.tensordicts[start:stop], dim, self._dim_name)  # asks no other part

    def _require_regular(self, dim: int, method: str) -> None:
        if self.batch_size[self._dim(dim)] < 0:
            raise ValueError(f"cannot {method} dim {dim} of batch size {self.batch_size}: it is ragged.")


def _distinct(values: list[Any]) -> set[Any]:
    """The distinct values. `list.count` detects the frequent case of one value faster than a set."""
    return {values[0]} if values and values.count(values[0]) == len(values) else set(values)


def _part(td: Container) -> Any:
    node = Container._as_node(td)
    if node is None:
        raise TypeError(f"the parts of a LazyStackedTensorDict must be TensorDicts, got {type(td)}.")
    return node
