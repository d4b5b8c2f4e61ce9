"""The line of the caller's code that a trace has reached, for messages."""

from __future__ import annotations

import linecache
import os
import sys
from pathlib import Path

import numpy as np

_PACKAGE = str(Path(__file__).parents[2])
_NUMPY = os.path.join(os.path.dirname(np.__file__), "")


def caller_line() -> str:
    """The line of the caller's code that runs: the innermost outside of this package."""
    frame = sys._getframe(1)
    while frame is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    file, number = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, number).strip()
    return f" ({file}, line {number}: {text})" if text else f" ({file}, line {number})"


def _is_own(file: str) -> bool:
    return file.startswith((_PACKAGE, _NUMPY, "<"))
