"""Picking, repeating, moving and splitting batch elements; most methods are implemented by an index.

Reshaping and permuting are in `_tree/shape.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lite._arrays.device import wrap
from lite._arrays.types import Array, as_array
from lite._containers.lazy_entries import is_stackable
from lite._ops.out import write_out
from lite._tree.batch_ops import Index, Take
from lite._tree.lock import require_unlocked
from lite._tree.names import set_names
from lite._tree.numpy_protocol import implements, implements_with
from lite._tree.protocol import Container, T, plain_arrays
from lite._tree.shape import as_shape, shape_of
from lite._tree.undo import remember


class Gather(Index):
    """`numpy.take_along_axis` on one batch dimension; its index arrays are created once for all leaves."""

    __slots__ = ()

    def __init__(self, dim: int, index: Array) -> None:
        at: list[Array] = list(np.ogrid[tuple(map(slice, index.shape))])
        at[dim] = index
        super().__init__(index.ndim, index.shape, at)

    def names(self, names: list[str | None]) -> list[str | None]:
        return names


def _copied(leaf: object) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _take(td: T, dim: int, indices: Array) -> T:
    out: Any = td._index((*[slice(None)] * dim, indices))
    # An index array returns the same parts of a lazy stack, but results of these methods are copies.
    return out if td._parts() is None else out._clone(True)


def gather(td: Container, dim: int, index: object, out: object = None, *, inplace: bool = False) -> Any:
    """Pick elements along a batch dimension, as `numpy.take_along_axis` for every entry.

    Args:
        dim: the batch dimension to pick from.
        index: integers of the batch size but for `dim`. Dimensions of size 1, or missing on the right, are
            repeated.
        out: TensorDict whose arrays receive the result, and which is returned.
        inplace: replace the entries and batch size of self, and return it.

    Raises:
        RuntimeError: `dim` is not a batch dimension, or `index` has other dimensions.
        ValueError: both `out` and `inplace`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.array([[1, 2], [3, 4]])}, batch_size=[2, 2])
        >>> td.gather(1, np.array([[1], [0]]))["a"]
        array([[2],
               [3]])
    """
    if out is not None and inplace:
        raise ValueError("gather takes either `out` or `inplace=True`, got both.")
    size = td.batch_size
    array = as_array(wrap(index))
    if not -len(size) <= dim < len(size):
        raise RuntimeError(f"Cannot gather tensordict with shape {size} along dim {dim}.")
    d = dim % len(size)
    shape = array.shape + (1,) * (len(size) - array.ndim)
    wanted = (*size[:d], *shape[d : d + 1], *size[d + 1 :])
    fits = len(shape) == len(size) and all(n in (1, m) for n, m in zip(shape, wanted, strict=True))
    if array.size == 0 or array.dtype.kind not in "iu" or not fits:
        raise RuntimeError(
            f"index must be a non-empty integer array that fits batch size {size}, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    if array.shape != wanted:
        array = np.broadcast_to(array.reshape(shape), wanted)
    source: Any = td
    if source._parts() is not None and is_stackable(source):  # otherwise for each part
        source = source.contiguous()
    rows = array.ndim == 1 and plain_arrays(source)
    result = source._run(Take(size, 0, array) if rows else Gather(d, array))
    if td._names is not None:  # an index array drops names in lazy stacks, at any depth
        set_names(result, td._names)
    if inplace:
        return td._replace_inplace(result, "gather")
    return result if out is None else write_out(out, result, "gather")


def repeat(td: T, *repeats: object, inplace: bool = False) -> T:
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
        return td._replace_inplace(out, "repeat")
    if out is td:
        out = td.clone()
    return out.lock_() if td.is_locked else out


def repeat_interleave(
    td: T, repeats: Any, dim: int | None = None, *, output_size: int | None = None, inplace: bool = False
) -> T:
    """Repeat each element along a batch dimension (of the flattened batch if `dim` is None).

    Args:
        repeats: one count, or one per element.
        dim: the batch dimension.
        output_size: the size that the dimension is to have afterwards.
        inplace: replace the entries and batch size of self, and return it; needs `dim`.

    Raises:
        RuntimeError: the result has another size than `output_size`, or another number of batch dims with
            `inplace`.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).repeat_interleave([1, 2])["a"]
        array([1, 2, 2])
    """
    flat = dim is None or not td.batch_size
    if flat and inplace and td._parts() is None:  # a lazy stack raises that it does not support it
        raise RuntimeError(
            f"repeat_interleave(inplace=True) needs a dim of the batch, got dim={dim} for batch size "
            f"{td.batch_size}."
        )
    source = td.flatten() if flat else td
    d = 0 if dim is None or flat else td._dim(dim)
    rows = np.repeat(np.arange(source.batch_size[d]), repeats)
    if output_size is not None and len(rows) != output_size:
        raise RuntimeError(f"repeat_interleave gives size {len(rows)}, and output_size is {output_size}.")
    out = source._take(d, rows)
    if inplace:
        return td._replace_inplace(out, "repeat_interleave")
    return out.lock_() if td.is_locked else out


def roll(
    td: T, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None, *, inplace: bool = False
) -> T:
    """Roll along batch dimensions; without `dims` along the flattened batch.

    Args:
        shifts: places to move by, one per dimension.
        dims: the batch dimensions.
        inplace: replace the entries of self, and return it.

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
            require_unlocked(td)
            return td._replace_content(out)
        return remember(td, out, lambda td, _: td.roll(-shifts))
    moves = list(shifts) if not isinstance(shifts, int) else [shifts]
    where = list(dims) if not isinstance(dims, int) else [dims]
    if len(moves) != len(where):
        raise ValueError(f"shifts and dims must have as many items, got {moves} and {where}.")
    out = td
    for shift, dim in zip(moves, where, strict=True):
        d = td._dim(dim)
        out = out._take(d, np.roll(np.arange(td.batch_size[d]), shift))
    if inplace:
        require_unlocked(td)
        return td._replace_content(out)
    back = [-shift for shift in moves]
    return remember(td, out, lambda td, _: td.roll(back, where))


