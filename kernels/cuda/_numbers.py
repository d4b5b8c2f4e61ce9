"""Reading and writing numbers of any type in a kernel.

bfloat16 reaches a kernel as its bits in uint16 memory (Numba has no such type on every GPU), so memory of
that type always means bfloat16: unsigned 16-bit integers are converted before (`DeviceMemory.memory`).
"""

from typing import Any

import numpy as np

from lite.kernels._types import Array, Type
from lite.kernels.cuda._jit import SIMULATED, cuda, device

if SIMULATED:

    def as_float(bits: int) -> np.float32:
        """The float32 that has these 32 bits."""
        return np.uint32(bits).view(np.float32)

    def as_bits(value: float) -> np.uint32:
        """The bits of a float32."""
        return np.float32(value).view(np.uint32)

    def widen(value: float) -> float:
        """An element of memory as a number: 16-bit floats as float32, others as they are."""
        if isinstance(value, np.uint16):
            return as_float(np.uint32(value) << np.uint32(16))
        return np.float32(value) if isinstance(value, np.float16) else value

    def store(memory: Array, index: int, value: float) -> None:
        """memory[index] = value; to 16-bit floats by way of float32, as on the CPU."""
        with np.errstate(over="ignore", invalid="ignore"):
            if memory.dtype == np.uint16:
                memory[index] = to_bfloat16(np.float32(value))
            elif memory.dtype == np.float16:
                memory[index] = np.float16(np.float32(value))
            else:
                memory[index] = memory.dtype.type(value)

else:
    from numba import types
    from numba.extending import overload

    @device
    def as_float(bits: int) -> np.float32:
        return cuda.libdevice.int_as_float(np.int32(bits))

    @device
    def as_bits(value: float) -> np.uint32:
        return np.uint32(cuda.libdevice.float_as_int(value))

    def widen(value: float) -> float:  # type: ignore[empty-body]
        """An element of memory as a number; see the simulator's."""

    def store(memory: Array, index: int, value: float) -> None:
        """memory[index] = value; see the simulator's."""

    @overload(widen, target="cuda", strict=False)  # annotations may differ
    def _widen(value: Type) -> Any:
        if value == types.uint16:
            return lambda value: as_float(np.uint32(value) << np.uint32(16))
        if value == types.float16:
            return lambda value: np.float32(value)
        return lambda value: value

    @overload(store, target="cuda", strict=False)
    def _store(memory: Type, index: Type, value: Type) -> Any:
        def plain(memory: Array, index: int, value: float) -> None:
            memory[index] = value

        def half(memory: Array, index: int, value: float) -> None:
            memory[index] = np.float16(np.float32(value))

        def bits(memory: Array, index: int, value: float) -> None:
            memory[index] = to_bfloat16(np.float32(value))

        return {types.uint16: bits, types.float16: half}.get(memory.dtype, plain)


@device
def least(first: float, second: float) -> Any:
    """min(first, second), which Numba's own CUDA target (unlike numba-cuda) does not compile."""
    return second if second < first else first


@device
def greatest(first: float, second: float) -> Any:
    """max(first, second), which Numba's own CUDA target does not compile, either."""
    return second if second > first else first


@device
def to_bfloat16(value: float) -> np.uint16:
    """The bits of the bfloat16 nearest to a float32, ties to even."""
    if value != value:
        return np.uint16(0x7FC0)
    bits = as_bits(value)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))
