"""Memory that a call takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_of(call: Callable[..., Any], *arguments: Any) -> int:
    """Bytes that Python and NumPy hold at most during a second call; the first one compiles."""
    call(*arguments)
    tracemalloc.start()
    try:
        call(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
