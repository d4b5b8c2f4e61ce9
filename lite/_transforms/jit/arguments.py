"""An argument of a call, taken apart."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from typing import Any

import numpy as np

from lite._arrays.types import HostArray, raw
from lite._transforms.jit.structure import DIRECT, DONATED, Flattener, Structure

_DONATED_KEPT = 16  # donated arguments of a function that are recognised; there are two values of each


class Argument:
    """An argument: its arrays, and what is the same for all calls that one graph serves.

    Args:
        value: the argument.
        name: what it is called in errors.
        donated: whether the caller gives it up.
        static: whether it is part of the graph as it is.
        axes: names of the axes of its arrays whose size may change; None for those of batches.

    Attributes:
        number: of its form, among all that the function met.
        inside: whether there is an array of another transformation in it.
    """

    __slots__ = (
        *("batches", "containers", "donated", "inside", "leaves", "number", "places", "structure", "value"),
        "_entries",
    )

    def __init__(
        self, value: Any, name: str, donated: bool, static: bool = False, axes: dict[int, str] | None = None
    ) -> None:
        flat = Flattener()
        self.structure: Structure = (
            ("static", type(value), value) if static else flat.structure(value, name, DIRECT)
        )
        self.value = value
        self.donated = donated
        self.leaves = flat.leaves
        self.places = flat.places
        self.batches = [(DONATED, 0)] * len(flat.leaves) if donated else flat.batches
        if axes is not None and not donated:
            self.batches = [(axes, 0)] * len(flat.leaves)
        self.containers = flat.containers
        self.number = -1
        self.inside = any(
            type(leaf) is not np.ndarray and isinstance(raw(leaf), HostArray) for leaf in self.leaves
        )
        self._entries = _entries(self.containers) if donated and self.containers else None

    def form(self) -> Any:
        """What decides about the graph, but for sizes that may change."""
        if self.donated:
            forms = [
                (leaf.dtype, leaf.shape) if hasattr(leaf, "shape") else type(leaf) for leaf in self.leaves
            ]
        else:
            forms = [(leaf.dtype, leaf.ndim) if hasattr(leaf, "ndim") else type(leaf) for leaf in self.leaves]
        return (self.structure, self.donated, *forms)

    def is_unchanged(self) -> bool:
        """Whether the containers of a donated argument hold the entries that they held."""
        before = self._entries
        return before is not None and list(map(id, _entries(self.containers))) == list(map(id, before))

    def present_leaves(self) -> list[Any]:
        """The leaves, after entries were replaced."""
        return [
            leaf if place is None else self.containers[place[0]]._data[place[1]]
            for leaf, place in zip(self.leaves, self.places, strict=True)
        ]

    def settle(self) -> None:
        """Take the entries of the containers as they are now for those that are known."""
        self._entries = _entries(self.containers)


def _entries(containers: list[Any]) -> list[Any]:
    """All entries, which are kept alive so that no other object gets the identity of one."""
    parts = [node.tensordicts if node._parts() is not None else node._data.values() for node in containers]
    return list(chain.from_iterable(parts))


def remember(seen: OrderedDict[int, Argument], argument: Argument) -> None:
    """Keep a donated argument, which the next call may have again."""
    seen[id(argument.value)] = argument
    while len(seen) > _DONATED_KEPT:
        seen.popitem(last=False)
