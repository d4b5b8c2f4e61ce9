"""Arrays on a GPU, and the time that calls take there; see cuda_kernels.py."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FLUSH = 1 << 28  # bytes: more than any second-level cache
SLEEP = 1_000_000  # nanoseconds, the most that one instruction sleeps


class Job(NamedTuple):
    bytes: int
    lite: Callable[[], Any]
    """What it returns is kept until the clock stops: large results must be written to one `out`."""
    torch: Callable[[], Any] | None = None
    """The same in torch or torchrl, where they are installed and have it."""
    waits: bool = False
    """Whether the call waits for the GPU."""


class Bench:
    """Arrays on the GPU, and the clock.

    Args:
        toy: whether arrays are small ones.
    """

    def __init__(self, toy: bool) -> None:
        from numba import config, cuda

        self.cuda: Any = cuda
        self.simulated = bool(config.ENABLE_CUDASIM)
        self.toy = toy
        self.batch = (3, 16) if toy else (4096, 1024)  # sequences, steps
        self._rng = np.random.default_rng(0)
        size = 1 << 10 if toy else FLUSH
        self._here, self._there = (cuda.to_device(np.zeros(size, np.uint8)) for _ in range(2))

        def sleep(times: Any) -> None:
            for _ in range(times):
                cuda.nanosleep(SLEEP)

        self._sleep = cuda.jit(sleep)

    def floats(self, *shape: int) -> Any:
        """Normal numbers in float32; large arrays repeat a block."""
        return self._repeated(self._block(shape), shape)

    def bfloat16(self, *shape: int) -> "Bits":
        """The same in bfloat16, rounded to zero."""
        return Bits(self._repeated((self._block(shape).view(np.uint32) >> 16).astype(np.int16), shape))

    def _block(self, shape: tuple[int, ...]) -> Any:
        return self._rng.standard_normal(min(math.prod(shape), 1 << 24), np.float32)

    def _repeated(self, block: Any, shape: tuple[int, ...]) -> Any:
        size = math.prod(shape)
        flat = self.cuda.device_array(size, block.dtype)
        for start in range(0, size, block.size):
            part = flat[start : start + block.size]
            part.copy_to_device(block[: part.size])
        return flat.reshape(shape)

    def flags(self, *shape: int, rate: float = 0.02) -> Any:
        return self.cuda.to_device(self._rng.random(shape, np.float32) < rate)

    def below(self, high: int, *shape: int) -> Any:
        """Integers in [0, high)."""
        return self.cuda.to_device(self._rng.integers(0, high, shape))

    def milliseconds(self, run: Callable[[], Any], rounds: int, waits: bool = False) -> float:
        """The median time on the GPU."""
        for _ in range(2):  # compiles
            run()
        self.cuda.synchronize()
        start = time.perf_counter()
        run()
        self.cuda.synchronize()
        took = time.perf_counter() - start
        pairs, results = [], []
        with self.cuda.defer_cleanup():  # giving memory back waits for the GPU
            if not waits and not self.simulated:
                self._sleep[1, 1](int(2e9 * rounds * (took + 2e-4) / SLEEP) + 1)
            for _ in range(rounds):
                self._there.copy_to_device(self._here)
                events = self.cuda.event(), self.cuda.event()
                events[0].record()
                results.append(run())
                events[1].record()
                pairs.append(events)
                if waits:
                    results.clear()
            self.cuda.synchronize()
        times = [first.elapsed_time(last) for first, last in pairs]
        return max(float(np.median(times)), 1e-6)  # the simulator's clock stands still

    def copy_bandwidth(self, rounds: int) -> float:
        """Bytes per second, read and written, of the driver's own copy."""
        size = 1 << 10 if self.toy else 1 << 30
        source, target = (self.cuda.device_array(size, np.uint8) for _ in range(2))
        return 2e3 * size / self.milliseconds(lambda: target.copy_to_device(source), rounds)


class Bits:
    """bfloat16 numbers on the GPU, which Numba has no arrays of, in the memory of their bits."""

    def __init__(self, bits: Any) -> None:
        self.bits = bits
        if hasattr(bits, "__cuda_array_interface__"):
            description = bits.__cuda_array_interface__
        else:  # the simulator's
            description = {"data": (bits._ary.ctypes.data, False), "shape": bits.shape, "version": 3}
        self.__cuda_array_interface__ = description | {"typestr": "<V2"}
