"""Decoders that run at the same time: which are taken, what becomes of rows, errors and nested calls."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest
from helpers.cases import raises
from helpers.waiting import LONG, until

from lite.models.generation import pool as pool_module
from lite.models.generation.pool import Pool

CODE = pool_module.__file__
kept: list[BaseException] = []


class Model:
    """Stands for a decoder; siblings are counted."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.made = 0

    def sibling(self) -> Model:
        self.made += 1
        return Model(self.made)


def numbered(model: Any, rows: Sequence[int]) -> list[tuple[int, int]]:
    return [(model.number, row) for row in rows]


def meeting(count: int) -> Callable[[Any, Sequence[int]], list[Any]]:
    """Work that ends when `count` of it take place at the same time."""
    barrier = threading.Barrier(count, timeout=LONG)

    def work(model: Any, rows: Sequence[int]) -> list[Any]:
        barrier.wait()
        return numbered(model, rows)

    return work


def test_rows_are_spread_and_stay_in_order() -> None:
    cases: list[tuple[int, list[int]]] = [
        (0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (7, [0, 0, 1, 1, 2, 2, 2]),
    ]  # fmt: skip
    for count, parts in cases:
        pool = Pool.of(Model(), 3)
        assert pool.run(numbered, range(count), most=3) == list(zip(parts, range(count), strict=True))
        assert [number for number, _ in pool.run(numbered, range(4), most=1)] == [0, 0, 0, 0], count
        assert [number for number, _ in pool.run(numbered, range(4), most=2)] == [0, 0, 1, 1], count


def test_parts_of_a_call_run_at_the_same_time() -> None:
    pool = Pool.of(Model(), 4)
    assert pool.run(meeting(4), range(4), most=4) == [(i, i) for i in range(4)]


def test_callers_run_at_the_same_time_and_wait_for_a_free_decoder() -> None:
    pool = Pool.of(Model(), 2)
    work = meeting(2)
    with ThreadPoolExecutor(8) as threads:  # each pair meets, so nobody has both decoders or waits for ever
        results = list(threads.map(lambda row: pool.run(work, [row], most=1), range(8), timeout=LONG))
    assert [row for ((_, row),) in results] == list(range(8))
    assert {number for ((number, _),) in results} == {0, 1}


def test_who_waits_is_before_who_has_just_run() -> None:
    """Otherwise new weights waited for seconds beside callers that never pause."""
    pool, order, begun = Pool.of(Model()), [], threading.Event()

    def work(model: Any, rows: Sequence[str]) -> list[Any]:
        order.extend(rows)
        begun.set()
        until(lambda: "first" not in rows or bool(pool._waiting))
        return list(rows)

    def busy() -> None:
        for name in ("first", "third"):
            pool.run(work, [name], most=1)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(busy)
        assert begun.wait(LONG)
        pool.run(work, ["second"], most=1)
        running.result(LONG)
    assert order == ["first", "second", "third"]


def test_only_the_next_of_many_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, waits, many = Pool.of(Model()), [], 20
    wait = threading.Condition.wait

    def counted(condition: threading.Condition, timeout: float | None = None) -> bool:
        waits.extend([timeout] if timeout == 99 else [])
        return wait(condition, timeout)

    monkeypatch.setattr(pool_module, "_LOOK_AGAIN", 99)
    monkeypatch.setattr(threading.Condition, "wait", counted)

    def work(model: Any, rows: Sequence[str]) -> list[Any]:
        until(lambda: "first" not in rows or len(pool._waiting) == many)
        return list(rows)

    with ThreadPoolExecutor(many + 1) as threads:
        list(threads.map(lambda row: pool.run(work, [row], most=1), ["first", *"x" * many]))
    assert many <= len(waits) <= 2 * many
    assert not pool._waiting


def test_a_part_that_fails_fails_the_call_and_all_decoders_come_back() -> None:
    pool, ended = Pool.of(Model(), 3), []

    def work(model: Any, rows: Sequence[int]) -> list[Any]:
        if rows[0] > 0:
            raise ValueError(f"row {rows[0]}")
        ended.append(rows)
        return list(rows)

    raises(ValueError, "row 1", pool.run, work, range(3), most=3)
    assert ended == [range(1)]
    with pytest.raises(KeyboardInterrupt):
        pool.run(lambda model, rows: (_ for _ in ()).throw(KeyboardInterrupt()), range(2), most=1)
    assert pool.run(meeting(3), range(3), most=3) == [(i, i) for i in range(3)]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_threads_that_cannot_be_started(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(thread: threading.Thread) -> None:
        raise error

    pool = Pool.of(Model(), 3)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fails)
        raises(error, "", pool.run, numbered, range(3), most=3)
    assert pool.run(meeting(3), range(3), most=3) == [(i, i) for i in range(3)]


@pytest.mark.parametrize("most", [1, 3])
def test_an_interrupt_loses_no_decoder(most: int) -> None:
    pool, step = Pool.of(Model(), 3), 0
    while interrupted(lambda: pool.run(numbered, range(3), most=most), step := step + 1):
        assert pool.run(numbered, range(3), most=3) == [(i, i) for i in range(3)]
        assert not pool.is_running_here()
    assert step > 20


def interrupted(call: Callable[[], Any], step: int) -> bool:
    """Whether the call was interrupted at that place of the pool's code; False if it has fewer.

    Python looks for interrupts where functions begin, and where those written in C have returned. From 3.14
    on a lock's `__enter__` is one of these: an interrupt there leaves any lock held, Python's own, too.
    """
    left = step

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        looks = event == "call" or (event == "c_return" and argument.__name__ != "__enter__")
        if looks and frame.f_code.co_filename == CODE:
            left -= 1
            if not left:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    except KeyboardInterrupt as error:
        kept[:] = [error]  # as shells keep the last one, with all its frames
        return True
    finally:
        sys.setprofile(None)
    return False


def test_a_thread_that_outlives_the_main_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool.of(Model(), 2)
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    for _ in range(2):
        assert pool.run(numbered, [10, 11], most=2) == [(0, 10), (1, 11)]


def test_a_call_from_within_a_call_runs_on_the_same_decoder() -> None:
    """A user's function, for stop sequences say, may call a wrapper of the same model."""
    pool = Pool.of(Model(), 2)

    def outer(model: Any, rows: Sequence[int]) -> list[Any]:
        return [pool.run(numbered, [row], most=2)[0] for row in rows]

    assert pool.run(outer, range(2), most=2) == [(0, 0), (1, 1)]


@pytest.mark.usefixtures("only_new_garbage")
def test_a_model_has_one_pool_which_grows_and_goes_with_it() -> None:
    model = Model()
    first = Pool.of(model)
    assert Pool.of(model, 3) is first
    assert Pool.of(model, 2) is first
    assert model.made == 2
    assert Pool.of(Model()) is not first
    gone = weakref.ref(model)
    del model, first
    gc.collect()
    assert gone() is None


def test_what_is_no_pool() -> None:
    for size in (0, -1, True, 2.0, "2", None):
        with pytest.raises(ValueError, match="sessions must be an integer of at least 1, got"):
            Pool.of(Model(), size)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"sessions=2 needs a model .* object has no method sibling"):
        Pool.of(object(), 2)  # type: ignore[arg-type]
    Pool.of(object())  # type: ignore[arg-type]


def test_who_is_alone_waits_for_all_and_lets_nobody_in() -> None:
    pool, begun, go = Pool.of(Model(), 2), threading.Event(), threading.Event()
    order: list[str] = []

    def work(model: Any, rows: Sequence[int]) -> list[Any]:
        begun.set()
        assert go.wait(LONG)
        order.append("ran")
        return list(rows)

    def alone() -> None:
        with pool.alone() as decoders:
            assert len(decoders) == 2
            order.append("alone")
            later.append(
                threads.submit(pool.run, lambda model, rows: order.append("later") or [], [0], most=1)
            )
            assert not later[0].done()
            order.append("left")

    later: list[Any] = []
    with ThreadPoolExecutor(4) as threads:
        running = threads.submit(pool.run, work, [0], most=1)
        assert begun.wait(LONG)
        others = [threads.submit(alone)]
        go.set()
        for future in (running, *others, *later):
            future.result(LONG)
        later[0].result(LONG)
    assert order == ["ran", "alone", "left", "later"]
    with pytest.raises(RuntimeError, match="while the model runs"):
        pool.run(lambda model, rows: [pool.alone().__enter__()], [0], most=1)
    assert pool.run(meeting(2), range(2), most=2) == [(i, i) for i in range(2)]
