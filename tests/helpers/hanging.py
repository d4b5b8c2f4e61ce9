"""A test that hangs says where, and ends the run.

pytest's own option for it starts and joins a thread for each test, which took a millisecond of each.
"""

import faulthandler
import time

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

LONGEST = 600.0
"""Seconds that a test may take at least; at most a minute more."""
_APART = 60.0
_begun = -_APART


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Count the time anew, where a minute has passed."""
    global _begun
    now = time.monotonic()
    if now >= _begun + _APART:
        _begun = now
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(LONGEST + _APART, file=stderr, exit=True)


@pytest.hookimpl(tryfirst=True)
def pytest_exception_interact() -> None:
    """pytest stops counting here, and where a debugger is entered."""
    global _begun
    _begun = -_APART


pytest_enter_pdb = pytest_exception_interact


def pytest_unconfigure() -> None:
    faulthandler.cancel_dump_traceback_later()
