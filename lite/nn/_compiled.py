"""Compiled code of `lite.kernels` for layers on large arrays; NumPy computes the others."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

LARGE = 1 << 14  # numbers; calls with fewer are too short to be worth loading Numba


def layers_for(x: Any, *parameters: Any) -> Any:
    """The compiled layers, or None where NumPy is to compute: they take large arrays, all of float32.

    The size of `x` alone decides, so that results do not depend on what has run before.
    """
    if not isinstance(x, np.ndarray) or x.size < LARGE:
        return None
    for array in (x, *parameters):
        if array is not None and not (isinstance(array, np.ndarray) and array.dtype == np.float32):
            return None
    return _layers()


@functools.cache
def _layers() -> Any:
    try:
        import numba
    except ImportError:  # where there is no compiler, as in a browser
        return None
    config: Any = numba.config
    if config.DISABLE_JIT:  # loops in Python would be slower than NumPy
        return None
    from lite.kernels import _layers as layers

    return layers
