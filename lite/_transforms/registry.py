"""The rules of one interpreter: what it does in place of each NumPy function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

Rule = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class NoRule(Exception):
    """Raised by a rule for arguments that it does not cover."""


class Registry:
    """Rules by the function that they stand for, called as `rules[function](context, *args, **kwargs)`.

    The context is what an interpreter gives its rules to work with, such as the level of a map.
    """

    def __init__(self) -> None:
        self.rules: dict[Any, Rule] = {}

    def rule(self, *functions: Any) -> Callable[[F], F]:
        """Register `fn(context, *args, **kwargs)`, which gets what the function was called with."""

        def register(fn: F) -> F:
            self.rules.update(dict.fromkeys(functions, fn))
            return fn

        return register

    def composed(self, *functions: Any) -> Callable[[F], F]:
        """Register `fn(*args, **kwargs)`, which is written with other functions that have rules."""

        def register(fn: F) -> F:
            self.rules.update(dict.fromkeys(functions, lambda context, *args, **kwargs: fn(*args, **kwargs)))
            return fn

        return register

    def rules_of(self, *functions: Any) -> Callable[[F], F]:
        """Register what `make(function)` gives, for each function."""

        def register(make: F) -> F:
            self.rules.update({function: make(function) for function in functions})
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
