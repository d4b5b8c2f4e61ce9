"""What code that serves mapped functions, too, asks: which maps run, what an array holds in full."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from lite._arrays.types import HostArray


class Running(NamedTuple):
    """A map while its function runs."""

    number: int
    size: int
    randomness: str


class _Maps(threading.local):
    def __init__(self) -> None:
        self.running: list[Running] = []


maps = _Maps()


def everything(x: Any) -> Any:
    """What an array holds, mapped dimensions included, for checks that all elements must pass."""
    while isinstance(x, HostArray):
        x = x.value  # type: ignore[attr-defined]
    return x


def look_up(table: Any, index: Any) -> Any:
    """`table[index]`, also where only the index is mapped, which an ndarray would not notice."""
    if not isinstance(index, HostArray):
        return table[index]
    from lite._transforms.vmap.indexing import get_index

    return get_index(table, index)


def generator_for(rng: Any) -> Any:
    """The generator to draw from in place of `rng`: inside `vmap`, one that obeys its `randomness`."""
    if not maps.running:
        return rng
    from lite._transforms.vmap.randomness import obeying

    return obeying(rng, maps.running)
