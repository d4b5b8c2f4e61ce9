"""Rows of a kernel over threads.

Numba's own parallel loops are not used: its default threading layer (workqueue) aborts the process
when two Python threads launch kernels at once, and the OpenMP layer aborts after `fork`. Instead the
kernels are serial, release the GIL and take a range of rows; a small pool runs ranges side by side.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lite.kernels._integer import integer

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Out = TypeVar("Out")
_pool: "ThreadPoolExecutor | None" = None


def threads_asked() -> int | None:
    """The number in the environment variable LITE_NUM_THREADS; None if it is not set.

    Raises:
        ValueError: it is not a number of threads.
    """
    value = os.environ.get("LITE_NUM_THREADS") or None
    if value is not None and not (value.isdecimal() and int(value)):
        raise ValueError(
            f"the environment variable LITE_NUM_THREADS must be an integer of at least 1, got {value!r}"
        )
    return None if value is None else int(value)


def cpu_quota() -> int | None:
    """CPUs granted by the control group (version 2, then 1), rounded up; None if there is no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        try:
            quota = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or not int(period):  # "max" or -1: no limit
        return None
    return -(-int(quota) // int(period)) or None


def _default_threads() -> int:
    if (asked := threads_asked()) is not None:
        return asked
    value = os.environ.get("OMP_NUM_THREADS", "")
    if value.isdecimal() and int(value) > 0:
        return int(value)
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        count = os.cpu_count() or 1
    return min(count, cpu_quota() or count)


_threads = 0  # 0 until the first use, which reads and checks the environment


def get_num_threads() -> int:
    """Threads that one kernel call may use.

    Raises:
        ValueError: the environment variable LITE_NUM_THREADS is not a number of threads.

    Example:
        >>> import lite.kernels
        >>> lite.kernels.get_num_threads() >= 1
        True
    """
    global _threads
    _threads = _threads or _default_threads()
    return _threads


def set_num_threads(count: int) -> None:
    """Set how many threads one kernel call may use.

    The start value is the environment variable LITE_NUM_THREADS, else OMP_NUM_THREADS, else the
    number of processors that this process may run on, and that the quota of its container grants.

    Args:
        count: at least 1; with 1 every kernel runs in the calling thread.

    Raises:
        TypeError: `count` is not an integer.
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


def submit(pool: "ThreadPoolExecutor", work: "Callable[..., Out]", *args: object) -> "Future[Out]":
    """`pool.submit`; at interpreter shutdown, when pools refuse work, `work` runs here and now."""
    try:
        return pool.submit(work, *args)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
    from concurrent.futures import Future

    done: Future[Out] = Future()
    try:
        done.set_result(work(*args))
    except BaseException as error:
        done.set_exception(error)
    return done


def for_rows(run: Callable[[int, int], None], rows: int, chunk: int) -> None:
    """Call `run(start, stop)` until all `rows` are covered, `chunk` rows at a time, on several threads.

    The calling thread works too. Chunks are handed out one by one, so a thread that another program
    slows down takes fewer of them. An exception in `run` is raised here.
    """
    global _pool
    chunks = -(-rows // chunk)
    threads = min(get_num_threads(), chunks)
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
    helpers = [submit(pool, work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.cancel()  # one that has not started has nothing to do any more
    for helper in helpers:
        if not helper.cancelled():
            helper.result()
    call.clear()
