import threading

import pytest
from helpers.cases import raises

from lite._processes.watchdog import Watchdog


class Waiter:
    def __init__(self):
        self.go = threading.Event()

    def wait(self):
        self.go.wait(60)


def test_results_and_errors_come_back():
    dog = Watchdog(30)
    assert dog.call(divmod, 7, 2) == (3, 1)
    assert dog.call(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError) as caught:
        dog.call(divmod, 1, 0)
    assert caught.value.__traceback__ is not None
    dog.close()


def test_a_call_that_hangs_is_given_up():
    dog, waiter = Watchdog(0.05), Waiter()
    raises(TimeoutError, r"no answer within 0\.05 seconds", dog.call, waiter.wait)
    assert dog.stuck
    assert any(frame.f_locals.get("self") is waiter for frame in dog.frames())
    raises(TimeoutError, "given up has not returned", dog.call, int)
    waiter.go.set()
    dog.close()


def test_the_thread_ends():
    dog = Watchdog(30)
    dog.call(int)
    dog.close()
    dog._thread.join(30)
    assert not dog._thread.is_alive()


def test_bad_timeouts():
    for timeout in (0, -1, float("nan")):
        raises(ValueError, "timeout must be above 0", Watchdog, timeout)
