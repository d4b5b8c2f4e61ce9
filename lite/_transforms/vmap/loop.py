"""The fallback of `vmap` for functions without a batching rule: a loop over the mapped dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.caller import warn
from lite._arrays.types import Function
from lite._transforms.registry import name_of
from lite._transforms.vmap.level import Level

_warned: set[Any] = set()


def loop(level: Level, function: Function, args: Any, kwargs: Any, name: str | None = None) -> Any:
    """Call a function for each element along the mapped dimension and stack the results.

    Raises:
        ValueError: the results of the elements have different shapes, or there is no element.
    """
    label = name or name_of(function)
    if label not in _warned:
        _warned.add(label)
        warn(
            f"vmap has no batching rule for this call of {label}: it runs once for each element along the "
            "mapped dimension.",
            UserWarning,
        )
    results = [function(*level.part(args, i), **level.part(kwargs, i)) for i in level.places()]
    if not results:
        raise ValueError(f"vmap cannot run {label} over a mapped dimension of size 0.")
    return _stacked(level, results, label)


def _stacked(level: Level, results: list[Any], label: str) -> Any:
    first = results[0]
    if first is None:
        return None
    if isinstance(first, list | tuple):
        if len({len(result) for result in results}) > 1:
            raise ValueError(f"{label} gives different numbers of arrays for the elements of a mapped array.")
        items = [_stacked(level, list(column), label) for column in zip(*results, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    shapes = {np.shape(result) for result in results}
    if len(shapes) > 1:
        raise ValueError(
            f"{label} gives arrays of different shapes for the elements of a mapped array: {sorted(shapes)}."
        )
    return level.wrap(np.stack(results))
