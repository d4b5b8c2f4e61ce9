"""Specs of classes, as numbers or as vectors: `Categorical`, `Binary`, `OneHot`."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite._arrays.public import belong_to
from lite.kernels._integer import integer
from lite.specs.arrays import ArraySpec
from lite.specs.base import CategoricalBox, Shape, as_size, known


class _ClassSpec(ArraySpec):
    """Base of specs of one out of n classes, some of which a mask may rule out."""

    n: int
    mask: NDArray[np.bool_] | None = None

    def _reshaped(self, shape: Shape) -> Self:
        part = super()._reshaped(shape)
        rows = self._rows()
        if rows is not None:
            size = self._size_of_rows(shape)
            part.mask = rows.reshape(size) if rows.size == math.prod(size) else np.broadcast_to(rows, size)
        return part

    def _indexed(self, index: Any) -> Self:
        part = super()._indexed(index)
        rows = self._rows()
        if rows is not None:
            places = np.arange(rows.size // self.n).reshape(rows.shape[:-1])  # so that "..." ends before n
            part.mask = rows.reshape(-1, self.n)[places[index]]
        return part

    def _row(self, ndim: int, i: int) -> ArraySpec:
        row, rows = super()._row(ndim, i), self._rows()
        if row is not self and isinstance(row, _ClassSpec) and rows is not None:
            row.mask = rows[i if self.shape[0] != -1 else 0]
        return row

    def _rows(self) -> NDArray[np.bool_] | None:
        """The mask of each element, where they may differ."""
        if self.mask is None or self.mask.ndim == 1:
            return None
        return np.broadcast_to(self.mask, self._size_of_rows(self.shape))

    def _size_of_rows(self, shape: Shape) -> Shape:
        """The dimensions of the classes' vectors: n stands last."""
        return (*known(shape), *(() if self._indexable() < self.ndim else (self.n,)))

    def _set_n(self, n: int) -> None:
        self.n = integer("n", n, least=1)

    def update_mask(self, mask: Any) -> None:
        """Set the classes that may be drawn: bool, (..., n); None for all.

        Raises:
            ValueError: the mask does not end with n, or a row of it allows nothing.
        """
        allowed = None if mask is None else np.asarray(mask, np.bool_)
        if allowed is not None:
            fits = allowed.ndim and allowed.shape[-1] == self.n
            if not fits or not allowed.any(-1).all():
                raise ValueError(f"mask must end with n={self.n} and allow a class in each row, got {mask!r}")
        self.mask = allowed

    @property
    def space(self) -> CategoricalBox:
        """The classes."""
        return CategoricalBox(self.n)

    def cardinality(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ClassSpec) or isinstance(self, OneHot) != isinstance(other, OneHot):
            return False
        same: bool = np.array_equal(self.mask, other.mask)  # type: ignore[arg-type]  # or None and None
        return same and self.n == other.n and super().__eq__(other)


class Categorical(_ClassSpec):
    """Arrays of the classes 0 to n - 1.

    Args:
        n: number of classes.
        shape: as for `Unbounded`.
        device: None or "cpu".
        dtype: as for `Unbounded`.
        mask: bool, (..., n): the classes that may be drawn and are in the spec; None for all.

    Raises:
        ValueError: `n` is below 1, the mask does not end with it, or as for `Unbounded`.

    Source:
        torchrl.data.Categorical.

    Example:
        >>> from lite.data import Categorical
        >>> Categorical(3, (4,)).rand(rng=0).tolist()
        [2, 1, 1, 0]
    """

    def __init__(
        self, n: int, shape: Any = (), device: Any = None, dtype: Any = np.int64, *, mask: Any = None
    ) -> None:
        super().__init__(() if shape is None else shape, device, dtype)
        self._set_n(n)
        self.update_mask(mask)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        drawn = drawn_class(np.random.default_rng(rng), self.n, self._made(shape), self.mask)
        return drawn.astype(self.dtype)

    def to_categorical(self, val: Any, safe: bool | None = None) -> Any:
        """`val` itself."""
        return val

    def to_categorical_spec(self) -> Categorical:
        """The spec itself."""
        return self

    def to_one_hot(self, val: Any, safe: bool | None = None) -> NDArray[Any]:
        """Vectors with a one at the place of each class (...), bool (..., n)."""
        return one_hot(np.asarray(val), self.n, np.bool_)

    def to_one_hot_spec(self) -> OneHot:
        """The spec of these vectors."""
        return OneHot(self.n, (*self.shape, self.n), mask=self.mask)

    def enumerate(self, use_mask: bool = False) -> NDArray[Any]:
        classes = np.arange(self.n, dtype=np.uint8 if self.dtype.kind == "b" else self.dtype)
        if use_mask and self.mask is not None:
            classes = classes[self.mask]
        shape = known(self.shape)
        return np.broadcast_to(classes.reshape(-1, *[1] * len(shape)), (len(classes), *shape)).copy()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, shape={self.shape}, dtype={self.dtype})"

    def _holds(self, value: Any) -> bool:
        array = np.asarray(value)
        if not ((array >= 0) & (array < self.n)).all():
            return False
        if self.mask is None:
            return True
        mask = np.broadcast_to(self.mask, (*array.shape, self.n))
        return bool(np.take_along_axis(mask, array[..., None].astype(np.int64), -1).all())

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.clip(np.rint(value), 0, self.n - 1))


