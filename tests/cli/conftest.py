"""Tests of commands."""

import signal
from collections.abc import Iterator

import pytest
from helpers.commands import run  # noqa: F401
from helpers.lessons import rows  # noqa: F401
from helpers.models.rewriting import cheap_sessions  # noqa: F401


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """SIGINT interrupts these tests and their children, also where a job (`nohup pytest &`) ignores it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)
