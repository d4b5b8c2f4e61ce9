"""Limits of time and memory."""

from __future__ import annotations

import threading
import time

import pytest

from lite.nn._import.limits import Memory, check_time, elements_limit, is_limited, most_elements, time_limit


def test_the_earliest_limit_holds_and_says_what_took_so_long() -> None:
    check_time()
    with time_limit(0.0, "the whole"), time_limit(60.0, "a part"):
        time.sleep(0.001)
        with pytest.raises(TimeoutError, match="may never end: the whole took over 0 seconds"):
            check_time()
    with time_limit(60.0, "the whole"):
        with time_limit(0.0, "a part"):
            time.sleep(0.001)
            with pytest.raises(TimeoutError, match="a part took over"):
                check_time()
        check_time()
    assert not is_limited()


def test_limits_are_of_a_thread() -> None:
    found: list[bool] = []
    with time_limit(60.0, "the whole"):
        thread = threading.Thread(target=lambda: found.append(is_limited()))
        thread.start()
        thread.join()
    assert found == [False]


def test_arrays_and_memory() -> None:
    with elements_limit(10):
        assert (most_elements(5), most_elements(20)) == (5, 10)
    assert most_elements(20) == 20
    memory = Memory(10)
    assert [memory.take(size) for size in (6, 5, 4, 1)] == [True, False, True, False]
