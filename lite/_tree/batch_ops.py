"""Batch-shape operations as small objects.

Each operation computes the new batch shape once, from the batch size of the TensorDict it was called on.
`array` then applies it to any leaf or object array, whatever feature dimensions follow. Collections differ
only in how they map it over their entries (`TensorCollection._run`). So a lazy stack can stay lazy by looking
at the operation, and a nested node or an object array needs no code of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from lite._arrays.device import to_library_of, with_namespace_of
from lite._arrays.types import Array, Names, Shape, computed, has_namespace


class BatchOp:
    """An operation on the first `ndim` dimensions of every entry, giving `shape` instead.

    Attributes:
        ndim: number of leading dimensions that the operation reads.
        shape: the batch shape of the result.
        keeps_lock: whether the result of a locked TensorDict is locked.
        fills: whether the operation adds elements, for which there are no objects.
    """

    __slots__ = ("ndim", "shape")
    keeps_lock = True
    fills = False

    def __init__(self, ndim: int, shape: Shape) -> None:
        self.ndim = ndim
        self.shape = shape

    def array(self, value: Array) -> Array:
        raise NotImplementedError

    def names(self, names: list[str | None]) -> Names:
        """Names of the new batch dimensions, from those of the old ones."""
        return None

    def inverse(self, size: Shape) -> BatchOp:
        """The operation that restores the original batch size."""
        return Reshape(len(self.shape), size[: self.ndim])

    def on_stack(self, stack: Any) -> Any:
        """The result for a lazy stack whose stack dimension is read; None if the stack computes it."""
        return None

    def _head(self, part: Any) -> Shape:
        """The number of dimensions that are read of each part of a lazy stack."""
        size: Shape = part.batch_size
        return size[: self.ndim - 1]


class Reshape(BatchOp):
    """Row-major reshape of the batch dimensions; copies only where strides force it."""

    __slots__ = ("full", "known")
    known: Shape | None
    full: Shape

    def __init__(self, ndim: int, shape: Shape) -> None:
        self.ndim = ndim
        self.shape = shape
        self.known = None

    def _full(self, own: Shape) -> Shape:
        """The new shape of a leaf, cached, as most leaves have the shape of the one before."""
        self.known = own
        self.full = full = self.shape + own[self.ndim :]
        return full

    def array(self, value: Array) -> Array:
        own = value.shape
        return value.reshape(self.full if own == self.known else self._full(own))


class View(Reshape):
    """Reshape that raises instead of copying; object arrays may be copied, as writes replace them anyway."""

    __slots__ = ()

    def array(self, value: Array) -> Array:
        own = value.shape
        full = self.full if own == self.known else self._full(own)
        # A contiguous array is never copied, so the slower check is left out.
        if value.flags.c_contiguous or value.dtype == object:
            return value.reshape(full)
        return value.reshape(full, copy=False)


class Unsqueeze(Reshape):
    """Insert a dimension of size 1 at `dim`."""

    __slots__ = ("array", "dim")
    array: Callable[[Array], Array]  # type: ignore[assignment]

    def __init__(self, batch_size: Shape, dim: int) -> None:
        self.ndim = len(batch_size)
        self.shape = batch_size[:dim] + (1,) + batch_size[dim:]
        self.dim = dim
        # An index costs less than a reshape, and itemgetter less than a method.
        self.array = itemgetter((slice(None),) * dim + (None, Ellipsis))

    def names(self, names: list[str | None]) -> Names:
        return names[: self.dim] + [None] + names[self.dim :]

    def inverse(self, size: Shape) -> BatchOp:
        return Squeeze(self.shape, (self.dim,))


class Squeeze(Reshape):
    """Drop the dimensions listed in `dims`, all of size 1."""

    __slots__ = ("array", "dims")
    array: Callable[[Array], Array]  # type: ignore[assignment]

    def __init__(self, batch_size: Shape, dims: tuple[int, ...]) -> None:
        self.ndim = len(batch_size)
        self.dims = dims
        # An index, which costs less than a method, as in Unsqueeze.
        if len(dims) == 1:
            dim = dims[0]
            self.shape = batch_size[:dim] + batch_size[dim + 1 :]
            self.array = itemgetter((slice(None),) * dim + (0, Ellipsis))
        else:
            self.shape = tuple([n for i, n in enumerate(batch_size) if i not in dims])
            at = [0 if i in dims else slice(None) for i in range(self.ndim)]
            self.array = itemgetter((*at, Ellipsis))

    def names(self, names: list[str | None]) -> Names:
        return [name for i, name in enumerate(names) if i not in self.dims]

    def inverse(self, size: Shape) -> BatchOp:
        one = len(self.dims) == 1
        return Unsqueeze(self.shape, self.dims[0]) if one else super().inverse(size)


class Flatten(Reshape):
    """Merge the dimensions `start..end` (inclusive) into one."""

    __slots__ = ("end", "start")

    def __init__(self, batch_size: Shape, start: int, end: int) -> None:
        merged = int(np.prod(batch_size[start : end + 1], dtype=np.int64))
        super().__init__(len(batch_size), batch_size[:start] + (merged,) + batch_size[end + 1 :])
        self.start = start
        self.end = end

    def names(self, names: list[str | None]) -> Names:
        return names[: self.start] + [None] + names[self.end + 1 :]

    def inverse(self, size: Shape) -> BatchOp:
        return Unflatten(self.shape, self.start, size[self.start : self.end + 1])


class Unflatten(Reshape):
    """Split dimension `dim` into `sizes`."""

    __slots__ = ("dim", "sizes")

    def __init__(self, batch_size: Shape, dim: int, sizes: Shape) -> None:
        super().__init__(len(batch_size), batch_size[:dim] + sizes + batch_size[dim + 1 :])
        self.dim = dim
        self.sizes = sizes

    def names(self, names: list[str | None]) -> Names:
        return names[: self.dim] + [None] * (len(self.sizes) - 1) + names[self.dim :]

    def inverse(self, size: Shape) -> BatchOp:
        return Flatten(self.shape, self.dim, self.dim + len(self.sizes) - 1)


class Permute(BatchOp):
    """Reorder the batch dimensions."""

    __slots__ = ("dims", "order")

    def __init__(self, batch_size: Shape, dims: tuple[int, ...]) -> None:
        self.ndim = len(batch_size)
        self.shape = tuple([batch_size[d] for d in dims])
        self.dims = self.order = dims

    def array(self, value: Array) -> Array:
        if value.ndim != len(self.order):  # cached, as most leaves have as many dimensions as the one before
            self.order = self.dims + tuple(range(self.ndim, value.ndim))
        return value.transpose(self.order)

    def names(self, names: list[str | None]) -> Names:
        return [names[d] for d in self.dims]

    def inverse(self, size: Shape) -> BatchOp:
        return Permute(self.shape, tuple(self.dims.index(d) for d in range(self.ndim)))


class Swap(Permute):
    """Exchange two batch dimensions, whatever dimensions follow."""

    __slots__ = ("array",)
    array: Callable[[Array], Array]  # type: ignore[assignment]

    def __init__(self, batch_size: Shape, first: int, second: int) -> None:
        dims = list(range(len(batch_size)))
        dims[first], dims[second] = second, first
        super().__init__(batch_size, tuple(dims))
        self.array = lambda value: value.swapaxes(first, second)


class Expand(BatchOp):
    """Broadcast the batch dimensions; the result is a view, read-only where elements are repeated."""

    __slots__ = ("dtype", "known", "plan", "repeats", "steps")
    known: Shape | None
    steps: Shape
    dtype: np.dtype[Any]
    plan: tuple[Shape, Shape]
    repeats: bool

    def __init__(self, ndim: int, shape: Shape) -> None:
        self.ndim = ndim
        self.shape = shape
        self.known = None

    def array(self, value: Array) -> Array:
        # The same view as np.broadcast_to at a quarter of the cost, for arrays that can be read as a buffer.
        # The plan is cached, as most leaves have the shape and strides of the one before.
        if type(value) is np.ndarray:
            own, steps, dtype = value.shape, value.strides, value.dtype
            if own == self.known and steps == self.steps and dtype is self.dtype:
                shape, strides = self.plan
            elif value.flags.c_contiguous and dtype.kind in "biufc":
                shape, strides = self.plan = self._plan(own, steps)
                self.known, self.steps, self.dtype = own, steps, dtype
                self.repeats = math.prod(shape) != value.size
            else:
                shape = self.shape + own[self.ndim :]
                same = math.prod(shape) == value.size
                return value.reshape(shape) if same else np.broadcast_to(value, shape)
            out: Array = np.ndarray(shape, dtype, value, 0, strides)
            if self.repeats:
                out.setflags(False)  # type: ignore[call-arg]  # by position it takes half the time
            return out
        return np.broadcast_to(value, self.shape + value.shape[self.ndim :])

    def _plan(self, own: Shape, steps: Shape) -> tuple[Shape, Shape]:
        """Shape and strides of the view of a leaf."""
        new = len(self.shape) - self.ndim
        shape = self.shape + own[self.ndim :]
        if shape[new:] == own:
            strides = steps
        else:
            grown = zip(shape[new:], own, steps, strict=True)
            strides = tuple([0 if n != m else step for n, m, step in grown])
        return shape, (0,) * new + strides

    def names(self, names: list[str | None]) -> Names:
        return [None] * (len(self.shape) - self.ndim) + names


class Index(BatchOp):
    """Index the batch dimensions with anything NumPy accepts there."""

    __slots__ = ("array", "index", "new_names")
    array: Callable[[Array], Array]  # type: ignore[assignment]
    keeps_lock = False

    def __init__(self, ndim: int, shape: Shape, index: Any, new_names: Names = None) -> None:
        self.ndim = ndim
        self.shape = shape
        # With the ellipsis NumPy returns an array, and a view for basic indices, also where no
        # dimension is left; without it an integer index of a 1-d leaf would give a scalar copy.
        self.index = index = (*index, Ellipsis)
        self.array = itemgetter(index)
        self.new_names = new_names

    def names(self, names: list[str | None]) -> Names:
        return self.new_names


class TracedIndex(Index):
    """Index with traced arrays of JAX, whose values are unknown; JAX also indexes NumPy arrays with them."""

    __slots__ = ()

    def __init__(self, ndim: int, shape: Shape, index: Any, new_names: Names = None) -> None:
        super().__init__(ndim, shape, index, new_names)
        traced = next(item for item in index if has_namespace(item))
        self.array = lambda value: with_namespace_of(traced, value)[self.index]


class Picked(Index):
    """Index with arrays behind slices."""

    __slots__ = ()

    def __init__(self, ndim: int, shape: Shape, index: Any, new_names: Names = None) -> None:
        super().__init__(ndim, shape, index, new_names)
        self.array = partial(_picked, self.index)


def _picked(index: Any, value: Array) -> Array:
    """`value[index]`, contiguous as torch's, so that it has views."""
    out: Array = value[index]
    return np.ascontiguousarray(out) if type(out) is np.ndarray else out


