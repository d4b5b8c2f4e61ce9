"""Pick, repeat and move batch elements along one dimension; every method is an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array, as_array
from lite._tree.batch_ops import Index, Take
from lite._tree.protocol import Container, T
from lite._tree.shape import as_shape


class Gather(Index):
    """`numpy.take_along_axis` on one batch dimension: an index array for each, made once for all leaves."""

    __slots__ = ()

    def __init__(self, dim: int, index: Array) -> None:
        at: list[Array] = list(np.ogrid[tuple(map(slice, index.shape))])
        at[dim] = index
        super().__init__(index.ndim, index.shape, at)

    def names(self, names: list[str | None]) -> list[str | None]:
        return names


def _copied(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _take(td: T, dim: int, indices: Array) -> T:
    out: Any = td._index((*[slice(None)] * dim, indices))
    # Index arrays alias the parts of lazy stacks, which a result of these methods does not.
    return out if td._parts() is None else out._clone(True)


def gather(td: Container, dim: int, index: Any, out: Any = None, *, inplace: bool = False) -> Any:
    """Pick elements along a batch dimension, as `numpy.take_along_axis` for every entry.

    Args:
        dim: the batch dimension to pick from.
        index: integers with as many dimensions as the batch.
        out: TensorDict whose arrays receive the result, and which is returned.
        inplace: give self the result's entries and batch size, and return it.

    Raises:
        RuntimeError: `dim` is no batch dimension, or `index` has other dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.array([[1, 2], [3, 4]])}, batch_size=[2, 2])
        >>> td.gather(1, np.array([[1], [0]]))["a"]
        array([[2],
               [3]])
    """
    size = td.batch_size
    array = as_array(index)
    if not -len(size) <= dim < len(size):
        raise RuntimeError(f"Cannot gather tensordict with shape {size} along dim {dim}.")
    fits = all(
        n <= m for i, (n, m) in enumerate(zip(array.shape, size, strict=False)) if i != dim % len(size)
    )
    if array.ndim != len(size) or array.size == 0 or array.dtype.kind not in "iu" or not fits:
        raise RuntimeError(
            f"index must be a non-empty integer array that fits batch size {size}, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    source: Any = td
    if source._parts() is not None and source._is_stackable():  # otherwise part by part
        source = source.contiguous()
    rows = array.ndim == 1 and source._flat()
    result = source._run(Take(size, 0, array) if rows else Gather(dim % len(size), array))
    if inplace:
        return td._adopt(result, "gather")
    return result if out is None else out.update_(result)


def repeat(td: T, *repeats: Any, inplace: bool = False) -> T:
    """Tile the batch: `repeats` has one count per batch dimension.

    With `inplace` self gets the result's entries and batch size, and is returned.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).repeat(2)["a"]
        array([1, 2, 1, 2])
    """
    counts = as_shape(repeats, "repeats")
    if len(counts) != td.ndim or any(n < 0 for n in counts):
        raise ValueError(f"repeats needs one count per batch dim ({td.ndim}), got {counts}.")
    out = td
    for dim, count in enumerate(counts):
        if count != 1:
            out = out._take(dim, np.tile(np.arange(td.batch_size[dim]), count))
    if inplace:
        return td._adopt(out, "repeat")
    if out is td:
        out = td.clone()
    return out.lock_() if td.is_locked else out


def repeat_interleave(
    td: T,
    repeats: Any,
    dim: int | None = None,
    *,
    output_size: int | None = None,
    inplace: bool = False,
) -> T:
    """Repeat each element along a batch dimension (of the flattened batch if `dim` is None).

    Args:
        repeats: one count, or one per element.
        dim: the batch dimension.
        output_size: accepted for compatibility.
        inplace: give self the result's entries and batch size, and return it.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).repeat_interleave([1, 2])["a"]
        array([1, 2, 2])
    """
    flat = dim is None or not td.batch_size
    source = td.flatten() if flat else td
    d = 0 if dim is None or flat else td._dim(dim)
    out = source._take(d, np.repeat(np.arange(source.batch_size[d]), repeats))
    if inplace:
        return td._adopt(out, "repeat_interleave")
    return out.lock_() if td.is_locked else out


def roll(
    td: T, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None, *, inplace: bool = False
) -> T:
    """Roll along batch dimensions; without `dims` along the flattened batch.

    Args:
        shifts: places to move by, one per dimension.
        dims: the batch dimensions.
        inplace: give self the result's entries, and return it.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2, 3]}, batch_size=[3]).roll(1, 0)["a"]
        array([3, 1, 2])
    """
    if dims is None:
        if not isinstance(shifts, int):
            raise ValueError(f"several shifts need dims, got shifts={shifts}.")
        out = td.flatten().roll(shifts, 0).reshape(td.batch_size)
        if inplace:
            return td._adopt(out, "roll")
        return td._remember(out, lambda td, _: td.roll(-shifts))
    moves = list(shifts) if not isinstance(shifts, int) else [shifts]
    where = list(dims) if not isinstance(dims, int) else [dims]
    if len(moves) != len(where):
        raise ValueError(f"shifts and dims must have as many items, got {moves} and {where}.")
    out = td
    for shift, dim in zip(moves, where, strict=True):
        d = td._dim(dim)
        out = out._take(d, np.roll(np.arange(td.batch_size[d]), shift))
    if inplace:
        return td._adopt(out, "roll")
    back = [-shift for shift in moves]
    return td._remember(out, lambda td, _: td.roll(back, where))


def flip(td: T, *dims: Any) -> T:
    """Reverse batch dimensions; arrays are copies, those on a device views.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2, 3]}, batch_size=[3]).flip(0)["a"]
        array([3, 2, 1])
    """
    reversed_dims = {td._dim(d) for d in as_shape(dims, "dims")}
    index = tuple(slice(None, None, -1 if d in reversed_dims else None) for d in range(td.ndim))
    out: T = td._index(index)._map_leaves(_copied)
    if td.is_locked:
        out.lock_()
    return td._remember(out, lambda td, _: td._index(index))


def narrow(td: T, dim: int, start: int, length: int) -> T:
    """A view of `length` elements from `start` on along a batch dimension.

    Raises:
        IndexError: the range leaves the dimension.
    """
    d = td._dim(dim)
    size = td.batch_size[d]
    begin = start + size if start < 0 else start
    if not 0 <= begin <= begin + length <= size:
        raise IndexError(f"start={start}, length={length} leave dim {dim} of size {size}.")
    return td._slice(d, begin, begin + length)
