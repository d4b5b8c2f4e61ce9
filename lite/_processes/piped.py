"""A process at the other end of a pipe: started, heard from, and ended whatever became of it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from lite._processes.workers import safe_start_method


class PipedProcess:
    """A process that runs `serve(connection, *args)`, with the other end of its pipe here.

    Args:
        serve: answers what comes through the connection until it is told to end, or the pipe is closed.
        args: what it gets beside the connection.
        start_method: how the process is started; None for `safe_start_method`.
        daemon: True for one that ends with this process, and may start none itself.
    """

    def __init__(
        self,
        serve: Callable[..., None],
        *args: Any,
        start_method: str | None = None,
        daemon: bool = True,
    ) -> None:
        context: Any = multiprocessing.get_context(start_method or safe_start_method())
        self.connection, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there, *args), daemon=daemon)
        self.process.start()
        there.close()  # so that the end of the process ends the pipe

    def how_it_ended(self, timeout: float) -> str:
        """What to tell of a process whose pipe was closed, for which it is waited `timeout` seconds."""
        self.process.join(timeout)
        # What serves ends without a word then; that of a notebook goes to all processes.
        why = ", as after an interrupt (Ctrl-C, a notebook's stop button)" * (self.process.exitcode == 0)
        return f"its process ended with exit code {self.process.exitcode}{why}"

    def end(self, timeout: float) -> None:
        """Wait for the process, which was told to end; it is killed after `timeout` seconds."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.connection.close()
