"""`TensorDict`: a dict of arrays that share their leading dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from numpy import ndarray

from lite._arrays.device import move, parse_device
from lite._arrays.types import MaskedArrayError, Names
from lite._containers.batch_size import parse_batch_size
from lite._containers.dense import DenseMixin
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey, require_path
from lite._tree.names import check_names, take_names
from lite._tree.plain import plain
from lite._tree.values import as_is, as_tree, fit_leaf, fit_node, to_entry, unready
from lite._tree.writes import Writes, fitting


class TensorDict(DenseMixin):
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

    __slots__ = ()

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
        self._data = {}
        self._batch_size = parse_batch_size(batch_size)
        self._device = None if device is None else parse_device(device)
        self._names = None if names is None else check_names(names, len(self._batch_size))
        self._locked = False
        self._lock_parents = ()
        if type(source) is dict:
            if source:
                self._fill(source)
        elif source is not None:
            self._take_over(source)
        if lock:
            self.lock_()

    def _take_over(self, source: Any) -> None:
        """Take over the entries of anything but a dict, into an empty container."""
        node = self._as_node(source)
        if node is not None:
            for key in node._keys():
                self._data[key] = self._convert(node._get_str(key))
        elif isinstance(source, Mapping):
            self._fill(source)
        else:
            raise ValueError(
                "A TensorDict source is expected to be a TensorDictBase sub-type or a dictionary, found "
                f"type(source)={type(source)}."
            )

    def _fill(self, source: Mapping[Any, Any]) -> None:
        """Take over the entries of a mapping, into an empty container."""
        others = unready(source, self._batch_size, self._device) if type(source) is dict else None
        if others is not None:
            self._data = data = source.copy()  # type: ignore[attr-defined]
            if not others:
                return
            for key in others:
                try:
                    data[key] = self._convert(data[key])
                except MaskedArrayError as error:
                    raise error.below(key) from None
            for key in others:
                entry = data[key]
                if type(entry) is not TensorDict or self._names is not None or entry._names is not None:
                    self._put(key, entry)
            return
        if type(source) is dict and (tree := as_tree(source)) is not None:
            self._fill(tree)
            return
        for key, value in source.items():
            if type(key) is str:
                self._put(key, self._convert(value))
            else:
                self._set_path(require_path(key), value, False)

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

    def _peek(self, key: str) -> Any:
        return self._data.get(key)

    def _items(self) -> Iterable[tuple[str, Any]]:
        return self._data.items()

    def _peek_items(self) -> Iterable[tuple[str, Any]]:
        return self._data.items()

    def _values(self) -> Iterable[Any]:
        return self._data.values()

    def set(self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False) -> Self:
        """Store `item` under `key`; arrays are aliased, never copied. Returns self.

        Missing intermediate TensorDicts are created. With `inplace=True` an existing entry's buffer is
        written (with casting and broadcasting) instead of replaced.

        Raises:
            RuntimeError: the value's leading dimensions are not the batch size, or self is locked.
            KeyError: an intermediate key holds an array, or `key` is not a nested key.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict(batch_size=[2]).set(("a", "b"), np.ones((2, 3)))
            >>> td["a", "b"].shape
            (2, 3)
        """
        if type(key) is str:
            self._set_here(key, item, inplace)
            return self
        # Through nothing but TensorDicts the path need not be read twice.
        node: Any = self if type(key) is tuple else None
        for name in key[:-1] if node is not None else ():
            node = node._data.get(name) if type(node) is TensorDict and type(name) is str else None
            if node is None:
                break
        if type(node) is TensorDict and key and type(key[-1]) is str:
            node._set_here(key[-1], item, inplace)
        else:
            self._set_path(require_path(key), item, inplace)
        return self

    def _set_here(self, key: str, item: Any, inplace: bool, writes: Writes | None = None) -> None:
        if inplace:
            current: Any = self._data.get(key)
            if writes is None:
                ready = fitting(current, item)
                if ready is not None:
                    current[...] = ready
                    return
            elif writes.take(current, item):
                return
        elif not self._locked and as_is(item, self._batch_size, self._device):
            if writes is not None:
                writes.keep(self)
            self._data[key] = item
            return
        try:
            super()._set_here(key, item, inplace, writes)
        except MaskedArrayError as error:
            raise error.below(key) from None

    def _put(self, key: str, entry: Any) -> None:
        if type(entry) is ndarray:
            self._data[key] = entry
            return
        node = entry if isinstance(entry, DenseMixin) else self._as_node(entry)
        if node is None:
            self._data[key] = entry
            return
        named: list[tuple[Any, Names]] = []
        if self._names is not None:
            entry, node = self._named(entry, node)  # raises before anything changes
        elif node._names is not None and self._batch_size:
            named = self._names_of(key, node)
        self._data[key] = entry
        if self._locked:
            node._lock(self)
        take_names(named)

    def _put_arrays(self, entries: dict[str, Any]) -> None:
        self._data.update(entries)

    def _remove(self, key: str) -> None:
        del self._data[key]

    def _to_entry(self, value: Any) -> Any:
        return to_entry(value, self._batch_size, self._node_from)

    def _node_from(self, mapping: Mapping[Any, Any]) -> TensorDict:
        node = _make({}, self._batch_size, self._device, self._names)
        if mapping:
            node._fill(mapping)
        return node

    def _convert(self, value: Any) -> Any:
        if type(value) is dict:
            return self._node_from(value)  # of self's batch size and device
        size = self._batch_size
        if as_is(value, size, self._device):
            return value
        if (
            type(value) is TensorDict
            and value is not self
            and value._batch_size[: len(size)] == size
            and (self._device is None or value._device == self._device)
        ):
            return value
        entry = self._to_entry(value)
        if isinstance(entry, TensorCollection):
            if entry is self:
                raise ValueError("a TensorDict cannot be stored inside itself.")
            entry = fit_node(entry, size)
            if self._device is not None and not entry._is_non_tensor and entry.device != self._device:  # type: ignore[attr-defined]
                entry = entry.to(self._device)  # type: ignore[attr-defined]
            return entry
        if size and entry.shape[: len(size)] != size:
            fit_leaf(entry, size)
        return entry if self._device is None else move(entry, self._device)

    def _blank(self) -> TensorDict:
        return _make({}, self._batch_size, self._device, self._names)

    def _lock_children(self) -> list[Any]:
        nodes = []
        for value in self._data.values():
            if type(value) is not ndarray:
                node = self._as_node(value)
                if node is not None:
                    nodes.append(node)
        return nodes

    def _named(self, entry: Any, node: Any) -> tuple[Any, Any]:
        """An entry and its node with the names of self: a copy of the containers if they had none."""
        wanted: Any = self._names
        own = [None] * node.ndim if node._names is None else node._names
        head, rest = own[: len(wanted)], own[len(wanted) :]
        if head == wanted:
            return entry, node
        if any(name is not None and name != other for name, other in zip(head, wanted, strict=True)):
            raise RuntimeError(f"refine_names: cannot coerce TensorDict names {own} with {[*wanted, *rest]}.")
        node = node._clone(False)
        node._set_names(check_names([*wanted, *rest], node.ndim))
        return self._rewrap(entry, node), node

    def _names_of(self, key: str, node: Any) -> list[tuple[Any, Names]]:
        """What self and the nodes in it are named by when a node that has names is stored."""
        named: list[tuple[Any, Names]] = []
        head = check_names(list(node._names[: self.ndim]), self.ndim)
        if head is not None:
            self._collect_names(head, named, but=key)
        return named

    # -- metadata -----------------------------------------------------------------------------

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


_make = TensorDict._make
