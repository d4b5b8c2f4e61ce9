"""A map while it runs: how its batching rules take arrays apart and put results together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._transforms.vmap.array import BatchedArray, SharedArray


class Level:
    """A map: its number and size, and what a rule needs to take arrays apart and put them together.

    Rules get BatchedArrays. `value` gives the array that one holds, whose batch dimension is at 0; other
    arguments stay as they are.
    """

    __slots__ = ("number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size

    def places(self) -> range:
        """The places along the mapped dimension, of what runs once for each of them."""
        if type(self.size) is not int:
            raise NotImplementedError(
                "cannot be traced: vmap runs a function without a batching rule once for each element, and "
                "how many there are changes from call to call."
            )
        return range(self.size)

    def on(self, x: object) -> bool:
        """Whether an array is mapped here."""
        return type(x) is BatchedArray and x.level == self.number

    def value(self, x: Any) -> Any:
        """The value of a mapped array, with the batch dimension at 0; any other object as it is."""
        if type(x) is BatchedArray:
            return x.value if x.level == self.number else x
        return x.view(np.ndarray) if type(x) is SharedArray else x

    def wrap(self, value: Array) -> Any:
        """A mapped array that holds `value`."""
        return BatchedArray(value, self.number)

    def wrap_all(self, values: Sequence[Array]) -> Any:
        """Each item of a list, tuple or named tuple as a mapped array."""
        items = [BatchedArray(value, self.number) for value in values]
        if hasattr(values, "_fields"):
            return type(values)(*items)
        return items if isinstance(values, list) else tuple(items)

    def align(self, x: Any, ndim: int) -> Any:
        """The value of a mapped array, so that it broadcasts with others of up to `ndim` dimensions.

        The mapped dimension stays first, so new dimensions come after it.
        """
        return aligned(x, self.number, ndim)

    def full(self, x: Any) -> Any:
        """The value of an array with the mapped dimension; an array that is not mapped is repeated."""
        if type(x) is BatchedArray and x.level == self.number:
            return x.value
        if not hasattr(x, "shape"):
            x = np.asarray(x)
        return np.broadcast_to(self.value(x), (self.size, *x.shape))

    def part(self, x: Any, i: int) -> Any:
        """Element `i` of a mapped array, also of those in lists, tuples and dicts."""
        if type(x) is BatchedArray:
            # With the ellipsis, what is left is an array to write into, not a scalar.
            return x.value[i, ...] if x.level == self.number else x
        if type(x) in (list, tuple):
            return type(x)([self.part(item, i) for item in x])
        if type(x) is dict:
            return {key: self.part(item, i) for key, item in x.items()}
        return x


def aligned(x: Any, number: int, ndim: int) -> Any:
    """As `Level.align`, for the map with a number."""
    if type(x) is BatchedArray:
        if x.level != number:
            return x
        value = x.value
        missing = ndim + 1 - value.ndim
        return value[(slice(None),) + (None,) * missing] if missing > 0 else value
    return x.view(np.ndarray) if type(x) is SharedArray else x


def level_of(arrays: list[Any]) -> Level:
    """The innermost map that some of the arrays, all mapped, belong to."""
    top = arrays[0]
    for x in arrays:
        if x.level > top.level:
            top = x
    return Level(top.level, top.value.shape[0])


def batched_in(items: Any, found: list[Any]) -> list[Any]:
    """Add all mapped arrays in nested lists, tuples and dicts to `found`."""
    for x in items:
        kind = type(x)
        if kind is BatchedArray:
            found.append(x)
        elif kind is list or kind is tuple:
            batched_in(x, found)
        elif kind is dict:
            batched_in(x.values(), found)
        elif kind is slice:
            batched_in((x.start, x.stop, x.step), found)
    return found
