"""The maps that are running, for whoever draws random numbers."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple


class Running(NamedTuple):
    """A map while its function runs."""

    number: int
    size: int
    randomness: str


class _Maps(threading.local):
    def __init__(self) -> None:
        self.running: list[Running] = []


maps = _Maps()


def generator_for(rng: Any) -> Any:
    """The generator to draw from in place of `rng`: inside `vmap`, one that obeys its `randomness`."""
    if not maps.running:
        return rng
    from lite._vmap.randomness import obeying

    return obeying(rng, maps.running)
