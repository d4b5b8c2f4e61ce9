"""Shape operations that are written by other ones: rotations, tiles, uneven splits, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lite._ops.rearrange import RearrangeMixin
from lite._tree.shape import as_shape


class LayoutMixin(RearrangeMixin):
    """Batch operations with no mechanism of their own; none of them touches feature dimensions."""

    __slots__ = ()

    def tile(self, *dims: Any) -> Self:
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
        out = self
        for _ in range(len(counts) - self.ndim):
            out = out.unsqueeze(0)
        return out.repeat((1,) * (out.ndim - len(counts)) + counts)

    def rot90(self, k: int = 1, dims: Sequence[int] = (0, 1)) -> Self:
        """Rotate `k` times by 90 degrees, from the first to the second of two batch dimensions.

        Raises:
            RuntimeError: fewer than 2 batch dimensions, or not two different ones are named.
        """
        if self.ndim < 2:
            raise RuntimeError("rot90 requires at least 2 batch dimensions")
        first, second = (self._dim(d) for d in dims)
        if first == second:
            raise RuntimeError(f"dims must be two different dimensions, got {tuple(dims)}.")
        turns = k % 4
        if turns == 2:
            out = self.flip(first, second)
        elif turns:
            out = self.flip(second) if turns == 1 else self
            out = out.transpose(first, second)
            out = out if turns == 1 else out.flip(second)
        else:
            return self
        return self._remember(out, lambda td, _: td.rot90(-k, (first, second)))

    def fliplr(self) -> Self:
        """Reverse batch dimension 1; RuntimeError if there is none."""
        if self.ndim < 2:
            raise RuntimeError("fliplr requires at least 2 batch dimensions")
        return self.flip(1)

    def flipud(self) -> Self:
        """Reverse batch dimension 0; RuntimeError if there is none."""
        if not self.ndim:
            raise RuntimeError("flipud requires at least 1 batch dimension")
        return self.flip(0)

    def atleast_1d(self) -> Self:
        """Self, or a view with one batch dimension."""
        return self._at_least(1)

    def atleast_2d(self) -> Self:
        """Self, or a view with two batch dimensions, new ones in front."""
        return self._at_least(2)

    def atleast_3d(self) -> Self:
        """Self, or a view with three batch dimensions, new ones in front."""
        return self._at_least(3)

    def _at_least(self, ndim: int) -> Self:
        out = self
        for _ in range(ndim - self.ndim):
            out = out.unsqueeze(0)
        size = self.batch_size
        return self._remember(out, lambda td, _: td.reshape(size))

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Self, ...]:
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
        d = self._dim(dim)
        total = self.batch_size[d]
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
        return tuple(self._slice(d, start, max(start, stop)) for start, stop in pairs)

    def broadcast_to(self, *shape: Any) -> Self:
        """Same as `expand`."""
        return self.expand(*shape)

    def expand_as(self, other: Any) -> Self:
        """Expand to the batch size of an array or TensorDict, and to the shapes of its entries.

        Raises:
            KeyError: `other` is a TensorDict that lacks an entry of self.
            RuntimeError: shapes do not broadcast.
        """
        node = self._as_node(other)
        if node is None:
            return self.expand(np.shape(other))
        out: Self = self.expand(node.batch_size).apply(_like_shape, node, filter_empty=False)  # type: ignore[attr-defined]
        return out


def _like_shape(leaf: Any, other: Any) -> Any:
    if leaf.shape == other.shape:
        return leaf
    try:
        return np.broadcast_to(leaf, other.shape)
    except ValueError as error:
        raise RuntimeError(f"an entry of shape {leaf.shape} does not expand to {other.shape}.") from error
