"""Arrays as arguments of kernels: where they lie, and the plain memory that compiled code reads."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lite.kernels._device import in_cuda_memory

Array: TypeAlias = Any  # NumPy's, or a DeviceMemory (cuda/_arrays.py), which has the methods used of both

_LINE = 64  # bytes


class Memory:
    """Foreign memory with `__array_interface__`, from which NumPy makes an array; keeps its owner alive."""

    def __init__(
        self, owner: NDArray[Any], address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def to_numpy(name: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as a NumPy array, without a copy where it is one; `name` is the argument's, for errors."""
    if isinstance(value, np.ndarray):
        return value
    if in_cuda_memory(value):
        raise TypeError(
            f"{name} is an array in CUDA memory ({type(value).__name__}); this function reads NumPy arrays, "
            "copy it to the host first"
        )
    return np.asarray(value)


def as_array(name: str, value: ArrayLike) -> Array:
    """`value` as a NumPy array, or as a DeviceMemory if it is in CUDA memory; without a copy."""
    if isinstance(value, np.ndarray):
        return value
    if not in_cuda_memory(value):
        return np.asarray(value)
    from lite.kernels.cuda._arrays import device_array

    return device_array(name, value)


def on_host(name: str, value: ArrayLike, gpu: Any) -> NDArray[Any]:
    """A small `value`, also from a GPU, as a NumPy array."""
    if gpu is None or not in_cuda_memory(value):
        return to_numpy(name, value)
    from lite.kernels.cuda._copies import fetched

    return fetched(gpu, as_array(name, value))


def broadcast_to(array: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(array, shape) if isinstance(array, np.ndarray) else array.broadcast_to(shape)


def expand_dims(array: Array, axis: int) -> Array:
    return np.expand_dims(array, axis) if isinstance(array, np.ndarray) else array.expand_dims(axis)


def moveaxis(array: Array, source: int, target: int) -> Array:
    if isinstance(array, np.ndarray):
        return np.moveaxis(array, source, target)
    return array.moveaxis(source, target)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16"


def is_float(dtype: np.dtype[Any]) -> bool:
    """The floating types that kernels read: float16, bfloat16, float32, float64."""
    return dtype.char in "efd" or is_bfloat16(dtype)  # `name` is computed on each access


def require_float(name: str, dtype: np.dtype[Any]) -> None:
    """Raise TypeError for another dtype than those of `is_float`; the message names the argument."""
    if not is_float(dtype):
        raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {dtype}")


def native(array: NDArray[Any]) -> NDArray[Any]:
    """`array` in this machine's byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def contiguous(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """C-ordered and writable as far as its type goes, so that each kernel is compiled once.

    Numba compiles read-only and writable arrays separately. No kernel writes to an input.
    """
    array = np.ascontiguousarray(array, dtype)
    if array.flags.writeable or not array.size:
        return array
    return np.asarray(Memory(array, array.ctypes.data, array.shape, array.dtype))


def aligned_zeros(count: int) -> NDArray[np.float64]:
    """Scratch memory aligned to a cache line, as vectors across two cache lines take twice the time.

    It is zeroed because kernels may compute with entries that they do not use, and denormal numbers are slow.
    """
    if count < 1024:  # finding the address takes longer than it saves
        return np.zeros(count)
    memory = np.zeros(count + _LINE // 8)
    skip = -memory.__array_interface__["data"][0] % _LINE // 8
    return memory[skip : skip + count]


def rows_of(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The memory under `array` as one flat array, and where in it each row (along the last axis) starts.

    Leading axes may have any strides: slices, transposes and broadcasts are read where they lie. Only
    an array whose last axis is not contiguous is copied.
    """
    if array.flags.c_contiguous and array.flags.writeable and array.size:  # the common case, without the sums
        return array.reshape(-1), np.arange(0, array.size, array.shape[-1], dtype=np.int64)
    size = array.itemsize
    leading, last = array.shape[:-1], array.shape[-1]
    strided = array.strides[:-1]
    if not array.size or (last > 1 and array.strides[-1] != size) or any(s % size for s in strided):
        array = np.ascontiguousarray(array)
        strided = array.strides[:-1]
    starts: NDArray[np.int64] = np.zeros(leading, np.int64)
    lowest = 0  # of a negative stride
    for axis, (count, stride) in enumerate(zip(leading, strided, strict=True)):
        steps = np.arange(count, dtype=np.int64) * (stride // size)
        starts += steps.reshape((-1,) + (1,) * (len(leading) - axis - 1))
        lowest += min(0, int(steps[-1])) if count else 0
    if not array.size:
        return np.empty(0, array.dtype), starts.reshape(-1)
    starts = starts.reshape(-1) - lowest
    span = int(starts.max()) + last
    memory = Memory(array, array.ctypes.data + lowest * size, (span,), array.dtype)
    return np.asarray(memory), starts
