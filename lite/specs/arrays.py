"""Specs of arrays of numbers: `Unbounded`, `Bounded`, and their other names."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite import get_default_dtype, is_tensor_collection
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import as_array, stored
from lite.specs.base import ContinuousBox, Shape, TensorSpec, as_size, known


class ArraySpec(TensorSpec):
    """Specs of arrays of one dtype."""

    dtype: np.dtype[Any]

    def __init__(self, shape: Any, device: Any, dtype: Any) -> None:
        if device not in (None, "cpu"):
            raise ValueError(f"device must be None or 'cpu', got {device!r} (a dtype is given by its name)")
        self.shape = as_size(shape)
        self.dtype = _checked_dtype(as_dtype(get_default_dtype() if dtype is None else dtype))

    def is_in(self, value: Any) -> bool:
        """Whether an array, or a (nested) list of arrays, is in the spec.

        A list stands for a stack of rows whose sizes may differ where the spec's size is -1.
        """
        if isinstance(value, list):
            if not value or not self._fits((len(value), *_lengths(value[0]))):
                return False
            return all(self._row(_ndim(value), i).is_in(row) for i, row in enumerate(value))
        if not hasattr(value, "dtype") or not hasattr(value, "shape") or is_tensor_collection(value):
            return False
        value = stored(value)
        return bool(value.dtype == self.dtype and self._fits(tuple(value.shape)) and self._holds(value))

    @property
    def domain(self) -> str:
        """ "continuous" for floats, else "discrete"."""
        return "continuous" if self.dtype.kind == "f" else "discrete"

    def encode(self, val: Any) -> NDArray[Any]:
        """A value, as an array of the spec's dtype, and of its shape where only dimensions of 1 differ."""
        array = np.asarray(val, self.dtype)
        shape = self.shape
        if array.shape[array.ndim - len(shape) :] != shape and -1 not in shape:
            array = array.reshape(shape)
        return array

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        return np.asarray(val)

    def zero(self, shape: Any = ()) -> NDArray[Any]:
        return np.zeros(self._made(shape), self.dtype)

    def one(self, shape: Any = ()) -> NDArray[Any]:
        return np.ones(self._made(shape), self.dtype)

    def project(self, value: Any) -> Any:
        if self.is_in(value):
            return value
        try:
            array = as_array(value)
        except ValueError:
            raise ValueError(
                f"rows of different shapes have to be projected one by one to {self!r}"
            ) from None
        if array.dtype.kind in "biuf" and self._fits(array.shape):
            with np.errstate(invalid="ignore", over="ignore"):
                near = self._nearest(array).astype(self.dtype)
            if self.is_in(near):
                return near
        raise ValueError(
            f"nothing in {self!r} is near the value, of shape {array.shape} and dtype {array.dtype}"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArraySpec) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def _holds(self, value: Any) -> bool:
        """Whether the numbers of an array that fits are in."""
        return True

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return value

    def _row(self, ndim: int, i: int) -> ArraySpec:
        """The spec of row i of a value with `ndim` dimensions."""
        if ndim > self.ndim:
            return self
        row = copy.copy(self)
        row.shape = self.shape[1:]
        return row

    def _expanded(self, shape: Shape) -> Self:
        return self._reshaped(shape)

    def _cast(self, dtype: np.dtype[Any]) -> Self:
        part = copy.copy(self)
        part.dtype = _checked_dtype(dtype)
        return part


