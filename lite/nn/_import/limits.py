"""Limits of what a graph may take: time, and memory that rules hold from call to call."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class TooLarge(ValueError):
    """An operator was told to make an array that is larger than any may be."""


@dataclass(frozen=True)
class _Deadline:
    end: float
    seconds: float
    what: str


class _Thread(threading.local):
    deadline: _Deadline | None = None
    elements: int | None = None


_thread = _Thread()


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Let what this thread runs in the body take that long; an earlier limit around it holds.

    Args:
        seconds: how long.
        what: for the message.
    """
    before = _thread.deadline
    own = _Deadline(time.monotonic() + seconds, seconds, what)
    _thread.deadline = own if before is None or own.end < before.end else before
    try:
        yield
    finally:
        _thread.deadline = before


def is_limited() -> bool:
    """Whether there is a limit in this thread."""
    return _thread.deadline is not None


def check_time() -> None:
    """Raise TimeoutError after the limit."""
    deadline = _thread.deadline
    if deadline is not None and time.monotonic() > deadline.end:
        raise TimeoutError(f"the graph may never end: {deadline.what} took over {deadline.seconds:g} seconds")


@contextmanager
def elements_limit(count: int) -> Iterator[None]:
    """Let operators that are told a shape make arrays of at most that many numbers in the body."""
    before, _thread.elements = _thread.elements, count
    try:
        yield
    finally:
        _thread.elements = before


def most_elements(otherwise: int) -> int:
    """The numbers that an array may have now."""
    return otherwise if _thread.elements is None else min(otherwise, _thread.elements)


@dataclass
class Memory:
    """Bytes that a program may hold of what follows from its constants.

    Attributes:
        free: how many are left.
    """

    free: int

    def take(self, size: int) -> bool:
        """Whether there is room for that many bytes, which are taken then."""
        if size > self.free:
            return False
        self.free -= size
        return True
