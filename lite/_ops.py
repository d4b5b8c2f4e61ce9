"""Batch-shape operations as small objects.

Each operation computes the new batch shape once, from the batch size of the TensorDict it was
called on; `array` then does the same to any leaf, nested node or object array, whatever dimensions
follow the batch. Collections only differ in how they map it (`TensorCollection._run`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from lite._collection import Array, Names, Shape


class BatchOp:
    """An operation on the first `ndim` dimensions of every entry, giving `shape` instead.

    Attributes:
        ndim: number of batch dimensions it reads.
        shape: the batch shape it produces.
        keeps_lock: whether the result of a locked TensorDict is locked.
        fills: whether it adds elements, which no object belongs to.
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
        """The operation that leads back to the batch size this one started from."""
        return Reshape(len(self.shape), size[: self.ndim])


class Reshape(BatchOp):
    """Row-major reshape of the batch dimensions; copies only where strides force it."""

    __slots__ = ()

    def array(self, value: Array) -> Array:
        return value.reshape(self.shape + value.shape[self.ndim :])


class View(BatchOp):
    """Reshape that refuses to copy."""

    __slots__ = ()

    def array(self, value: Array) -> Array:
        out: Array = value.reshape(self.shape + value.shape[self.ndim :], copy=False)
        return out


class Unsqueeze(Reshape):
    """Insert a dimension of size 1 at `dim`."""

    __slots__ = ("array", "dim")
    array: Callable[[Array], Array]  # type: ignore[assignment]

    def __init__(self, batch_size: Shape, dim: int) -> None:
        super().__init__(len(batch_size), batch_size[:dim] + (1,) + batch_size[dim:])
        self.dim = dim
        # An index costs less than a reshape, and itemgetter less than a method.
        self.array = itemgetter((slice(None),) * dim + (None, Ellipsis))

    def names(self, names: list[str | None]) -> Names:
        return names[: self.dim] + [None] + names[self.dim :]

    def inverse(self, size: Shape) -> BatchOp:
        return Squeeze(self.shape, (self.dim,))


class Squeeze(Reshape):
    """Drop the dimensions listed in `dims`, all of size 1."""

    __slots__ = ("dims",)

    def __init__(self, batch_size: Shape, dims: tuple[int, ...]) -> None:
        super().__init__(len(batch_size), tuple(n for i, n in enumerate(batch_size) if i not in dims))
        self.dims = dims

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
        super().__init__(len(batch_size), tuple([batch_size[d] for d in dims]))
        self.dims = self.order = dims

    def array(self, value: Array) -> Array:
        if value.ndim != len(self.order):  # the order for the last leaf mostly serves the next one
            self.order = self.dims + tuple(range(self.ndim, value.ndim))
        return value.transpose(self.order)

    def names(self, names: list[str | None]) -> Names:
        return [names[d] for d in self.dims]

    def inverse(self, size: Shape) -> BatchOp:
        return Permute(self.shape, tuple(self.dims.index(d) for d in range(self.ndim)))


class Expand(BatchOp):
    """Broadcast the batch dimensions; the result is a read-only view."""

    __slots__ = ()

    def array(self, value: Array) -> Array:
        own = value.shape
        shape = self.shape + own[self.ndim :]
        if type(value) is not np.ndarray or not value.flags.c_contiguous or value.dtype.kind not in "biufc":
            return np.broadcast_to(value, shape)
        # The same view at a quarter of the cost, for arrays that can be read as a buffer.
        new = len(self.shape) - self.ndim
        strides = (0,) * new + value.strides
        if shape[new:] != own:
            grown = zip(shape[new:], own, value.strides, strict=True)
            strides = (0,) * new + tuple([0 if n != m else step for n, m, step in grown])
        out: Array = np.ndarray(shape, value.dtype, value, 0, strides)
        out.setflags(write=False)
        return out

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


class Piece(Index):
    """A slice taken by `split`, `chunk` or `narrow`, which keep the lock."""

    __slots__ = ()
    keeps_lock = True


class Take(Index):
    """Pick `rows`, one dimension of integers within bounds, along dimension `dim`."""

    __slots__ = ("dim", "rows")

    def __init__(self, batch_size: Shape, dim: int, rows: Array) -> None:
        self.ndim = len(batch_size)
        self.shape = batch_size[:dim] + rows.shape + batch_size[dim + 1 :]
        self.index = (slice(None),) * dim + (rows, Ellipsis)
        self.dim = dim
        self.rows = rows

    def array(self, value: Array) -> Array:
        # `take` costs a third of an index array, but first copies arrays that are not laid out for it.
        if type(value) is np.ndarray:
            flags = value.flags
            if flags.c_contiguous and flags.aligned:
                return value.take(self.rows, self.dim)
        out: Array = value[self.index]
        return out

    def names(self, names: list[str | None]) -> Names:
        return names
