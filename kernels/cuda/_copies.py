"""Copies of device arrays on the device."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._types import Array
from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import SIMULATED, cuda, device, kernel

_THREADS = 16 if SIMULATED else 256


def c_ordered(gpu: Gpu, array: DeviceMemory, dtype: DTypeLike | None = None) -> DeviceMemory:
    """A C-ordered copy of `array`, which may have any strides, in `dtype` if given."""
    out = device_array("copy", gpu.empty(array.shape, array.dtype if dtype is None else dtype))
    if array.size:
        memory, first = array.memory()
        blocks = -(-array.size // _THREADS)
        gpu.launch(_copy, blocks, _THREADS, memory, first, array.shape, array.strides(), out.memory()[0])
    return out


def fetched(gpu: Gpu, array: DeviceMemory) -> NDArray[Any]:
    """A copy of `array` (integers, float32 or float64) on the host. Waits for the device."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    return gpu.fetch(c_ordered(gpu, array).memory()[0]).reshape(array.shape)


def copy_into(gpu: Gpu, target: DeviceMemory, source: DeviceMemory) -> None:
    """Copy a C-ordered array to one of the same shape and dtype, which may have any strides."""
    if target.size:
        memory, first = target.memory()
        blocks = -(-target.size // _THREADS)
        args = source.memory()[0], memory, first, target.shape, target.strides(), target.size
        gpu.launch(_spread, blocks, _THREADS, *args)


@device
def _place(i: int, first: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The offset of element i in C order."""
    at = first
    for axis in range(len(shape) - 1, -1, -1):
        above = i // shape[axis]
        at += (i - above * shape[axis]) * strides[axis]
        i = above
    return at


@kernel
def _spread(
    values: Array, memory: Array, first: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int
) -> None:
    i = cuda.grid(1)
    if i < size:
        memory[_place(i, first, shape, strides)] = values[i]


@kernel
def _copy(memory: Array, first: int, shape: tuple[int, ...], strides: tuple[int, ...], out: Array) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = memory[_place(i, first, shape, strides)]
