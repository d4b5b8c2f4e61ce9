"""The table of batching rules, and the loop for functions that have none."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy as np

from lite._transforms.vmap.level import Level

Rule = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[Any, Rule] = {}
_warned: set[Any] = set()


class NoRule(Exception):
    """Raised by a rule for arguments that it does not cover."""


def rule(*functions: Any) -> Callable[[F], F]:
    """Register `fn(level, *args, **kwargs)`, which gets what the function was called with."""

    def register(fn: F) -> F:
        for function in functions:
            RULES[function] = fn
        return fn

    return register


def composed(*functions: Any) -> Callable[[F], F]:
    """Register `fn(*args, **kwargs)`, which is written with other functions that have rules."""

    def register(fn: F) -> F:
        for function in functions:
            RULES[function] = lambda level, *args, **kwargs: fn(*args, **kwargs)
        return fn

    return register


def rules_of(*functions: Any) -> Callable[[F], F]:
    """Register what `make(function)` gives, for each function."""

    def register(make: F) -> F:
        for function in functions:
            RULES[function] = make(function)
        return make

    return register


@cache
def parameters(function: Any) -> tuple[str, ...]:
    """Names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


@cache
def default(function: Any, name: str) -> Any:
    """The default of a parameter; None if it has none."""
    found = inspect.signature(function).parameters.get(name)
    return None if found is None or found.default is inspect.Parameter.empty else found.default


def name_of(function: Any) -> str:
    """The name of a NumPy function or ufunc, with that of its module."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', repr(function))}"


def loop(level: Level, function: Any, args: Any, kwargs: Any, name: str | None = None) -> Any:
    """Call a function for each element along the mapped dimension and stack the results.

    Raises:
        ValueError: the results of the elements have different shapes, or there is no element.
    """
    label = name or name_of(function)
    if label not in _warned:
        _warned.add(label)
        warnings.warn(
            f"vmap has no batching rule for this call of {label}: it runs once for each element along the "
            "mapped dimension.",
            UserWarning,
            stacklevel=4,
        )
    results = [function(*level.part(args, i), **level.part(kwargs, i)) for i in range(level.size)]
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
