"""`Watchdog`: calls with a timeout."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Watchdog:
    """Runs calls in a thread of its own, and waits for each at most `timeout` seconds.

    A call that timed out continues, as Python cannot stop it; the thread does not keep the process alive.

    Args:
        timeout: seconds.

    Raises:
        ValueError: `timeout` is not above 0.
    """

    def __init__(self, timeout: float) -> None:
        if not timeout > 0:  # refuses NaN, too
            raise ValueError(f"timeout must be above 0 seconds, got {timeout}.")
        self.timeout = timeout
        self.stuck = False
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], Any, Any] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lite.data.Collector", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of a call; TimeoutError if it takes too long, or an earlier one has not returned."""
        if self.stuck:
            raise TimeoutError("a call that was given up has not returned.")
        self._calls.put((function, args, kwargs))
        try:
            result, error = self._results.get(timeout=self.timeout)
        except queue.Empty:
            self.stuck = True
            raise TimeoutError(f"no answer within {self.timeout:g} seconds.") from None
        if error is not None:
            raise error
        return result

    def frames(self) -> Iterator[FrameType]:
        """The stack of the thread, the innermost call first."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        while frame is not None:
            yield frame
            frame = frame.f_back

    def close(self) -> None:
        """End the thread when it is idle."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, args, kwargs = call
            try:
                self._results.put((function(*args, **kwargs), None))
            except BaseException as error:
                self._results.put((None, error))
