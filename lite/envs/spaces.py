"""Spaces of gymnasium as specs, their values as arrays by key, and how specs encode them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Path
from lite.specs.arrays import ArraySpec, Bounded, Unbounded
from lite.specs.classes import Binary, Categorical, OneHot
from lite.specs.composite import Composite
from lite.specs.multi_categorical import MultiCategorical, MultiOneHot

FLAGS = ("done", "terminated", "truncated")


@dataclass(frozen=True)
class Leaf:
    """One array of a space's values.

    Attributes:
        path: its key.
        steps: what to index a value with, one after the other, to get it.
        spec: that of one environment's array as an entry.
        shape: that of one environment's array in the space: of a number, where the entry has a dimension.
        space: the space of the array.
    """

    path: Path
    steps: tuple[str | int, ...]
    spec: ArraySpec
    shape: tuple[int, ...]
    space: Any


class Layout:
    """Where the arrays of a space's values are: dicts and tuples on one side, keys on the other.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of such.
        name: the key; members of a Dict have their own names below it, those of a Tuple "0", "1", ...
        root: members of a Dict stand at the root instead.

    Raises:
        TypeError: the space is another one.
    """

    def __init__(self, space: Any, name: str, *, root: bool = False) -> None:
        from gymnasium import spaces

        self.space = space
        self.nested = isinstance(space, (spaces.Dict, spaces.Tuple))
        path = () if root and isinstance(space, spaces.Dict) else (name,)
        self.leaves: list[Any] = list(_leaves(space, path, ()))

    def encoded(self, encodings: Iterable[Encoding]) -> Layout:
        """The layout of entries: its leaves are the encodings of the leaves of this one."""
        twin = copy.copy(self)
        twin.leaves = list(encodings)
        return twin

    def arrays(self, value: Any) -> list[Any]:
        """The arrays of a value, in the order of `leaves`."""
        if not self.nested:
            return [value]
        found = []
        for leaf in self.leaves:
            part = value
            for step in leaf.steps:
                part = part[step]
            found.append(part)
        return found

    def value(self, arrays: list[Any]) -> Any:
        """The value that has these arrays."""
        if not self.nested:
            return arrays[0]
        return _built(self.space, iter(arrays))

    def spec(self, batch: tuple[int, ...]) -> Composite:
        """The specs of the entries of a batch."""
        return specs_of_batch(((leaf.path, leaf.spec) for leaf in self.leaves), batch)


def specs_of_batch(specs: Iterable[tuple[Any, ArraySpec]], batch: tuple[int, ...]) -> Composite:
    """The specs of a batch, of those of one row by key."""
    return Composite({key: spec.expand(*batch, *spec.shape) for key, spec in specs}, shape=batch)


def flags_of_batch(batch: tuple[int, ...]) -> Composite:
    """The specs of done entries of a batch."""
    return Composite({name: Categorical(2, (*batch, 1), dtype=np.bool_) for name in FLAGS}, shape=batch)


def _leaves(space: Any, path: Path, steps: tuple[str | int, ...]) -> Iterator[Leaf]:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _leaves(part, (*path, key), (*steps, key))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space):
            yield from _leaves(part, (*path, str(i)), (*steps, i))
    else:
        yield Leaf(path, steps, _array_spec(space), tuple(space.shape or ()), space)


def _array_spec(space: Any) -> ArraySpec:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        low, n = int(space.start), int(space.n)
        if low:
            return Bounded(low, low + n - 1, (), dtype=space.dtype)
        return Categorical(n, (), dtype=space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Binary(shape=space.shape, dtype=space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return Bounded(space.start, space.start + space.nvec - 1, space.shape, dtype=space.dtype)
    if isinstance(space, spaces.Box):
        # A number has a dimension, so that networks can take it.
        shape = space.shape or (1,)
        if _is_unbounded(space):
            return Unbounded(shape, dtype=space.dtype)
        return Bounded(space.low.reshape(shape), space.high.reshape(shape), shape, dtype=space.dtype)
    raise TypeError(
        "spaces must be Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them, "
        f"got {type(space).__name__}."
    )


def _is_unbounded(space: Any) -> bool:
    """Whether a Box has no bounds but infinity, or those of its dtype."""
    if not (np.isfinite(space.low).any() or np.isfinite(space.high).any()):
        return True
    if space.dtype.kind == "b":
        return False
    limits: Any = (np.finfo if space.dtype.kind == "f" else np.iinfo)(space.dtype)
    return bool((space.low == limits.min).all() and (space.high == limits.max).all())


def _built(space: Any, arrays: Iterator[NDArray[Any]]) -> Any:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: _built(part, arrays) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_built(part, arrays) for part in space)
    return next(arrays)


class Encoding:
    """The values of one leaf of a space as entries.

    Attributes:
        key, path: the key of the entry, and as a tuple.
        steps: as of the leaf.
        spec: spec of one environment's entry.
        plain: whether entries are the values, in their dtype.

    Args:
        leaf: the leaf.
        key: the key.
        categorical: give classes as they are; False gives one-hot vectors, int64.
    """

    def __init__(self, leaf: Leaf, key: tuple[str, ...], categorical: bool) -> None:
        from gymnasium import spaces

        self.path, self.key, self.steps = key, key[0] if len(key) == 1 else key, leaf.steps
        self.spec: ArraySpec = leaf.spec
        self.plain = True
        self._start: Any = None  # of the classes, where that is not 0
        space = leaf.space
        if isinstance(space, spaces.Discrete):
            self._start = int(space.start) or None
            if not categorical:
                self.plain = False
                self.spec = OneHot(int(space.n), dtype=np.int64)
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            self._start = space.start if space.start.any() else None
            several = len(set(space.nvec.tolist())) > 1
            if not categorical:
                self.plain = False
                n, count = int(space.nvec[0]), len(space.nvec)
                one_n = OneHot(n, (count, n), dtype=np.int64)
                self.spec = MultiOneHot(space.nvec.tolist(), dtype=np.int64) if several else one_n
            elif not space.start.any():
                dtype = space.dtype
                self.spec = (
                    MultiCategorical(space.nvec, dtype=dtype)
                    if several
                    else Categorical(int(space.nvec[0]), space.shape, dtype=dtype)
                )

    def entry(self, value: Any) -> NDArray[Any]:
        """A copy of the values of the space, with batch dimensions in front, as an entry."""
        if self.plain:
            return np.array(value, self.spec.dtype)
        return self.spec.encode(value if self._start is None else value - self._start)

    def value(self, entry: Any) -> Any:
        """The values of the space that an entry says."""
        if self.plain:
            return entry
        classes = self.spec.to_numpy(entry)
        return classes if self._start is None else classes + self._start
