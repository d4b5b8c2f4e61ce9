"""What lazy stacks do part by part instead of entry by entry: keys, updates, edits of the stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lite._arrays.types import Path, Shape, is_array
from lite._containers.exclusive import keys_differ
from lite._containers.lazy_names import LazyNamesMixin
from lite._ops.structure import StructureMixin
from lite._tree.collection import TensorCollection
from lite._tree.keys import NestedKey, require_path
from lite._tree.lock import LOCK_ERROR
from lite._tree.protocol import MISSING
from lite._tree.undo import flattened, unflattened
from lite._tree.writes import Writes

if TYPE_CHECKING:
    from lite._tensordict import TensorDict


class LazyKeysMixin(StructureMixin, LazyNamesMixin):
    """Structure methods of `LazyStackedTensorDict`; ragged and exclusive entries take part."""

    __slots__ = ()

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

    def _each(self, fn: Callable[[Any], Any], inplace: bool = False) -> Any:
        """Apply `fn` to every part and stack the results; or change every part and return self."""
        if inplace:
            if self.is_locked:
                raise RuntimeError(LOCK_ERROR)
            with Writes() as writes:
                writes.keep(self)  # a part may fail when others are done
                for part in {id(part): part for part in self.tensordicts}.values():
                    fn(part)
            return self
        return self._from_parts([fn(part) for part in self.tensordicts])

    def _require_all(self, paths: Iterable[Path]) -> None:
        for path in paths:
            if self._peek_path(path) is None:
                raise self._missing(path)

    def __contains__(self, key: object) -> bool:
        if not self.tensordicts:
            return super().__contains__(key)
        return all(key in part for part in self.tensordicts)

    def _exclusive(self) -> bool:
        """Whether some part has a key, at any depth, that another part lacks."""
        return keys_differ(self.tensordicts)

    def _require_shared(self, method: str) -> None:
        if self._exclusive():
            raise RuntimeError(f"the method {method} cannot complete when there are exclusive keys.")

    def _is_stackable(self) -> bool:
        """Whether `contiguous` would lose nothing: same keys, and leaves of the same shapes."""
        if self._exclusive() or -1 in self.batch_size:
            return False
        try:
            self.contiguous()
        except RuntimeError:
            return False
        return True

    def select(
        self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False
    ) -> Self:
        """Keep only some keys of every part; with `strict`, each must be common to all parts."""
        paths = [require_path(key) for key in keys]
        if strict:
            self._require_all(paths)
        return self._each(  # type: ignore[no-any-return]
            lambda part: part.select(*paths, inplace=inplace, strict=False), inplace
        )

    def _selected(self, paths: list[Path], strict: bool) -> Self:
        return self.select(*paths, strict=strict)

    def exclude(self, *keys: NestedKey, inplace: bool = False) -> Self:
        """Drop some keys from every part that has them."""
        return self._each(lambda part: part.exclude(*keys, inplace=inplace), inplace)  # type: ignore[no-any-return]

    def _excluded(self, keys: Sequence[str | Path]) -> Self:
        return self.exclude(*keys)

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        """Move an entry of every part to another key; KeyError unless all parts have it."""
        old, new = self._rename_paths(old_key, new_key)
        if old == new:
            return self
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        self._require_all([old])
        if safe and any(part._peek_path(new) is not None for part in self.tensordicts):
            raise KeyError(f"key {new_key} already present in TensorDict.")
        return self._each(lambda part: part.rename_key_(old, new), True)  # type: ignore[no-any-return]

    def flatten_keys(
        self, separator: str = ".", inplace: bool = False, is_leaf: Callable[[type], bool] | None = None
    ) -> Self:
        """Bring nested entries of every part to its top; RuntimeError if parts have exclusive keys."""
        self._require_shared("flatten_keys")
        out = self._each(lambda part: part.flatten_keys(separator, inplace=inplace, is_leaf=is_leaf), inplace)
        return self._remember(out, unflattened(separator))  # type: ignore[no-any-return]

    def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> Self:
        """Inverse of `flatten_keys`, in every part."""
        self._require_shared("unflatten_keys")
        out = self._each(lambda part: part.unflatten_keys(separator, inplace=inplace), inplace)
        return self._remember(out, flattened(separator))  # type: ignore[no-any-return]

    def split_keys(
        self,
        *key_sets: Iterable[NestedKey] | Mapping[NestedKey, NestedKey],
        inplace: bool = False,
        default: Any = MISSING,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Self, ...]:
        """Distribute the entries of every part over one lazy stack per key set, plus the rest."""
        sets = [s if isinstance(s, Mapping) else list(s) for s in key_sets]
        if default is MISSING and strict:
            self._require_all(require_path(key) for key_set in sets for key in key_set)
        if inplace and self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        with Writes() as writes:
            if inplace:
                writes.keep(self)  # a part may fail when others are done
            split = {  # once, where one part is there more than once
                id(part): part.split_keys(
                    *sets, inplace=inplace, default=default, strict=strict, reproduce_struct=reproduce_struct
                )
                for part in {id(part): part for part in self.tensordicts}.values()
            }
        pieces = zip(*(split[id(part)] for part in self.tensordicts), strict=True)
        outs: list[Any] = [self._from_parts(list(parts)) for parts in pieces]
        return (*outs[:-1], self if inplace else outs[-1])

    def del_(self, key: NestedKey) -> Self:
        """Remove an entry from every part that has it; KeyError if none has."""
        path = require_path(key)
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        holders = [part for part in self.tensordicts if part._peek_path(path) is not None]
        if not holders:
            raise self._missing(path)
        with Writes() as writes:
            writes.keep(self)  # a part may be locked
            for part in {id(part): part for part in holders}.values():
                part.del_(path)
        return self

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Not for lazy stacks, whose batch size follows from that of their parts.

        Raises:
            RuntimeError: `batch_dims` is smaller than the number of batch dimensions.
        """
        self.batch_size = self.batch_size if batch_dims is None else self.batch_size[:batch_dims]
        return self

    def filter_empty_(self) -> Self:
        """Remove nested TensorDicts without any leaf from every part; returns self."""
        return self._each(lambda part: part.filter_empty_(), True)  # type: ignore[no-any-return]

    def is_empty(self) -> bool:
        """True if no part has a leaf."""
        return all(part.is_empty() for part in self.tensordicts)

    def clear(self) -> Self:
        """Remove every entry of every part; returns self."""
        return self._each(lambda part: part.clear(), True)  # type: ignore[no-any-return]

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = None, names: Any = None
    ) -> Any:
        """A lazy stack of empty parts; with another batch size, device or names a dense TensorDict."""
        if batch_size is None and device is None and names is None:
            return self._each(lambda part: part.empty(recurse))
        size = self.batch_size if batch_size is None else batch_size
        return self.contiguous().empty(recurse, batch_size=size, device=device, names=names)

    def _update(
        self,
        source: Any,
        clone: bool,
        inplace: bool,
        chosen: list[Path] | None,
        is_leaf: Callable[[type], bool] | None,
        writes: Writes,
    ) -> None:
        if not self._pairs_up(source):
            whole, apart = self._apart(source)
            super()._update(whole, clone, inplace, chosen, is_leaf, writes)
        else:
            apart = self._as_node(source).tensordicts
        if apart:
            with writes.together():
                for part, other in zip(self.tensordicts, apart, strict=True):
                    part._update(other, clone, inplace, chosen, is_leaf, writes)

    def _apart(self, source: Any) -> tuple[Any, Sequence[Any]]:
        """A source as what can be set for the whole stack, and what has to go to each part.

        The latter are nested entries that merge into those of some parts only, and lazy stacks along
        another dimension, whose rows may be ragged.
        """
        node = self._as_node(source)
        pairs = dict(source) if node is None else dict(node._items())
        some = {key: value for key, value in pairs.items() if self._goes_apart(key, value)}
        if not some:
            return source, ()
        whole = {key: value for key, value in pairs.items() if key not in some}
        shares = [self._pieces(self._convert(value)) for value in some.values()]  # type: ignore[attr-defined]
        return whole, [dict(zip(some, pieces, strict=True)) for pieces in zip(*shares, strict=True)]

    def _goes_apart(self, key: NestedKey, value: Any) -> bool:
        node, path = self._as_node(value), require_path(key)
        if node is None and not isinstance(value, Mapping):
            return False
        if self._peek_path(path) is not None:
            return isinstance(node, LazyKeysMixin) and not node._is_stackable()
        return any(has_node(part, path) for part in self.tensordicts)

    def _copy_entries(
        self, source: Any, chosen: list[Path] | None, strict: bool, writes: Writes, above: Path = ()
    ) -> None:
        if not self._pairs_up(source):
            whole, apart = self._apart(source)
            super()._copy_entries(whole, chosen, strict, writes, above)
        else:
            apart = self._as_node(source).tensordicts
        if apart:
            with writes.together():
                for part, other in zip(self.tensordicts, apart, strict=True):
                    part._copy_entries(other, chosen, strict, writes, above)

    def _pairs_up(self, source: Any) -> bool:
        """Whether a source is stacked as self is, so that its parts, ragged or not, go to those of self.

        Raises:
            ValueError: it has another number of parts.
        """
        node = self._as_node(source)
        if not isinstance(node, LazyKeysMixin) or node.stack_dim != self.stack_dim:
            return False
        if len(node.tensordicts) != len(self.tensordicts):
            raise ValueError("cannot update stacked tensordicts with different shapes.")
        return True

    def update_at_(
        self,
        input_dict_or_td: Mapping[Any, Any] | TensorCollection,
        idx: Any,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Iterable[NestedKey] | None = None,
    ) -> Self:
        """Write the entries of a source at a batch index of existing entries; returns self."""
        node = self._as_node(input_dict_or_td)
        if not isinstance(node, LazyKeysMixin) or keys_to_update is not None:
            return super().update_at_(input_dict_or_td, idx, clone, keys_to_update=keys_to_update)
        self._require_all(map(require_path, node.keys(True)))
        self._set_index(idx, node)
        return self

    def _set_at(self, path: Path, value: Any, index: Any, writes: Writes) -> None:
        if self._peek_path(path) is None:
            raise self._missing(path)
        if -1 in self.get_item_shape(path):
            whole = not isinstance(value, TensorCollection) and np.ndim(value) == 0
            self.select(path)._set_index(index, value if whole else {path: value}, writes)
            return
        entry = self._get_path(path)
        if not is_array(entry):
            super()._set_at(path, value, index, writes)
            return
        # The stacked entry is a copy; what is written to it goes to the parts, which may be one and the same.
        with Writes() as now:
            now.copy(entry, self._to_entry(value), index)
        mask = np.zeros(entry.shape, bool)
        mask[index] = True
        rows, picked = self._pieces(entry), self._pieces(mask)  # type: ignore[attr-defined]
        for part, row, at in zip(self.tensordicts, rows, picked, strict=True):
            part._set_at(path, row[at], at, writes)

    # -- the stack itself ---------------------------------------------------------------------

    def _item_shape(self, key: str) -> Shape | None:
        shapes = [part._item_shape(key) for part in self.tensordicts]
        if not shapes or any(shape is None for shape in shapes):
            return None
        if len({len(shape) for shape in shapes}) > 1:
            return (-1,)
        merged = [n[0] if len(set(n)) == 1 else -1 for n in zip(*shapes, strict=True)]
        return (*merged[: self.stack_dim], len(shapes), *merged[self.stack_dim :])

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> TensorDict:
        """A dense TensorDict with the entries that all parts share, stacked.

        Raises:
            NotImplementedError: `inplace`, as a lazy stack cannot become dense.
            RuntimeError: a leaf is ragged, or the batch size is.
        """
        from lite._tensordict import TensorDict

        if inplace:
            self._adopt(self, "contiguous")
        if -1 in self.batch_size:
            raise RuntimeError(f"a ragged batch of size {self.batch_size} cannot become dense.")
        entries = {}
        for key in self._keys():
            entry = self._get_str(key)
            node = self._as_node(entry)
            entries[key] = entry if node is None else self._rewrap(entry, node.contiguous())
        return TensorDict._make(entries, self.batch_size, self.device, self._names)

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """A dense TensorDict with copies of the entries that all parts share.

        Raises:
            RuntimeError: a leaf is ragged, or the batch size is.
        """
        return self.contiguous().to_tensordict(retain_none=retain_none)

    def densify(self, padding_value: Any = 0.0, padding_side: str = "right") -> TensorDict:
        """A dense TensorDict in which ragged leaves are padded to the longest along their first dim.

        Entries that some part lacks are left out.

        Raises:
            RuntimeError: the batch size is ragged, or leaves differ in more than the first dim.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict, lazy_stack
            >>> lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)]).densify()["a"]
            array([[1., 0.],
                   [1., 1.]])
        """
        from lite._containers.ragged import read
        from lite._tensordict import TensorDict

        if -1 in self.batch_size:
            raise RuntimeError(f"a ragged batch of size {self.batch_size} cannot become dense.")
        entries = {}
        for key in self._keys():
            entry = self._peek(key)
            node = self._as_node(entry)
            if node is not None:
                dense = node.densify(padding_value, padding_side)
                entries[key] = self._rewrap(entry, dense)
            elif isinstance(entry, np.ndarray) and -1 in self.get_item_shape(key):
                entries[key] = read(
                    self, key, as_padded_tensor=True, padding_value=padding_value, padding_side=padding_side
                )
            else:
                entries[key] = self._get_str(key)
        return TensorDict._make(entries, self.batch_size, self.device, self._names)


def has_node(td: Any, path: Path) -> bool:
    """Whether there is a node at a path, be it in some parts only."""
    if td._as_node(td._peek_path(path)) is not None:
        return True
    return isinstance(td, LazyKeysMixin) and any(has_node(part, path) for part in td.tensordicts)