class Unbounded(ArraySpec):
    """Arrays of any numbers.

    Args:
        shape: (...), or an int for one dimension; -1 for a size that is not known.
        device: None or "cpu".
        dtype: bool, an integer or a float; the default float dtype if None.

    `rand` draws from the normal distribution; integers from 0 to the largest one.

    Raises:
        ValueError: a size below -1, or another device.
        TypeError: another dtype.

    Source:
        torchrl.data.Unbounded.

    Example:
        >>> import numpy as np
        >>> from lite.data import Unbounded
        >>> spec = Unbounded((2, -1), dtype=np.int64)
        >>> spec.is_in(np.zeros((2, 5), np.int64)), spec.is_in(np.zeros((3, 5), np.int64))
        (True, False)
        >>> spec.zero((4,)).shape
        (4, 2, 1)
    """

    def __init__(self, shape: Any = (1,), device: Any = None, dtype: Any = None) -> None:
        super().__init__(shape, device, dtype)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        rng = np.random.default_rng(rng)
        made = self._made(shape)
        if self.dtype.kind == "f":
            return np.asarray(rng.standard_normal(made)).astype(self.dtype)
        top = 1 if self.dtype.kind == "b" else np.iinfo(self.dtype).max
        return np.asarray(rng.integers(0, top, made, self.dtype, endpoint=True))

    @property
    def space(self) -> ContinuousBox:
        """The smallest and the largest numbers of the dtype."""
        if self.dtype.kind == "b":
            low, high = False, True
        else:
            limits: Any = (np.finfo if self.dtype.kind == "f" else np.iinfo)(self.dtype)
            low, high = limits.min, limits.max
        made = known(self.shape)
        return ContinuousBox(np.full(made, low, self.dtype), np.full(made, high, self.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unbounded) and super().__eq__(other)

    def __repr__(self) -> str:
        return f"Unbounded(shape={self.shape}, dtype={self.dtype})"


class Bounded(ArraySpec):
    """Arrays of numbers from `low` to `high`, both included.

    Args:
        low, high: numbers, or arrays that broadcast to the shape.
        shape: as for `Unbounded`; that of `low` and `high` if None.
        device: None or "cpu".
        dtype: as for `Unbounded`.

    `rand` draws uniformly.

    Raises:
        ValueError: `low` is above `high`, a bound does not exist in the dtype, or shapes do not fit; in
            `rand`, a bound is infinite.
        TypeError: another dtype.

    Source:
        torchrl.data.Bounded.

    Example:
        >>> import numpy as np
        >>> from lite.data import Bounded
        >>> spec = Bounded(-1, [1, 2])
        >>> spec
        Bounded(low=-1.0, high=[1.0, 2.0], shape=(2,), dtype=float32)
        >>> spec.project(np.array([3.0, -3.0])).tolist()
        [1.0, -1.0]
    """

    low: NDArray[Any]
    high: NDArray[Any]

    def __init__(self, low: Any, high: Any, shape: Any = None, device: Any = None, dtype: Any = None) -> None:
        if shape is None:
            shape = np.broadcast_shapes(np.shape(low), np.shape(high))
            if not shape:
                raise ValueError("shape must be given where low and high are numbers (it may be ())")
        super().__init__(shape, device, dtype)
        self.low, self.high = self._bound("low", low), self._bound("high", high)
        if not (self.low <= self.high).all():
            raise ValueError(f"low must not be above high, got low={low!r} and high={high!r}")

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> NDArray[Any]:
        rng = np.random.default_rng(rng)
        made = self._made(shape)
        if self.dtype.kind != "f":
            drawn = rng.integers(self.low, self.high, made, self.dtype, endpoint=True)
            return np.asarray(drawn)
        if not (np.isfinite(self.low) & np.isfinite(self.high)).all():
            raise ValueError(f"rand needs finite bounds, got {self!r}")
        part = rng.random(made)
        # Not low + (high - low) * part: the difference of the largest numbers is infinite.
        drawn = self.low.astype(np.float64) * (1 - part) + self.high.astype(np.float64) * part
        return np.asarray(np.clip(drawn.astype(self.dtype), self.low, self.high))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Bounded)
            and super().__eq__(other)
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )

    def __repr__(self) -> str:
        low, high = (_short(bound) for bound in (self.low, self.high))
        return f"Bounded(low={low}, high={high}, shape={self.shape}, dtype={self.dtype})"

    def cardinality(self) -> float:
        """Infinite, of integers, too."""
        return float("inf")

    @property
    def space(self) -> ContinuousBox:
        """The bounds."""
        return ContinuousBox(self.low, self.high)

    def _indexed(self, index: Any) -> Self:
        part = super()._indexed(index)
        if known(self.shape) == self.shape:
            part.low, part.high = (np.asarray(bound[index]) for bound in (self.low, self.high))
        return part

    def _bound(self, name: str, value: Any) -> NDArray[Any]:
        given = np.asarray(value)
        with np.errstate(invalid="ignore", over="ignore"):
            bound = given.astype(self.dtype)
        if self.dtype.kind != "f" and not (bound == given).all():
            raise ValueError(f"{name} must exist in {self.dtype}, got {value!r}")
        try:
            return np.broadcast_to(bound, known(self.shape)).copy()
        except ValueError:
            raise ValueError(f"{name} must broadcast to shape {self.shape}, got {bound.shape}") from None

    def _holds(self, value: Any) -> bool:
        array = np.asarray(value)
        return bool(((self.low <= array) & (array <= self.high)).all())

    def _nearest(self, value: NDArray[Any]) -> NDArray[Any]:
        return as_array(np.clip(value, self.low, self.high))  # with a gradient, if the value has one

    def _row(self, ndim: int, i: int) -> ArraySpec:
        row = super()._row(ndim, i)
        if row is not self and isinstance(row, Bounded):
            at = i if self.shape[0] != -1 else 0
            row.low, row.high = self.low[at], self.high[at]
        return row

    def _expanded(self, shape: Shape) -> Self:
        big = copy.copy(self)
        big.shape = shape
        big.low, big.high = (np.broadcast_to(bound, known(shape)).copy() for bound in (self.low, self.high))
        return big

    def _reshaped(self, shape: Shape) -> Self:
        part = super()._reshaped(shape)
        part.low, part.high = (bound.reshape(known(shape)) for bound in (self.low, self.high))
        return part

    def _stacked_with(self, others: list[TensorSpec], axis: int) -> TensorSpec:
        parts = [part for part in (self, *others) if isinstance(part, Bounded)]
        if len(parts) <= len(others) or any(
            (part.shape, part.dtype) != (self.shape, self.dtype) for part in parts
        ):
            return super()._stacked_with(others, axis)
        wide = self.unsqueeze(axis)
        wide = wide.expand(*self.shape[:axis], len(parts), *self.shape[axis:])
        wide.low, wide.high = (
            np.stack([getattr(part, of) for part in parts], axis) for of in ("low", "high")
        )
        return wide

    def _cast(self, dtype: np.dtype[Any]) -> Self:
        part = super()._cast(dtype)
        part.low, part.high = part._bound("low", self.low), part._bound("high", self.high)
        return part