def flip(td: T, *args: object, dims: object = None) -> T:
    """Reverse batch dimensions, given one by one or as `dims`. Arrays are copies, device arrays views.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2, 3]}, batch_size=[3]).flip(0)["a"]
        array([3, 2, 1])
    """
    reversed_dims = {td._dim(d) for d in shape_of(args, dims, "dims")}
    index = tuple(slice(None, None, -1 if d in reversed_dims else None) for d in range(td.ndim))
    out: T = td._index(index)._map_leaves(_copied)
    if td.is_locked:
        out.lock_()
    return remember(td, out, lambda td, _: td._index(index))


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


def tile(td: T, *args: object, dims: object = None) -> T:
    """Repeat the batch `dims[i]` times along each dimension, as `numpy.tile` on the batch.

    Args:
        args: the counts.
        dims: the counts, as a keyword. Fewer counts than batch dimensions apply to the last ones; more counts
            add dimensions in front.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).tile(2, 1)["a"]
        array([[1, 2],
               [1, 2]])
    """
    counts = shape_of(args, dims, "dims")
    out = td
    for _ in range(len(counts) - td.ndim):
        out = out.unsqueeze(0)
    return out.repeat((1,) * (out.ndim - len(counts)) + counts)


def rot90(td: T, k: int = 1, dims: Sequence[int] = (0, 1)) -> T:
    """Rotate `k` times by 90 degrees, from the first to the second of two batch dimensions.

    Raises:
        RuntimeError: fewer than 2 batch dimensions, or `dims` are not two different ones.
    """
    if td.ndim < 2:
        raise RuntimeError("rot90 requires at least 2 batch dimensions")
    first, second = (td._dim(d) for d in dims)
    if first == second:
        raise RuntimeError(f"dims must be two different dimensions, got {tuple(dims)}.")
    turns = k % 4
    if turns == 2:
        out = td.flip(first, second)
    elif turns:
        out = td.flip(second) if turns == 1 else td
        out = out.transpose(first, second)
        out = out if turns == 1 else out.flip(second)
    else:
        return td
    return remember(td, out, lambda td, _: td.rot90(-k, (first, second)))


def fliplr(td: T) -> T:
    """Reverse batch dimension 1; RuntimeError if there is none."""
    if td.ndim < 2:
        raise RuntimeError("fliplr requires at least 2 batch dimensions")
    return td.flip(1)


def flipud(td: T) -> T:
    """Reverse batch dimension 0; RuntimeError if there is none."""
    if not td.ndim:
        raise RuntimeError("flipud requires at least 1 batch dimension")
    return td.flip(0)


def atleast_1d(td: T) -> T:
    """Self, or a view with one batch dimension."""
    return _at_least(td, 1)


def atleast_2d(td: T) -> T:
    """Self, or a view with two batch dimensions, new ones in front."""
    return _at_least(td, 2)


def atleast_3d(td: T) -> T:
    """Self, or a view with three batch dimensions, new ones in front."""
    return _at_least(td, 3)


def _at_least(td: T, ndim: int) -> T:
    out = td
    for _ in range(ndim - td.ndim):
        out = out.unsqueeze(0)
    size = td.batch_size
    return remember(td, out, lambda td, _: td.reshape(size))


def tensor_split(td: T, indices_or_sections: object, dim: int = 0) -> tuple[T, ...]:
    """Split along a batch dimension as `numpy.array_split`; the pieces are views.

    Args:
        indices_or_sections: the number of pieces, whose sizes differ by at most one; or the indices of the
            splits.
        dim: the batch dimension.

    Raises:
        ValueError: the number of pieces is not positive.
        IndexError: `dim` is not a batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(5)}, batch_size=[5])
        >>> [piece.batch_size for piece in td.tensor_split(2)]
        [(3,), (2,)]
    """
    d = td._dim(dim)
    total = td.batch_size[d]
    given = np.asarray(indices_or_sections)
    if given.dtype.kind not in "iu" or given.ndim > 1:
        raise TypeError(f"indices_or_sections must be an int or ints, got {indices_or_sections!r}.")
    if given.ndim:
        cuts = [slice(int(cut)).indices(total)[1] for cut in given]
    else:
        n = int(given)
        if n < 1:
            raise ValueError(f"tensor_split: number of sections must be greater than 0, but was {n}")
        size, more = divmod(total, n)
        cuts = [i * size + min(i, more) for i in range(1, n)]
    pairs = zip([0, *cuts], [*cuts, total], strict=True)
    return tuple(td._slice(d, start, max(start, stop)) for start, stop in pairs)


