"""A faster scheduler for Numba's CUDA simulator: the threads of a block take turns.

Numba's own starts all of them at once and asks each, over and over, whether it waits at a barrier; most of
the time goes into that. Here one thread runs at a time, to its next barrier or its end, and gives the turn
back. After each barrier the order is the other one, so that a kernel that lacks a barrier does not get by
because its threads happen to run one after the other.
"""

import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel


class Thread(kernel.BlockThread):
    """A thread of a block, which runs while it has the turn."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.resumed, self.ended = threading.Semaphore(0), False

    def run(self) -> None:
        self.resumed.acquire()
        super().run()  # which keeps what the kernel raises
        self.ended = True
        self._manager.back.release()

    def syncthreads(self) -> None:
        self._manager.back.release()
        self.resumed.acquire()
        if self.abort:
            raise RuntimeError("another thread of the block has failed")


def run(block: Any, grid_point: Any, *args: Any) -> None:
    """In place of the simulator's `BlockManager.run`."""
    block.back = threading.Semaphore(0)

    def target() -> None:
        block._f(*args)

    threads = [
        Thread(target, block, grid_point, point, block._debug) for point in np.ndindex(*block._block_dim)
    ]
    while threads:
        for thread in threads:
            if thread.ident is None:
                thread.start()
            thread.resumed.release()
            block.back.acquire()
            if thread.exception:
                _stop(block, threads)
                raise thread.exception[0].with_traceback(thread.exception[1])
        threads = [thread for thread in reversed(threads) if not thread.ended]


def _stop(block: Any, threads: list[Thread]) -> None:
    for thread in threads:
        if thread.ident is not None and not thread.ended:
            thread.abort = True
            thread.resumed.release()
            block.back.acquire()


def install() -> None:
    kernel.BlockManager.run = run
