"""`map` and `map_iter`: a function of chunks of the batch, run in several processes.

`workers` is imported by the first map that starts processes, since the pools behind it take long to
import.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, Self, TextIO

import numpy as np

from lite._ops.combine import cat, maybe_dense_stack
from lite._tree.protocol import Container

Mapped = Callable[[Any], Any]
_WIDTH = 30
_PAUSE = 0.1  # seconds between two drawings


def map(
    td: Container,
    fn: Mapped,
    dim: int = 0,
    num_workers: int | None = None,
    *,
    out: Any = None,
    chunksize: int | None = None,
    num_chunks: int | None = None,
    pool: Any = None,
    generator: np.random.Generator | int | None = None,
    max_tasks_per_child: int | None = None,
    worker_threads: int = 1,
    index_with_generator: bool = False,
    pbar: bool = False,
    mp_start_method: str | None = None,
) -> Any:
    """Split along a batch dimension, call `fn` on the pieces in several processes, join the results.

    Args:
        fn: takes a TensorDict and returns one, or None for nothing. It must be picklable (a function
            at the top level of a module, not a lambda), unless workers are forked.
        dim: the batch dimension.
        num_workers: number of processes, by default one per processor; 0 runs in this process.
        out: TensorDict that receives the results, and which is returned.
        chunksize: size of the pieces; 0 gives single elements, without the dimension, whose
            results are stacked.
        num_chunks: number of pieces, by default one per worker.
        pool: an executor of `concurrent.futures` or a pool of `multiprocessing` to use, which stays
            open: for many short maps, since workers take some tenths of a second to start. (When a
            worker dies, an executor raises; a pool of `multiprocessing` waits for ever.)
        generator: seeds the workers: `np.random` and `random` of worker i start from the i-th
            child of `np.random.SeedSequence`. Without it they differ from run to run.
        max_tasks_per_child: replace a worker after so many calls; not for forked workers.
        worker_threads: thread limit of libraries that a worker loads.
        index_with_generator: cut the pieces one by one as they are needed.
        pbar: show a progress bar on stderr.
        mp_start_method: "forkserver", "spawn" or "fork"; by default the first of these that there is.
            Forked workers start at once and take any function, but can hang if this process has
            threads, as torch, jax, onnxruntime and BLAS libraries start them.

    Returns:
        The results, concatenated along `dim` (stacked for `chunksize=0`); None if there are none.

    Raises:
        ValueError: both `chunksize` and `num_chunks`, or a `dim` that is not a batch dimension.
        pickle.PicklingError: `fn` cannot be sent to the workers; the message names the ways out.
        concurrent.futures.process.BrokenProcessPool: a worker died.
        Exception: whatever `fn` raises.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(4)}, batch_size=[4])
        >>> td.map(lambda x: x + 1, num_workers=0, chunksize=2)["a"]
        array([1, 2, 3, 4])
    """
    plan = ChunkPlan(td, dim, num_workers, chunksize, num_chunks, pool)
    pieces = plan.pieces(plan.cuts, lazily=index_with_generator)
    workers = WorkerOptions(worker_threads, max_tasks_per_child, mp_start_method)
    results = plan.run(pieces, fn, workers, generator, pbar=pbar)
    if out is not None:
        for cut, result in zip(plan.cuts, results, strict=True):
            if result is not None:
                out[plan.index(cut)] = result
        return out
    kept = [result for result in results if result is not None]
    return plan.joined(kept) if kept else None


def map_iter(
    td: Container,
    fn: Mapped,
    dim: int = 0,
    num_workers: int | None = None,
    *,
    shuffle: bool = False,
    chunksize: int | None = None,
    num_chunks: int | None = None,
    pool: Any = None,
    generator: np.random.Generator | int | None = None,
    max_tasks_per_child: int | None = None,
    worker_threads: int = 1,
    index_with_generator: bool = True,
    pbar: bool = False,
    mp_start_method: str | None = None,
) -> Iterator[Any]:
    """As `map`, giving the results one by one; the processes end with the iterator.

    Args:
        shuffle: pieces are random draws of the batch without replacement, and results come as they
            are ready.

    The other arguments are those of `map`. Pieces are sent only a few ahead of the results taken.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(3)}, batch_size=[3])
        >>> [int(x["a"]) for x in td.map_iter(lambda x: x * 2, num_workers=0, chunksize=0)]
        [0, 2, 4]
    """
    plan = ChunkPlan(td, dim, num_workers, chunksize, num_chunks, pool)
    rng = np.random.default_rng(generator)
    cuts = plan.shuffled(rng) if shuffle else plan.cuts
    pieces = plan.pieces(cuts, lazily=index_with_generator)
    workers = WorkerOptions(worker_threads, max_tasks_per_child, mp_start_method)
    # Checked above, at the call; what follows runs when the first result is taken.
    results = plan.run(pieces, fn, workers, rng, ordered=not shuffle, pbar=pbar)
    return (result for result in results if result is not None)


class WorkerOptions(NamedTuple):
    """How processes are started, by the names that `map` gives them."""

    worker_threads: int
    max_tasks_per_child: int | None
    mp_start_method: str | None


class ChunkPlan:
    """How a TensorDict is cut into pieces, and where the calls run."""

    def __init__(
        self, td: Any, dim: int, num_workers: int | None, chunksize: int | None, num_chunks: int | None,
        pool: Any,
    ) -> None:  # fmt: skip
        ndim = td.ndim
        if not -ndim <= dim < ndim:
            raise ValueError(f"Got incompatible dimension {dim} for a tensordict of {ndim} batch dims.")
        if chunksize is not None and num_chunks is not None:
            raise ValueError("Either chunksize or num_chunks must be provided, but not both.")
        if num_workers is not None and num_workers < 0:
            raise ValueError(f"num_workers must not be negative, got {num_workers}.")
        self.td = td
        self.dim = dim % ndim
        self.pool = pool
        self.num_workers = (os.cpu_count() or 1) if num_workers is None else num_workers
        self.single = chunksize == 0
        total = td.batch_size[self.dim]
        if chunksize is None:
            chunks = max(1, self.num_workers) if num_chunks is None else num_chunks
            if chunks < 1:
                raise ValueError(f"num_chunks must be positive, got {chunks}.")
            chunksize = -(-total // chunks)
        elif chunksize < 0:
            raise ValueError(f"chunksize must not be negative, got {chunksize}.")
        step = max(1, chunksize)
        self.cuts: list[Any] = list(range(total)) if self.single else []
        if not self.single:
            self.cuts = [slice(start, min(start + step, total)) for start in range(0, total, step)]

    def index(self, cut: Any) -> tuple[Any, ...]:
        return (*[slice(None)] * self.dim, cut)

    def pieces(self, cuts: list[Any], lazily: bool) -> Any:
        made = (self.td[self.index(cut)] for cut in cuts)
        return made if lazily else list(made)

    def shuffled(self, rng: np.random.Generator) -> list[Any]:
        order = rng.permutation(self.td.batch_size[self.dim])
        return [int(order[cut]) if self.single else order[cut] for cut in self.cuts]

    def joined(self, results: list[Any]) -> Any:
        return maybe_dense_stack(results, self.dim) if self.single else cat(results, self.dim)

    def run(
        self, pieces: Any, fn: Mapped, how: WorkerOptions, generator: np.random.Generator | int | None, *,
        ordered: bool = True, pbar: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        from lite._processes.workers import call_all, call_given, new_pool

        entropy = int(np.random.default_rng(generator).integers(2**63))
        with ExitStack() as stack:
            results: Iterator[Any]
            if self.pool is not None:
                results = call_given(self.pool, fn, pieces, ordered)
            elif not self.num_workers:
                results = (fn(piece) for piece in pieces)
            else:
                workers = min(self.num_workers, max(1, len(self.cuts)))
                pool = new_pool(fn, workers, entropy, *how)
                # Also when the consumer stops early: what waits is cancelled, workers end.
                stack.callback(pool.shutdown, wait=True, cancel_futures=True)
                results = call_all(pool, workers, pieces, ordered)
            bar = stack.enter_context(ProgressBar(len(self.cuts))) if pbar else None
            for result in results:
                if bar is not None:
                    bar.step()
                yield result


class ProgressBar:
    """Counts steps of a known total; drawn at most ten times a second, and when it ends.

    Args:
        total: number of steps.
        stream: where to draw.
        unit: what is counted, behind the rate.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> with ProgressBar(2, out) as bar:
        ...     bar.step()
        ...     bar.step(note=", reward 3")
        >>> "2/2" in out.getvalue(), "/s, reward 3" in out.getvalue()
        (True, True)
    """

    def __init__(self, total: int, stream: TextIO | None = None, *, unit: str = "") -> None:
        self.total = total
        self.unit = unit
        self._note = ""
        self._length = 0  # of the line that is drawn
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._start = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, *error: object) -> None:
        self._draw()
        self._stream.write("\n")
        self._stream.flush()

    def step(self, count: int = 1, note: str = "") -> None:
        """Count steps that were made, and say something of them."""
        self.done += count
        self._note = note
        if time.monotonic() - self._drawn >= _PAUSE:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        passed = self._drawn - self._start
        full = min(_WIDTH, _WIDTH * self.done // self.total) if self.total else _WIDTH
        rate = self.done / passed if passed > 0 else 0.0
        bar = "#" * full + "." * (_WIDTH - full)
        line = f"{self.done}/{self.total} [{bar}] {passed:.1f} s, {rate:.1f}{self.unit}/s{self._note}"
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)
