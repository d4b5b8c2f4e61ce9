"""`TensorSpec`, the base class of specs, with shapes of known and unknown sizes; and stacks of specs."""

from __future__ import annotations

import copy
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite._arrays.device import is_cpu
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite._tree.entry_errors import entry_error


@dataclass(frozen=True, eq=False)
class ContinuousBox:
    """Numbers from `low` to `high`, arrays of the spec's shape and dtype.

    Example:
        >>> from lite.data import Bounded
        >>> Bounded(-1, 1, (2,)).space.high
        array([1., 1.], dtype=float32)
    """

    low: NDArray[Any]
    high: NDArray[Any]

    def __iter__(self) -> Any:
        yield self.low
        yield self.high


@dataclass(frozen=True)
class CategoricalBox:
    """The classes 0 to n - 1.

    Example:
        >>> from lite.data import OneHot
        >>> OneHot(4).space.n
        4
    """

    n: int


@dataclass(frozen=True)
class BoxList:
    """One box after the other, along the last dimension.

    Example:
        >>> from lite.data import MultiCategorical
        >>> [box.n for box in MultiCategorical([2, 3]).space]
        [2, 3]
    """

    boxes: list[Any]

    def __iter__(self) -> Any:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, item: Any) -> Any:
        return self.boxes[item]


Shape = tuple[int, ...]


