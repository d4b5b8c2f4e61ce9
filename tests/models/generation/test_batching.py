"""Batching: the queue alone."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from helpers.cases import raises
from helpers.waiting import LONG, until

from lite.models.generation.batching import Batcher, BatchSizes


class Runs:
    """A run that notes its batches; while `gate` is closed it does not finish."""

    def __init__(self) -> None:
        self.batches: list[tuple[Any, list[Any]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fail: Callable[[Sequence[Any]], Exception | None] = lambda rows: None

    def __call__(self, task: Any, rows: Sequence[Any]) -> list[Any]:
        self.batches.append((task, list(rows)))
        assert self.gate.wait(20)
        error = self.fail(rows)
        if error:
            raise error
        return [(task, row) for row in rows]


@contextmanager
def callers(batcher: Any, *calls: tuple[Any, list[Any]]) -> Iterator[list[Future[Any]]]:
    """Threads that call, each starting when the rows of those before are queued or run."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = []
        for task, rows in calls:
            waiting = batcher.state()["pending_futures"]
            futures.append(pool.submit(batcher, task, rows))
            until(lambda n=waiting, f=futures[-1]: f.done() or batcher.state()["pending_futures"] > n)
        try:
            yield futures
        finally:
            batcher.cleanup()


def test_sizes() -> None:
    cases: list[tuple[Any, Any]] = [
        ((None, None, None), None), ((False, None, None), None), ((True, None, None), (1, None)),
        ((True, None, 2), (1, 2)), ((None, 3, None), (3, None)), ((None, None, 5), (1, 5)),
        ((None, 2, 5), (2, 5)), ((True, 3, 3), (3, 3)), ((None, 0, None), (0, None)),
    ]  # fmt: skip
    for arguments, sizes in cases:
        assert BatchSizes.from_arguments(*arguments) == sizes, arguments


def test_sizes_that_contradict() -> None:
    cases: list[tuple[Any, str]] = [
        ((False, 1, None), "min_batch_size and max_batch_size must be None if batching is False."),
        ((False, None, 1), "min_batch_size and max_batch_size must be None if batching is False."),
        ((None, 5, 2), r"min_batch_size \(5\) must be <= max_batch_size \(2\)"),
        ((True, None, 0), r"min_batch_size \(1\) must be <= max_batch_size \(0\)"),
        ((None, 0, 0), "max_batch_size must be at least 1 or None, got 0"),
        ((None, -1, None), "min_batch_size must be a non-negative integer or None, got -1"),
        ((None, None, 2.5), "max_batch_size must be a non-negative integer or None, got 2.5"),
        (("yes", None, None), "batching must be True, False or None, got 'yes'"),
    ]
    for arguments, message in cases:
        raises(ValueError, message, BatchSizes.from_arguments, *arguments)


def test_timeout_must_be_seconds() -> None:
    for timeout in (-1, "1", None, float("nan"), True):
        raises(ValueError, "batching_timeout must be a number", Batcher, Runs(), BatchSizes(1, None), timeout)


def test_waits_for_enough_rows() -> None:
    run = Runs()
    batcher = Batcher(run, BatchSizes(5, None), LONG)
    with callers(batcher, ("t", [1]), ("t", [2, 3, 4]), ("t", [5, 6])) as futures:
        assert [f.result(20) for f in futures] == [
            [("t", 1)],
            [("t", 2), ("t", 3), ("t", 4)],
            [("t", 5), ("t", 6)],
        ]
    assert run.batches == [("t", [1, 2, 3, 4, 5, 6])]


def test_largest_size_splits_a_call() -> None:
    run = Runs()
    assert Batcher(run, BatchSizes(1, 2), LONG)("t", [1, 2, 3]) == [("t", 1), ("t", 2), ("t", 3)]
    assert [rows for _, rows in run.batches] == [[1, 2], [3]]
    assert Batcher(run, BatchSizes(3, None), LONG)("t", []) == []  # no rows need no run
    assert len(run.batches) == 2


def test_rows_that_come_during_a_run_share_the_next() -> None:
    run = Runs()
    run.gate.clear()
    batcher = Batcher(run, BatchSizes(1, None), LONG)
    with callers(batcher, *[("t", [i]) for i in range(6)]) as futures:
        assert batcher.state() == {
            "min_batch_size": 1, "max_batch_size": None, "queue_size": 5, "processing": True,
            "lock_state": "locked", "pending_futures": 6, "timeout": LONG,
        }  # fmt: skip
        run.gate.set()
        assert [f.result(20) for f in futures] == [[("t", i)] for i in range(6)]
    assert [rows for _, rows in run.batches] == [[0], [1, 2, 3, 4, 5]]
    state = batcher.state()
    assert (state["queue_size"], state["pending_futures"], state["lock_state"]) == (0, 0, "unlocked")


def test_what_is_left_of_a_call_waits_no_longer_than_the_timeout() -> None:
    run = Runs()
    assert len(Batcher(run, BatchSizes(2, 2), 0.05)("t", [1, 2, 3])) == 3
    assert [rows for _, rows in run.batches] == [[1, 2], [3]]


def test_only_equal_tasks_share_a_run() -> None:
    run = Runs()
    batcher = Batcher(run, BatchSizes(2, None), LONG)
    with callers(batcher, ("a", [1]), ("b", [2]), ("a", [3]), ("b", [4])) as futures:
        assert [f.result(20) for f in futures] == [[("a", 1)], [("b", 2)], [("a", 3)], [("b", 4)]]
    assert run.batches == [("a", [1, 3]), ("b", [2, 4])]


