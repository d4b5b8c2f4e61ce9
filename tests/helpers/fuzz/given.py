"""Forms in which a user may give an array: nested lists, and stacks of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from helpers.fuzz.model import Array


class Listed(NamedTuple):
    """An array as lists in lists: the first `depth` dims, which hold arrays, or numbers at full depth.

    An object array has arrays in its elements.
    """

    array: Array
    depth: int

    def lists(self, array: Callable[[Array], Any]) -> Any:
        """The lists, with `array` of the arrays that they hold."""

        def listed(x: Any, depth: int) -> Any:
            if depth:
                return [listed(x[i], depth - 1) for i in range(len(x))]
            return array(np.array(x)) if np.ndim(x) or self.array.dtype == object else x.item()

        return listed(self.array, self.depth)


class Stacked(NamedTuple):
    """An array of objects as stacks of stacks, each along a dim of what it makes."""

    array: Array
    dims: tuple[int, ...]

    def stacks(self, lib: Any) -> Any:
        """The stacks of a library."""

        def stacked(x: Any, dims: tuple[int, ...]) -> Any:
            if not dims:
                return lib.NonTensorData(x)
            rows = np.moveaxis(x, dims[0], 0)
            parts = [stacked(rows[i], dims[1:]) for i in range(len(rows))]
            return lib.NonTensorStack(*parts, stack_dim=dims[0])

        return stacked(self.array, self.dims)
