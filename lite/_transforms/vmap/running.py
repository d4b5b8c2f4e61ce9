"""For code that also runs inside `vmap`: which maps run, and all elements of an array.

`lite.nn` imports this file at once and the rest of `vmap` when it is used, so it knows nothing of the rest.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

import numpy as np

from lite._arrays.namespace import NamespaceArray, known
from lite._arrays.types import Array, HostArray


class Running(Protocol):
    """A map while its function runs."""

    def generator(self, rng: Any) -> Any:
        """The generator to draw from in place of `rng`."""

    def reads(self, what: str) -> None:
        """Data come from elsewhere: a graph fails, in which they would be a constant."""


class _Maps(threading.local):
    def __init__(self) -> None:
        self.running: list[Running] = []


maps = _Maps()


def everything(x: Any) -> Any:
    """The value of an array, mapped dimensions included, for checks that all elements must pass.

    An array that JAX traces, or a graph, has no elements yet, and so gives an array of none.
    """
    while isinstance(x, HostArray) and not isinstance(x, NamespaceArray):
        if x.symbolic:
            return np.zeros(0, x.dtype)  # type: ignore[attr-defined]
        x = x.value  # type: ignore[attr-defined]
    if not isinstance(x, NamespaceArray):
        return x
    found = known(x.leaf)
    return np.zeros(0, x.dtype) if found is None else found


def require_ids(ids: Any, count: int, name: str) -> None:
    """Raise IndexError unless all ids are from 0 to `count - 1`: NumPy takes -1 for the last."""
    known = everything(ids)
    if known.size and (known.min() < 0 or known.max() >= count):
        raise IndexError(f"{name} must be from 0 to {count - 1}, got {known.min()} to {known.max()}.")


def look_up(table: Array, index: Any) -> Any:
    """`table[index]`, also where only the index is mapped, which an ndarray would not notice."""
    return index.look_up(table) if isinstance(index, HostArray) else table[index]


def generator_for(rng: Any) -> Any:
    """The generator to draw from in place of `rng`: inside `vmap`, one that obeys its `randomness`."""
    for one in maps.running:  # the outermost first
        rng = one.generator(rng)
    return rng


def reads(what: str) -> None:
    """Say that data come from elsewhere; see `Running.reads`."""
    for one in maps.running:
        one.reads(what)