class UnboundedDiscrete(Unbounded):
    """Arrays of any integers: `Unbounded`, int64 by default.

    Source:
        torchrl.data.UnboundedDiscrete.

    Example:
        >>> from lite.data import UnboundedDiscrete
        >>> UnboundedDiscrete(2).dtype
        dtype('int64')
    """

    def __init__(self, shape: Any = (1,), device: Any = None, dtype: Any = np.int64) -> None:
        super().__init__(shape, device, dtype)


UnboundedContinuous = Unbounded
BoundedContinuous = Bounded

belong_to("lite.data", Unbounded, UnboundedDiscrete, Bounded)


def _checked_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a spec of numbers; TypeError for any other."""
    if dtype.kind not in "biuf":
        raise TypeError(f"dtype must be bool, an integer or a float, got {dtype}")
    return dtype


def _ndim(value: Any) -> int:
    """The number of dimensions of an array, or of nested lists of arrays."""
    return 1 + _ndim(value[0]) if isinstance(value, list) and value else len(getattr(value, "shape", ()))


def _lengths(value: Any) -> Shape:
    """The shape of an array, or that of the first rows of nested lists."""
    if isinstance(value, list):
        return (len(value), *(_lengths(value[0]) if value else ()))
    return tuple(getattr(value, "shape", ()))


def _short(bound: NDArray[Any]) -> Any:
    """A bound for people: one number where all are equal."""
    if bound.size and (bound == bound.flat[0]).all():
        return bound.flat[0].item()
    return bound.tolist()
