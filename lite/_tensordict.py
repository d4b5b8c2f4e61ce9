"""`TensorDict`: a dict of arrays that share their leading dimensions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from lite._assign import set_index
from lite._base import TensorDictBase
from lite._collection import Array, Names, Shape, TensorCollection
from lite._convert import fit_leaf, fit_node, to_entry
from lite._device import move, parse_device
from lite._from_any import plain
from lite._keys import NestedKey, require_path
from lite._names import check_names
from lite._nontensor import NonTensorData
from lite._ops import BatchOp, Index

_ALL = slice(None)


def parse_batch_size(batch_size: Any) -> Shape:
    """Read a batch size given as None, an int or a sequence of ints.

    Raises:
        ValueError: a negative size, or a string.
        TypeError: anything that is not an integer.
    """
    if batch_size is None:
        return ()
    if isinstance(batch_size, str):
        raise ValueError(f"batch size was not specified as integers, got {batch_size!r}.")
    if isinstance(batch_size, Iterable):
        shape = tuple(operator.index(n) for n in batch_size)
    else:
        shape = (operator.index(batch_size),)
    if any(n < 0 for n in shape):
        raise ValueError(f"batch_size must not be negative, got {shape}.")
    return shape


class TensorDict(TensorDictBase):
    """A mapping from keys to arrays whose shapes start with one common batch size.

    Entries are NumPy arrays, nested TensorDicts, or any other object as non-tensor data. Batch
    operations (indexing, reshaping, stacking) act on every entry at once and leave the feature
    dimensions alone. Arrays are stored as they are, without a copy.

    Args:
        source: a mapping (nested mappings and tuple keys allowed) or a TensorDict.
        batch_size: leading shape of every entry: None for `()`, an int, or a sequence of ints.
        device: None (no constraint), "cpu" or "cuda"; entries are moved there.
        names: one name or None per batch dimension.
        non_blocking: accepted for compatibility.
        lock: lock the new TensorDict.
        kwargs: entries, instead of `source`.

    Raises:
        RuntimeError: an entry does not start with the batch size.
        ValueError: both `source` and entries as keywords, or a source of another type.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"obs": np.zeros((3, 4)), "info": {"step": np.arange(3)}}, batch_size=[3])
        >>> td["info", "step"]
        array([0, 1, 2])
        >>> td[1:].batch_size
        (2,)
        >>> td[0]["obs"].shape
        (4,)
    """

    __slots__ = ("_batch_size", "_data", "_device")
    _data: dict[str, Any]
    _batch_size: Shape
    _device: str | None

    def __init__(
        self,
        source: Mapping[Any, Any] | TensorCollection | None = None,
        batch_size: Any = None,
        device: Any = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            if source is not None:
                raise ValueError("Either a dictionary or a sequence of kwargs must be provided, not both.")
            source = kwargs
        node = None if type(source) is dict else self._as_node(source)
        if (
            source is not None
            and node is None
            and type(source) is not dict
            and not isinstance(source, Mapping)
        ):
            raise ValueError(
                "A TensorDict source is expected to be a TensorDictBase sub-type or a dictionary, found "
                f"type(source)={type(source)}."
            )
        self._data = {}
        self._batch_size = parse_batch_size(batch_size)
        self._device = parse_device(device)
        self._names = check_names(names, len(self._batch_size))
        self._locked = False
        self._lock_parents = ()
        if node is not None:
            for key in node._keys():
                self._data[key] = self._convert(node._get_str(key))
        elif source is not None:
            for key, value in source.items():  # type: ignore[union-attr]
                if type(key) is str:
                    self._put(key, self._convert(value))
                else:
                    self._set_path(require_path(key), value, False)
        if lock:
            self.lock_()

    @classmethod
    def _make(
        cls, data: dict[str, Any], batch_size: Shape, device: str | None = None, names: Names = None
    ) -> Self:
        """The constructor that trusts its arguments: entries are known to fit."""
        self = cls.__new__(cls)
        self._data = data
        self._batch_size = batch_size
        self._device = device
        self._names = names
        self._locked = False
        self._lock_parents = ()
        return self

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: Any = 0) -> Self:
        """A TensorDict without batch size that has `value` under every key."""
        return cls(dict.fromkeys(keys, value))

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[Any, Any] | TensorCollection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: Any = None,
        device: Any = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Any:
        """Build from a (nested) mapping, optionally finding the batch size.

        Values are converted as `from_any` does it: tuples, named tuples, dataclasses and structured
        arrays become nested TensorDicts.

        Args:
            input_dict: the entries; a TensorDict is returned as it is.
            auto_batch_size: use the longest leading shape that all entries share.
            batch_size: the batch size, also for nested TensorDicts.
            device: see `TensorDict`.
            batch_dims: cap on the number of batch dimensions found; implies `auto_batch_size`.
            names: dimension names.

        Raises:
            ValueError: both `batch_size` and `batch_dims` are given.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> TensorDict.from_dict({"a": np.zeros((3, 2))}, auto_batch_size=True).batch_size
            (3, 2)
        """
        if batch_size is not None and batch_dims is not None:
            raise ValueError("Cannot pass both batch_size and batch_dims to `from_dict`.")
        if isinstance(input_dict, TensorCollection):
            return input_dict
        out = cls(plain(input_dict), batch_size=batch_size, device=device)
        if auto_batch_size or batch_dims is not None:
            out.auto_batch_size_(batch_dims)
        if names is not None:
            out.names = list(names)
        return out

    # -- protocol -----------------------------------------------------------------------------

    def _keys(self) -> Iterable[str]:
        return self._data

    def _get_str(self, key: str) -> Any:
        return self._data.get(key)

    def _items(self) -> Iterable[tuple[str, Any]]:
        return self._data.items()

    def _flat(self) -> dict[str, Any] | None:
        for value in self._data.values():
            if type(value) is not np.ndarray:
                return None
        return self._data

    def _put(self, key: str, entry: Any) -> None:
        self._data[key] = entry
        if isinstance(entry, TensorCollection):
            node = self._as_node(entry)
            if node is not None:
                if self._locked:
                    node._lock(self)
                self._share_names(node)

    def _remove(self, key: str) -> None:
        del self._data[key]

    def _to_entry(self, value: Any) -> Any:
        return to_entry(value, self._batch_size, self._node_from)

    def _node_from(self, mapping: Mapping[Any, Any]) -> TensorDict:
        return TensorDict(mapping, self._batch_size, self._device, self._names)

    def _convert(self, value: Any) -> Any:
        entry = value if type(value) is np.ndarray and value.dtype.kind in "fib" else self._to_entry(value)
        if isinstance(entry, TensorCollection):
            if entry is self:
                raise ValueError("a TensorDict cannot be stored inside itself.")
            entry = fit_node(entry, self._batch_size)
            if self._device is not None and not entry._is_non_tensor and entry.device != self._device:  # type: ignore[attr-defined]
                entry = entry.to(self._device)  # type: ignore[attr-defined]
            return entry
        batch_size = self._batch_size
        if batch_size and entry.shape[: len(batch_size)] != batch_size:
            fit_leaf(entry, batch_size)
        return entry if self._device is None else move(entry, self._device)

    def _blank(self) -> TensorDict:
        return TensorDict._make({}, self._batch_size, self._device, self._names)

    def _with(self, entries: dict[str, Any]) -> Self:
        return self._make(entries, self._batch_size, self._device, self._names)

    def _lock_children(self) -> list[Any]:
        nodes = [self._as_node(v) for v in self._data.values() if isinstance(v, TensorCollection)]
        return [node for node in nodes if node is not None]

    def _share_names(self, node: Any) -> None:
        if self._names is not None:
            own = node.names
            node._set_names(check_names([*self._names, *own[self.ndim :]], node.ndim))
        elif node._names is not None and self._batch_size:
            head = check_names(list(node._names[: self.ndim]), self.ndim)
            if head is not None:
                self._set_names(head)

    # -- metadata -----------------------------------------------------------------------------

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
        self._check_rebatch(new)
        for entry in self._data.values():
            node = self._as_node(entry)
            if node is not None and len(node.batch_size) < len(new):
                node.batch_size = new
        self._data = {
            key: entry._rebatch(new)
            if isinstance(entry, NonTensorData) and entry.batch_size[: len(new)] != new
            else entry
            for key, entry in self._data.items()
        }
        self._batch_size = new
        if self._names is not None:
            padded = [*self._names, *[None] * len(new)][: len(new)]
            self._names = check_names(padded, len(new))

    def _check_rebatch(self, new: Shape) -> None:
        for key, entry in self._data.items():
            node = self._as_node(entry)
            if isinstance(entry, NonTensorData) or (node is not None and node.is_empty()):
                continue
            if isinstance(node, TensorDict) and len(node.batch_size) < len(new):
                node._check_rebatch(new)
                continue
            if tuple(entry.shape[: len(new)]) != new:
                kind = type(entry).__name__
                raise RuntimeError(
                    f"the {kind} {key} has shape {tuple(entry.shape)} which is incompatible with the "
                    f"batch-size {new}."
                )

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the longest leading shape that all direct entries share.

        Args:
            batch_dims: at most this many dimensions, also for nested TensorDicts.
            keep_compliant_size: leave nested batch sizes longer than the cap as they are.
        """
        shapes: list[Shape] = []
        for entry in self._data.values():
            node = self._as_node(entry)
            if isinstance(node, TensorDict):
                if not (keep_compliant_size and batch_dims is not None and node.ndim >= batch_dims):
                    node.auto_batch_size_(batch_dims, keep_compliant_size)
                shapes.append(node.batch_size)
            elif not isinstance(entry, NonTensorData) or entry.batch_size:
                shapes.append(tuple(entry.shape))
        if not shapes:
            return self
        common = _common_prefix(shapes)
        self.batch_size = common if batch_dims is None else common[:batch_dims]
        return self

    @property
    def device(self) -> str | None:
        """Device that entries are moved to, or None; change it with `to`."""
        return self._device

    @device.setter
    def device(self, value: Any) -> None:
        raise RuntimeError(
            "device cannot be set using tensordict.device = device, because device cannot be updated "
            "in-place. To update device, use tensordict.to(new_device), which will return a new tensordict."
        )

    def _set_device(self, device: str | None) -> None:
        self._device = device

    # -- batch operations ---------------------------------------------------------------------

    def _run(self, op: BatchOp) -> Self:
        array = op.array
        data = {
            key: array(value)
            if type(value) is np.ndarray or not isinstance(value, TensorCollection)
            else value._run(op)
            for key, value in self._data.items()
        }
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
        # Integers and slices, by far the most frequent, need no normalisation.
        size = self._batch_size
        kind = type(index)
        if not size or (kind is not int and kind is not slice):
            return super()._index(index)
        n = size[0]
        names = self._names
        if kind is slice:
            if index == _ALL:
                return self
            shape = (len(range(*index.indices(n))),) + size[1:]
            return self._run(Index(len(size), shape, (index,), names))
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}.")
        return self._run(Index(len(size), size[1:], (index,), names and names[1:]))

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split into one TensorDict per index of batch dimension `dim`, which disappears."""
        d = self._dim(dim)
        size = self._batch_size
        full = (slice(None),) * d
        columns = {
            key: value.unbind(d)  # type: ignore[attr-defined]
            if isinstance(value, TensorCollection)
            else [value[(*full, i, Ellipsis)] for i in range(size[d])]
            for key, value in self._data.items()
        }
        names = (
            None
            if self._names is None
            else check_names(self._names[:d] + self._names[d + 1 :], len(size) - 1)
        )
        rest = size[:d] + size[d + 1 :]
        return tuple(
            self._make({key: column[i] for key, column in columns.items()}, rest, self._device, names)
            for i in range(size[d])
        )

    def _set_index(self, index: Any, value: Any) -> None:
        set_index(self, index, value)

    def _assign(self, index: Any, value: Any) -> TensorDict:
        self._set_index(index, value)
        return self

    def _rebatch(self, batch_size: Shape) -> Self:
        out = self._clone(False)
        out.batch_size = batch_size
        return out

    def _clone(self, recurse: bool) -> Self:
        data = {
            key: value._clone(recurse)
            if isinstance(value, TensorCollection)
            else (value.copy() if recurse else value)
            for key, value in self._data.items()
        }
        return self._make(
            data, self._batch_size, self._device, None if self._names is None else list(self._names)
        )

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        data = {
            key: fn(value)
            if type(value) is np.ndarray or not isinstance(value, TensorCollection)
            else value._map_leaves(fn)
            for key, value in self._data.items()
        }
        return self._make(data, self._batch_size, self._device, self._names)

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = None, names: Any = None
    ) -> Self:
        """Same metadata without leaves; `recurse=True` keeps the tree of nested TensorDicts."""
        size = self._batch_size if batch_size is None else parse_batch_size(batch_size)
        kept = names if names is not None else (self.names if size == self._batch_size else None)
        out = self._make({}, size, self._device if device is None else parse_device(device), None)
        out._names = check_names(kept, len(size))
        if recurse:
            for key, value in self._data.items():
                node = self._as_node(value)
                if node is not None:
                    inner = size + node.batch_size[len(self._batch_size) :]
                    out._data[key] = self._rewrap(value, node.empty(True, batch_size=inner, device=device))
        return out


def _common_prefix(shapes: list[Shape]) -> Shape:
    if not shapes:
        return ()
    out = []
    for sizes in zip(*shapes, strict=False):
        if len(set(sizes)) > 1:
            break
        out.append(sizes[0])
    return tuple(out)
