"""The caller's code, which runs this package: its line, for messages, and where warnings point to."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from types import FrameType

import numpy as np

_OWN = (*(os.path.join(os.path.dirname(file), "") for file in (os.path.dirname(__file__), np.__file__)), "<")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line of the caller's code."""
    frame = _caller()
    scope = frame.f_globals
    registry = scope.setdefault("__warningregistry__", {})
    place = frame.f_code.co_filename, frame.f_lineno, scope.get("__name__")
    warnings.warn_explicit(message, category, *place, registry)


def caller_line() -> str:
    """The line of the caller's code that runs."""
    frame = _caller()
    file, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, number).strip()
    return f" ({file}, line {number}: {text})" if text else f" ({file}, line {number})"


def _caller() -> FrameType:
    """The innermost frame outside of this package and NumPy; the outermost where all are inside."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OWN) and frame.f_back is not None:
        frame = frame.f_back
    return frame
