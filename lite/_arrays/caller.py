"""The caller's code, which runs this package: its line, for messages, and where warnings point to."""

from __future__ import annotations

import linecache
import sys
import warnings
from types import FrameType

_OWN = sys.stdlib_module_names | {"lite", "numpy"}


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line of the caller's code."""
    frame = _caller()
    scope = frame.f_globals
    registry = scope.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, scope.get("__name__") or "<string>"  # as Python's own
    warnings.warn_explicit(message, category, *place, registry)


def caller_line() -> str:
    """The line of the caller's code that runs."""
    frame = _caller()
    file, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, number).strip()
    return f" ({file}, line {number}: {text})" if text else f" ({file}, line {number})"


def _caller() -> FrameType:
    """The innermost frame outside of this package, NumPy and Python's library; else the outermost.

    Modules are told by name: the files of a notebook's cells, of frozen and of generated code say nothing.
    """
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).partition(".")[0] in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return frame
