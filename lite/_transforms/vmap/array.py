"""The arrays inside `vmap`: they have one dimension less than the array they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._arrays.types import Array, DtypeLike, HostArray, Shape
from lite._transforms.arrays import NumberlessArray, Rules

rules = Rules()


class BatchedArray(NumberlessArray):
    """An array of which a mapped function sees one element along the first dimension, all at once.

    Args:
        value: what it holds, the mapped dimension first; itself a BatchedArray where maps are nested.
        level: the number of the map that it belongs to; inner maps have higher ones.
    """

    __slots__ = ("__weakref__", "level", "value")
    # So that operators of arrays on the left defer to this one.
    __array_priority__ = 2000
    rules = rules
    _takes_holders = False

    def __init__(self, value: Any, level: int) -> None:
        self.value = value
        self.level = level
        self.is_number = False

    @property
    def shape(self) -> Shape:
        """Shape without the mapped dimension."""
        return self.value.shape[1:]

    @property
    def ndim(self) -> int:
        """Number of dimensions without the mapped one."""
        return int(self.value.ndim) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.value.dtype

    @property
    def flags(self) -> Any:
        """Flags of the memory behind it."""
        return self.value.flags

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            "an array inside vmap stands for one element along the mapped dimension and cannot become an "
            "ndarray: use functions that NumPy dispatches (np.dot(a, x) for a.dot(x), np.zeros_like for an "
            "array to write into), and pass an array that is indexed by mapped ones as an argument of the "
            "mapped function, with None in in_dims."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"a function inside vmap {what} an array that has another value for each element along the "
            "mapped dimension: use np.where instead of a branch."
        )

    def elementwise(self, function: Callable[..., Any], *args: Any) -> BatchedArray:
        """An elementwise function of all elements; it need not know of the batch dimension."""
        if args:
            return rules.elementwise(function, args)
        return BatchedArray(function(self.value), self.level)

    # T and swapaxes do not go through NumPy's dispatch, which takes a microsecond more.

    @property
    def T(self) -> Any:
        """The dimensions in reverse order."""
        value = self.value
        return BatchedArray(value.transpose(0, *range(value.ndim - 1, 0, -1)), self.level)

    def swapaxes(self, axis1: int, axis2: int) -> BatchedArray:
        """As `numpy.swapaxes`."""
        ndim = self.ndim
        first, second = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
        return BatchedArray(self.value.swapaxes(first + 1, second + 1), self.level)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> BatchedArray:
        """Elements in another dtype; self if that is what they have and `copy` is false."""
        value = self.value.astype(dtype, order, casting, subok, copy)
        return self if value is self.value else number_of(BatchedArray(value, self.level), self.is_number)

    def view(self, dtype: DtypeLike) -> BatchedArray:
        """A view as another dtype, of the same size if no dimension is left."""
        if not self.ndim and np.dtype(dtype).itemsize != self.itemsize:
            raise ValueError("an array without dimensions keeps its itemsize.")
        return BatchedArray(self.value.view(dtype), self.level)

    def detach(self) -> BatchedArray:
        """The numbers without a derivative."""
        value = self.value
        return BatchedArray(value.detach(), self.level) if isinstance(value, HostArray) else self

    def look_up(self, table: Array) -> Any:
        """`table[self]`, where the table is not a mapped array."""
        return rules.get_index(table, self)

    def pick(self, table: Array, index: Any) -> Any:
        """`table[index]`, where the table is not a mapped array."""
        return rules.get_index(table, index)

    def index_batch(self, td: Any, index: Any) -> Any:
        """`td[index]` for a TensorDict and an index that this array is in."""
        return rules.index_batch(td, index)

    def copy(self, order: str = "C") -> BatchedArray:
        """A copy of the elements."""
        return number_of(BatchedArray(self.value.copy(), self.level), self.is_number)

    def __repr__(self) -> str:
        size = self.value.shape[0]
        return f"BatchedArray(shape={self.shape}, dtype={self.dtype}, size={size}, level={self.level})"


class SharedArray(np.ndarray[Any, Any]):
    """An array that all elements share, seen so that it can be indexed by mapped ones.

    Indexing of a plain ndarray calls no protocol of the index, so that the ndarray itself has to look.
    """

    def __getitem__(self, index: Any) -> Any:
        if has_batched(index):
            return rules.get_index(self, index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: object) -> None:
        if type(value) is BatchedArray or has_batched(index):
            rules.set_index(self, index, value)
        else:
            super().__setitem__(index, value)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """As `numpy.take`."""
        if type(indices) is BatchedArray:
            return rules.function(np.take, (self, indices, axis, out, mode), {})
        return super().take(indices, axis, out, mode)

    def dot(self, b: Any, out: Any = None) -> Any:
        """As `numpy.dot`."""
        return np.dot(self, b, out)


def number_of(value: Any, is_number: bool = True) -> Any:
    """A new result of NumPy's functions: a number if it has no dimensions, unless the function says no."""
    if type(value) is BatchedArray:
        value.is_number = is_number and value.value.ndim == 1
    return value


def has_batched(index: Any) -> bool:
    """Whether an index is or contains a BatchedArray."""
    if type(index) is tuple or type(index) is list:
        return any(map(has_batched, index))
    return type(index) is BatchedArray