class Piece(Index):
    """A slice taken by `split`, `chunk` or `narrow`. The result keeps the lock."""

    __slots__ = ()
    keeps_lock = True


class Take(Index):
    """Pick the rows of a 1-d array of integers within bounds along dimension `dim`."""

    __slots__ = ("dim", "rows")

    def __init__(self, batch_size: Shape, dim: int, rows: Array) -> None:
        self.ndim = len(batch_size)
        self.shape = batch_size[:dim] + rows.shape + batch_size[dim + 1 :]
        self.index = (slice(None),) * dim + (rows, Ellipsis)
        self.dim = dim
        self.rows = rows

    def array(self, value: Array) -> Array:
        # `take` costs a third of an index array, but copies a non-contiguous array first.
        if type(value) is np.ndarray:
            flags = value.flags
            if flags.c_contiguous and flags.aligned:
                return value.take(self.rows, self.dim)
        return _picked(self.index, value)

    def names(self, names: list[str | None]) -> Names:
        return names


class Pad(BatchOp):
    """Pad the batch dimensions at both ends.

    Negative counts crop. New elements hold `value`, or None in object arrays.
    """

    __slots__ = ("after", "before", "fills", "kept", "value", "within")
    keeps_lock = False

    def __init__(self, size: Shape, before: Sequence[int], after: Sequence[int], value: object) -> None:
        counts = list(zip(size, before, after, strict=True))
        super().__init__(len(size), tuple([n + a + b for n, a, b in counts]))
        self.before = before
        self.after = after
        self.value = value
        self.fills = any(a > 0 or b > 0 for _, a, b in counts)
        # The kept elements in the source and in the result.
        self.kept = tuple([slice(max(0, -a), max(0, n - max(0, -b))) for n, a, b in counts])
        self.within = tuple([slice(max(0, a), max(0, n + a + b - max(0, b))) for n, a, b in counts])

    def array(self, value: Array) -> Array:
        dtype = value.dtype
        out = np.empty(self.shape + value.shape[self.ndim :], dtype)
        out.fill(None if dtype.hasobject else self.value)
        held = computed(value)
        out = to_library_of(held, out)
        out[self.within] = held[self.kept]
        return out

    def names(self, names: list[str | None]) -> Names:
        return names
