"""Writes of one call that happen all together or not at all."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np

from lite._collection import Shape, raw
from lite._device_array import write_leaf

_NOTHING = np.zeros((), dtype=np.bool_)
_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


class Writes:
    """What a call is about to write; used as `with Writes() as writes:`.

    Arrays are written when the block ends, after everything has been checked: `copy` raises for a value
    that its array cannot take. Containers change at once, because later steps of the call look at them,
    and get their old content back if the block raises.
    """

    __slots__ = ("_pending", "_saved")

    def __init__(self) -> None:
        self._pending: list[tuple[Any, Any, Any]] = []
        self._saved: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for target, index, value in self._apart():
                    write_leaf(target, index, value)
                self._saved.clear()
        finally:
            for node, saved in self._saved.values():
                node._reset(saved)

    def _apart(self) -> list[tuple[Any, Any, Any]]:
        """The pending writes, with copies of values that another write may change first."""
        if len(self._pending) == 1:
            return self._pending
        written = {id(_owner(target)) for target, _, _ in self._pending} - {id(None)}
        return [
            (target, index, value.copy() if id(_owner(value)) in written else value)
            for target, index, value in self._pending
        ]

    def copy(self, target: Any, value: Any, index: Any = ..., wanted: Shape | None = None) -> None:
        """Plan `target[index] = value` for a leaf.

        Args:
            target: the leaf.
            value: an entry or a number.
            index: of the elements to write.
            wanted: the shape of those elements, where it is known.

        Raises:
            IndexError: the index does not fit the array.
            ValueError: the value does not fit the indexed shape, or the array is read-only.
            TypeError: the value is no array, or cannot be cast.
        """
        target, value = raw(target), raw(value)
        if isinstance(target, np.ndarray):
            if not isinstance(value, _NUMBERS):
                raise TypeError(f"cannot copy a {type(value).__name__} into an array.")
            if not target.flags.writeable:
                raise ValueError("the array is read-only.")
            if wanted is None:
                wanted = (
                    target.shape
                    if index is Ellipsis
                    else np.broadcast_to(_NOTHING, target.shape)[index].shape
                )
            value = trimmed(value, len(wanted))
            shape = np.shape(value)
            if not fits(shape, wanted):
                raise ValueError(f"a value of shape {shape} does not fit the shape {wanted}.")
            if isinstance(value, np.ndarray) and not np.can_cast(value.dtype, target.dtype):
                # What NumPy has to say about the numbers, it says here.
                value = value.astype(target.dtype)
        self._pending.append((target, index, value))

    def put(self, node: Any, key: str, entry: Any) -> None:
        """Store a converted and checked entry, which can be taken back."""
        self.keep(node)
        inner = node._as_node(entry)
        if inner is not None:
            self.keep(inner)
        node._put(key, entry)

    def keep(self, node: Any) -> None:
        """Remember a container and everything below it, before it changes."""
        found = [node]
        while found:
            node = found.pop()
            if id(node) not in self._saved:
                self._saved[id(node)] = (node, node._save())
                found.extend(node._lock_children())


def _owner(array: Any) -> Any:
    """The array that owns the memory of an array, as far as that can be seen; None for other values."""
    if not isinstance(array, np.ndarray):
        return None
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def trimmed(value: Any, ndim: int) -> Any:
    """A value without the leading dims of size 1 that NumPy drops when it assigns to `ndim` dims."""
    shape = np.shape(value)
    extra = len(shape) - ndim
    return value.reshape(shape[extra:]) if extra > 0 and shape[:extra] == (1,) * extra else value


def fits(shape: Shape, wanted: Shape) -> bool:
    """Whether a value of one shape broadcasts to exactly another."""
    if not shape or shape == wanted:
        return True
    extra = len(wanted) - len(shape)
    return extra >= 0 and all(n in (1, m) for n, m in zip(shape, wanted[extra:], strict=True))