class TensorSpec(ABC):
    """The description of a value; base class of all specs.

    Attributes:
        shape: the last dimensions of values; -1 for an unknown size.
        dtype: dtype of values; None for objects and composites.
        space: the set of numbers that values may have; None for objects and composites.
        device: "cpu"; None for composites without one.
    """

    shape: Shape
    dtype: np.dtype[Any] | None = None
    space: Any = None
    device: str | None = "cpu"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @abstractmethod
    def is_in(self, value: Any) -> bool:
        """Whether `value` is in the spec."""

    @abstractmethod
    def zero(self, shape: Any = ()) -> Any:
        """A value of zeros, with the dimensions `shape` in front; zero need not be in the spec."""

    @abstractmethod
    def one(self, shape: Any = ()) -> Any:
        """A value of ones, as `zero`."""

    @abstractmethod
    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> Any:
        """A value drawn at random, with the dimensions `shape` in front.

        Args:
            shape: further dimensions.
            rng: a generator, or a seed.
        """

    @abstractmethod
    def project(self, value: Any) -> Any:
        """`value` if it is in the spec, else the nearest value that is.

        Raises:
            ValueError: the shape differs, or there is no nearest value.
        """

    def sample(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> Any:
        """Alias of `rand`."""
        return self.rand(shape, rng=rng)

    def encode(self, val: Any) -> Any:
        """The output of an environment as a value of the spec."""
        return val

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """A value of the spec as the input of an environment; the inverse of `encode`."""
        return val

    def contains(self, value: Any) -> bool:
        """Alias of `is_in`."""
        return self.is_in(value)

    def zeros(self, shape: Any = ()) -> Any:
        """Alias of `zero`."""
        return self.zero(shape)

    def ones(self, shape: Any = ()) -> Any:
        """Alias of `one`."""
        return self.one(shape)

    def __getitem__(self, index: Any) -> Any:
        """The spec of values that are indexed in their first dimensions.

        Raises:
            IndexError: the index does not fit these dimensions.
        """
        return self._indexed(index)

    def assert_is_in(self, value: Any) -> None:
        """Raise AssertionError unless `value` is in the spec; of a `Composite` it names the entry."""
        if not self.is_in(value):
            of = f" of shape {value.shape} and dtype {value.dtype}" if isinstance(value, np.ndarray) else ""
            message = f"the value{{at}} is not in the spec: got {value!r}{of}, expected {self!r}"
            raise entry_error(AssertionError, message)

    def expand(self, *shape: Any) -> Self:
        """The spec with more dimensions in front, and sizes of 1 made larger.

        Raises:
            ValueError: `shape` does not end with this one's shape.
        """
        target = as_size(shape[0] if len(shape) == 1 else shape)
        ends = target[len(target) - self.ndim :]
        if len(target) < self.ndim or any(
            old not in (1, new) for old, new in zip(self.shape, ends, strict=True)
        ):
            raise ValueError(f"expand: shape must end with {self.shape} (1 may grow), got {target}")
        return self._expanded(target)

    def unsqueeze(self, dim: int) -> Self:
        """The spec with a dimension of size 1 at `dim`, from -ndim - 1 to ndim.

        Raises:
            IndexError: `dim` is out of range.
            ValueError: the classes of the spec are along the dimensions that this moves.
        """
        at = normalized_dim(dim, self.ndim + 1)
        return self._reshaped((*self.shape[:at], 1, *self.shape[at:]))

    def squeeze(self, dim: int | None = None) -> Self:
        """The spec without dimensions of size 1, or without `dim` if its size is 1.

        Raises:
            IndexError: there is no such dimension.
            ValueError: as `unsqueeze`.
        """
        at = range(self.ndim) if dim is None else (normalized_dim(dim, self.ndim),)
        return self._reshaped(tuple(size for i, size in enumerate(self.shape) if size != 1 or i not in at))

    def reshape(self, *shape: Any) -> Self:
        """The spec in another shape with the same number of elements; one size may be -1.

        Raises:
            ValueError: the number of elements differs or is unknown; or as `unsqueeze`.
        """
        return self._reshaped(self._sizes(as_size(shape[0] if len(shape) == 1 else shape)))

    view = reshape

    def flatten(self, start_dim: int, end_dim: int) -> Self:
        """The spec with the dimensions from `start_dim` to `end_dim` as one."""
        start, end = (normalized_dim(dim, self.ndim) for dim in (start_dim, end_dim))
        return self._reshaped(self._sizes((*self.shape[:start], -1, *self.shape[end + 1 :])))

    def unflatten(self, dim: int, sizes: Any) -> Self:
        """The spec with the dimension `dim` as several, one size of which may be -1."""
        at = normalized_dim(dim, self.ndim)
        return self._reshaped(self._sizes((*self.shape[:at], *as_size(sizes), *self.shape[at + 1 :])))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """The specs of the parts along a dimension.

        Raises:
            IndexError: there is no such dimension, or the classes of the spec are along it.
        """
        at = normalized_dim(dim, self.ndim)
        return tuple(self[(slice(None),) * at + (i,)] for i in range(self.shape[at]))

    def cardinality(self) -> float:
        """The number of values that one element of the spec may have.

        Raises:
            NotImplementedError: the number is not known.
        """
        raise NotImplementedError(f"cardinality is not known of {self!r}.")

    def enumerate(self, use_mask: bool = False) -> Any:
        """The values that one element may have, along a first dimension, the same in all elements.

        Args:
            use_mask: leave out classes that the mask of a `Categorical` rules out, if it is one-dimensional.

        Raises:
            NotImplementedError: they cannot be listed.
        """
        raise NotImplementedError(f"values cannot be listed of {self!r}.")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return stacked(*args, **kwargs) if func is np.stack else NotImplemented

    def to(self, dest: Any) -> Self:
        """The spec on a device, which is itself, or with another dtype.

        Raises:
            ValueError: it is neither the CPU nor a dtype, or the dtype lacks a bound of the spec.
            TypeError: the dtype is neither bool nor of integers or floats.
        """
        try:
            dtype = None if dest is None or is_cpu(dest) else as_dtype(dest)
        except TypeError:
            raise ValueError(f"device must be 'cpu', got {dest!r}, which is not a dtype either") from None
        return self if dtype is None else self._cast(dtype)

    def cpu(self) -> Self:
        """`to("cpu")`."""
        return self.to("cpu")

    def clone(self) -> Self:
        """A copy; specs inside a composite are copied too."""
        return copy.copy(self)

    @abstractmethod
    def _expanded(self, shape: Shape) -> Self: ...

    def _reshaped(self, shape: Shape) -> Self:
        """The spec in another shape with the same number of elements."""
        part = copy.copy(self)
        part.shape = shape
        return part

    def _cast(self, dtype: np.dtype[Any]) -> Self:
        """The spec with another dtype, where it has one."""
        return self

    def _stacked_with(self, others: list[TensorSpec], axis: int) -> TensorSpec:
        """The spec of a stack of values whose specs differ."""
        return Stacked(self, *others, dim=axis)

    def _sizes(self, shape: Shape) -> Shape:
        """The shape with the size that -1 stands for."""
        if -1 in self.shape:
            raise ValueError(f"reshape needs sizes that are known, got a spec of shape {self.shape}")
        return np.broadcast_to(np.int8(0), self.shape).reshape(shape).shape

    def _indexable(self) -> int:
        """The number of first dimensions that may be indexed."""
        return self.ndim

    def _indexed(self, index: Any) -> Self:
        part = copy.copy(self)
        part.shape = indexed_shape(self.shape, index, self._indexable())
        return part

    def _made(self, shape: Any) -> Shape:
        """The shape of a value that the spec makes, with the dimensions `shape` in front."""
        if shape is None or (type(shape) is tuple and not shape):  # at each step of an environment
            return known(self.shape) if -1 in self.shape else self.shape
        return (*as_size(shape), *known(self.shape))

    def _fits(self, shape: Shape) -> bool:
        """Whether a shape ends with that of the spec."""
        ends = shape[len(shape) - self.ndim :]
        return len(shape) >= self.ndim and all(
            wanted in (-1, size) for wanted, size in zip(self.shape, ends, strict=True)
        )


def checked_device(device: Any) -> str:
    """The CPU's name; ValueError for any other device."""
    if not is_cpu(device):
        raise ValueError(f"device must be 'cpu', got {device!r}.")
    return "cpu"


def as_size(shape: Any) -> Shape:
    """A shape from an int or a sequence of ints of at least -1."""
    try:
        size = tuple(operator.index(s) for s in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise TypeError(f"shape must be an int or a tuple of them, got {shape!r}") from None
    if any(s < -1 for s in size):
        raise ValueError(f"shape must have sizes of at least -1, got {shape!r}")
    return size


def known(shape: Shape) -> Shape:
    """The shape with 1 for each unknown size."""
    return tuple(1 if size < 0 else size for size in shape)


def stacked(specs: Any, axis: int = 0) -> TensorSpec:
    """The spec of a stack of values; for different specs a `Stacked` or `StackedComposite`."""
    first, *others = specs
    at = normalized_dim(axis, first.ndim + 1)
    if any(other != first for other in others):
        return first._stacked_with(others, at)
    return first.unsqueeze(at).expand(*first.shape[:at], len(specs), *first.shape[at:])


class Stacked(TensorSpec):
    """The spec of a stack of arrays whose specs differ, such as the actions of several games.

    Values are lists of one array each, or an array where the shapes are equal; `shape` has -1 where sizes
    differ.

    Args:
        *specs: the specs of the parts, of one dtype and number of dimensions.
        dim: the dimension of the stack, from -ndim - 1 to ndim.

    Raises:
        ValueError: there is no part, or they differ in kind, dtype or number of dimensions.
        IndexError: there is no such dimension.

    Source:
        torchrl.data.Stacked.

    Example:
        >>> import numpy as np
        >>> from lite.data import Bounded
        >>> spec = np.stack([Bounded(-1, 1, (2,)), Bounded(-1, 1, (3,))])
        >>> spec.shape, [len(row) for row in spec.rand()]
        ((2, -1), [2, 3])
        >>> spec[1]
        Bounded(low=-1.0, high=1.0, shape=(3,), dtype=float32)
    """

    def __init__(self, *specs: TensorSpec, dim: int = 0) -> None:
        kinds = [(isinstance(spec.dtype, np.dtype), spec.dtype, spec.ndim) for spec in specs]
        if not specs or any(kind != kinds[0] or not kind[0] for kind in kinds):
            raise ValueError(f"stack needs specs of one dtype and number of dimensions, got {list(specs)}.")
        self._take(specs, normalized_dim(dim, specs[0].ndim + 1))
        self.dtype = specs[0].dtype

    def _take(self, specs: tuple[TensorSpec, ...], dim: int) -> None:
        self.parts, self.dim = specs, dim
        sizes = zip(*(spec.shape for spec in specs), strict=True)
        shape = [size[0] if len({*size}) == 1 else -1 for size in sizes]
        self.shape = (*shape[:dim], len(specs), *shape[dim:])

    @property
    def stack_dim(self) -> int:
        """The dimension of the stack."""
        return self.dim

    def is_in(self, value: Any) -> bool:
        rows = self._rows(value)
        return len(rows) == len(self.parts) and all(
            spec.is_in(row) for spec, row in zip(self.parts, rows, strict=True)
        )

    def zero(self, shape: Any = ()) -> Any:
        return self._joined([spec.zero(shape) for spec in self.parts])

    def one(self, shape: Any = ()) -> Any:
        return self._joined([spec.one(shape) for spec in self.parts])

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> Any:
        rng = np.random.default_rng(rng)
        return self._joined([spec.rand(shape, rng=rng) for spec in self.parts])

    def project(self, value: Any) -> Any:
        rows = zip(self.parts, self._rows(value), strict=True)
        return value if self.is_in(value) else self._joined([spec.project(row) for spec, row in rows])

    def encode(self, val: Any) -> Any:
        rows = zip(self.parts, self._rows(val), strict=True)
        return self._joined([spec.encode(row) for spec, row in rows])

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        rows = zip(self.parts, self._rows(val), strict=True)
        return [spec.to_numpy(row, safe) for spec, row in rows]

    def clone(self) -> Self:
        return self._of([spec.clone() for spec in self.parts], self.dim)

    def cardinality(self) -> float:
        return TensorSpec.cardinality(self)

    def enumerate(self, use_mask: bool = False) -> Any:
        return TensorSpec.enumerate(self, use_mask)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and (self.dim, self.parts) == (other.dim, other.parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))}, dim={self.dim})"

    def _rows(self, value: Any) -> list[Any]:
        """The values of the parts; an empty list for a value with too few dimensions."""
        if isinstance(value, list):
            return value
        return list(np.moveaxis(value, self.dim - self.ndim, 0)) if np.ndim(value) >= self.ndim else []

    def _joined(self, rows: list[Any]) -> Any:
        """The value of a stack."""
        return np.stack(rows, self.dim - self.ndim) if len({row.shape for row in rows}) == 1 else rows

    def _of(self, specs: Any, dim: int) -> Any:
        return type(self)(*specs, dim=dim)

    def _indexed(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        before, at, after = index[: self.dim], index[self.dim : self.dim + 1], index[self.dim + 1 :]
        if not all(isinstance(part, (slice, int, np.integer)) for part in before):
            raise IndexError(
                f"the dimensions before that of the stack take integers and slices, got {before}"
            )
        rest = (*before, *after)
        which = np.arange(len(self.parts))[at]
        parts = [self.parts[i][rest] if rest else self.parts[i] for i in which.ravel().tolist()]
        if which.ndim > 1 or not parts:
            raise IndexError(f"the dimension of the stack takes one index of at least one part, got {at}")
        left = self.dim - sum(not isinstance(part, slice) for part in before)
        return stacked(parts, left) if which.ndim else parts[0]

    def _expanded(self, shape: Shape) -> Any:
        lead = len(shape) - self.ndim
        rest = (*shape[: lead + self.dim], *shape[lead + self.dim + 1 :])
        own = [(*rest[:lead], *spec.shape) for spec in self.parts]  # for sizes that differ
        sizes = [[old if new < 0 else new for new, old in zip(rest, of, strict=True)] for of in own]
        parts = [spec.expand(*size) for spec, size in zip(self.parts, sizes, strict=True)]
        return self._of(parts, lead + self.dim)

    def _reshaped(self, shape: Shape) -> Any:
        lead = len(shape) - self.ndim
        if lead >= 0 and shape == (*(1,) * lead, *self.shape):
            return self._expanded(shape)
        raise ValueError(f"specs that differ have one stack, which is not reshaped, got {shape} for {self}")

    def _cast(self, dtype: np.dtype[Any]) -> Any:
        return self._of([spec._cast(dtype) for spec in self.parts], self.dim)


def normalized_dim(dim: int, ndim: int) -> int:
    """A dim counted from the front; IndexError if it is out of range."""
    at = operator.index(dim)
    if not -ndim <= at < ndim:
        raise IndexError(f"dim must be from {-ndim} to {ndim - 1}, got {dim}")
    return at % ndim


def indexed_shape(shape: Shape, index: Any, dims: int) -> Shape:
    """The shape of a value after an index of its first `dims` dimensions; IndexError if that does not fit."""
    if not dims:
        raise IndexError(f"a spec of shape {shape} has no dimension to index, got {index!r}")
    return (*np.broadcast_to(np.int8(0), shape[:dims])[index].shape, *shape[dims:])


belong_to("lite.data", TensorSpec, ContinuousBox, CategoricalBox, BoxList, Stacked)
