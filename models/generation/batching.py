"""Rows of several threads put together to one run of the model.

There is no thread of its own: one of the callers that wait runs the model for all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")


class BatchSizes(NamedTuple):
    """How many rows a run waits for, and how many it takes at most (None: any number)."""

    smallest: int
    largest: int | None

    @classmethod
    def from_arguments(
        cls, batching: bool | None, min_batch_size: int | None, max_batch_size: int | None
    ) -> BatchSizes | None:
        """The sizes that a constructor's arguments mean, or None for no batching.

        Raises:
            ValueError: they contradict each other, or are not sizes.

        Example:
            >>> BatchSizes.from_arguments(None, None, 8)
            BatchSizes(smallest=1, largest=8)
        """
        if batching not in (None, True, False):
            raise ValueError(f"batching must be True, False or None, got {batching!r}")
        for name, size in (("min_batch_size", min_batch_size), ("max_batch_size", max_batch_size)):
            if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
                raise ValueError(f"{name} must be a non-negative integer or None, got {size!r}")
        if min_batch_size is None and max_batch_size is None:
            return cls(1, None) if batching else None
        if batching is False:
            raise ValueError("min_batch_size and max_batch_size must be None if batching is False.")
        smallest = 1 if min_batch_size is None else min_batch_size
        if max_batch_size is not None and smallest > max_batch_size:
            raise ValueError(f"min_batch_size ({smallest}) must be <= max_batch_size ({max_batch_size})")
        if max_batch_size == 0:
            raise ValueError("max_batch_size must be at least 1 or None, got 0")
        return cls(smallest, max_batch_size)


@dataclass(eq=False)
class _Item(Generic[Row, Result]):
    """A row in the queue, and what became of it."""

    task: Hashable
    row: Row
    deadline: float
    done: bool = False
    result: Result | None = None
    error: BaseException | None = None


class Batcher(Generic[Row, Result]):
    """Collects rows from any number of threads, and runs those of one task together.

    A caller waits until there are enough rows of its task, or ``timeout`` has passed since it came; then one
    of the callers runs them, oldest first, while others queue for the next run. One run takes place at a
    time. If it raises, only the callers that have rows in it raise the same.

    Args:
        run: runs the model: ``run(task, rows)`` gives one result per row.
        sizes: least and most rows of a run.
        timeout: seconds after which a row is run with whatever there is.

    Example:
        >>> batcher = Batcher(lambda task, rows: [task * row for row in rows], BatchSizes(4, None), 0.01)
        >>> batcher(10, [1, 2])  # no other call: run after a hundredth of a second
        [10, 20]
        >>> batcher.state()["queue_size"]
        0
    """

    def __init__(
        self, run: Callable[[Any, Sequence[Row]], Sequence[Result]], sizes: BatchSizes, timeout: float
    ) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
            raise ValueError(f"batching_timeout must be a number of seconds of at least 0, got {timeout!r}")
        self.sizes = sizes
        self.timeout = timeout
        self._run = run
        self._queue: list[_Item[Row, Result]] = []
        self._active = 0  # rows in the run that takes place
        self._changed = threading.Condition()

    def __call__(self, task: Hashable, rows: Sequence[Row]) -> list[Result]:
        """The results of some rows, in their order; returns when they are there.

        Raises:
            CancelledError: `cleanup` was called.
            Exception: whatever the run raised that held one of the rows.
        """
        with self._changed:
            deadline = time.monotonic() + self.timeout
            own = [_Item[Row, Result](task, row, deadline) for row in rows]
            self._queue += own
            self._changed.notify_all()  # rows that wait for company
            try:
                while not all(item.done for item in own):
                    batch = None if self._active else self._next_batch(task, deadline)
                    if batch:
                        self._run_unlocked(batch)
                    else:
                        self._wait(deadline)
                    if any(item.error for item in own):
                        break
            finally:  # also when interrupted: no caller waits for the rest
                self._discard(own)
        for item in own:
            if item.error is not None:
                raise item.error
        return [item.result for item in own]  # type: ignore[misc]

    def cleanup(self, *, flush: bool = False) -> None:
        """Empty the queue; a run that takes place goes on.

        Args:
            flush: run what is queued, however few rows that is, so that their callers get results;
                otherwise the callers raise CancelledError.
        """
        with self._changed:
            if flush:
                queued = set(self._queue)
                while left := [item for item in self._queue if item in queued]:
                    if self._active:
                        self._changed.wait()
                    else:
                        self._run_unlocked(self._slice(left[0].task))
            else:
                for item in self._queue:
                    item.error = _cancelled("Batching aborted by cleanup_batching()")
                    item.done = True
                self._queue.clear()
                self._changed.notify_all()

    def state(self) -> dict[str, Any]:
        """The sizes, and what is going on at this moment."""
        with self._changed:
            return {
                "min_batch_size": self.sizes.smallest,
                "max_batch_size": self.sizes.largest,
                "queue_size": len(self._queue),
                "processing": bool(self._active),
                "lock_state": "locked" if self._active else "unlocked",
                "pending_futures": len(self._queue) + self._active,
                "timeout": self.timeout,
            }

    def _next_batch(self, task: Hashable, deadline: float) -> list[_Item[Row, Result]]:
        """The rows to run now: of the oldest task with enough of them, or the caller's if it waited long."""
        if time.monotonic() >= deadline:
            return self._slice(task)
        counts: dict[Hashable, int] = {}
        for item in self._queue:
            counts[item.task] = counts.get(item.task, 0) + 1
        ready = next((task for task, count in counts.items() if count >= self.sizes.smallest), None)
        return [] if ready is None else self._slice(ready)

    def _slice(self, task: Hashable) -> list[_Item[Row, Result]]:
        return [item for item in self._queue if item.task == task][: self.sizes.largest]

    def _run_unlocked(self, batch: list[_Item[Row, Result]]) -> None:
        """Take rows out of the queue and run them without the lock; their callers raise what goes wrong."""
        self._discard(batch)
        self._active = len(batch)
        self._changed.release()
        results: Sequence[Result] = ()
        error: BaseException | None = None
        interrupt: BaseException | None = None
        try:
            results = self._run(batch[0].task, [item.row for item in batch])
            if len(results) != len(batch):
                raise RuntimeError(f"Expected {len(batch)} results, got {len(results)}")
        except Exception as raised:
            error = raised
        except BaseException as raised:  # of this thread alone, but the others' rows are not run either
            interrupt = raised
            error = _cancelled("the thread that ran the batch was interrupted")
        finally:
            self._changed.acquire()
            for i, item in enumerate(batch):
                item.error, item.done = error, True
                if error is None:
                    item.result = results[i]
            self._active = 0
            self._changed.notify_all()
        if interrupt is not None:
            raise interrupt

    def _wait(self, deadline: float) -> None:
        """Until something changes: a run's end wakes everybody, and so do new rows."""
        left = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        self._changed.wait(None if self._active else left)

    def _discard(self, items: Sequence[_Item[Row, Result]]) -> None:
        gone = set(items)
        self._queue = [item for item in self._queue if item not in gone]


def _cancelled(message: str) -> Exception:
    from concurrent.futures import CancelledError  # with logging, 3 ms of opening a model

    return CancelledError(message)
