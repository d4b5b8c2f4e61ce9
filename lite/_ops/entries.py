"""Join entries of one TensorDict, take entries out of it, and ask what kind they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from lite._arrays.device import wrap
from lite._arrays.types import HOST_LEAVES, Array, Path, is_array, raw
from lite._ops.structure import StructureMixin
from lite._tree.collection import is_leaf_nontensor, is_non_tensor
from lite._tree.key_views import walk
from lite._tree.keys import NestedKey, require_path, to_key
from lite._tree.lock import LOCK_ERROR
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import MISSING
from lite._tree.walks import leaves


class EntriesMixin(StructureMixin):
    """Methods about the entries of one TensorDict."""

    __slots__ = ()

    def cat_tensors(
        self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False
    ) -> Self:
        """Replace arrays by their concatenation; returns self.

        Args:
            keys: the entries to join; they are removed unless `keep_entries`.
            out_key: key of the joined array.
            dim: dimension of the arrays (not only of the batch) to join along.
            keep_entries: leave the joined entries where they are.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: self is locked, or the result does not start with the batch size.
            ValueError: no key is given, or shapes do not fit.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": np.zeros((2, 3)), "b": np.ones((2, 1))}, batch_size=[2])
            >>> td.cat_tensors("a", "b", out_key="ab", dim=-1)["ab"].shape
            (2, 4)
        """
        return self._join(np.concatenate, keys, out_key, dim, keep_entries)

    def stack_tensors(
        self, *keys: NestedKey, out_key: NestedKey, dim: int = 0, keep_entries: bool = False
    ) -> Self:
        """Replace arrays by their stack along a new dimension; see `cat_tensors`."""
        return self._join(np.stack, keys, out_key, dim, keep_entries)

    def _join(
        self, join: Callable[..., Array], keys: Sequence[NestedKey], out_key: NestedKey, dim: int, keep: bool
    ) -> Self:
        paths = [require_path(key) for key in keys]
        target = require_path(out_key)
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        arrays = []
        for path in paths:
            entry = self._get_path(path)
            if entry is None:
                raise self._missing(path)
            if not is_array(entry):
                raise TypeError(f"the entry {to_key(path)!r} is no array but a {type(entry).__name__}.")
            arrays.append(entry)
        # Converted before anything is removed: a failure leaves self as it was.
        joined = self._convert(join(arrays, dim))
        if not keep:
            for path in dict.fromkeys(paths):
                if path != target:
                    self.del_(to_key(path))
        return self.set(to_key(target), joined)

    def cat_from_tensordict(
        self, dim: int = 0, *, sorted: bool | Sequence[NestedKey] | None = None, out: Any = None
    ) -> Array:
        """All arrays, nested ones included, concatenated into one.

        Args:
            dim: dimension of the arrays to join along.
            sorted: True for alphabetical order, a list of keys for that order and choice; else the
                order of insertion.
            out: array that receives the result.

        Raises:
            ValueError: there is no array, or shapes do not fit.
        """
        return np.concatenate(self._ordered(sorted), dim, out=out)

    def stack_from_tensordict(
        self, dim: int = 0, *, sorted: bool | Sequence[NestedKey] | None = None, out: Any = None
    ) -> Array:
        """All arrays stacked into one along a new dimension; see `cat_from_tensordict`."""
        return np.stack(self._ordered(sorted), dim, out=out)

    def _ordered(self, order: bool | Sequence[NestedKey] | None) -> list[Array]:
        if order is None or order is False:
            keys: Any = self.keys(True, True)
        else:
            keys = self.keys(True, True, sort=True) if order is True else order
        found = []
        for key in keys:
            entry = self._get_path(require_path(key))
            if entry is None:
                raise self._missing(require_path(key))
            found.append(np.asarray(wrap(entry)))
        return found

    def separates(
        self,
        *keys: NestedKey,
        default: Any = MISSING,
        strict: bool = True,
        filter_empty: bool = True,
    ) -> Self:
        """Move entries to a new TensorDict, which is returned.

        Args:
            keys: the entries to take.
            default: value of entries that are missing.
            strict: raise KeyError for a missing entry without default (else it is left out).
            filter_empty: remove nodes of self that become empty.

        Example:
            >>> from lite import TensorDict
            >>> td = TensorDict(a=1, b=2)
            >>> td.separates("a")["a"], list(td.keys())
            (array(1), ['b'])
        """
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        paths = [require_path(key) for key in keys]
        found = {path: self._get_path(path) for path in paths}
        out = self._blank()
        for path, entry in found.items():
            if entry is None and default is MISSING:
                if strict:
                    raise self._missing(path)
                continue
            out._set_path(path, default if entry is None else entry, False)  # type: ignore[attr-defined]
        for path, entry in found.items():
            if entry is not None:
                self.del_(to_key(path))
        return out if not filter_empty else self._without_empty_nodes(paths, out)  # type: ignore[return-value]

    def _without_empty_nodes(self, paths: list[Path], out: Any) -> Any:
        for path in paths:
            for n in range(len(path) - 1, 0, -1):
                node = self._as_node(self._get_path(path[:n]))
                if node is not None and node.is_empty():
                    self.del_(to_key(path[:n]))
        return out

    def filter_non_tensor_data(self) -> Self:
        """A TensorDict without non-tensor entries, at any depth; arrays are aliased."""
        stacked = self._parts()
        if stacked is not None:
            return self._from_parts([part.filter_non_tensor_data() for part in stacked[0]])  # type: ignore[return-value]
        entries: dict[str, Any] = {}
        for key, entry in self._items():
            node = self._as_node(entry)
            if node is not None:
                entries[key] = self._rewrap(entry, node.filter_non_tensor_data())
            elif not isinstance(entry, NonTensorBase):
                entries[key] = entry
        return self._with(entries)

    def non_tensor_items(self, include_nested: bool = False) -> Iterator[tuple[NestedKey, Any]]:
        """(key, non-tensor entry) pairs, of nested TensorDicts too if `include_nested`."""
        for path, entry in walk(self, include_nested, False, is_leaf_nontensor):
            if is_non_tensor(entry):
                yield to_key(path), entry

    def is_non_tensor(self, key: NestedKey) -> bool:
        """Whether an entry is non-tensor data; KeyError if there is none."""
        return issubclass(self.entry_class(key), NonTensorBase)

    def entry_class(self, key: NestedKey) -> type:
        """The type of an entry, without stacking it; KeyError if there is none.

        Example:
            >>> from lite import TensorDict
            >>> TensorDict(a=1, s="x").entry_class("s").__name__
            'NonTensorData'
        """
        path = require_path(key)
        entry = self._peek_path(path)
        if entry is None:
            raise self._missing(path)
        return type(entry)

    @property
    def depth(self) -> int:
        """How deep leaves are nested: 0 where all are direct entries.

        Example:
            >>> from lite import TensorDict
            >>> TensorDict({"a": {"b": {"c": 1}}}).depth
            2
        """
        paths = walk(self, True, True, is_leaf_nontensor, True)
        return max((len(path) for path, _ in paths), default=1) - 1

    def data_ptr(self, *, storage: bool = False) -> Any:
        """Addresses of the arrays, as a TensorDict of integers without batch size.

        Args:
            storage: the address of the memory that the array is a view of.
        """
        out = self.filter_non_tensor_data()
        return out.apply(  # type: ignore[attr-defined]
            lambda leaf: np.asarray(_address(leaf, storage), np.int64), batch_size=(), filter_empty=False
        )

    @property
    def is_cpu(self) -> bool:
        """Whether self is bound to the CPU (see `device`)."""
        return self.device == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether self is bound to a GPU (see `device`)."""
        return self.device is not None and self.device.startswith("cuda")

    @property
    def is_meta(self) -> bool:
        """False: arrays without memory do not exist here."""
        return False

    def auto_device_(self) -> Self:
        """Bind to the device that all arrays are on, or to none if they differ; returns self."""
        stacked = self._parts()
        if stacked is not None:
            for part in stacked[0]:
                part.auto_device_()
            return self
        devices = {"cpu" if isinstance(leaf, HOST_LEAVES) else "cuda" for leaf in leaves(self)}
        device = devices.pop() if len(devices) == 1 else None
        _bind(self, device)
        return self

    def rename_(self, *names: Any, **rename_map: str) -> Self:
        """Give the dimensions other names: all of them, or by `old="new"`; returns self.

        Raises:
            ValueError: names of both kinds, a wrong number of them, or an unknown old name.
        """
        if names and rename_map:
            raise ValueError("Passed both a name map and a name list. Only one is accepted.")
        if rename_map:
            old: list[str | None] = self.names  # type: ignore[attr-defined]
            unknown = [name for name in rename_map if name not in old]
            if unknown:
                raise ValueError(
                    f"Some names to be renamed were not part of the tensordict names: {unknown} vs {old}."
                )
            new: list[Any] = [None if name is None else rename_map.get(name, name) for name in old]
        else:
            new = list(names)
        self._set_names(check_names(new, self.ndim))  # type: ignore[attr-defined]
        return self

    def rename(self, *names: Any, **rename_map: str) -> Self:
        """A copy of the containers with other dimension names; see `rename_`."""
        out: Any = self._clone(False)
        return out.rename_(*names, **rename_map)  # type: ignore[no-any-return]


def _bind(td: Any, device: str | None) -> None:
    td._set_device(device)
    for _, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            node.auto_device_() if node._parts() is not None else _bind(node, device)


def _address(leaf: Array, storage: bool) -> int:
    base: Any = raw(leaf)
    while storage and isinstance(base.base, np.ndarray):
        base = base.base
    address: int = base.__array_interface__["data"][0]
    return address
