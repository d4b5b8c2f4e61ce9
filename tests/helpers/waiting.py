"""Waiting for other threads and processes, in tests."""

import multiprocessing
import time
from collections.abc import Callable

LONG = 60.0  # seconds that no test waits


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, 20 seconds at most."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.001)


def children() -> set[int | None]:
    """The processes that this one started, other tests' too, and that have not ended."""
    return {child.pid for child in multiprocessing.active_children()}
