"""Decides which calls of layers become one node: those with traced arrays that wrap plain arrays.

In other calls, such as those with arrays of an outer `vmap`, every operation of the formula is a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.grad.array import TracedArray


def is_recorded(*arrays: Any) -> bool:
    """Whether some arrays are traced, and all wrap plain arrays; None is ignored."""
    traced = False
    for array in arrays:
        if type(array) is TracedArray:
            traced = True
            array = array.value
        if type(array) is not np.ndarray and array is not None:
            return False
    return traced
