"""The state of a lazy stack, and how one is made: what the functions of the `lazy_` files work on."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self

from lite._arrays.types import Array, Names, Shape
from lite._tree.collection import Entry
from lite._tree.protocol import Container

_new = object.__new__


class Stack(Container):
    """A container of parts, and the dimension that they are stacked along."""

    __slots__ = ("_dim_name", "_empty_device", "_empty_size", "stack_dim", "tensordicts")
    _data: Any = MappingProxyType({})  # the entries are in the parts
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None
    _empty_size: Shape
    _empty_device: str | None  # only set for a stack without parts

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
            sizes = distinct([part._batch_size for part in self.tensordicts])
        except AttributeError:
            sizes = {part.batch_size for part in self.tensordicts}
        if len(sizes) == 1:
            return sizes.pop()
        if not sizes:
            return self._empty_size
        if len({len(size) for size in sizes}) > 1:
            raise RuntimeError(
                f"the parts of a lazy stack have different numbers of batch dimensions: {sorted(sizes)}. "
                "They were changed after they had been stacked."
            )
        return tuple(n[0] if len(set(n)) == 1 else -1 for n in zip(*sizes, strict=True))

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


def distinct(values: list[Any]) -> set[Any]:
    """The distinct values. `list.count` detects the frequent case of one value faster than a set."""
    return {values[0]} if values and values.count(values[0]) == len(values) else set(values)


def pieces_along(entry: Entry | Array, dim: int) -> Sequence[Any]:
    """The pieces of an array or a collection along a dimension."""
    if isinstance(entry, Entry):
        return entry.unbind(dim)
    at: tuple[Any, ...] = (slice(None),) * dim
    return [entry[(*at, i, ...)] for i in range(entry.shape[dim])] if entry.ndim > dim else []
