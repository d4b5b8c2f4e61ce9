"""Flatten: several dimensions as one."""

from __future__ import annotations

import math

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


belong_to("lite.nn", Flatten)
