"""The methods and attributes that an ndarray has, mostly as functions of the same name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._arrays.types import Shape


class ArrayMethods:
    """What an ndarray can do beyond operators and indexing, for a class that holds `value`."""

    __slots__ = ()
    value: Any
    level: int

    @property
    def shape(self) -> Shape:
        """Shape without the mapped dimension."""
        shape: Shape = self.value.shape[1:]
        return shape

    @property
    def ndim(self) -> int:
        """Number of dimensions without the mapped one."""
        return int(self.value.ndim) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        dtype: np.dtype[Any] = self.value.dtype
        return dtype

    @property
    def size(self) -> int:
        """Number of elements, for one element along the mapped dimension."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return int(self.value.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers, for one element along the mapped dimension."""
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        """Flags of the memory behind it."""
        return self.value.flags

    @property
    def T(self) -> Any:
        """The dimensions in reverse order."""
        value = self.value
        return self._holding(value.transpose(0, *range(value.ndim - 1, 0, -1)))

    @property
    def mT(self) -> Any:
        """The last two dimensions swapped."""
        return np.matrix_transpose(self)  # type: ignore[call-overload]

    @property
    def real(self) -> Any:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)

    @property
    def flat(self) -> Any:
        """An iterator over the elements in row-major order."""
        return iter(self.reshape(-1))

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        """Elements in another dtype; self if that is what they have and `copy` is false."""
        value = self.value.astype(dtype, order, casting, subok, copy)
        return self if value is self.value else self._holding(value)

    def view(self, dtype: Any) -> Any:
        """The same memory as another dtype, of the same size where there is no dimension left."""
        if not self.ndim and np.dtype(dtype).itemsize != self.itemsize:
            raise ValueError("an array without dimensions keeps its itemsize.")
        return self._holding(self.value.view(dtype))

    def _holding(self, value: Any) -> Any:
        return type(self)(value, self.level)  # type: ignore[call-arg]

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """As `numpy.swapaxes`."""
        ndim = self.ndim
        first, second = normalize_axis_index(axis1, ndim), normalize_axis_index(axis2, ndim)
        return self._holding(self.value.swapaxes(first + 1, second + 1))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """As `numpy.reshape`; the sizes may be given one by one."""
        new = shape[0] if len(shape) == 1 else shape
        return np.reshape(self, new, order=order, copy=copy)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        """As `numpy.transpose`; the axes may be given one by one."""
        order = axes[0] if len(axes) == 1 else axes or None
        return np.transpose(self, order)  # type: ignore[call-overload]

    def flatten(self, order: str = "C") -> Any:
        """A copy with one dimension."""
        return np.ravel(self, order=order).copy()  # type: ignore[call-overload]

    def fill(self, value: Any) -> None:
        """Write a value into all elements."""
        self[...] = value  # type: ignore[index]

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        """Sort in place."""
        self[...] = np.sort(self, axis, **kwargs)  # type: ignore[call-overload, index]

    def partition(self, kth: Any, axis: int = -1, **kwargs: Any) -> None:
        """Partition in place."""
        self[...] = np.partition(self, kth, axis, **kwargs)  # type: ignore[call-overload, index]

    def conj(self) -> Any:
        """The complex conjugate."""
        return np.conjugate(self)  # type: ignore[call-overload]

    conjugate = conj


def _method(name: str) -> Any:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"ArrayMethods.{name}"
    method.__doc__ = f"As `numpy.{name}`."
    return method


for _name in (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress", "cumprod"),
    *(
        "cumsum",
        "diagonal",
        "dot",
        "max",
        "mean",
        "min",
        "nonzero",
        "prod",
        "put",
        "ravel",
        "repeat",
        "round",
    ),
    *("searchsorted", "squeeze", "std", "sum", "take", "trace", "var"),
):
    setattr(ArrayMethods, _name, _method(_name))
