"""`LazyStackedTensorDict`: a stack of containers that stacks an entry only when it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from lite._arrays.types import Array, Names, Shape, is_array
from lite._base import TensorDictBase
from lite._containers import lazy_index, lazy_shape
from lite._containers.batch_size import parse_batch_size
from lite._containers.dense import DenseMixin
from lite._containers.lazy_entries import LazyEntriesMixin
from lite._containers.lazy_keys import has_node
from lite._containers.lazy_parts import LazyPartsMixin
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import TensorCollection
from lite._tree.indexing import normalise
from lite._tree.lock import LOCK_ERROR
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorStack
from lite._tree.values import to_entry
from lite._tree.writes import Writes

_new = object.__new__


class LazyStackedTensorDict(LazyEntriesMixin, LazyPartsMixin, TensorDictBase):
    """A stack of TensorDicts that are kept as they are; entries are stacked on access.

    The parts may have different keys and leaves of different shapes (ragged). Keys are those that
    all parts share. Batch dimensions in which the parts differ have size -1. Reading a ragged leaf
    raises RuntimeError unless `get` is told how to return it; writing goes to the parts, which are
    aliased: `stack[0]` is the first part itself.

    Args:
        tensordicts: the parts, of equal number of batch dimensions and equal device.
        stack_dim: where the stack dimension is in the batch size.
        batch_size: of the stack, checked; without parts, what a part would have.
        stack_dim_name: name of the stack dimension.
        strict_shape: also require equal batch sizes.

    Raises:
        RuntimeError: batch dimensions or devices differ, or `batch_size` is another.
        IndexError: `stack_dim` is out of range.
        TypeError: a part is not a TensorDict.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict(tokens=np.arange(n)) for n in (2, 3)])
        >>> rows.batch_size
        (2,)
        >>> rows.get("tokens", as_padded_tensor=True, padding_value=-1)
        array([[ 0,  1, -1],
               [ 0,  1,  2]])
    """

    __slots__ = ("_dim_name", "_empty_size", "stack_dim", "tensordicts")
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None
    _empty_size: Shape

    def __init__(
        self,
        *tensordicts: Any,
        stack_dim: int = 0,
        batch_size: Any = None,
        stack_dim_name: str | None = None,
        strict_shape: bool = False,
    ) -> None:
        kinds = set(map(type, tensordicts))
        given = all(issubclass(kind, TensorDictBase) for kind in kinds)
        parts: list[Any] = list(tensordicts) if given else [_part(td) for td in tensordicts]
        size = None if batch_size is None else parse_batch_size(batch_size)
        ndim = parts[0].ndim if parts else len(size or ())
        # Of dense parts without going through their properties, which would take as long as all the rest.
        dense = given and all(issubclass(kind, DenseMixin) for kind in kinds)
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
        self._init(parts, stack_dim % (ndim + 1), None, () if parts else size or ())
        if parts and size is not None and size != self.batch_size:
            raise RuntimeError(f"batch_size is {self.batch_size} for these parts, got batch_size={size}.")
        if stack_dim_name is not None:
            names = self.names
            names[self.stack_dim] = stack_dim_name
            check_names(names, len(names))
            self._dim_name = stack_dim_name

    def _init(self, parts: list[Any], dim: int, name: str | None, empty_size: Shape) -> None:
        self.tensordicts = parts
        self.stack_dim = dim
        self._dim_name = name
        self._empty_size = empty_size
        self._locked = False
        self._lock_parents = ()

    @classmethod
    def _make(
        cls, parts: list[Any], dim: int, name: str | None = None, empty_size: Shape = ()
    ) -> LazyStackedTensorDict:
        """The constructor that trusts its arguments; `empty_size` is a part's where there is none."""
        # As `_init`, whose call would cost as much: whatever goes through nested nodes ends here.
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
    ) -> LazyStackedTensorDict:
        return self._make(list(parts), dim, name, self._empty_size if inner is None else inner)

    # -- protocol -----------------------------------------------------------------------------

    def _parts(self) -> tuple[Sequence[Any], int]:
        return self.tensordicts, self.stack_dim

    def _from_parts(self, parts: Sequence[Any]) -> LazyStackedTensorDict:
        return self._like(parts, self.stack_dim, self._dim_name)

    def _put(self, key: str, entry: Any) -> None:
        for part, piece in zip(self.tensordicts, self._pieces(entry), strict=True):
            part._put(key, piece)

    def _pieces(self, entry: Any) -> Sequence[Any]:
        """An entry of the whole stack, cut along the stack dimension."""
        dim = self.stack_dim
        if isinstance(entry, TensorCollection):
            return entry.unbind(dim)  # type: ignore[attr-defined,no-any-return]
        before = (slice(None),) * dim
        return [entry[(*before, i, ...)] for i in range(entry.shape[dim])] if entry.ndim > dim else []

    def _remove(self, key: str) -> None:
        holders = [part for part in self.tensordicts if part._peek(key) is not None]
        if not holders:
            raise KeyError(key)
        for part in holders:
            if part._peek(key) is not None:  # one part may be there more than once
                part._remove(key)

    def _to_entry(self, value: Any) -> Any:
        return to_entry(value, self.batch_size, self._node_from)

    def _node_from(self, mapping: Mapping[Any, Any]) -> Any:
        return self._blank().update(mapping)

    def _convert(self, value: Any) -> Any:
        if value is self:
            raise ValueError("a TensorDict cannot be stored inside itself.")
        entry = self._to_entry(value)
        shape, size = tuple(entry.shape), self.batch_size
        fits = len(shape) >= len(size) and all(n in (-1, own) for n, own in zip(size, shape, strict=False))
        if not fits and isinstance(entry, TensorCollection):
            return entry._rebatch(size)
        if not fits:
            raise RuntimeError(
                f"batch dimension mismatch, got self.batch_size={size} and value.shape={shape}."
            )
        return entry

    def _cut(self, item: Any) -> Sequence[Any]:
        """One piece per part: those of a list of as many items, or the value cut up.

        Nested lists of plain values that have the shape of the batch are in its order, as `tolist` gives
        them, wherever the parts are stacked.
        """
        dim = self.stack_dim
        listed = type(item) is list and len(item) == len(self.tensordicts)
        if listed and dim and _in_order(item, self.batch_size[: dim + 1]):
            listed = False
        return item if listed else self._pieces(self._convert(item))

    def _cut_to_copy(self, key: str, item: Any) -> Sequence[Any]:
        """As `_cut`, for a value that is broadcast to what is there."""
        scalar = item.ndim == 0 if isinstance(item, np.ndarray) else np.isscalar(item)
        if scalar:
            return [item] * len(self.tensordicts)
        shape = self._item_shape(key)
        if isinstance(item, NonTensorStack) and -1 not in self.batch_size:
            try:
                item = item._broadcast(self.batch_size)
            except ValueError as error:
                raise ValueError(f"Failed to update '{key}' in tensordict {self!r}") from error
        if isinstance(item, np.ndarray) and shape is not None and -1 not in shape and item.shape != shape:
            try:
                item = np.broadcast_to(item, shape)
            except ValueError as error:
                raise ValueError(f"Failed to update '{key}' in tensordict {self!r}") from error
        return self._cut(item)

    def _set_here(self, key: str, item: Any, inplace: bool, writes: Writes | None = None) -> None:
        if writes is None:
            if type(item) is np.ndarray and lazy_index.set_rows(self, key, item, inplace):
                return
            with Writes() as own:
                self._set_here(key, item, inplace, own)
            return
        inplace = inplace and self._peek(key) is not None
        if self._locked and not inplace:
            raise RuntimeError(LOCK_ERROR)
        pieces = self._cut_to_copy(key, item) if inplace else self._cut(item)
        for part, piece in zip(self.tensordicts, pieces, strict=True):
            part._set_here(key, piece, inplace, writes)

    def _create(self, path: tuple[str, ...], item: Any, writes: Writes | None = None) -> None:
        if writes is None:
            with Writes() as own:
                self._create(path, item, own)
            return
        if self._locked or any(part.is_locked for part in self.tensordicts):
            raise RuntimeError(LOCK_ERROR)
        node = self._blank()
        node._set_path(path[1:], item, False)
        for part, child in zip(self.tensordicts, node.tensordicts, strict=True):
            if part._peek(path[0]) is None and not has_node(part, path[:1]):
                writes.put(part, path[0], child)
            else:  # some parts have the node, with entries of their own
                part._set_path(path, child._get_path(path[1:]), False, writes)

    def _blank(self) -> LazyStackedTensorDict:
        return self._from_parts([part._blank() for part in self.tensordicts])

    def _with(self, entries: Mapping[str, Any]) -> Self:
        out = self._blank()
        for key, entry in entries.items():
            out._put(key, entry)
        return out  # type: ignore[return-value]

    def _lock_children(self) -> list[Any]:
        return self.tensordicts

    # -- metadata -----------------------------------------------------------------------------

    def _part_size(self) -> Shape:
        """The batch size of the parts, -1 where they differ."""
        try:
            sizes = _distinct([part._batch_size for part in self.tensordicts])
        except AttributeError:
            sizes = {part.batch_size for part in self.tensordicts}
        if len(sizes) == 1:
            return sizes.pop()  # type: ignore[no-any-return]
        if not sizes:
            return self._empty_size
        if len({len(size) for size in sizes}) > 1:
            raise RuntimeError(
                f"the parts of a lazy stack have different numbers of batch dimensions: {sorted(sizes)}. "
                "They were changed after they had been stacked."
            )
        return tuple(n[0] if len(set(n)) == 1 else -1 for n in zip(*sizes, strict=True))

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

    def numel(self) -> int:
        """Number of batch elements; ragged parts count their own."""
        return sum(part.numel() for part in self.tensordicts)

    @property
    def device(self) -> str | None:
        """The device that all parts share, or None."""
        devices = {part.device for part in self.tensordicts}
        return devices.pop() if len(devices) == 1 else None

    @device.setter
    def device(self, value: Any) -> None:
        raise RuntimeError("device cannot be set using tensordict.device = device; use `to(device)`.")

    def _take_names(self, names: Names) -> None:
        self._dim_name = None if names is None else names[self.stack_dim]

    # -- batch operations ---------------------------------------------------------------------

    def _run(self, op: BatchOp) -> Any:
        out = lazy_shape.run(self, op)
        if op.keeps_lock and self.is_locked and not out.is_locked:  # it is, if it has the parts themselves
            out.lock_()
        return out

    def _index(self, index: Any) -> Any:
        if type(index) is int and not self.stack_dim:
            return lazy_index.at(self.tensordicts, index)
        if index is Ellipsis or (isinstance(index, tuple) and not index):
            return self
        items = normalise(index, self.batch_size)
        if all(type(item) is slice and item == slice(None) for item in items):
            return self
        return lazy_index.select(self, items)

    def _set_index(self, index: Any, value: Any, writes: Writes | None = None) -> None:
        if writes is not None:
            lazy_index.assign(self, index, value, writes)
            return
        if not lazy_index.write_arrays(self, index, value):
            with Writes() as own:
                lazy_index.assign(self, index, value, own)

    def _save(self) -> Any:
        return list(self.tensordicts), self._dim_name, self._locked, self._lock_parents

    def _reset(self, saved: Any) -> None:
        self.tensordicts, self._dim_name, self._locked, self._lock_parents = saved

    def _rebatch(self, batch_size: Shape) -> LazyStackedTensorDict:
        own, dim = self.batch_size, self.stack_dim
        if own[: len(batch_size)] == batch_size:
            return self
        if len(batch_size) <= dim or batch_size[dim] != own[dim]:
            raise RuntimeError(
                f"batch dimension mismatch, got self.batch_size={batch_size} and value.shape={own}."
            )
        inner = batch_size[:dim] + batch_size[dim + 1 :]
        return self._from_parts([part._rebatch(inner) for part in self.tensordicts])

    def _clone(self, recurse: bool) -> LazyStackedTensorDict:
        return self._from_parts([part._clone(recurse) for part in self.tensordicts])

    def _map_leaves(self, fn: Callable[[Array], Any]) -> LazyStackedTensorDict:
        return self._from_parts([part._map_leaves(fn) for part in self.tensordicts])


def _distinct(values: list[Any]) -> set[Any]:
    """The different values; that there is but one, counting tells faster than hashing."""
    return {values[0]} if values and values.count(values[0]) == len(values) else set(values)


def _part(td: Any) -> Any:
    node = TensorDictBase._as_node(td)
    if node is None:
        raise TypeError(f"the parts of a LazyStackedTensorDict must be TensorDicts, got {type(td)}.")
    return node


def _in_order(value: Any, shape: Shape) -> bool:
    """Whether a value is nested lists of a shape, and what is in them has no shape of its own."""
    if shape:
        return type(value) is list and len(value) == shape[0] and all(_in_order(v, shape[1:]) for v in value)
    if type(value) is list:
        return all(_in_order(item, shape) for item in value)
    return not isinstance(value, TensorCollection | Mapping) and not is_array(value)
