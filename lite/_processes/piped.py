"""A process at the other end of a pipe: its start, why it ended, and its end."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from lite._processes.workers import safe_start_method


class PipedProcess:
    """A process that runs `serve(connection, *args)`; `connection` here is the other end of its pipe.

    Args:
        serve: answers requests from the connection until one ends it, or the pipe is closed.
        args: its other arguments.
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

    _turn = 0  # the number of the last command

    def ask(self, message: bytes) -> None:
        """Send a command, one byte, and what follows; where the process has ended, `answered` says so."""
        self._turn += 1
        try:
            self.connection.send_bytes(message[:1] + self._turn.to_bytes(8, "big") + message[1:])
        except TimeoutError:  # raised by a handler of signals
            raise
        except OSError:
            pass

    def answered(self) -> bytes:
        """The answer to the last command, or one that came unasked: both begin with a byte and a number.

        The number is that of the command, or 0. Answers that an interrupt left unread are passed over.

        Raises:
            EOFError: the process has ended.
        """
        while True:
            try:
                answer: bytes = self.connection.recv_bytes()
            except TimeoutError:
                raise
            except OSError as error:
                raise EOFError from error
            if int.from_bytes(answer[1:9], "big") in (0, self._turn):
                return answer[:1] + answer[9:]

    def how_it_ended(self, timeout: float) -> str:
        """A text for errors: the exit code of the process, after a wait of at most `timeout` seconds."""
        self.process.join(timeout)
        # A process ends quietly after an interrupt, and a notebook interrupts all processes.
        why = ", as after an interrupt (Ctrl-C, a notebook's stop button)" * (self.process.exitcode == 0)
        return f"its process ended with exit code {self.process.exitcode}{why}"

    def end(self, timeout: float) -> None:
        """Wait for the process, which was told to end; it is killed after `timeout` seconds."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        self.connection.close()
