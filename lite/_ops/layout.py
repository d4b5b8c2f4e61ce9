"""Shape operations that are written by other ones: rotations, tiles, uneven splits, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._tree.protocol import T
from lite._tree.shape import as_shape


def tile(td: T, *dims: Any) -> T:
    """Repeat the batch `dims[i]` times along each dimension, as `numpy.tile` on the batch.

    Args:
        dims: counts; fewer than batch dimensions are those of the last ones, more add dimensions
            in front.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).tile(2, 1)["a"]
        array([[1, 2],
               [1, 2]])
    """
    counts = as_shape(dims, "dims")
    out = td
    for _ in range(len(counts) - td.ndim):
        out = out.unsqueeze(0)
    return out.repeat((1,) * (out.ndim - len(counts)) + counts)


def rot90(td: T, k: int = 1, dims: Sequence[int] = (0, 1)) -> T:
    """Rotate `k` times by 90 degrees, from the first to the second of two batch dimensions.

    Raises:
        RuntimeError: fewer than 2 batch dimensions, or not two different ones are named.
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
    return td._remember(out, lambda td, _: td.rot90(-k, (first, second)))


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
    """T, or a view with one batch dimension."""
    return _at_least(td, 1)


def atleast_2d(td: T) -> T:
    """T, or a view with two batch dimensions, new ones in front."""
    return _at_least(td, 2)


def atleast_3d(td: T) -> T:
    """T, or a view with three batch dimensions, new ones in front."""
    return _at_least(td, 3)


def _at_least(td: T, ndim: int) -> T:
    out = td
    for _ in range(ndim - td.ndim):
        out = out.unsqueeze(0)
    size = td.batch_size
    return td._remember(out, lambda td, _: td.reshape(size))


def tensor_split(td: T, indices_or_sections: Any, dim: int = 0) -> tuple[T, ...]:
    """Split along a batch dimension as `numpy.array_split`; the pieces are views.

    Args:
        indices_or_sections: a number of pieces, of sizes that differ by one at most; or where to
            cut.
        dim: the batch dimension.

    Raises:
        ValueError: the number of pieces is not positive.
        IndexError: `dim` is no batch dimension.

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


def broadcast_to(td: T, *shape: Any) -> T:
    """Same as `expand`."""
    return td.expand(*shape)


def expand_as(td: T, other: Any) -> T:
    """Expand to the batch size of an array or TensorDict, and to the shapes of its entries.

    Raises:
        KeyError: `other` is a TensorDict that lacks an entry of self.
        RuntimeError: shapes do not broadcast.
    """
    node = td._as_node(other)
    if node is None:
        return td.expand(np.shape(other))
    out: T = td.expand(node.batch_size).apply(_like_shape, node, filter_empty=False)
    return out


def _like_shape(leaf: Any, other: Any) -> Any:
    if leaf.shape == other.shape:
        return leaf
    try:
        return np.broadcast_to(leaf, other.shape)
    except ValueError as error:
        raise RuntimeError(f"an entry of shape {leaf.shape} does not expand to {other.shape}.") from error
