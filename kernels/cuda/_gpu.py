"""A GPU and a stream: where the results of one call are allocated and its kernels launched."""

import functools
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite.kernels._install import install
from lite.kernels._types import DeviceArray, Kernel
from lite.kernels.cuda._arrays import ordinal_of
from lite.kernels.cuda._jit import SIMULATED, cuda, few_blocks


class Gpu:
    """The GPU that holds all arrays of a call.

    Args:
        stream: a Numba stream, the handle of one (int), or an object that tells it as `ptr` (CuPy) or
            `cuda_stream` (torch). None: Numba's default stream. Either waits for the streams that the
            arrays' libraries say they are written on.
        arrays: by argument name, all in CUDA memory.

    Raises:
        TypeError: `stream` is something else.
        ValueError: arrays on more than one GPU.
        RuntimeError: Numba finds no GPU.
    """

    def __init__(self, stream: Any, arrays: dict[str, Any]) -> None:
        if not _available():
            raise RuntimeError(
                f"{next(iter(arrays))} is in CUDA memory, but Numba finds no NVIDIA GPU with its driver; "
                f"what is missing beside the driver comes with {install('cuda')}"
            )
        ordinals = {name: ordinal_of(value) for name, value in arrays.items()}
        if len(set(ordinals.values())) > 1:
            found = ", ".join(f"{name} on {number}" for name, number in ordinals.items())
            raise ValueError(f"all arrays must be on one GPU, got {found}")
        self.ordinal = next(iter(ordinals.values()))
        with self.active():
            self.stream = _stream(stream)
            self._wait_for(arrays)

    def active(self) -> Any:
        """A context in which this GPU is the current one."""
        return cuda.gpus[self.ordinal]

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """A new Numba device array."""
        with self.active():
            return cuda.device_array(shape, np.dtype(dtype), stream=self.stream)

    def upload(self, array: NDArray[Any]) -> DeviceArray:
        """A copy of a host array."""
        with self.active():
            return cuda.to_device(array, stream=self.stream)

    def fetch(self, array: DeviceArray) -> NDArray[Any]:
        """A device array of this call's, on the host. Waits for the device."""
        host: NDArray[Any] = np.empty(array.shape, array.dtype)
        with self.active():
            array.copy_to_host(host, stream=self.stream)
            if not SIMULATED and self.stream:
                self.stream.synchronize()
        return host

    def scratch(self, size: int, dtype: DTypeLike) -> DeviceArray:
        """Flat memory for a kernel's own use."""
        return self.empty((max(size, 1),), dtype)

    def launch(self, kernel: Kernel, blocks: int, threads: int, *args: Any, shared: int = 0) -> None:
        """Start `kernel` with `shared` bytes of dynamic shared memory; it is not waited for."""
        with self.active():
            _configured(kernel, blocks, threads, self.stream, shared)(*args)

    def multiprocessors(self) -> int:
        if SIMULATED:
            return 2
        with self.active():
            return int(cuda.current_context().device.MULTIPROCESSOR_COUNT)

    def faults(self) -> "Faults":
        """A record of invalid values that a kernel finds, which the host cannot see."""
        return Faults(self)

    def _wait_for(self, arrays: dict[str, Any]) -> None:
        if SIMULATED:
            return
        interfaces = (getattr(value, "__cuda_array_interface__", {}) for value in arrays.values())
        handles = {interface.get("stream") for interface in interfaces}
        for handle in handles - {None, _number(self.stream) or _LEGACY}:
            event = cuda.event(timing=False)
            event.record(cuda.external_stream(handle))
            event.wait(self.stream)


class Faults:
    """Two numbers on the device: how many values are at fault, and one of them.

    A kernel calls `cuda.atomic.add(faults, 0, 1)` and writes `faults[1] = value`; it must not use the value.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.memory: Any = gpu.upload(np.zeros(2, np.int64))

    def read(self) -> tuple[int, int]:
        """Wait for the kernels before, and return the numbers."""
        count, one = self._gpu.fetch(self.memory)
        return int(count), int(one)


class Reused:
    """Flat memory by name for a caller with repeated launches; allocated again if the size changes.

    Freeing memory would make the driver wait for the whole device.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def array(self, gpu: Gpu, name: str, size: int, dtype: DTypeLike) -> DeviceArray:
        """Uninitialised memory for `size` numbers."""
        found = self._arrays.get(name)
        if found is None or found.size != max(size, 1) or found.dtype != np.dtype(dtype):
            found = self._arrays[name] = gpu.scratch(size, dtype)
        return found

    def upload(self, gpu: Gpu, name: str, values: NDArray[Any]) -> DeviceArray:
        """A copy of a host array with one dimension."""
        found = self.array(gpu, name, values.size, values.dtype)
        if values.size:
            with gpu.active():
                found.copy_to_device(values, stream=gpu.stream)
        return found


_LEGACY = 1  # the handle that the interface's version 3 gives to the legacy default stream


def _configured(kernel: Kernel, *how: Any) -> Kernel:
    """kernel[how]."""
    with few_blocks():
        return kernel[how]


@functools.cache
def _available() -> bool:
    return bool(cuda.is_available())


def _number(stream: Any) -> int:
    """The handle of a stream; int(stream) of numba-cuda is an enumeration's member for the default one."""
    handle = getattr(stream, "handle", stream)
    return int(getattr(handle, "value", handle) or 0)


def _stream(stream: Any) -> Any:
    if stream is None:
        return 0
    if hasattr(stream, "auto_synchronize"):  # Numba's
        return stream
    handle = stream
    for name in ("ptr", "cuda_stream"):
        handle = getattr(stream, name, handle)
    if not isinstance(handle, int) or isinstance(handle, bool) or handle < 0:
        raise TypeError(
            "stream must be a Numba stream, the handle of one, or an object with `ptr` or `cuda_stream`, "
            f"got {type(stream).__name__}"
        )
    return 0 if SIMULATED else cuda.external_stream(handle)
