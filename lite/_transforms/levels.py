"""Levels of transformations: of several, the one that started last, the innermost, handles a call."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, HostArray

numbers = itertools.count()  # of the transformations of all kinds, in the order in which they start


def innermost(items: Any, found: Any = None) -> Any:
    """The array of the highest level in nested lists, tuples and dicts; None without arrays that have one.

    A parameter counts as the array that it computes with.
    """
    for x in items:
        if isinstance(x, ArrayHolder):
            x = x.computing()
        kind = type(x)
        if kind is list or kind is tuple:
            found = innermost(x, found)
        elif kind is dict:
            found = innermost(x.values(), found)
        elif kind is slice:
            found = innermost((x.start, x.stop, x.step), found)
        elif isinstance(x, HostArray) and (found is None or x.level > found.level):
            found = x
    return found


def count(like: Array, size: int) -> Array:
    """`np.arange(size)`; in the graph of `like` for a dynamic size."""
    if type(size) is int:
        return np.arange(size)
    return np.cumsum(np.ones_like(like, np.int64, shape=(size,))) - 1
