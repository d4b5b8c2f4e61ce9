"""`lite.kernels`, called as always, or with every array moved to a GPU and every result back.

`from kernels_under_test import gae` gives a test file the public function. With LITE_TEST_KERNELS=cuda in the
environment (see simulator.py) it is wrapped: the same tests then hold for the CUDA kernels, on a GPU or in
Numba's simulator. Tests marked `host_only` are about NumPy arrays, and left out there.
"""

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import lite.kernels

ON_DEVICE = os.environ.get("LITE_TEST_KERNELS") == "cuda"
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
if SIMULATED:
    from helpers import simulated_threads

    simulated_threads.install()


def examples(number: int) -> int:
    """How many examples Hypothesis tries: in the simulator one takes seconds."""
    return max(5, number // 25) if ON_DEVICE and SIMULATED else number


class Foreign:
    """An array in CUDA memory that has the interface alone; laid out like the NumPy array it is made from.

    Args:
        changes: entries of the interface to have instead.
    """

    def __init__(self, array: np.ndarray, **changes: Any) -> None:
        from numba import cuda

        low, high = np.lib.array_utils.byte_bounds(array)
        memory = np.frombuffer(ctypes.string_at(low, max(high - low, 1)), np.uint8)
        self.owner: Any = cuda.to_device(memory)
        start = self.owner._ary.ctypes.data if SIMULATED else self.owner.device_ctypes_pointer.value
        self.__cuda_array_interface__ = {
            "data": (start + array.ctypes.data - low, False), "shape": array.shape, "strides": array.strides,
            "typestr": array.dtype.str, "version": 3, **changes,
        }  # fmt: skip

    def copy_to_host(self) -> np.ndarray:
        """The bytes of the memory that holds the array."""
        host: np.ndarray = self.owner.copy_to_host()
        return host


def to_device(value: Any) -> Any:
    """Lists and arrays as a Numba device array where it is C-ordered, else as another library's."""
    from numba import cuda

    array = np.asarray(value)
    if array.ndim == 0 or array.dtype.kind in "OUS":
        return value
    if array.flags.c_contiguous and array.dtype.kind != "V":  # bfloat16 is of kind V
        return cuda.to_device(array)
    return Foreign(array)


def to_host(result: Any) -> Any:
    if isinstance(result, tuple):
        values = map(to_host, result)
        return type(result)(*values) if hasattr(result, "_fields") else tuple(values)
    assert hasattr(type(result), "__cuda_ndarray__"), f"the result is not on the device: {type(result)}"
    return result.copy_to_host()


def on_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its arrays moved to the device, which must be as before afterwards."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = [*args, *options.values()]
        moved = [to_device(value) if isinstance(value, (np.ndarray, list)) else value for value in given]
        there = [value for value in moved if hasattr(value, "copy_to_host")]
        if not there:
            return function(*args, **options)
        before = [value.copy_to_host().tobytes() for value in there]
        result = function(*moved[: len(args)], **dict(zip(options, moved[len(args) :], strict=True)))
        assert [value.copy_to_host().tobytes() for value in there] == before, "an input was written to"
        return to_host(result)

    return call


def __getattr__(name: str) -> Any:
    found = getattr(lite.kernels, name)
    return on_device(found) if ON_DEVICE and callable(found) and not isinstance(found, type) else found
