"""Names of the dimensions of a lazy stack: those of its parts, and its own for the stack dimension."""

from __future__ import annotations

from typing import Any

from lite._arrays.types import Names, Shape
from lite._tree.names import NamesMixin, check_names


class LazyNamesMixin(NamesMixin):
    """`names` of `LazyStackedTensorDict`, which asks its parts each time: they can be renamed alone."""

    __slots__ = ()
    tensordicts: list[Any]
    stack_dim: int
    _dim_name: str | None

    def _part_size(self) -> Shape:
        """The batch size of the parts, -1 where they differ."""
        raise NotImplementedError

    def _found_names(self) -> set[tuple[str | None, ...] | None]:
        return {None if part._names is None else tuple(part._names) for part in self.tensordicts}

    @property
    def _names(self) -> Names:  # type: ignore[override]
        """What results are named by: dimensions that the parts name differently have no name."""
        found = self._found_names()
        inner = found.pop() if found else None
        for other in found:
            inner = _shared(inner, other)
        own = self._dim_name
        if inner is None:
            return None if own is None else self._around([None] * len(self._part_size()))
        if own is not None:  # renaming a part does not look at the stack
            return self._around([None if name == own else name for name in inner])
        return self._around(inner) if any(name is not None for name in inner) else None

    def _around(self, inner: Any) -> list[str | None]:
        return [*inner[: self.stack_dim], self._dim_name, *inner[self.stack_dim :]]

    def _readable_names(self) -> Names:
        found = self._found_names()
        if len(found) > 1:
            raise ValueError(f"the names of the stacked tensordicts differ: {sorted(map(str, found))}.")
        return self._names

    def _own_names(self) -> Names:
        return self._names

    def _collect_names(self, names: Names, found: list[tuple[Any, Names]], but: str | None = None) -> None:
        found.append((self, names))
        dim = self.stack_dim
        inner = None if names is None else check_names([*names[:dim], *names[dim + 1 :]], len(names) - 1)
        for part in self.tensordicts:
            part._collect_names(None if inner is None else list(inner), found)


def _shared(
    names: tuple[str | None, ...] | None, other: tuple[str | None, ...] | None
) -> tuple[str | None, ...] | None:
    if names is None or other is None:
        return None
    return tuple(a if a == b else None for a, b in zip(names, other, strict=True))
