"""The one place where options of Numba's CUDA compiler are chosen, and where the simulator is told apart.

Under NUMBA_ENABLE_CUDASIM=1 a kernel is a Python function that runs once for each thread. There a device
function may use `cuda` only if it is in its kernel's file: the simulator replaces the module in that one.
"""

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

cuda: Any = importlib.import_module("numba.cuda")
_config: Any = numba.config

SIMULATED = bool(_config.ENABLE_CUDASIM)


def kernel(function: Callable[..., None]) -> Any:
    """Compile a kernel, once for each set of argument types. NaN and infinity keep their meaning."""
    return cuda.jit(function)


def device(function: F) -> F:
    """Compile a function that kernels call."""
    if SIMULATED:
        return function
    compiled: F = cuda.jit(function, device=True)
    return compiled
