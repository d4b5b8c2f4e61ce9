"""Decides which calls of layers become one node: those with traced arrays that wrap plain arrays.

In other calls, such as those with arrays of an outer `vmap`, every operation of the formula is a node. The
arrays of a graph are like plain ones to layers that are one operator of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lite._arrays.types import HostArray, is_symbolic
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of


def is_recorded(*arrays: Any) -> bool:
    """Whether some arrays are traced, and all wrap plain arrays; None is ignored."""
    traced = False
    level = None
    for array in arrays:
        if type(array) is TracedArray:
            if level is not None and array.level != level:
                return False
            traced, level = True, array.level
            array = array.value
        if type(array) is not np.ndarray and array is not None:
            return False
    return traced


def are_plain(arrays: Iterable[Any]) -> bool:
    """Whether all arrays are plain, by themselves or behind the dimensions of a `vmap`; None is ignored."""
    for array in arrays:
        while isinstance(array, HostArray) and array.layered:
            array = array.value  # type: ignore[attr-defined]
        if type(array) is not np.ndarray and array is not None:
            return False
    return True


def is_in_graph(*arrays: Any) -> bool:
    """Whether some arrays are those of a graph, by themselves or traced by one gradient, and others plain."""
    if len({array.level for array in arrays if type(array) is TracedArray}) > 1:
        return False
    found = False
    for array in map(value_of, arrays):
        if is_symbolic(array):
            found = True
        elif type(array) is not np.ndarray and array is not None:
            return False
    return found
