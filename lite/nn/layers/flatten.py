"""Flatten: several dimensions as one. Unflatten: one as several."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.module import Module


class Flatten(Module):
    """Merge the dimensions from `start_dim` to `end_dim`.

    Args:
        start_dim: the first dimension to merge.
        end_dim: the last one.

    Shapes:
        input (*A, *merged, *B), output (*A, prod(merged), *B); a view where there can be one.

    Raises:
        IndexError: dimensions that the input does not have.
        RuntimeError: start_dim after end_dim.

    Source:
        torch.nn.Flatten.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Flatten()(np.zeros((2, 3, 4))).shape
        (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Array) -> Array:
        """Merge dimensions of the input."""
        ndim = max(input.ndim, 1)
        for name, dim in (("start_dim", self.start_dim), ("end_dim", self.end_dim)):
            if not -ndim <= dim < ndim:
                raise IndexError(f"{name} must be in [{-ndim}, {ndim - 1}], got {dim}")
        first, last = self.start_dim % ndim, self.end_dim % ndim
        if first > last:
            raise RuntimeError(f"start_dim must not come after end_dim, got {first} and {last}")
        shape = input.shape or (1,)
        return input.reshape(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split a dimension into several.

    Args:
        dim: the dimension.
        unflattened_size: the sizes that it gets, of which one may be -1.

    Shapes:
        input (*A, prod(unflattened_size), *B), output (*A, *unflattened_size, *B).

    Raises:
        TypeError: `dim` is not an integer; names of dimensions are not taken.
        RuntimeError: the sizes do not fit.
        IndexError: the input does not have the dimension.

    Source:
        torch.nn.Unflatten.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Unflatten(1, (3, -1))(np.zeros((2, 12))).shape
        (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"dim must be an integer, got {dim!r}")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Array) -> Array:
        """Split the dimension of the input."""
        if not -input.ndim <= self.dim < input.ndim:
            raise IndexError(f"dim must be in [{-input.ndim}, {input.ndim - 1}], got {self.dim}")
        dim, sizes, shape = self.dim % input.ndim, self.unflattened_size, input.shape
        held = math.prod(n for n in sizes if n != -1)
        if sizes.count(-1) == 1 and held and shape[dim] % held == 0:
            sizes = tuple(shape[dim] // held if n == -1 else n for n in sizes)
        if -1 in sizes or math.prod(sizes) != shape[dim]:
            raise RuntimeError(f"unflattened_size must multiply to {shape[dim]}, got {self.unflattened_size}")
        return input.reshape(*shape[:dim], *sizes, *shape[dim + 1 :])

    def extra_repr(self) -> str:
        """The dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


belong_to("lite.nn", Flatten, Unflatten)