def broadcast_to(td: T, *args: object, shape: object = None) -> T:
    """Same as `expand`, to a batch size given one by one or as `shape`."""
    return td.expand(shape_of(args, shape, "shape"))


def expand_as(td: T, other: Any) -> T:
    """Expand to the batch size of an array or TensorDict, and to the shapes of its entries.

    Raises:
        KeyError: `other` is a TensorDict that lacks an entry of self.
        RuntimeError: shapes do not broadcast.
    """
    node = td._as_node(other)
    if node is None:
        return td.expand(np.shape(other))
    return td.expand(node.batch_size).apply(_like_shape, node, filter_empty=False)


def _like_shape(leaf: Any, other: Any) -> Any:
    if leaf.shape == other.shape:
        return leaf
    try:
        return np.broadcast_to(leaf, other.shape)
    except ValueError as error:
        raise RuntimeError(f"an entry of shape {leaf.shape} does not expand to {other.shape}.") from error


# -- NumPy's functions --------------------------------------------------------------------------------

for _function, _name in (
    (np.moveaxis, "movedim"),
    (np.swapaxes, "swapaxes"),
    (np.rot90, "rot90"),
    (np.fliplr, "fliplr"),
    (np.flipud, "flipud"),
    (np.broadcast_to, "broadcast_to"),
    (np.tile, "tile"),
    (np.roll, "roll"),
    (np.repeat, "repeat_interleave"),
):
    implements_with(_function, _name)

implements(np.shape)(lambda a: a.batch_size)
implements(np.ndim)(lambda a: a.ndim)
implements(np.size)(lambda a, axis=None: a.numel() if axis is None else a.batch_size[axis])
implements(np.transpose)(lambda a, axes=None: a.permute(range(a.ndim)[::-1] if axes is None else axes))
implements(np.flip)(lambda a, axis=None: a.flip(tuple(range(a.ndim)) if axis is None else axis))
implements(np.array_split)(lambda a, pieces, axis=0: list(a.tensor_split(pieces, axis)))
implements(np.take_along_axis)(lambda arr, indices, axis=-1: arr.gather(axis, indices))


@implements(np.reshape)
def _numpy_reshape(
    a: T, /, shape: int | Sequence[int] = (), order: str = "C", *, copy: bool | None = None
) -> T:
    if order not in ("C", "A"):
        raise ValueError(f"a TensorDict is reshaped in order 'C', got {order!r}.")
    out = a.view(shape) if copy is False else a.reshape(shape)
    return out.clone() if copy else out


implements(np.ravel)(lambda a, order="C": _numpy_reshape(a, -1, order))


@implements(np.squeeze)
def _numpy_squeeze(a: T, axis: int | Sequence[int] | None = None) -> T:
    if axis is None:
        return a.squeeze()
    size = a.batch_size
    for dim in sorted({a._dim(d) for d in ([axis] if isinstance(axis, int) else axis)}, reverse=True):
        if size[dim] != 1:
            raise ValueError(f"cannot squeeze axis {dim} of size {size[dim]}; its size must be 1.")
        a = a.squeeze(dim)
    return a


@implements(np.expand_dims)
def _numpy_expand_dims(a: T, axis: int | Sequence[int]) -> T:
    axes = [axis] if isinstance(axis, int) else list(axis)
    ndim = a.ndim + len(axes)
    if any(not -ndim <= d < ndim for d in axes):
        raise IndexError(f"axis {axis} is out of bounds for {ndim} dimensions.")
    for dim in sorted(d % ndim for d in axes):
        a = a.unsqueeze(dim)
    return a


@implements(np.split)
def _numpy_split(a: T, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[T]:
    pieces = indices_or_sections
    if isinstance(pieces, int) and pieces > 0 and a.batch_size[axis] % pieces:
        raise ValueError(f"cannot split {a.batch_size[axis]} elements into {pieces} equal pieces.")
    return list(tensor_split(a, pieces, axis))


@implements(np.take)
def _numpy_take(a: Any, indices: ArrayLike, axis: int | None = None) -> Any:
    if axis is None:
        return a.flatten()[np.asarray(indices)]
    return a[(*[slice(None)] * a._dim(axis), np.asarray(indices))]


@implements(np.atleast_1d)
def _numpy_atleast_1d(*tds: T) -> T | tuple[T, ...]:
    return atleast_1d(tds[0]) if len(tds) == 1 else tuple(map(atleast_1d, tds))
