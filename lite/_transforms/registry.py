"""The registries of rules: the function that each interpreter calls in place of a NumPy function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial, update_wrapper, wraps
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from lite._arrays.types import Function

Rule = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])


class NoRule(Exception):
    """Raised by a rule for arguments that it does not cover."""


class Registry:
    """Rules of one interpreter by NumPy function.

    Args:
        has_context: whether rules are called as `rules[function](context, *args, **kwargs)`, where the
            context is an object of the interpreter, such as the level of a map.
    """

    def __init__(self, has_context: bool = True) -> None:
        self.rules: dict[Any, Rule] = {}
        self.has_context = has_context

    def rule(self, *functions: Any) -> Callable[[F], F]:
        """Register `fn(context, *args, **kwargs)`, with the arguments of the function."""

        def register(fn: F) -> F:
            self.rules.update(dict.fromkeys(functions, fn))
            return fn

        return register

    def composed(self, *functions: Any) -> Callable[[F], F]:
        """Register `fn(*args, **kwargs)`, which is written with other functions that have rules."""

        def register(fn: F) -> F:
            self.rules.update(dict.fromkeys(functions, self.without_context(fn)))
            return fn

        return register

    def rule_of_each(self, *functions: Any) -> Callable[[F], F]:
        """Register `fn(function, context, *args, **kwargs)`, one rule for several functions."""

        def register(fn: F) -> F:
            self.rules.update({f: update_wrapper(partial(fn, f), fn) for f in functions})
            return fn

        return register

    def without_context(self, fn: Rule) -> Rule:
        """A rule that calls `fn` with the arguments alone."""
        return wraps(fn)(lambda context, *args, **kwargs: fn(*args, **kwargs)) if self.has_context else fn


# `lite.grad` and its relatives call a rule with the function's arguments except `out`; `lite.vmap` with the
# `Level` of the map first; `Module.to_onnx` with the `Graph` that is written first.
GRAD, VMAP, ONNX = Registry(has_context=False), Registry(), Registry()

FORMULAS: dict[Any, Rule] = {}  # rules of all interpreters, by the function that they compute


def formula(*functions: Any) -> Callable[[F], F]:
    """Register `fn` as the formula of functions, written with other functions that have rules.

    It is for all interpreters; a rule of an interpreter's own for the same function comes first. It raises
    `NoRule` for arguments that it does not cover.
    """

    def register(fn: F) -> F:
        for function in functions:
            FORMULAS[function] = fn
            for registry in (GRAD, VMAP, ONNX):
                registry.rules.setdefault(function, registry.without_context(fn))
        return fn

    return register


# Functions whose derivative is zero where it exists: `grad` calls them with values.
ZERO_GRADIENT: set[Any] = set()


@cache
def parameters(function: Function) -> tuple[str, ...]:
    """Names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


@cache
def default(function: Function, name: str) -> Any:
    """The default of a parameter; None if it has none."""
    found = inspect.signature(function).parameters.get(name)
    return None if found is None or found.default is inspect.Parameter.empty else found.default


# NumPy's default of options that it passes on only if they are given.
NOT_GIVEN = default(np.sum, "keepdims")


@cache
def _after_out(function: Function) -> tuple[int, tuple[str, ...]]:
    """The position at which a function takes `out`, -1 if by name only, and the parameters after it."""
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # functions in C have signatures only from NumPy 2.4 on
        return (2 if function in (np.concatenate, np.dot) else -1), ()
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    at = names.index("out") if "out" in names else -1
    return at, tuple(names[at + 1 :])


def without_out(function: Function, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """(args, kwargs, out): the arguments of a call without `out`, which is given by name or position."""
    if "out" in kwargs:
        return args, {key: value for key, value in kwargs.items() if key != "out"}, kwargs["out"]
    if len(args) > 1:
        at, names = _after_out(function)
        if 0 <= at < len(args):
            return args[:at], {**kwargs, **dict(zip(names, args[at + 1 :], strict=False))}, args[at]
    return args, kwargs, None


def ndim_of(x: Any) -> int:
    """As `numpy.ndim`, which would ask an array of an interpreter through NumPy's protocol."""
    try:
        ndim: int = x.ndim
    except AttributeError:
        return np.ndim(x)
    return ndim


def as_array(x: object) -> Any:
    """An argument as an array; lists and Python's numbers are converted."""
    return x if hasattr(x, "dtype") else np.asarray(x)


def as_arrays(items: Any) -> list[Any]:
    """Each argument as an array."""
    return list(map(as_array, items))


def flattened(x: Any, axis: Any) -> tuple[Any, int]:
    """An array and an axis counted from the front; for None the flattened array and 0."""
    return (np.ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, ndim_of(x)))


def name_of(function: Function) -> str:
    """The name of a NumPy function or ufunc, with that of its module."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', repr(function))}"
