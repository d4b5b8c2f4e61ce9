"""Calls of one function in several processes, with a bounded queue; results in order or as they come."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

import numpy as np


def pickled(value: Any) -> bytes:
    """A pickle for another process.

    A pickle names functions and classes by their module, and a new process imports the file of `__main__`.
    A notebook or a prompt has none: there, what is written in it goes by value, if cloudpickle is installed.
    """
    sent: bytes = pickle.dumps(value)  # so that what a script cannot send is refused everywhere
    main = sys.modules["__main__"]
    if b"__main__" in sent and not getattr(main, "__file__", None) and not getattr(main, "__spec__", None):
        try:
            import cloudpickle
        except ImportError:
            return sent
        sent = cloudpickle.dumps(value)
    return sent


_AHEAD = 2  # calls per worker that wait in the queue, so that no worker runs dry

_work: Callable[[Any], Any] | bytes | None = None


def _start(work: Callable[[Any], Any] | bytes, entropy: int, counter: Any, threads: int) -> None:
    """Initialise a worker: store the function, and seed the generators by the number of the worker."""
    global _work
    _work = work
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    # The child that SeedSequence(entropy).spawn would give at this position.
    seed = np.random.SeedSequence(entropy, spawn_key=(number,))
    np.random.seed(seed.generate_state(4))  # noqa: NPY002 - for functions that draw from the global state
    random.seed(int(seed.generate_state(1, np.uint64)[0]))


def _call(chunk: Any) -> Any:
    global _work
    if isinstance(_work, bytes):  # not in _start, whose errors never reach the caller
        _work = pickle.loads(_work)
    assert callable(_work)
    return _work(chunk)


def safe_start_method() -> str:
    """The start method that is safe if this process has threads.

    A forked process has a copy of all locks but only one of the threads: it can wait for ever on a lock that
    another thread held. torch, jax, onnxruntime and BLAS libraries have threads.
    """
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _sendable(fn: Callable[[Any], Any]) -> bytes:
    """The pickled function; raises PicklingError with what to do for one that cannot be sent."""
    try:
        return pickled(fn)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f"fn cannot be sent to worker processes ({error}): define it at the top level of a module, "
            "or pass mp_start_method='fork' if this process has no other threads, a ThreadPoolExecutor as "
            "pool, or num_workers=0."
        ) from error


def new_pool(
    fn: Callable[[Any], Any], num_workers: int, entropy: int, threads: int, max_tasks: int | None,
    start_method: str | None,
) -> ProcessPoolExecutor:  # fmt: skip
    """A pool whose workers hold `fn` and are seeded by `SeedSequence(entropy).spawn`."""
    method = safe_start_method() if start_method is None else start_method
    context = multiprocessing.get_context(method)
    initial = (fn if method == "fork" else _sendable(fn), entropy, context.Value("l", 0), threads)
    return ProcessPoolExecutor(num_workers, context, _start, initial, max_tasks_per_child=max_tasks)


def call_all(pool: ProcessPoolExecutor, num_workers: int, chunks: Iterable[Any], ordered: bool) -> Any:
    """Results of the pool's function for every chunk."""
    return _windowed(lambda chunk: pool.submit(_call, chunk), _AHEAD * num_workers, chunks, ordered)


def call_given(pool: Any, fn: Callable[[Any], Any], chunks: Iterable[Any], ordered: bool) -> Iterator[Any]:
    """Results of `fn` for every chunk, in a pool of the caller's.

    Args:
        pool: an executor of concurrent.futures, or a pool of multiprocessing.
        fn: the function; it is sent along with every chunk.
        chunks: the arguments.
        ordered: give results in the order of chunks, not as they come.
    """
    if hasattr(pool, "submit"):
        ahead = _AHEAD * (getattr(pool, "_max_workers", None) or os.cpu_count() or 1)
        return _windowed(lambda chunk: pool.submit(fn, chunk), ahead, chunks, ordered)
    return (pool.imap if ordered else pool.imap_unordered)(fn, chunks)


def _windowed(
    submit: Callable[[Any], Future[Any]], ahead: int, chunks: Iterable[Any], ordered: bool
) -> Iterator[Any]:
    waiting: deque[Future[Any]] = deque()
    source = iter(chunks)
    more = True
    try:
        while True:
            while more and len(waiting) < ahead:
                try:
                    waiting.append(submit(next(source)))
                except StopIteration:
                    more = False
            if not waiting:
                return
            if ordered:
                yield waiting.popleft().result()
            else:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    waiting.remove(future)
                    yield future.result()
    finally:
        for future in waiting:
            future.cancel()
