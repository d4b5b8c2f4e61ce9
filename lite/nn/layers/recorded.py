"""Which calls of layers are one node: those of traced arrays that have plain arrays behind them.

Others, as of arrays of an outer `vmap`, are what their formulas are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.grad.array import TracedArray


def is_recorded(*arrays: Any) -> bool:
    """Whether some arrays are traced, and there are plain arrays behind all; None is no array."""
    traced = False
    for array in arrays:
        if type(array) is TracedArray:
            traced = True
            array = array.value
        if type(array) is not np.ndarray and array is not None:
            return False
    return traced
