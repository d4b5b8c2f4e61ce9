"""The plan of the writes of one call: all of them happen, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy import ndarray

from lite._arrays.device import with_value, write_leaf
from lite._arrays.dtypes import is_inexact
from lite._arrays.numbers import SCALARS
from lite._arrays.types import HostArray, Path, Shape, computed, has_namespace, note_replaced, raw
from lite._tree.indexing import indexed_shape
from lite._tree.nontensor import NonTensorBase


class Writes:
    """The plan of the writes of a call, used as `with Writes() as writes:`.

    Arrays are written when the block ends, after all checks: `copy` raises for a value that does not fit its
    array. Containers change at once, because later steps of the call read them, and are restored if the block
    raises. Values that overlap a target in memory are copied before the first write.
    """

    __slots__ = ("_pending", "_saved", "_saves")

    def __init__(self) -> None:
        self._pending: list[tuple[Any, Any, Any]] = []
        self._saves: list[Callable[[], None]] = []
        self._saved: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                for save in self._saves:
                    save()
                if pending := self._pending:
                    values = without_overlap([target for target, _, _ in pending], [v for _, _, v in pending])
                    for (target, index, _), value in zip(pending, values, strict=True):
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

        A leaf that is read-only by design (JAX) or cannot hold the value (an ndarray, for a traced value) is
        replaced at once. The ndarray then also gets the numbers of a traced value, as other
        containers may share it.

        Args:
            target: the leaf.
            value: an entry or a number.
            index: the index of the elements to write.
            wanted: the shape of those elements, if it is known.
            place: the container of the leaf, and its key.

        Raises:
            IndexError: the index does not fit the array.
            ValueError: the value does not fit the indexed shape, it is mapped and the array is not, or the
                array is read-only.
            TypeError: the value is not an array, or cannot be cast.
        """
        if (wanted is not None or index is Ellipsis) and self.try_copy(target, value, index, wanted):
            return
        target, value = raw(target), computed(value)
        numbers = value.detach() if isinstance(value, HostArray) else None
        if numbers is not None and not is_inexact(target.dtype):
            value, numbers = numbers, None  # integers have no derivative
        if isinstance(numbers, HostArray) and not numbers.symbolic and type(target) is ndarray:
            raise ValueError(
                "the value is mapped by vmap, and the array is one for all elements: pass its TensorDict as "
                "an argument of the mapped function, expanded to the mapped size, and return it."
            )
        # Not for a view: its base would get only the numbers, and the derivative would be lost in silence.
        traced = numbers is not None and type(target) is ndarray and target.base is None
        replaced = place is not None and (traced or has_namespace(target))
        if isinstance(target, np.ndarray) or replaced:
            if not replaced:
                value = _host_value(value, target)
            if wanted is None:
                wanted = target.shape if index is Ellipsis else indexed_shape(index, target.shape)
            value = trimmed(value, len(wanted))
            shape = np.shape(value)
            if not fits(shape, wanted):
                raise ValueError(f"a value of shape {shape} does not fit the shape {wanted}.")
            if isinstance(value, np.ndarray) and not np.can_cast(value.dtype, target.dtype):
                value = value.astype(target.dtype)  # NumPy's warnings about the numbers are raised here
        if replaced and place is not None:
            note_replaced(target, numbers)
            self.put(*place, with_value(target, index, value))
            if isinstance(numbers, ndarray):
                self._pending.append((target, index, numbers))
        else:
            self._pending.append((target, index, value))

    def try_copy(
        self, target: object, value: object, index: object = ..., wanted: Shape | None = None
    ) -> bool:
        """`copy` for ndarrays that need at most a cast, the common case; False if the value needs more."""
        # An array without dimensions fits every indexed shape.
        ready = fitting(target, value, () if type(value) is ndarray and not value.ndim else wanted)
        if ready is not None:
            self._pending.append((target, index, ready))
        return ready is not None

    def put(self, node: Any, key: str, entry: object) -> None:
        """Store a converted and checked entry, and restore the old one on an error.

        Objects that replace memory-mapped ones are also written to their folder.
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
        """Save the state of a container and of all nested ones before it changes."""
        if id(node) in self._saved:
            return
        found = [node]
        while found:
            node = found.pop()
            if id(node) not in self._saved:
                self._saved[id(node)] = (node, node._save())
                found.extend(node._lock_children())


def planned(writes: Writes | None) -> AbstractContextManager[Writes]:
    """The plan of the outer call, which writes when that call ends; a plan of this call's own if None."""
    return Writes() if writes is None else nullcontext(writes)


