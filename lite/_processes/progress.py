"""A progress bar in text, on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30
_PAUSE = 0.1  # seconds between two drawings


class ProgressBar:
    """Counts steps of a known total; drawn at most ten times a second, and when it ends.

    Args:
        total: number of steps.
        stream: where to draw.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> with ProgressBar(2, out) as bar:
        ...     bar.step()
        ...     bar.step()
        >>> "2/2" in out.getvalue()
        True
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._start = self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draw()
        self._stream.write("\n")
        self._stream.flush()

    def step(self) -> None:
        """Count one step."""
        self.done += 1
        if time.monotonic() - self._drawn >= _PAUSE:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        passed = self._drawn - self._start
        full = _WIDTH * self.done // self.total if self.total else _WIDTH
        rate = self.done / passed if passed > 0 else 0.0
        bar = "#" * full + "." * (_WIDTH - full)
        self._stream.write(f"\r{self.done}/{self.total} [{bar}] {passed:.1f} s, {rate:.1f}/s")
        self._stream.flush()
