"""Rules of functions that join arrays, and that take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.vmap.along import further
from lite._transforms.vmap.level import Level
from lite._transforms.vmap.rules import rule


def _items(arrays: Any) -> list[Any]:
    return [a if hasattr(a, "ndim") else np.asarray(a) for a in arrays]


@rule(np.concatenate, np.concat)
def _concatenate(level: Level, arrays: Any, axis: int | None = 0, **kwargs: Any) -> Any:
    items = _items(arrays)
    if axis is None:
        items, axis = [np.ravel(a) for a in items], 0
    return level.wrap(np.concatenate([level.full(a) for a in items], further(axis, items[0].ndim), **kwargs))


@rule(np.stack)
def _stack(level: Level, arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    items = _items(arrays)
    return level.wrap(np.stack([level.full(a) for a in items], further(axis, items[0].ndim + 1), **kwargs))


@rule(np.array_split)
def _array_split(level: Level, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return level.wrap_all(np.array_split(ary.value, indices_or_sections, further(axis, ary.ndim)))


@rule(np.split)
def _split(level: Level, ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return level.wrap_all(np.split(ary.value, indices_or_sections, further(axis, ary.ndim)))


@rule(np.unstack)
def _unstack(level: Level, x: Any, /, *, axis: int = 0) -> Any:
    return level.wrap_all(np.unstack(np.moveaxis(x.value, further(axis, x.ndim), 1), axis=1))
