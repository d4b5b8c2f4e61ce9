"""Methods and attributes of ndarray, implemented by NumPy's functions of the same names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lite._arrays.types import Array, Function, Shape


class ArrayMethods:
    """The methods of ndarray beyond operators and indexing, for classes that implement NumPy's protocols.

    All are computed from `shape` and `dtype` or by NumPy's functions.
    """

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        raise NotImplementedError

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])  # type: ignore[index]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one number."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """ "cpu", as of NumPy's arrays."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """Self, for "cpu".

        Raises:
            ValueError: another device.
        """
        if device != "cpu" or stream is not None:
            raise ValueError(f"device must be 'cpu' and stream None, got {device!r} and {stream!r}.")
        return self

    @property
    def T(self) -> Array:
        """The dimensions in reverse order."""
        return np.transpose(self)  # type: ignore[call-overload]

    @property
    def mT(self) -> Array:
        """The last two dimensions swapped."""
        return np.matrix_transpose(self)  # type: ignore[call-overload]

    @property
    def real(self) -> Array:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return np.imag(self)

    @property
    def flat(self) -> Iterator[Any]:
        """An iterator over the elements in row-major order."""
        return iter(self.reshape(-1))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
        """As `numpy.reshape`; the sizes may be given one by one."""
        new = shape[0] if len(shape) == 1 else shape
        return np.reshape(self, new, order=order, copy=copy)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Array:
        """As `numpy.transpose`; the axes may be given one by one."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int | np.integer) else axes or None
        return np.transpose(self, order)  # type: ignore[call-overload]

    def flatten(self, order: str = "C") -> Any:
        """A copy with one dimension."""
        return np.ravel(self, order=order).copy()  # type: ignore[call-overload]

    def fill(self, value: object) -> None:
        """Write a value into all elements."""
        self[...] = value  # type: ignore[index]

    def sort(self, axis: int = -1, **kwargs: Any) -> None:
        """Sort in place."""
        self[...] = np.sort(self, axis, **kwargs)  # type: ignore[call-overload, index]

    def partition(self, kth: Any, axis: int = -1, **kwargs: Any) -> None:
        """Partition in place."""
        self[...] = np.partition(self, kth, axis, **kwargs)  # type: ignore[call-overload, index]

    def conj(self) -> Array:
        """The complex conjugate."""
        return np.conjugate(self)  # type: ignore[call-overload]

    conjugate = conj


def _method(name: str) -> Function:
    function = getattr(np, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Array:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"ArrayMethods.{name}"
    method.__doc__ = f"As `numpy.{name}`."
    return method


for _name in (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress", "cumprod"),
    *("cumsum", "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "put", "ravel", "repeat"),
    *("round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
):
    setattr(ArrayMethods, _name, _method(_name))