def test_a_failure_is_that_of_its_run_only() -> None:
    run = Runs()
    run.fail = lambda rows: ZeroDivisionError("bad row") if 2 in rows else None
    batcher = Batcher(run, BatchSizes(2, 2), LONG)
    with callers(batcher, ("t", [1]), ("t", [2]), ("t", [3]), ("t", [4])) as futures:
        for future in futures[:2]:
            raises(ZeroDivisionError, "bad row", future.result, 20)
        assert [f.result(20) for f in futures[2:]] == [[("t", 3)], [("t", 4)]]
    assert batcher("t", [5, 6]) == [("t", 5), ("t", 6)]  # nothing is left behind


def test_rows_of_a_failed_call_are_not_run() -> None:
    run = Runs()
    run.fail = lambda rows: ZeroDivisionError() if 1 in rows else None
    batcher = Batcher(run, BatchSizes(1, 1), LONG)
    raises(ZeroDivisionError, "", lambda: batcher("t", [1, 2, 3]))
    assert (batcher.state()["queue_size"], run.batches) == (0, [("t", [1])])


def test_the_runner_does_not_fail_for_others() -> None:
    """A caller that runs the rows of others is not concerned by their error."""
    run = Runs()
    run.fail = lambda rows: ZeroDivisionError() if "theirs" in rows else None
    batcher = Batcher(run, BatchSizes(2, 2), 0.3)
    with callers(batcher, ("a", ["theirs"]), ("b", ["mine"]), ("a", ["theirs too"])) as futures:
        for i in (0, 2):
            raises(ZeroDivisionError, "", futures[i].result, 20)
        assert futures[1].result(20) == [("b", "mine")]


def test_a_wrong_number_of_results() -> None:
    batcher: Any = Batcher(lambda task, rows: [], BatchSizes(1, None), LONG)
    raises(RuntimeError, "Expected 2 results, got 0", lambda: batcher("t", [1, 2]))


def test_an_interrupted_runner_frees_the_others() -> None:
    def interrupt(task: Any, rows: Any) -> Any:
        raise KeyboardInterrupt

    batcher: Any = Batcher(interrupt, BatchSizes(2, None), LONG)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(batcher, "t", [1])
        until(lambda: batcher.state()["queue_size"] == 1)
        raises(KeyboardInterrupt, "", lambda: batcher("t", [2]))
        raises(CancelledError, "interrupted", lambda: other.result(20))
    assert batcher.state()["pending_futures"] == 0


def test_cleanup_cancels_what_waits() -> None:
    run = Runs()
    batcher = Batcher(run, BatchSizes(4, None), LONG)
    with callers(batcher, ("t", [1]), ("t", [2, 3])) as futures:
        batcher.cleanup()
        for future in futures:
            raises(CancelledError, r"Batching aborted by cleanup_batching\(\)", future.result, 20)
    assert run.batches == []
    state = batcher.state()
    assert (state["queue_size"], state["pending_futures"], state["lock_state"]) == (0, 0, "unlocked")


def test_cleanup_lets_a_run_finish() -> None:
    run = Runs()
    run.gate.clear()
    batcher = Batcher(run, BatchSizes(1, None), LONG)
    with callers(batcher, ("t", [1]), ("t", [2])) as futures:
        batcher.cleanup()
        raises(CancelledError, "", lambda: futures[1].result(20))
        run.gate.set()
        assert futures[0].result(20) == [("t", 1)]


def test_flush_runs_what_waits() -> None:
    run = Runs()
    batcher = Batcher(run, BatchSizes(4, 4), LONG)
    with callers(batcher, ("a", [1]), ("b", [2, 3])) as futures:
        batcher.cleanup(flush=True)
        assert [f.result(20) for f in futures] == [[("a", 1)], [("b", 2), ("b", 3)]]
    assert batcher.state()["queue_size"] == 0
    batcher.cleanup(flush=True)  # nothing is queued


def test_flush_during_a_run() -> None:
    run = Runs()
    run.gate.clear()
    batcher = Batcher(run, BatchSizes(2, None), LONG)
    with callers(batcher, ("t", [1, 2]), ("t", [3])) as futures, ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(batcher.cleanup, flush=True)
        run.gate.set()
        assert [f.result(20) for f in futures] == [[("t", 1), ("t", 2)], [("t", 3)]]
        flushed.result(20)


def test_errors_of_a_flush_are_the_callers() -> None:
    run = Runs()
    run.fail = lambda rows: ZeroDivisionError()
    batcher = Batcher(run, BatchSizes(4, None), LONG)
    with callers(batcher, ("t", [1])) as futures:
        batcher.cleanup(flush=True)
        raises(ZeroDivisionError, "", lambda: futures[0].result(20))


def test_many_threads() -> None:
    """Every caller gets its own results, whatever the order."""
    run = Runs()
    batcher = Batcher(run, BatchSizes(3, 7), 0.01)

    def call(i: int) -> bool:
        rows = [(i, j) for j in range(i % 4)]
        return batcher(i % 3, rows) == [(i % 3, row) for row in rows]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(200)))
    assert all(len(rows) <= 7 for _, rows in run.batches)
    assert sum(len(rows) for _, rows in run.batches) == sum(i % 4 for i in range(200))
