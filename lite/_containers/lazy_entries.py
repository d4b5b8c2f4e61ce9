"""The entries of a lazy stack: found in each part, also at the end of a path, and only then stacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import Any, Self

from numpy import ndarray

from lite._arrays.device import on_leaves
from lite._arrays.types import Path, Shape, is_array
from lite._containers.ragged import stack_arrays, stack_objects, unstackable
from lite._ops.structure import StructureMixin
from lite._tensordict import TensorDict
from lite._tree.nontensor import NonTensorBase
from lite._tree.writes import Writes

_ARRAYS = {ndarray}
_NODES = {TensorDict}


class LazyEntriesMixin(StructureMixin):
    """What `LazyStackedTensorDict` answers about its keys, and what is read and written by path.

    Parts are most often TensorDicts of arrays and TensorDicts. Their dicts are looked at without a call
    for each; every other kind of part is asked, which gives the same.
    """

    __slots__ = ()
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None

    @classmethod
    def _make(cls, parts: list[Any], dim: int, name: str | None = None, empty_size: Shape = ()) -> Self:
        raise NotImplementedError

    def _dicts(self) -> list[dict[str, Any]] | None:
        """The entries of all parts, if every part has a dict of them."""
        try:
            return [part._data for part in self.tensordicts]
        except AttributeError:
            return None

    def _keys(self) -> Iterable[str]:
        return self._shared_keys(self._dicts())

    def _shared_keys(self, dicts: list[dict[str, Any]] | None) -> list[str]:
        if not self.tensordicts:
            return []
        first, *others = [part._keys() for part in self.tensordicts] if dicts is None else dicts
        return sorted(set(first).intersection(*others))

    def _get_str(self, key: str) -> Any:
        try:
            entries = [part._data.get(key) for part in self.tensordicts]
        except AttributeError:
            return self._get_path((key,))
        return self._stacked(key, entries)

    def _get_path(self, path: Path) -> Any:
        entries = _ends(self.tensordicts, path)
        if entries is None:
            try:
                entries = _until_missing(self.tensordicts, lambda part: part._get_path(path))
            except RuntimeError:  # ragged further down, which only matters if all parts have the key
                if self._peek_path(path) is None:
                    return None
                raise
        return self._stacked(path[-1], entries)

    def _stacked(self, key: str, entries: list[Any]) -> Any:
        """The entry that those of the parts make; None if one has none."""
        kinds = set(map(type, entries))
        if kinds == _ARRAYS:
            return stack_arrays(key, entries, self.stack_dim, host=True)
        if not entries or NoneType in kinds:
            return None
        if kinds == _NODES:
            return self._stack_dense(key, entries)
        if all(is_array(entry) for entry in entries):
            return on_leaves(lambda *arrays: stack_arrays(key, list(arrays), self.stack_dim), *entries)
        if all(isinstance(entry, NonTensorBase) for entry in entries):
            return stack_objects(entries, self.stack_dim)
        if all(self._as_node(entry) is not None for entry in entries):
            return self._stack_nodes(key, entries)
        raise unstackable(key, entries)

    def _stack_nodes(self, key: str, entries: list[Any]) -> Any:
        """As `_stack_dense`, for containers of any kind, tensorclasses too."""
        nodes = [self._as_node(entry) for entry in entries]
        if len({node.ndim for node in nodes}) > 1:
            raise unstackable(key, entries)
        out = self._make(nodes, self.stack_dim, self._dim_name)
        same = all(type(entry) is type(entries[0]) for entry in entries)
        return self._rewrap(entries[0], out) if same else out

    def _stack_dense(self, key: str, nodes: list[Any]) -> Self:
        sizes = [node._batch_size for node in nodes]
        if sizes.count(sizes[0]) < len(sizes) and len(set(map(len, sizes))) > 1:
            raise unstackable(key, nodes)
        return self._make(nodes, self.stack_dim, self._dim_name)

    def _peek(self, key: str) -> Any:
        """What tells the kind of an entry: a nested container is stacked, a leaf is that of one part."""
        try:
            entries = [part._data.get(key) for part in self.tensordicts]
        except AttributeError:
            entries = _until_missing(self.tensordicts, lambda part: part._peek(key))
        return self._stand_in(key, entries)

    def _peek_path(self, path: Path) -> Any:
        entries = _ends(self.tensordicts, path)
        if entries is None:
            entries = _until_missing(self.tensordicts, lambda part: part._peek_path(path))
        return self._stand_in(path[-1], entries)

    def _stand_in(self, key: str, entries: list[Any]) -> Any:
        kinds = set(map(type, entries))
        if not entries or NoneType in kinds:
            return None
        if type(entries[0]) is ndarray:
            return entries[0]
        if kinds == _NODES:
            return self._stack_dense(key, entries)
        leaves = [entry for entry in entries if self._as_node(entry) is None]
        return leaves[0] if leaves else self._stack_nodes(key, entries)

    def _items(self) -> Iterable[tuple[str, Any]]:
        dicts = self._dicts()
        if dicts is None:
            return super()._items()
        keys = self._shared_keys(dicts)
        return ((key, self._stacked(key, [entries.get(key) for entries in dicts])) for key in keys)

    def _peek_items(self) -> Iterable[tuple[str, Any]]:
        dicts = self._dicts()
        if not dicts:
            return [(key, self._peek(key)) for key in self._keys()]
        found = []
        for key in self._shared_keys(dicts):
            entry = dicts[0][key]
            if type(entry) is not ndarray:
                entry = self._stand_in(key, [entries[key] for entries in dicts])
            found.append((key, entry))
        return found

    def _set_path(self, path: Path, item: Any, inplace: bool, writes: Writes | None = None) -> None:
        nodes = _ends(self.tensordicts, path[:-1]) if len(path) > 1 else None
        if nodes and set(map(type, nodes)) == _NODES:
            self._stack_dense(path[-2], nodes)._set_here(path[-1], item, inplace, writes)
        else:
            super()._set_path(path, item, inplace, writes)


def _ends(parts: Sequence[Any], path: Path) -> list[Any] | None:
    """What each part has at a path through TensorDicts; None if the path goes through anything else."""
    found = []
    try:
        for node in parts:
            for name in path:
                if type(node) is not TensorDict:
                    return None
                node = node._data[name]
            found.append(node)
    except KeyError:
        return [None]  # as one part lacks it, the stack does
    return found


def _until_missing(parts: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """What is read of each part; up to the first that has None, which decides."""
    found = []
    for part in parts:
        found.append(read(part))
        if found[-1] is None:
            break
    return found
