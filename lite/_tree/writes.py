"""Writes of one call that happen all together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy import ndarray

from lite._arrays.device import with_value, write_leaf
from lite._arrays.dtypes import is_inexact
from lite._arrays.numbers import SCALARS
from lite._arrays.types import HostArray, Shape, computed, has_namespace, raw
from lite._tree.indexing import indexed_shape
from lite._tree.nontensor import NonTensorBase


class Writes:
    """What a call is about to write; used as `with Writes() as writes:`.

    Arrays are written when the block ends, after everything has been checked: `copy` raises for a value
    that its array cannot take. Containers change at once, because later steps of the call look at them,
    and get their old content back if the block raises. Values that are views of what is written to are
    read before anything is written.
    """

    __slots__ = ("_pending", "_saved", "_saves")

    def __init__(self) -> None:
        self._pending: list[tuple[Any, Any, Any]] = []
        self._saves: list[Callable[[], None]] = []
        self._saved: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for save in self._saves:
                    save()
                values = apart([target for target, _, _ in self._pending], [v for _, _, v in self._pending])
                for (target, index, _), value in zip(self._pending, values, strict=True):
                    if type(target) is ndarray:
                        target[index] = value
                    else:
                        write_leaf(target, index, value)
                self._saved.clear()
        finally:
            for node, saved in self._saved.values():
                node._reset(saved)

    def copy(
        self,
        target: Any,
        value: Any,
        index: Any = ...,
        wanted: Shape | None = None,
        place: tuple[Any, str] | None = None,
    ) -> None:
        """Plan `target[index] = value` for a leaf.

        A leaf that cannot be written to (JAX), or that cannot hold the value (an ndarray and a traced or
        mapped value), is replaced at once. An ndarray gets the numbers of a traced value, too: others may
        hold it.

        Args:
            target: the leaf.
            value: an entry or a number.
            index: of the elements to write.
            wanted: the shape of those elements, where it is known.
            place: the container that has the leaf, and its key there.

        Raises:
            IndexError: the index does not fit the array.
            ValueError: the value does not fit the indexed shape, or the array is read-only.
            TypeError: the value is no array, or cannot be cast.
        """
        if (wanted is not None or index is Ellipsis) and self.take(target, value, index, wanted):
            return
        target, value = raw(target), computed(value)
        numbers = value.detach() if isinstance(value, HostArray) else None
        if numbers is not None and not is_inexact(target.dtype):
            value, numbers = numbers, None  # there is no derivative of integers
        # What a view belongs to would get the numbers alone, and lose the derivative without a word.
        traced = numbers is not None and type(target) is ndarray and target.base is None
        replaced = place is not None and (traced or has_namespace(target))
        if isinstance(target, np.ndarray) or replaced:
            if has_namespace(value) and not replaced:
                value = np.asarray(value)
            if not isinstance(value, (np.ndarray, *SCALARS)) and not has_namespace(value) and not replaced:
                raise TypeError(
                    f"cannot copy a {type(value).__name__} into a view or a shared array; store it "
                    "in place of the entry, td.set(key, value), or copy its numbers, value.detach()."
                    if numbers is not None
                    else f"cannot copy a {type(value).__name__} into an array."
                )
            if not replaced and not target.flags.writeable:
                raise ValueError("the array is read-only.")
            if wanted is None:
                wanted = target.shape if index is Ellipsis else indexed_shape(index, target.shape)
            value = trimmed(value, len(wanted))
            shape = np.shape(value)
            if not fits(shape, wanted):
                raise ValueError(f"a value of shape {shape} does not fit the shape {wanted}.")
            if isinstance(value, np.ndarray) and not np.can_cast(value.dtype, target.dtype):
                value = value.astype(target.dtype)  # what NumPy has to say about the numbers, it says here
        if replaced and place is not None:
            self.put(*place, with_value(target, index, value))
            if isinstance(numbers, ndarray):
                self._pending.append((target, index, numbers))
        else:
            self._pending.append((target, index, value))

    def take(self, target: Any, value: Any, index: Any = ..., wanted: Shape | None = None) -> bool:
        """Plan as `copy` does, if nothing but a cast is needed, or one number goes everywhere."""
        ready = fitting(target, value, () if type(value) is ndarray and not value.ndim else wanted)
        if ready is not None:
            self._pending.append((target, index, ready))
        return ready is not None

    def put(self, node: Any, key: str, entry: Any) -> None:
        """Store a converted and checked entry, which can be taken back.

        Objects that take the place of some that are mapped to a folder are written there, too.
        """
        if isinstance(entry, NonTensorBase):
            stacked = node._parts()
            if stacked is not None:
                for part, piece in zip(stacked[0], node._pieces(entry), strict=True):
                    self.put(part, key, piece)
                return
            held = node._get_entry(key)
            folder = held._folder() if isinstance(held, NonTensorBase) else None
            if folder is not None:
                entry = entry._clone(False)._mapped_to(folder)
                self._saves.append(NonTensorBase._saving(entry, folder))
        self.keep(node)
        inner = node._as_node(entry)
        if inner is not None:
            self.keep(inner)
        node._put(key, entry)

    def keep(self, node: Any) -> None:
        """Remember a container and everything below it, before it changes."""
        if id(node) in self._saved:
            return
        found = [node]
        while found:
            node = found.pop()
            if id(node) not in self._saved:
                self._saved[id(node)] = (node, node._save())
                found.extend(node._lock_children())


@cache
def _castable(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool | None:
    """Whether numbers of one dtype can be stored in another without loss; None if they are no numbers."""
    if given == wanted:
        return True
    return np.can_cast(given, wanted) if given.kind in "fibuc" and wanted.kind in "fibuc" else None


def fitting(target: Any, value: Any, wanted: Shape | None = None) -> Any:
    """What can be written to an array where `value` is to go: it, if it has the shape and casts; else None.

    Args:
        target: the leaf to write to.
        value: an entry.
        wanted: the shape to have, if that is not the shape of the target.
    """
    if (
        type(value) is not ndarray
        or type(target) is not ndarray
        or value.shape != (target.shape if wanted is None else wanted)
        or not target.flags.writeable
    ):
        return None
    given, dtype = value.dtype, target.dtype
    if given is dtype:
        return value
    castable = _castable(given, dtype)
    # What NumPy has to say about numbers that may not fit, it says now and not half way.
    return value if castable else None if castable is None else value.astype(dtype)


def apart(targets: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    """The values for some targets, with copies of those that a write to another target may change first."""
    if len(targets) < 2:
        return values
    written = set(map(_owner, targets)) - {None}
    return [value.copy() if _owner(value) in written else value for value in values]


def _owner(array: Any) -> int | None:
    """The identity of the array whose memory an array is a view of; None for anything else."""
    if not isinstance(array, ndarray):
        return None
    while isinstance(array.base, ndarray):
        array = array.base
    return id(array)


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
