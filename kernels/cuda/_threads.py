"""Reductions and prefix sums over the threads of a block.

Threads of a warp read each other's registers; warps communicate through shared memory. The simulator has
neither warps nor a barrier that device functions outside the kernel's file could call, so both are emulated:
warps have two threads, which exchange values through the host's memory.
"""

import importlib
from typing import Any

from lite.kernels._types import Floats
from lite.kernels.cuda._jit import SIMULATED, cuda, device

if SIMULATED:
    import threading

    _simulator: Any = importlib.import_module("numba.cuda.simulator.kernel")

    WARP = 2

    def meet() -> None:
        """Wait for all threads of the block."""
        _simulator._get_kernel_context().syncthreads()

    def exchange(value: float, distance: int) -> float:
        """The value of the thread whose number differs by the bit `distance`; all of the block take part."""
        thread: Any = threading.current_thread()
        slots = vars(thread._manager).setdefault("slots", {})
        # Two sets in turn: one barrier keeps each set's readers apart from its next writers.
        turn = thread.turn = not getattr(thread, "turn", False)
        slots[turn, thread.thread_id] = value
        meet()
        return slots[turn, thread.thread_id ^ distance]

else:
    WARP = 32

    @device
    def meet() -> None:
        cuda.syncthreads()

    @device
    def exchange(value: float, distance: int) -> float:
        return cuda.shfl_xor_sync(0xFFFFFFFF, value, distance)


@device
def _both(a: float, b: float, largest: bool) -> float:
    if largest:
        return a if a > b else b
    return a + b


@device
def together(value: float, largest: bool, thread: int, lanes: int, slots: Floats) -> float:
    """The sum, or the largest, of a number that each of `lanes` neighbouring threads has.

    The same for all of them, and from run to run. All threads of the block take part.

    Args:
        thread: the number of this one in its block.
        lanes: a power of two.
        slots: shared memory for one number of each warp.
    """
    distance = 1
    while distance < lanes and distance < WARP:
        value = _both(value, exchange(value, distance), largest)
        distance *= 2
    if lanes > WARP:
        meet()  # before, the slots may still be read
        if thread % WARP == 0:
            slots[thread // WARP] = value
        meet()
        warps = lanes // WARP
        value = slots[thread // lanes * warps + thread % warps]
        distance = 1
        while distance < warps:
            value = _both(value, exchange(value, distance), largest)
            distance *= 2
    return value


@device
def before(value: float, thread: int, threads: int, sums: Floats) -> tuple[float, float]:
    """The sum of a number over all threads of the block with a smaller number, and over all.

    Args:
        threads: number of threads of the block, a power of two.
        sums: shared memory for one number of each thread.
    """
    meet()
    sums[thread] = value
    distance = 1
    while distance < threads:
        meet()
        other = sums[thread - distance] if thread >= distance else sums[thread] * 0
        meet()
        sums[thread] += other
        distance *= 2
    meet()
    return (sums[thread - 1] if thread else sums[thread] * 0), sums[threads - 1]
