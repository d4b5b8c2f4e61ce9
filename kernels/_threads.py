"""Rows of a kernel over threads.

Numba's own parallel loops are not used: its default threading layer (workqueue) aborts the process
when two Python threads launch kernels at once, and the OpenMP layer aborts after `fork`. Instead the
kernels are serial, release the GIL and take a range of rows; a small pool runs ranges side by side.
"""

import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from lite.kernels._integer import integer

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_pool: "ThreadPoolExecutor | None" = None


def _default_threads() -> int:
    value = os.environ.get("LITE_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    if value.isdecimal() and int(value) > 0:
        return int(value)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        return os.cpu_count() or 1


_threads = _default_threads()


def get_num_threads() -> int:
    """Threads that one kernel call may use.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.get_num_threads() >= 1
        True
    """
    return _threads


def set_num_threads(count: int) -> None:
    """Set how many threads one kernel call may use.

    The start value is the environment variable LITE_NUM_THREADS, else OMP_NUM_THREADS, else the
    number of processors this process may run on.

    Args:
        count: at least 1; with 1 every kernel runs in the calling thread.

    Raises:
        TypeError: `count` is no integer.
        ValueError: `count` is smaller than 1.

    Example:
        >>> import lite.kernels
        >>> before = lite.kernels.get_num_threads()
        >>> lite.kernels.set_num_threads(1)
        >>> lite.kernels.set_num_threads(before)
    """
    global _threads
    count = integer("count", count, least=1)
    _threads = count
    _forget_pool()


def _forget_pool() -> None:
    global _pool
    _pool = None


# A forked child inherits the pool object but none of its threads: it must start its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def for_rows(run: Callable[[int, int], None], rows: int, chunk: int) -> None:
    """Call `run(start, stop)` until all `rows` are covered, `chunk` rows at a time, on several threads.

    The calling thread works too. Chunks are handed out one by one, so a thread that another program
    slows down takes fewer of them. An exception in `run` is raised here.
    """
    global _pool
    chunks = -(-rows // chunk)
    threads = min(_threads, chunks)
    if threads <= 1:
        if rows:
            run(0, rows)
        return
    tickets = itertools.count()  # next() on it is atomic
    # A list that is cleared at the end: the pool holds `work`, and so `run` and its arrays, until a thread
    # wakes.
    call = [run]

    def work() -> None:
        while (ticket := next(tickets)) < chunks:
            call[0](ticket * chunk, min((ticket + 1) * chunk, rows))

    pool = _pool
    if pool is None:
        from concurrent.futures import ThreadPoolExecutor  # not needed to import lite

        pool = _pool = ThreadPoolExecutor(max(1, _threads - 1), thread_name_prefix="lite-kernels")
    helpers = [pool.submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.cancel()  # one that has not started has nothing to do any more
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
    call.clear()
