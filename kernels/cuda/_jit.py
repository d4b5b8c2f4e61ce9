"""The one place where options of Numba's CUDA compiler are chosen, and where the simulator is told apart.

Under NUMBA_ENABLE_CUDASIM=1 a kernel is a Python function that runs once for each thread. There a device
function may use `cuda` only if it is in its kernel's file: the simulator replaces the module in that one.
"""

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from lite.kernels._types import Kernel
from lite.kernels.backends.compiler import import_numba

F = TypeVar("F", bound=Callable[..., Any])

numba: Any = import_numba("an array in CUDA memory", extra="cuda")
cuda: Any = importlib.import_module("numba.cuda")
_config: Any = numba.config

SIMULATED = bool(_config.ENABLE_CUDASIM)
REGISTERS = 128  # of a thread at most, so that blocks of 512 can be launched


def kernel(function: Callable[..., None]) -> Kernel:
    """Compile a kernel, once for each set of argument types. NaN and infinity keep their meaning."""
    if SIMULATED:
        return cuda.jit(_Silent(function))
    return cuda.jit(function, max_registers=REGISTERS)


class _Silent:
    """A kernel without NumPy's warnings for infinities and NaN, in the simulator as on a GPU."""

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self.__globals__ = function.__globals__  # where the simulator replaces `cuda`
        self._function = function

    def __call__(self, *args: Any) -> None:  # once for each thread, and the setting is each thread's own
        with np.errstate(all="ignore"):
            self._function(*args)


_configuring = threading.Lock()


@contextmanager
def few_blocks() -> Iterator[None]:
    """Without Numba's warning that few blocks leave a GPU idle, as small arrays do."""
    if SIMULATED:
        yield
        return
    config = importlib.import_module("numba.cuda.dispatcher").config  # of Numba, or of numba-cuda
    with _configuring:
        wanted, config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_LOW_OCCUPANCY_WARNINGS, 0
        try:
            yield
        finally:
            config.CUDA_LOW_OCCUPANCY_WARNINGS = wanted


def device(function: F) -> F:
    """Compile a function that kernels call."""
    if SIMULATED:
        return function
    return cuda.jit(function, device=True)
