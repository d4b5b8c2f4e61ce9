"""Batch-shape methods: each builds one `BatchOp` and runs it.

TensorDicts, tensorclasses and non-tensor data share them. They are one base class, as three class bodies
would otherwise list the same thirty functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from lite._arrays.types import HostArray, Names, Shape
from lite._tree import batch_ops
from lite._tree.collection import TensorCollection
from lite._tree.indexing import is_traced, normalise, result_names, result_shape


def as_shape(sizes: tuple[Any, ...], argument: str) -> Shape:
    """Parse sizes given as `f(2, 3)`, `f((2, 3))` or `f([2, 3])`."""
    if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer):
        sizes = tuple(sizes[0])
    try:
        return tuple(map(operator.index, sizes))
    except TypeError:
        raise TypeError(f"{argument} must be integers, got {sizes!r}.") from None


def shape_of(sizes: tuple[Any, ...], keyword: object, argument: str) -> Shape:
    """Sizes or dims from positional arguments, one sequence, or a keyword; TypeError if both are given."""
    if keyword is None:
        return as_shape(sizes, argument)
    if sizes:
        raise TypeError(f"{argument} is given twice: {sizes} and {argument}={keyword!r}.")
    return as_shape((keyword,), argument)


def infer_size(sizes: Shape, numel: int) -> Shape:
    """Replace one -1 by the size that keeps `numel`; RuntimeError if none does."""
    if math.prod(sizes) == numel and (not sizes or min(sizes) >= 0):
        return sizes
    known = math.prod(n for n in sizes if n != -1)
    unknown = sizes.count(-1)
    if unknown > 1 or any(n < -1 for n in sizes):
        raise RuntimeError(f"only one dimension can be inferred, got sizes {sizes}.")
    if unknown and known and numel % known == 0:
        return tuple(numel // known if n == -1 else n for n in sizes)
    raise RuntimeError(f"shape {sizes} is invalid for a batch of {numel} elements.")


def parse_batch_size(batch_size: Sequence[int] | int | None) -> Shape:
    """Read a batch size given as None, an int or a sequence of ints.

    Raises:
        ValueError: a negative size, or a string.
        TypeError: anything that is not an integer.
    """
    if batch_size is None:
        return ()
    if type(batch_size) is tuple or type(batch_size) is list:
        # First, as isinstance with an abstract class costs more than all the rest.
        for n in batch_size:
            if type(n) is not int or n < 0:
                break
        else:
            return tuple(batch_size)
        shape = tuple([_size(n) for n in batch_size])
    elif isinstance(batch_size, str):
        raise ValueError(f"batch size was not specified as integers, got {batch_size!r}.")
    elif isinstance(batch_size, Iterable):
        shape = tuple(_size(n) for n in batch_size)
    else:
        shape = (_size(batch_size),)
    if shape and min(shape) < 0:
        raise ValueError(f"batch_size must not be negative, got {shape}.")
    return shape


def _size(given: Any) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise TypeError(f"batch_size must be of integers, got {given!r}.") from None


class BatchShape(TensorCollection):
    """Batch properties and batch-shape operations, which never change feature dimensions."""

    __slots__ = ()
    _names: Names

    @property
    def shape(self) -> Shape:
        """Same as `batch_size`."""
        return self.batch_size

    @shape.setter
    def shape(self, value: Any) -> None:
        self.batch_size = value  # type: ignore[misc]

    @property
    def batch_dims(self) -> int:
        """Number of batch dimensions; it follows from `batch_size`."""
        return len(self.batch_size)

    @batch_dims.setter
    def batch_dims(self, value: int) -> None:
        raise RuntimeError("Setting batch dims on TensorDict instances is not allowed; set `batch_size`.")

    @property
    def ndim(self) -> int:
        """Number of batch dimensions."""
        return len(self.batch_size)

    def dim(self) -> int:
        """Number of batch dimensions."""
        return len(self.batch_size)

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        """The batch size, or its size along `dim`."""
        return self.batch_size if dim is None else self.batch_size[dim]

    def numel(self) -> int:
        """Number of batch elements (1 for an empty batch size, 0 if any dimension is 0)."""
        return math.prod(self.batch_size)

    def __len__(self) -> int:
        size = self.batch_size
        if not size:
            return 0
        first: Any = size[0]
        return first if type(first) is int else first.as_length()  # a dynamic size, of a graph

    def __iter__(self) -> Iterator[Any]:
        if not self.batch_size:
            raise TypeError("iteration over a 0-d TensorDict.")
        return iter(self.unbind(0))

    def __bool__(self) -> bool:
        raise RuntimeError(
            "Converting a tensordict to boolean value is not permitted; td.is_empty() tells whether "
            "there are no entries, and (td == other).all() whether all numbers are equal."
        )

    def _dim(self, dim: int, extra: int = 0) -> int:
        ndim = len(self.batch_size) + extra
        if not -ndim <= dim < ndim:
            raise IndexError(f"Incompatible dim {dim} for tensordict with shape {self.batch_size}.")
        return dim % ndim

    def _index(self, index: object) -> Any:
        """Index the batch dimensions; a full slice or ellipsis returns the object itself."""
        if index is Ellipsis or (isinstance(index, tuple) and not index):
            return self
        for item in index if type(index) is tuple else (index,):
            if isinstance(item, HostArray):
                return item.index_batch(self, index)
        items = normalise(index, self.batch_size)
        if all(type(item) is slice and item == slice(None) for item in items):
            return self
        return self._select(items)

    def _select(self, items: tuple[Any, ...]) -> Any:
        """The part of the batch at normalised items of an index."""
        batch_size, index_op = self.batch_size, batch_ops.Index
        shape, names = result_shape(items, batch_size), self._names  # which checks bounds
        if is_traced(items):
            index_op = batch_ops.TracedIndex
        elif np.ndarray in map(type, items):
            if type(items[0]) is not np.ndarray:  # NumPy may lay index arrays out before slices
                index_op = batch_ops.Picked
            at = [i for i, item in enumerate(items) if type(item) is not slice or item != slice(None)]
            rows: Any = items[at[0]]
            if len(at) == 1 and rows.ndim == 1:
                rows = rows.nonzero()[0] if rows.dtype == np.bool_ else rows
                return self._run(batch_ops.Take(batch_size, at[0], rows))
        new_names = None if names is None else result_names(items, names, len(shape))
        return self._run(index_op(len(batch_size), shape, items, new_names))

    def _replace_inplace(self, out: object, name: str) -> Self:
        """Replace the content of self by that of a result, for `inplace=True`."""
        raise NotImplementedError(f"{name}(inplace=True) is not supported on {type(self).__name__}.")

    def _shaped(self, op: batch_ops.BatchOp | None) -> Self:
        """The result of an operation, or self for None; a `with` statement undoes that of a container."""
        return self if op is None else self._run(op)  # type: ignore[return-value]

    def view(
        self, *shape: object, size: Sequence[int] | None = None, batch_size: Sequence[int] | None = None
    ) -> Self:
        """Reshape without copying; ValueError where the memory layout does not allow it.

        Args:
            shape: the new batch size; one entry may be -1. Or a dtype, as which all arrays are seen
                through the same memory, as with `numpy.ndarray.view`.
            size: the new batch size, as a keyword.
            batch_size: with a dtype, the batch size of the result.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": np.ones((2, 2), np.float32)}, batch_size=[2, 2])
            >>> td.view(4)["a"], td.view(np.int64, batch_size=[2])["a"].shape
            (array([1., 1., 1., 1.], dtype=float32), (2, 1))
        """
        if len(shape) == 1 and isinstance(shape[0], np.dtype | type):
            return self._view_dtype(np.dtype(shape[0]), batch_size)
        old = self.batch_size
        new = infer_size(shape_of(shape, size, "size"), self.numel())
        return self._shaped(None if new == old else batch_ops.View(len(old), new))

    def _view_dtype(self, dtype: np.dtype[Any], batch_size: Sequence[int] | int | None) -> Self:
        """Raise, as only TensorDicts have dtypes."""
        return self

    def reshape(self, *shape: object, size: object = None, inplace: bool = False) -> Self:
        """Reshape the batch dimensions, copying only where needed; one size may be -1.

        Args:
            shape: the new batch size.
            size: the new batch size, as a keyword.
            inplace: give self the result's entries and batch size, and return it.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict
            >>> td = TensorDict({"a": np.zeros((4, 3, 5))}, batch_size=[4, 3])
            >>> td.reshape(2, -1)["a"].shape
            (2, 6, 5)
        """
        old = self.batch_size
        new = infer_size(shape_of(shape, size, "size"), self.numel())
        out: Any = self if new == old else self._run(batch_ops.Reshape(len(old), new))
        return self._replace_inplace(out, "reshape") if inplace else out

    def flatten(
        self, start_dim: int | None = None, end_dim: int | None = None, *, inplace: bool = False
    ) -> Self:
        """Merge the batch dimensions `start_dim..end_dim` (inclusive, all unless given).

        A 0-d batch becomes (1,). With `inplace` self gets the result's entries and batch size, and is
        returned.
        """
        start_dim = 0 if start_dim is None else start_dim
        end_dim = -1 if end_dim is None else end_dim
        if inplace:
            return self._replace_inplace(self.flatten(start_dim, end_dim), "flatten")
        if not self.batch_size:
            return self.unsqueeze(0)
        start, end = self._dim(start_dim), self._dim(end_dim)
        if end < start:
            raise ValueError("The end dimension must be greater or equal to the start dim.")
        return self._shaped(None if start == end else batch_ops.Flatten(self.batch_size, start, end))

    def unflatten(self, dim: int, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """Split batch dimension `dim` into `unflattened_size`, one of which may be -1.

        With `inplace` self gets the result's entries and batch size, and is returned.
        """
        if inplace:
            return self._replace_inplace(self.unflatten(dim, unflattened_size), "unflatten")
        d = self._dim(dim)
        sizes = infer_size(as_shape((unflattened_size,), "unflattened_size"), self.batch_size[d])
        return self._shaped(batch_ops.Unflatten(self.batch_size, d, sizes))

    def unsqueeze(self, dim: int) -> Self:
        """Insert a batch dimension of size 1 at `dim`."""
        ndim = self.ndim
        if not -ndim - 1 <= dim <= ndim:
            raise RuntimeError(
                "unsqueezing is allowed for dims comprised between `-td.batch_dims - 1` and "
                f"`td.batch_dims` only. Got dim={dim} with a batch size of {self.batch_size}."
            )
        return self._shaped(batch_ops.Unsqueeze(self.batch_size, dim % (ndim + 1)))

    def squeeze(self, dim: int | None = None) -> Self:
        """Drop batch dimension `dim` if its size is 1, or every such dimension."""
        size = self.batch_size
        if dim is None:
            dims = tuple([i for i, n in enumerate(size) if n == 1])
        else:
            d = self._dim(dim)
            dims = (d,) if size[d] == 1 else ()
        return self._shaped(batch_ops.Squeeze(size, dims) if dims else None)

    def permute(self, *args: object, dims: Sequence[int] | None = None) -> Self:
        """Reorder the batch dimensions.

        Raises:
            ValueError: if `dims` is not a permutation of the batch dimensions.
        """
        given = shape_of(args, dims, "dims")
        ndim = self.ndim
        if len(given) != ndim or (given and not -ndim <= min(given) <= max(given) < ndim):
            raise ValueError(
                "Received an permutation order incompatible with the tensordict shape."
                f" Got dims={list(given)} for batch size {self.batch_size}."
            )
        order = tuple([d % ndim for d in given])
        if len(set(order)) != ndim:
            raise ValueError(
                f"Cannot compute the permutation, got dims={list(given)} but expected a permutation "
                f"of {list(range(ndim))}."
            )
        same = order == tuple(range(ndim))
        return self._shaped(None if same else batch_ops.Permute(self.batch_size, order))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two batch dimensions."""
        ndim = self.ndim
        if not (-ndim <= dim0 < ndim and -ndim <= dim1 < ndim):
            raise ValueError(
                "dim0 and dim1 must be within the range of the number of dimensions."
                f" Got dim0={dim0}, dim1={dim1} for {ndim} dims."
            )
        first, second = dim0 % ndim, dim1 % ndim
        return self._shaped(None if first == second else batch_ops.Swap(self.batch_size, first, second))

    def swapaxes(self, axis0: int, axis1: int) -> Self:
        """Same as `transpose`."""
        return self.transpose(axis0, axis1)

    swapdims = swapaxes

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Self:
        """Move batch dimensions to new positions, as `numpy.moveaxis`."""
        src = [source] if isinstance(source, int) else list(source)
        dst = [destination] if isinstance(destination, int) else list(destination)
        if len(src) != len(dst):
            raise ValueError(f"source and destination must have as many dims, got {src} and {dst}.")
        src, dst = [self._dim(d) for d in src], [self._dim(d) for d in dst]
        if len(set(src)) != len(src) or len(set(dst)) != len(dst):
            raise RuntimeError(f"repeated dim in source {src} or destination {dst}.")
        order = [d for d in range(self.ndim) if d not in src]
        for to, d in sorted(zip(dst, src, strict=True)):
            order.insert(to, d)
        return self.permute(order)

    moveaxis = movedim

    def expand(self, *shape: object, size: object = None, inplace: bool = False) -> Self:
        """Broadcast the batch dimensions to `shape` (-1 keeps a size); leaves are views.

        They are read-only where rows are repeated.

        Args:
            shape: the new batch size.
            size: the new batch size, as a keyword.
            inplace: give self the result's entries and batch size, and return it.
        """
        given = shape_of(shape, size, "size")
        old = self.batch_size
        if len(given) < len(old):
            raise RuntimeError(
                f"the number of sizes provided ({len(given)}) must be greater or equal to the number of "
                f"dimensions in the TensorDict ({len(old)})"
            )
        lead = len(given) - len(old)
        if given[lead:] == old:
            new = given
        else:
            pairs = zip(given[lead:], old, strict=True)
            new = given[:lead] + tuple([m if n == -1 else n if m in (n, 1) else -1 for n, m in pairs])
        if not new or min(new) >= 0:
            out: Any = self._run(batch_ops.Expand(len(old), new))
            return self._replace_inplace(out, "expand") if inplace else out
        raise RuntimeError(f"Incompatible expanded shape: {given} for a batch size of {old}.")

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split into one collection per index of batch dimension `dim`, which disappears."""
        d = self._dim(dim)
        full = (slice(None),) * d
        return tuple(self._index((*full, i)) for i in range(self.batch_size[d]))

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along batch dimension `dim` into chunks of a size, or of the sizes of a list."""
        d = self._dim(dim)
        total = self.batch_size[d]
        if isinstance(split_size, int | np.integer):
            if split_size <= 0:
                raise ValueError(f"split: split_size must be positive, got {split_size}.")
            stops = list(range(split_size, total, split_size)) + [total]
        else:
            try:
                sizes = [operator.index(n) for n in split_size]
            except TypeError:
                raise TypeError("split(): argument 'split_size' must be int or list of ints") from None
            if not sizes:
                raise RuntimeError("Insufficient number of elements in split_size.")
            if sum(sizes) != total or min(sizes) < 0:
                raise RuntimeError(
                    f"{type(self).__name__}.split expects split_size(s) to sum exactly to {total}, the size "
                    f"of dim {dim}, got {sizes}."
                )
            stops = [int(n) for n in np.cumsum(sizes)]
        return tuple([self._slice(d, a, b) for a, b in zip([0, *stops[:-1]], stops, strict=True)])

    def _slice(self, dim: int, start: int, stop: int) -> Self:
        size = self.batch_size
        op = batch_ops.Piece(
            len(size),
            size[:dim] + (stop - start,) + size[dim + 1 :],
            (slice(None),) * dim + (slice(start, stop),),
            self._names,
        )
        return self._run(op)  # type: ignore[return-value]

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Split along batch dimension `dim` into at most `chunks` pieces of equal (ceiled) size."""
        if chunks < 1:
            raise ValueError(f"chunks must be a strictly positive integer, got {chunks}.")
        return self.split(max(1, -(-self.batch_size[self._dim(dim)] // chunks)), dim)
