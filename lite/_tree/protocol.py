"""The small protocol that `TensorDict` and `LazyStackedTensorDict` implement.

Every other method is written against it, in mixins of one concern each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from lite._arrays.types import Names, Shape
from lite._tree.collection import TensorCollection
from lite._tree.undo import ContextMixin

if TYPE_CHECKING:
    from lite._tree.writes import Writes


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final[Any] = _Missing()


class TensorDictCore(ContextMixin):
    """What a container must provide; entries are arrays or `TensorCollection`s, never None."""

    __slots__ = ("_names", "_source")
    _converts: ClassVar[bool] = False  # whether storing an array that fits makes something else of it
    _names: Names
    _source: Any  # what the leaves are mapped to: a folder, None for memory; or the buffer they are views of

    def _keys(self) -> Iterable[str]:
        """Direct keys, in order."""
        raise NotImplementedError

    def _get_str(self, key: str) -> Any:
        """The direct entry, or None."""
        raise NotImplementedError

    def _reach(self, path: Any) -> Any:
        """The entry at a flat path through nothing but dense TensorDicts; None for all other keys."""
        return None

    def _peek(self, key: str) -> Any:
        """What tells whether an entry exists and of which kind it is, without stacking leaves."""
        return self._get_str(key)

    def _item_shape(self, key: str) -> Shape | None:
        """Shape of a direct entry, -1 where stacked ones differ; None if there is no such entry."""
        entry = self._get_str(key)
        return None if entry is None else tuple(entry.shape)

    def _put(self, key: str, entry: Any) -> None:
        """Store a converted and checked entry, whatever the lock says."""
        raise NotImplementedError

    def _put_arrays(self, entries: dict[str, Any]) -> None:
        """Store arrays that are known to fit as they are."""
        for key, entry in entries.items():
            self._put(key, entry)

    def _remove(self, key: str) -> None:
        """Drop a direct entry; KeyError(key) if there is none."""
        raise NotImplementedError

    def _to_entry(self, value: Any) -> Any:
        """Convert a user's value to an entry, without checking its shape."""
        raise NotImplementedError

    def _convert(self, value: Any) -> Any:
        """Convert a user's value to an entry that fits the batch size and device."""
        raise NotImplementedError

    def _blank(self) -> TensorDictCore:
        """An empty unlocked container of the same batch size, device and names."""
        raise NotImplementedError

    def _set_index(self, index: Any, value: Any, writes: Writes | None = None) -> None:
        """`td[index] = value` for a batch index, as part of `writes` if they are given."""
        raise NotImplementedError

    def _save(self) -> Any:
        """What `_reset` needs to undo every change of the container itself; arrays are not copied."""
        raise NotImplementedError

    def _reset(self, saved: Any) -> None:
        """Return to what `_save` gave."""
        raise NotImplementedError

    def _lock_children(self) -> list[Any]:
        raise NotImplementedError

    def _items(self) -> Iterable[tuple[str, Any]]:
        """Direct (key, entry) pairs, in order."""
        return ((key, self._get_str(key)) for key in self._keys())

    def _peek_items(self) -> Iterable[tuple[str, Any]]:
        """Direct keys, each with what `_peek` gives."""
        return self._items()

    def _entries(self) -> dict[str, Any]:
        """The direct entries, not to be changed."""
        return dict(self._items())

    def _values(self) -> Iterable[Any]:
        """Direct entries, in order."""
        return (entry for _, entry in self._items())

    def _flat(self) -> dict[str, Any] | None:
        """The entries, not to be changed, if all are NumPy arrays held as they are; else None."""
        return None

    def _parts(self) -> tuple[Sequence[Any], int] | None:
        """The stacked containers and the dimension they are stacked along; None unless lazy.

        What works per entry (pointwise operations, apply, casts, repr) goes through the parts where
        there are some, so that ragged and exclusive entries take part.
        """
        return None

    def _from_parts(self, parts: Sequence[Any]) -> TensorDictCore:
        """A lazy stack like self of other containers, all of one batch size; unlocked."""
        raise NotImplementedError

    @staticmethod
    def _as_node(entry: Any) -> Any:
        """The container behind an entry (a nested TensorDict, or a tensorclass's), else None."""
        if isinstance(entry, TensorDictCore):
            return entry
        return getattr(entry, "_tensordict", None) if isinstance(entry, TensorCollection) else None

    @property
    def batch_size(self) -> Shape:
        """Shape that all entries share as their leading dimensions."""
        raise NotImplementedError

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        raise NotImplementedError

    @property
    def device(self) -> str | None:
        """Device that entries are moved to, or None."""
        raise NotImplementedError

    def _set_device(self, device: str | None) -> None:
        """Bind to a device; the entries, known to be there, stay as they are."""
        raise NotImplementedError

    def update(self, *args: Any, **kwargs: Any) -> Self:
        raise NotImplementedError

    def _update(self, *args: Any) -> None:
        raise NotImplementedError

    def _set_here(self, key: str, item: Any, inplace: bool, writes: Writes | None = None) -> None:
        raise NotImplementedError

    def _create(self, path: tuple[str, ...], item: Any, writes: Writes | None = None) -> None:
        raise NotImplementedError

    def is_empty(self) -> bool:
        raise NotImplementedError