class Binary(Categorical):
    """Arrays of 0 and 1: a `Categorical` of two classes, int8 by default.

    Args:
        n: the last size, where there is no `shape`.
        shape: as for `Unbounded`; its last size is `n` if both are given.
        device: None or "cpu".
        dtype: as for `Unbounded`.

    Raises:
        ValueError: neither `n` nor `shape` is given, or they differ.

    Source:
        torchrl.data.Binary.

    Example:
        >>> from lite.data import Binary
        >>> Binary(4)
        Binary(shape=(4,), dtype=int8)
    """

    def __init__(
        self, n: int | None = None, shape: Any = None, device: Any = None, dtype: Any = np.int8
    ) -> None:
        if n is None and shape is None:
            raise ValueError("n or shape must be given")
        size = as_size((n,) if shape is None else shape)
        if n is not None and size[-1:] != (n,):
            raise ValueError(f"shape must end with n={n}, got {size}")
        super().__init__(2, size, device, dtype)

    def __repr__(self) -> str:
        return f"Binary(shape={self.shape}, dtype={self.dtype})"


class OneHot(_ClassSpec):
    """Vectors with a one at the place of a class, and zeros elsewhere.

    Args:
        n: number of classes.
        shape: its last size is `n`; (n,) if None.
        device: None or "cpu".
        dtype: bool, an integer or a float.
        mask: bool, (..., n): the classes that may be drawn and are in the spec; None for all.

    The nearest vector has its one where a value is largest; TorchRL's `project` draws the place.

    Raises:
        ValueError: `n` is below 1, or the shape does not end with it.

    Source:
        torchrl.data.OneHot.

    Example:
        >>> from lite.data import OneHot
        >>> spec = OneHot(3)
        >>> spec.encode(1), spec.to_numpy(spec.encode([2, 0]))
        (array([False,  True, False]), array([2, 0]))
        >>> spec.to_categorical_spec()
        Categorical(n=3, shape=(), dtype=int64)
    """

    domain = "discrete"

    def __init__(
        self, n: int, shape: Any = None, device: Any = None, dtype: Any = np.bool_, *, mask: Any = None
    ) -> None:
        self._set_n(n)
        super().__init__((self.n,) if shape is None else shape, device, dtype)
        if not self.shape or self.shape[-1] != self.n:
            raise ValueError(f"shape must end with n={self.n}, got {self.shape}")
        self.update_mask(mask)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        made = self._made(shape)
        return one_hot(
            drawn_class(np.random.default_rng(rng), self.n, made[:-1], self.mask), self.n, self.dtype
        )

    def encode(self, val: Any) -> NDArray[Any]:
        """The vectors of classes, integers (...): (..., n).

        Raises:
            AssertionError: a class is not below n.
        """
        return one_hot(checked_classes(val, self.n), self.n, self.dtype)

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The classes of vectors (..., n): (...)."""
        return np.asarray(val).argmax(-1)

    def to_categorical(self, val: Any, safe: bool | None = None) -> NDArray[Any]:
        """The classes of vectors (..., n), int64 (...)."""
        return np.asarray(np.asarray(val).argmax(-1))

    def to_categorical_spec(self) -> Categorical:
        """The spec of the classes."""
        return Categorical(self.n, self.shape[:-1], mask=self.mask)

    def to_one_hot(self, val: Any, safe: bool | None = None) -> Any:
        """`val` itself."""
        return val

    def to_one_hot_spec(self) -> OneHot:
        """The spec itself."""
        return self

    def enumerate(self, use_mask: bool = False) -> NDArray[Any]:
        if use_mask:
            raise NotImplementedError("enumerate takes the masks of a Categorical only.")
        return self.encode(self.to_categorical_spec().enumerate())

    def __repr__(self) -> str:
        return f"OneHot(n={self.n}, shape={self.shape}, dtype={self.dtype})"

    def _holds(self, value: Any) -> bool:
        array = np.asarray(value)
        ones = array == 1
        if not (ones | (array == 0)).all() or not (ones.sum(-1) == 1).all():
            return False
        return self.mask is None or bool((ones & self.mask).any(-1).all())

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return one_hot(value.argmax(-1), self.n, self.dtype)

    def _indexable(self) -> int:
        return self.ndim - 1

    def _reshaped(self, shape: Shape) -> Self:
        return super()._reshaped(ends_with(shape, (self.n,)))


belong_to("lite.data", Categorical, Binary, OneHot)


def ends_with(shape: Shape, classes: Shape) -> Shape:
    """A shape whose last sizes are those of a spec's classes; ValueError for any other."""
    if shape[-len(classes) :] != classes:
        raise ValueError(f"the last sizes must stay {classes}, those of the classes, got {shape}")
    return shape


def one_hot(classes: NDArray[Any], n: int, dtype: Any) -> NDArray[Any]:
    """Vectors with a one at the place of each class: (...) -> (..., n)."""
    if classes.ndim:
        return np.asarray(classes[..., None] == np.arange(n)).astype(dtype)
    out = np.zeros(n, dtype)  # half the time, at each step of an environment alone
    out[classes] = 1
    return out


def checked_classes(val: Any, n: Any) -> NDArray[Any]:
    """Classes as integers; AssertionError where one is not below n."""
    classes = np.asarray(val)
    if classes.dtype.kind not in "biu":
        classes = classes.astype(np.int64)
    if not ((classes >= 0) & (classes < n)).all():
        raise AssertionError(f"a class must be from 0 to n - 1 with n={n}, got {val!r}")
    return classes


def drawn_class(
    rng: np.random.Generator, n: int, shape: Shape, mask: NDArray[np.bool_] | None
) -> NDArray[Any]:
    """Classes drawn uniformly, of those that a mask (..., n) allows."""
    if mask is None:
        return np.asarray(rng.integers(0, n, shape) if shape else rng.integers(n))
    return np.asarray(np.where(mask, rng.random((*shape, n)), -1.0).argmax(-1))