class Update(NamedTuple):
    """How the entries of a source are set: the arguments of `update` and `update_`."""

    writes: Writes
    chosen: list[Path] | None = None  # the paths to set; None for all
    clone: bool = False
    inplace: bool = False
    is_leaf: Callable[[type], bool] | None = None
    existing: bool = False  # copy into existing arrays alone, as `update_` does
    strict: bool = True  # with `existing`, whether a key that the target lacks is an error
    above: Path = ()  # the path of the target, for errors

    def of_entry(self, path: Path) -> Update | None:
        """The update of a nested entry; None if nothing in it is chosen."""
        if self.chosen is not None:
            rest = [c[len(path) :] for c in self.chosen if c[: len(path)] == path[: len(c)]]
            return self._replace(chosen=None if () in rest else rest) if rest else None
        return self


@cache
def _castable(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool | None:
    """Whether numbers of one dtype fit another without loss; None if a dtype is not numeric."""
    if given == wanted:
        return True
    return np.can_cast(given, wanted) if given.kind in "fibuc" and wanted.kind in "fibuc" else None


def _host_value(value: Any, target: Any) -> Any:
    """`value` as an ndarray or a number to write into an ndarray; raises if it cannot be."""
    if has_namespace(value):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, *SCALARS)):
        raise TypeError(
            f"cannot copy a {type(value).__name__} into a view or a shared array; store it "
            "in place of the entry, td.set(key, value), or copy its numbers, value.detach()."
            if isinstance(value, HostArray)
            else f"cannot copy a {type(value).__name__} into an array."
        )
    if not target.flags.writeable:
        raise ValueError("the array is read-only.")
    return value


def fitting(target: object, value: object, wanted: Shape | None = None) -> Any:
    """`value` as an ndarray that can be written to `target` without further checks; None if it needs some.

    Args:
        target: the leaf to write to.
        value: an entry.
        wanted: the required shape, by default the shape of the target.
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
    # Cast now, so that NumPy's errors and warnings come before the first write.
    return value if castable else None if castable is None else value.astype(dtype)


def without_overlap(targets: Sequence[Any], values: Sequence[Any]) -> Sequence[Any]:
    """The values, with copies of those that a write to another target could change before they are read."""
    if len(targets) < 2:
        return values
    written = set(map(_owner, targets)) - {None}
    return [value.copy() if _owner(value) in written else value for value in values]


def _owner(array: object) -> int | None:
    """The id of the base array of an array; None for anything else."""
    if not isinstance(array, ndarray):
        return None
    while isinstance(array.base, ndarray):
        array = array.base
    return id(array)


def trimmed(value: Any, ndim: int) -> Any:
    """The value without leading dimensions of size 1 beyond `ndim`, which NumPy drops in assignments."""
    shape = np.shape(value)
    extra = len(shape) - ndim
    return value.reshape(shape[extra:]) if extra > 0 and shape[:extra] == (1,) * extra else value


def fits(shape: Shape, wanted: Shape) -> bool:
    """Whether a value of one shape broadcasts to exactly another."""
    if not shape or shape == wanted:
        return True
    extra = len(wanted) - len(shape)
    return extra >= 0 and all(n in (1, m) for n, m in zip(shape, wanted[extra:], strict=True))
