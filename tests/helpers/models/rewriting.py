"""The rewriting of graphs, remembered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lite.models.decoder import opening

# Functions of a graph's bytes, which take half of the time to open one.
_FUNCTIONS = ("with_limits_as_inputs", "replace_attention", "succeeds", "gather_before_projection")


def remembered() -> dict[str, Callable[..., Any]]:
    """The functions by which `lite.models.decoder.opening` rewrites a graph, each with a memory."""
    return {name: functools.lru_cache(maxsize=None)(getattr(opening, name)) for name in _FUNCTIONS}
