"""Copies of device arrays on the device."""

from typing import Any

from numpy.typing import DTypeLike

from lite.kernels.cuda._arrays import DeviceArray, device_array
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import cuda, kernel

_THREADS = 256


def c_ordered(gpu: Gpu, array: DeviceArray, dtype: DTypeLike | None = None) -> DeviceArray:
    """A C-ordered copy of `array`, of whatever strides, in another type of integers where one is given."""
    out = device_array("copy", gpu.empty(array.shape, array.dtype if dtype is None else dtype))
    if array.size:
        memory, first = array.memory()
        blocks = -(-array.size // _THREADS)
        gpu.launch(_copy, blocks, _THREADS, memory, first, array.shape, array.strides(), out.memory()[0])
    return out


@kernel
def _copy(memory: Any, first: Any, shape: Any, strides: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        rest, at = i, first
        for axis in range(len(shape) - 1, -1, -1):
            above = rest // shape[axis]
            at += (rest - above * shape[axis]) * strides[axis]
            rest = above
        out[i] = memory[at]
