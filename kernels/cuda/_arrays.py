"""Arrays in CUDA memory, of any library: their shape and type for checks, and flat memory for kernels."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._types import DeviceArray
from lite.kernels.cuda._jit import SIMULATED, cuda


class DeviceMemory:
    """An array in CUDA memory as far as the host knows it.

    Shapes and strides are NumPy's, computed on a stand-in whose memory is never read.

    Args:
        owner: kept alive.
        address: address of the first element.
        view: the stand-in: any array of the same shape, strides and type.
    """

    def __init__(self, owner: DeviceArray, address: int, view: NDArray[Any]) -> None:
        self.owner = owner
        self.address = address
        self.view = view
        self.shape: tuple[int, ...] = view.shape
        self.ndim = view.ndim
        self.size = view.size
        self.dtype = view.dtype

    def reshape(self, shape: Sequence[int]) -> "DeviceMemory":
        """A view of the memory in another shape.

        Raises:
            ValueError: this needs a copy.
        """
        return self._like(self.view.reshape(tuple(shape), copy=False))

    def broadcast_to(self, shape: tuple[int, ...]) -> "DeviceMemory":
        return self._like(np.broadcast_to(self.view, shape))

    def expand_dims(self, axis: int) -> "DeviceMemory":
        return self._like(np.expand_dims(self.view, axis))

    def moveaxis(self, source: int, target: int) -> "DeviceMemory":
        return self._like(np.moveaxis(self.view, source, target))

    def real_parts(self) -> "DeviceMemory":
        """Complex numbers as pairs on a new last axis."""
        part = self.view.real.dtype
        shape, strides = (*self.shape, 2), (*self.view.strides, part.itemsize)
        return self._like(_stand_in(shape, strides, part))

    def bounds(self) -> tuple[int, int]:
        """The addresses that hold all elements: the lowest, and the first above."""
        low, high = np.lib.array_utils.byte_bounds(self.view)
        own = self.view.ctypes.data
        return self.address + low - own, self.address + high - own

    def memory(self) -> tuple[Any, int]:
        """Flat memory that holds all elements, and the place of the first one in it; bfloat16 as uint16."""
        size = self.view.itemsize
        typestr = "<u2" if self.dtype.name == "bfloat16" else self.dtype.str
        if not self.view.size:
            return _flat(self.owner, self.address, 0, typestr), 0
        ends = [(n - 1) * s for n, s in zip(self.shape, self.view.strides, strict=True)]
        below = -sum(end for end in ends if end < 0)
        span = (below + sum(end for end in ends if end > 0)) // size + 1
        return _flat(self.owner, self.address - below, span, typestr), below // size

    @property
    def c_contiguous(self) -> bool:
        return bool(self.view.flags.c_contiguous)

    def words(self) -> DeviceArray:
        """Flat memory of a C-ordered array of any type, as unsigned integers of at most 64 bits."""
        size = next(size for size in (8, 4, 2, 1) if self.view.itemsize % size == 0)
        return _flat(self.owner, self.address, self.view.nbytes // size, f"{'<' if size > 1 else '|'}u{size}")

    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(stride // self.view.itemsize for stride in self.view.strides)

    def _like(self, view: NDArray[Any]) -> "DeviceMemory":
        return DeviceMemory(self.owner, self.address, view)


def device_array(name: str, value: DeviceArray) -> DeviceMemory:
    """`value`, an array in CUDA memory; `name` is the name of the argument, for errors."""
    if SIMULATED and hasattr(type(value), "__cuda_ndarray__"):
        host = value._ary  # the simulator's arrays have no interface
        view = _stand_in(host.shape, host.strides, host.dtype)
        return DeviceMemory(value, host.ctypes.data, view)
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError(f"{name} must not be a masked array")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    dtype = _bfloat16(name) if interface["typestr"].endswith("V2") else np.dtype(interface["typestr"])
    if not dtype.isnative:
        raise TypeError(f"{name} must be in this machine's byte order, got {dtype}")
    if strides is None:
        strides = tuple(dtype.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    if any(stride % dtype.itemsize for stride in strides):
        raise TypeError(f"the strides of {name} must be whole elements, got {strides} bytes for {dtype}")
    return DeviceMemory(value, interface["data"][0] or 0, _stand_in(shape, tuple(strides), dtype))


def ordinal_of(value: DeviceArray) -> int:
    """The number of the GPU of an array, from its library."""
    owner = getattr(getattr(value, "gpu_data", None), "_mem", None)  # Numba
    device = getattr(getattr(owner, "context", None), "device", None) or getattr(value, "device", None)
    for name in ("id", "index"):  # Numba and CuPy; torch
        number = getattr(device, name, None)
        if isinstance(number, int):
            return number
    return 0 if SIMULATED else int(cuda.current_context().device.id)


def _stand_in(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides, writeable=False)


def _flat(owner: DeviceArray, address: int, span: int, typestr: str) -> DeviceArray:
    description = {"data": (address, False), "shape": (span,), "typestr": typestr, "version": 3}
    if SIMULATED:
        return cuda.devicearray.FakeCUDAArray(np.asarray(_Interface(owner, description)))
    return cuda.as_cuda_array(_Interface(owner, description), sync=False)


class _Interface:
    """An object with `__cuda_array_interface__`, from which Numba builds an array; keeps its owner alive."""

    def __init__(self, owner: DeviceArray, description: dict[str, Any]) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = self.__array_interface__ = description


@functools.cache
def _bfloat16(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"{name} is bfloat16, which needs ml_dtypes: pip install ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)
