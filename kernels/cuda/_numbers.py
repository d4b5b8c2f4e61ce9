"""Reading and writing numbers of any type in a kernel.

bfloat16 reaches a kernel as its bits in uint16 memory (Numba has no such type on every GPU), so memory of
that type always means bfloat16: unsigned 16-bit integers are converted before (`DeviceMemory.memory`).
"""

from typing import Any

import numpy as np

from lite.kernels.cuda._jit import SIMULATED, cuda, device

if SIMULATED:

    def as_float(bits: Any) -> Any:
        """The float32 that has these 32 bits."""
        return np.uint32(bits).view(np.float32)

    def as_bits(value: Any) -> Any:
        """The bits of a float32."""
        return np.float32(value).view(np.uint32)

    def widen(value: Any) -> Any:
        """An element of memory as a number: 16-bit floats as float32, others as they are."""
        if isinstance(value, np.uint16):
            return as_float(np.uint32(value) << np.uint32(16))
        return np.float32(value) if isinstance(value, np.float16) else value

    def store(memory: Any, index: Any, value: Any) -> None:
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
    def as_float(bits: Any) -> Any:
        return cuda.libdevice.int_as_float(np.int32(bits))

    @device
    def as_bits(value: Any) -> Any:
        return np.uint32(cuda.libdevice.float_as_int(value))

    def widen(value: Any) -> Any:
        """An element of memory as a number; see the simulator's."""

    def store(memory: Any, index: Any, value: Any) -> None:
        """memory[index] = value; see the simulator's."""

    @overload(widen, target="cuda", strict=False)  # annotations may differ
    def _widen(value: Any) -> Any:
        if value == types.uint16:
            return lambda value: as_float(np.uint32(value) << np.uint32(16))
        if value == types.float16:
            return lambda value: np.float32(value)
        return lambda value: value

    @overload(store, target="cuda", strict=False)
    def _store(memory: Any, index: Any, value: Any) -> Any:
        def plain(memory: Any, index: Any, value: Any) -> None:
            memory[index] = value

        def half(memory: Any, index: Any, value: Any) -> None:
            memory[index] = np.float16(np.float32(value))

        def bits(memory: Any, index: Any, value: Any) -> None:
            memory[index] = to_bfloat16(np.float32(value))

        return {types.uint16: bits, types.float16: half}.get(memory.dtype, plain)


@device
def least(first: Any, second: Any) -> Any:
    """min(first, second), which Numba's own CUDA target (unlike numba-cuda) does not compile."""
    return second if second < first else first


@device
def greatest(first: Any, second: Any) -> Any:
    """max(first, second), likewise."""
    return second if second > first else first


@device
def to_bfloat16(value: Any) -> Any:
    """The bits of the bfloat16 nearest to a float32, ties to even."""
    if value != value:
        return np.uint16(0x7FC0)
    bits = as_bits(value)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))
