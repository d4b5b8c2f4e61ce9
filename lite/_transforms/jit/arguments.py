"""An argument of a call, taken apart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from operator import attrgetter, is_
from typing import Any

import numpy as np

from lite._arrays.types import HostArray, raw
from lite._transforms.jit.structure import ARRAY, DIRECT, DONATED, NUMBER, Flattener, Structure
from lite._tree.protocol import class_registry

_DONATED_KEPT = 16  # donated arguments of a function that are recognised; there are two values of each


class Argument:
    """An argument: its arrays, and what is the same for all calls that one graph serves.

    Args:
        value: the argument.
        name: its name in errors.
        donated: whether the caller gives it up.
        static: whether it is part of the graph as it is.
        axes: names of the axes of its arrays whose size may change; None for those of batches.
        without: entries that are passed over, as of `Flattener`.

    Attributes:
        number: number of its form, among all that the function met.
        inside: whether there is an array of another transformation in it.
        home: which buffers of a session its leaves are; None for arrays of the caller.
    """

    __slots__ = (
        *("batches", "containers", "donated", "home", "inside", "leaves", "number", "places", "structure"),
        *("value", "_entries", "_like"),
    )

    def __init__(
        self, value: Any, name: str, donated: bool, static: bool = False, axes: dict[int, str] | None = None,
        without: Mapping[tuple[int, str], Structure] | None = None,
    ) -> None:  # fmt: skip
        self.value = value
        self.donated = donated
        self.number = -1
        self.home: tuple[object, int] | None = None
        self._like: tuple[Any, ...] = (None,)
        if type(value) is np.ndarray and not (static or donated) and axes is None:
            # Without a Flattener: 0.6 of a policy's 9 microseconds above those of the session.
            self.structure: Structure = (ARRAY,)
            self.leaves: list[Any] = [value]
            self.places: list[tuple[int, str] | None] = [None]
            self.batches: list[tuple[Any, int]] = [(1, DIRECT)]
            self.containers: list[Any] = []
            self.inside, self._entries = False, None
            return
        flat = Flattener(without=without)
        self.structure = _static(value, name) if static else flat.structure(value, name, DIRECT)
        self.leaves = flat.leaves
        self.places = flat.places
        self.batches = [(DONATED, 0)] * len(flat.leaves) if donated else flat.batches
        if axes is not None and not donated:
            self.batches = [(axes, 0)] * len(flat.leaves)
        self.containers = flat.containers
        others = [leaf for leaf in flat.leaves if type(leaf) is not np.ndarray]
        self.inside = any(isinstance(raw(leaf), HostArray) for leaf in others)
        self._entries = Entries(self.containers) if donated and self.containers else None

    def form(self) -> Any:
        """The key that selects the graph, without sizes that may change."""
        if self.donated:
            forms = [
                (leaf.dtype, leaf.shape) if hasattr(leaf, "shape") else type(leaf) for leaf in self.leaves
            ]
        else:
            forms = [(leaf.dtype, leaf.ndim) if hasattr(leaf, "ndim") else type(leaf) for leaf in self.leaves]
        return (self.structure, self.donated, *forms)

    def note(self) -> None:
        """Note what `is_like` compares, before the function writes to the value."""
        self._like = _like(self.value)
        if self.structure[0] == "static" and self._like[0] not in _PLAIN:
            self._like = (None,)

    def is_like(self, value: Any, leaves: list[Any], nodes: list[Any]) -> bool:
        """Whether another value has the structure, dtypes and shapes that this one had at `note`.

        Its leaves and TensorDicts are added to the lists. False for what holds anything but NumPy's arrays
        and plain values. This takes a fifth of the time of taking a TensorDict apart.
        """
        like = self._like
        kind = type(value)
        if kind is not like[0]:
            return False
        if kind is np.ndarray:
            leaves.append(value)
            return bool(value.dtype == like[1] and value.shape == like[2])
        if kind in _PLAIN:
            if self.structure[0] != NUMBER:
                return bool(value == self.value)
            leaves.append(value)
            return True
        return _is_like(value, like, leaves, nodes)

    def is_unchanged(self) -> bool:
        """Whether the containers of a donated argument hold the entries that they held, by the same keys."""
        return self._entries is not None and self._entries.are_unchanged()

    def present_leaves(self) -> list[Any]:
        """The leaves, after entries were replaced."""
        return [
            leaf if place is None else self.containers[place[0]]._data[place[1]]
            for leaf, place in zip(self.leaves, self.places, strict=True)
        ]

    def settle(self) -> None:
        """Take the entries of the containers as they are now for those that are known."""
        self._entries = Entries(self.containers)


def _static(value: Any, name: str) -> Structure:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{name} is in static_argnames, so graphs are kept by its value, which must have a hash: got "
            f"{type(value).__name__} {value!r}. Pass a tuple, or a frozen dataclass."
        ) from None
    return ("static", type(value), value)


_PLAIN = frozenset((float, int, bool, str, type(None)))


def _like(value: Any) -> tuple[Any, ...]:
    """What another value must have for the form of this one, its type first; (None,) if that is not known."""
    kind = type(value)
    if kind is np.ndarray:
        return kind, value.dtype, value.shape
    if kind in _PLAIN:
        return (kind,)
    if kind is not class_registry.dense:
        return (None,)
    items = tuple([_like(entry) for entry in value._data.values()])
    if any(item[0] is None or item[0] in _PLAIN for item in items):
        return (None,)
    about = value._batch_size, value._names, value._device, value._locked
    return kind, about, list(value._data), items


def _is_like(node: Any, like: tuple[Any, ...], leaves: list[Any], nodes: list[Any]) -> bool:
    """Whether a TensorDict is what `_like` found; its leaves and itself are added to the lists."""
    _, about, keys, items = like
    data = node._data
    if (node._batch_size, node._names, node._device, node._locked) != about or [*data] != keys:
        return False
    nodes.append(node)
    for entry, item in zip(data.values(), items, strict=True):
        kind = type(entry)
        if kind is not item[0]:
            return False
        if kind is np.ndarray:
            if entry.dtype != item[1] or entry.shape != item[2]:
                return False
            leaves.append(entry)
        elif not _is_like(entry, item, leaves, nodes):
            return False
    return True


class Entries:
    """The keys and entries of containers, which are kept so that no other object gets the identity of one.

    Args:
        containers: TensorDicts and lazy stacks.
    """

    __slots__ = ("_before", "_data", "_held", "_nodes", "_stacks", "_views")

    def __init__(self, containers: list[Any]) -> None:
        self._nodes = [node for node in containers if node._parts() is None]
        self._stacks = [(node, list(node.tensordicts)) for node in containers if node._parts() is not None]
        self._data = [node._data for node in self._nodes]
        self._before = [*map(dict, self._data)]
        self._views = [data.values() for data in self._data]
        self._held = [*self._data, *chain.from_iterable(self._views)]

    def are_unchanged(self) -> bool:
        """Whether the containers hold the same objects by the same keys.

        This runs four times in each step, so without a loop in Python.
        """
        now = chain(map(_DATA, self._nodes), chain.from_iterable(self._views))
        try:  # the second comparison is of keys: entries that are not the same objects end the first
            if not all(map(is_, now, self._held)) or self._data != self._before:
                return False
        except ValueError:  # of arrays whose keys were exchanged
            return False
        return not self._stacks or all(
            len(node.tensordicts) == len(parts) and all(map(is_, node.tensordicts, parts))
            for node, parts in self._stacks
        )


_DATA = attrgetter("_data")


def remember(seen: OrderedDict[int, Argument], argument: Argument) -> None:
    """Keep a donated argument, which the next call may have again."""
    seen[id(argument.value)] = argument
    while len(seen) > _DONATED_KEPT:
        seen.popitem(last=False)


def joined(given: list[Argument], names: tuple[str, ...]) -> Structure:
    """The structure of `(args, kwargs)`."""
    parts = [argument.structure for argument in given]
    count = len(parts) - len(names)
    return ("tuple", ("tuple", *parts[:count]), ("dict", names, *parts[count:]))
