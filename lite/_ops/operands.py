"""What the other arguments of a pointwise operation contribute to each leaf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._arrays.device import wrap
from lite._arrays.dtypes import is_numeric
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import (
    Array,
    ArrayHolder,
    HostArray,
    Shape,
    Unbatched,
    has_namespace,
    is_array,
    refuse_masked,
)
from lite._tree.entry_errors import entry_error
from lite._tree.protocol import Container
from lite._tree.values import numeric_array


class Operand:
    """One argument, resolved once: the same for every leaf, one row per batch element, or by key."""

    __slots__ = ()
    batch_size: Shape = ()

    def leaf(self, key: str, entry: Any) -> Any:
        """The value that goes with a leaf; None if there is none."""
        raise NotImplementedError

    def child(self, key: str) -> Operand:
        """The operand for the entries of a nested TensorDict."""
        return self

    def expand(self, batch_size: Shape) -> Operand:
        """The operand for a batch size that its own broadcasts to."""
        return self

    def parts(self, count: int, dim: int) -> list[Operand]:
        """One operand for each part of a lazy stack."""
        return [self] * count


class Const(Operand):
    """A number, or an array that is used as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def leaf(self, key: str, entry: Any) -> Any:
        return self.value


class Rows(Operand):
    """An array that is broadcast against the batch size; feature dimensions follow on the right."""

    __slots__ = ("_shaped", "array", "batch_size")

    def __init__(self, array: Array) -> None:
        self.array = self._shaped = array
        self.batch_size = array.shape

    def leaf(self, key: str, entry: Any) -> Any:
        if isinstance(entry, Unbatched):
            raise entry_error(
                RuntimeError,
                f"rows of shape {self.batch_size} do not go with the entry{{at}}, which is unbatched; leave "
                "it out first.",
                (key,),
            )
        # Leaves tend to have as many dimensions as the one before.
        if self._shaped.ndim != entry.ndim:
            self._shaped = self.array.reshape(self.batch_size + (1,) * (entry.ndim - self.array.ndim))
        return self._shaped

    def expand(self, batch_size: Shape) -> Operand:
        return Rows(np.broadcast_to(self.array, batch_size))

    def parts(self, count: int, dim: int) -> list[Operand]:
        if dim >= self.array.ndim:  # a dimension of the part only, over which the rows broadcast
            return [self] * count
        return [Rows(row) if row.ndim else Const(row) for row in np.moveaxis(self.array, dim, 0)]


class Node(Operand):
    """A TensorDict, matched by key; its leaves may have other features than those they meet.

    Rows meet rows, and features meet features: whichever leaf has fewer dimensions gets those that it lacks
    between the two.
    """

    __slots__ = ("td",)

    def __init__(self, td: Any) -> None:
        self.td = td

    @property
    def batch_size(self) -> Shape:  # type: ignore[override]
        size: Shape = self.td.batch_size
        return size

    def leaf(self, key: str, entry: Any) -> Any:
        value = self.td._get_str(key)
        plain = type(value) is np.ndarray and type(entry) is np.ndarray
        if (plain or (_reshapes(value) and _reshapes(entry))) and value.ndim < entry.ndim:
            return widened(value, entry.ndim, self.td.batch_dims)
        return value

    def child(self, key: str) -> Operand:
        node = self.td._as_node(self.td._get_str(key))
        return NOTHING if node is None else Node(node)

    def expand(self, batch_size: Shape) -> Operand:
        return Node(self.td.expand(batch_size))

    def parts(self, count: int, dim: int) -> list[Operand]:
        return [Node(part) for part in self.td.unbind(dim)]


def _reshapes(leaf: Any) -> bool:
    """Whether a leaf is of NumPy or JAX, which can give it further dimensions."""
    return type(leaf) is np.ndarray or has_namespace(leaf)


def widened(array: Array, ndim: int, batch_dims: int) -> Array:
    """A leaf with as many dimensions as the one it meets: those it lacks follow the batch."""
    return array.reshape(array.shape[:batch_dims] + (1,) * (ndim - array.ndim) + array.shape[batch_dims:])


class Nothing(Operand):
    """A nested TensorDict that the other side lacks."""

    __slots__ = ()

    def leaf(self, key: str, entry: Any) -> Any:
        return None


NOTHING = Nothing()


def as_operand(value: Any, like: Any) -> Operand | None:
    """Read an argument of a pointwise operation; None if it can be none.

    Args:
        value: a number, an operand, an array or nested list of numbers, a TensorDict or a mapping.
        like: the TensorDict it meets, whose batch size a mapping gets.
    """
    if type(value) in NUMBERS:
        return Const(value)
    if type(value) is np.ndarray and value.ndim and is_numeric(value.dtype):
        return Rows(value)
    if isinstance(value, Operand):
        return value
    node = Container._as_node(value)
    if node is not None:
        return Node(node)
    if isinstance(value, Mapping):
        node = like._blank()
        node.update(value)
        return Node(node)
    if isinstance(value, list | tuple):
        value = numeric_array(value)
        return None if value is None else Rows(value)
    if isinstance(value, np.generic | np.ndarray):
        if not is_numeric(value.dtype):
            return None
        refuse_masked(value)
        return Rows(value) if isinstance(value, np.ndarray) and value.ndim else Const(value)
    if isinstance(value, ArrayHolder):
        return as_operand(value.data, like)
    if has_namespace(value):
        value = wrap(value)
    if isinstance(value, HostArray):
        array: Any = value
        return Rows(array) if array.ndim else Const(array)
    return Const(value) if is_array(value) else None
