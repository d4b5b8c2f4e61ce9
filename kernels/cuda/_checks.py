"""Values on the device that must lie in a range."""

from lite.kernels._types import Array, Ints
from lite.kernels.cuda._arrays import DeviceMemory
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import SIMULATED, cuda, kernel
from lite.kernels.cuda._numbers import widen

_THREADS = 16 if SIMULATED else 256


def check_range(gpu: Gpu, name: str, array: DeviceMemory, low: float, high: float) -> None:
    """Raise ValueError unless all entries are in [low, high]; NaN is not. Waits for the device."""
    if not array.size:
        return
    faults = gpu.faults()
    memory, _ = c_ordered(gpu, array).memory()
    gpu.launch(_count_outside, -(-array.size // _THREADS), _THREADS, memory, low, high, faults.memory)
    count, _ = faults.read()
    if count:
        raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {count} entries that are not")


@kernel
def _count_outside(memory: Array, low: float, high: float, faults: Ints) -> None:
    i = cuda.grid(1)
    if i < memory.size:
        value = widen(memory[i])
        if not (low <= value <= high):
            cuda.atomic.add(faults, 0, 1)
