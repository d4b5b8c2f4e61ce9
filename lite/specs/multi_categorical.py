"""Specs of several classes, each of a number of its own: `MultiOneHot` and `MultiCategorical`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite._arrays.public import belong_to
from lite.specs.arrays import ArraySpec
from lite.specs.base import BoxList, CategoricalBox, Shape, known
from lite.specs.classes import checked_classes, ends_with, one_hot


class MultiCategorical(ArraySpec):
    """Arrays of classes, each of a number of its own.

    Args:
        nvec: numbers of classes, one each.
        shape: ends with the shape of `nvec`, which it is if None.
        device: None or "cpu".
        dtype: bool, an integer or a float.

    Raises:
        ValueError: a number is below 1, or the shape does not end with that of `nvec`.

    Source:
        torchrl.data.MultiCategorical.

    Example:
        >>> from lite.data import MultiCategorical
        >>> spec = MultiCategorical([2, 5])
        >>> spec.project(np.array([3, 3])).tolist()
        [1, 3]
        >>> spec.to_one_hot(np.array([1, 3])).astype(int).tolist()
        [0, 1, 0, 0, 0, 1, 0]
    """

    domain = "discrete"

    def __init__(self, nvec: Any, shape: Any = None, device: Any = None, dtype: Any = np.int64) -> None:
        self.nvec = checked_numbers(nvec)
        super().__init__(self.nvec.shape if shape is None else shape, device, dtype)
        if self.shape[-self.nvec.ndim :] != self.nvec.shape:
            raise ValueError(f"shape must end with that of nvec, {self.nvec.shape}, got {self.shape}")

    @property
    def space(self) -> BoxList:
        """The classes of each element of the last dimension."""
        return boxes_of(self.nvec)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        return np.asarray(np.random.default_rng(rng).integers(0, self.nvec, self._made(shape))).astype(
            self.dtype
        )

    def to_categorical(self, val: Any, safe: bool | None = None) -> Any:
        """`val` itself."""
        return val

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec itself."""
        return self

    def to_one_hot(self, val: Any, safe: bool | None = None) -> NDArray[Any]:
        """The vectors of classes (..., len(nvec)), one after the other, bool (..., sum(nvec))."""
        return self.to_one_hot_spec().encode(val)

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec of the vectors.

        Raises:
            ValueError: `nvec` has more than one dimension.
        """
        if self.nvec.ndim != 1:
            raise ValueError(f"nvec must have one dimension, got {self.nvec.ndim}")
        return MultiOneHot(self.nvec.tolist(), (*self.shape[:-1], int(self.nvec.sum())))

    def cardinality(self) -> int:
        return int(np.prod(self.nvec, dtype=np.int64))

    def enumerate(self, use_mask: bool = False) -> NDArray[Any]:
        if self.nvec.ndim != 1 or use_mask:
            return super().enumerate(use_mask)
        values = np.indices(self.nvec.tolist()).reshape(len(self.nvec), -1).T.astype(self.dtype)
        shape = known(self.shape)
        return np.broadcast_to(
            values.reshape(-1, *[1] * (len(shape) - 1), shape[-1]), (len(values), *shape)
        ).copy()

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, MultiCategorical) and np.array_equal(self.nvec, other.nvec)
        return same and super().__eq__(other)

    def __repr__(self) -> str:
        return f"MultiCategorical(nvec={self.nvec.tolist()}, shape={self.shape}, dtype={self.dtype})"

    def _holds(self, value: Any) -> bool:
        array = np.asarray(value)
        return bool(((array >= 0) & (array < self.nvec)).all())

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.clip(np.rint(value), 0, self.nvec - 1))

    def _indexable(self) -> int:
        return self.ndim - self.nvec.ndim

    def _reshaped(self, shape: Shape) -> Self:
        part = super()._reshaped(ends_with(shape, self.shape[-1:]))
        if shape[-self.nvec.ndim :] != self.nvec.shape:
            part.nvec = np.broadcast_to(self.nvec, known(self.shape)).reshape(known(shape))
        return part


class MultiOneHot(ArraySpec):
    """Several vectors of `OneHot`, one after the other along the last dimension.

    Args:
        nvec: how many classes each has.
        shape: its last size is the sum of `nvec`; that alone if None.
        device: None or "cpu".
        dtype: bool, an integer or a float.

    Raises:
        ValueError: a number is below 1, or the shape does not end with the sum.

    Source:
        torchrl.data.MultiOneHot.

    Example:
        >>> from lite.data import MultiOneHot
        >>> spec = MultiOneHot([2, 3])
        >>> spec.encode([1, 2]).astype(int).tolist()
        [0, 1, 0, 0, 1]
        >>> spec.to_categorical_spec()
        MultiCategorical(nvec=[2, 3], shape=(2,), dtype=int64)
    """

    domain = "discrete"

    def __init__(
        self, nvec: Sequence[int], shape: Any = None, device: Any = None, dtype: Any = np.bool_
    ) -> None:
        self.nvec = checked_numbers(nvec).tolist()
        if not all(isinstance(n, int) for n in self.nvec):
            raise ValueError(f"nvec must have one dimension, got {nvec!r}")
        total = sum(self.nvec)
        super().__init__((total,) if shape is None else shape, device, dtype)
        if not self.shape or self.shape[-1] != total:
            raise ValueError(f"shape must end with {total}, the sum of nvec, got {self.shape}")

    @property
    def space(self) -> BoxList:
        """The classes of each vector."""
        return boxes_of(np.asarray(self.nvec))

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        size = (*self._made(shape)[:-1], len(self.nvec))
        return self.encode(np.random.default_rng(rng).integers(0, self.nvec, size))

    def encode(self, val: Any) -> NDArray[Any]:
        """The vectors of classes, integers (..., len(nvec)): (..., sum(nvec)).

        Raises:
            AssertionError: a class is not below its number.
        """
        classes = checked_classes(val, np.asarray(self.nvec))
        return np.concatenate(
            [one_hot(classes[..., i], n, self.dtype) for i, n in enumerate(self.nvec)], axis=-1
        )

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """The classes of vectors (..., sum(nvec)): (..., len(nvec))."""
        return self.to_categorical(val)

    def to_categorical(self, val: Any, safe: bool | None = None) -> NDArray[Any]:
        """The classes of vectors (..., sum(nvec)), int64 (..., len(nvec))."""
        return np.stack([part.argmax(-1) for part in self._parts(np.asarray(val))], axis=-1)

    def to_categorical_spec(self) -> MultiCategorical:
        """The spec of the classes."""
        return MultiCategorical(self.nvec, (*self.shape[:-1], len(self.nvec)))

    def to_one_hot(self, val: Any, safe: bool | None = None) -> Any:
        """`val` itself."""
        return val

    def to_one_hot_spec(self) -> MultiOneHot:
        """The spec itself."""
        return self

    def cardinality(self) -> int:
        return int(np.prod(self.nvec, dtype=np.int64))

    def enumerate(self, use_mask: bool = False) -> NDArray[Any]:
        return self.encode(self.to_categorical_spec().enumerate(use_mask))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultiOneHot) and self.nvec == other.nvec and super().__eq__(other)

    def __repr__(self) -> str:
        return f"MultiOneHot(nvec={self.nvec}, shape={self.shape}, dtype={self.dtype})"

    def _parts(self, value: NDArray[Any]) -> list[NDArray[Any]]:
        return np.split(value, np.cumsum(self.nvec)[:-1].tolist(), axis=-1)

    def _holds(self, value: Any) -> bool:
        array = np.asarray(value)
        ones = array == 1
        single = all((part.sum(-1) == 1).all() for part in self._parts(ones))
        return bool(single and (ones | (array == 0)).all())

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return self.encode(self.to_categorical(value))

    def _indexable(self) -> int:
        return self.ndim - 1

    def _reshaped(self, shape: Shape) -> Self:
        return super()._reshaped(ends_with(shape, (sum(self.nvec),)))


belong_to("lite.data", MultiCategorical, MultiOneHot)


def checked_numbers(nvec: Any) -> NDArray[Any]:
    """Numbers of classes; ValueError where one is below 1."""
    numbers = np.atleast_1d(np.asarray(nvec))
    if numbers.dtype.kind not in "iu" or not numbers.size or (numbers < 1).any():
        raise ValueError(f"nvec must have integers of at least 1, got {nvec!r}")
    return numbers.astype(np.int64)


def boxes_of(nvec: NDArray[Any]) -> BoxList:
    """The classes of each number."""
    return BoxList(
        [CategoricalBox(n) if isinstance(n, int) else boxes_of(np.asarray(n)) for n in nvec.tolist()]
    )
