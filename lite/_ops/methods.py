"""Types of methods that are generated from tables, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

T = TypeVar("T")


class SelfMethod(Protocol):
    """A method without arguments that returns the type it is called on."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: T, owner: type[Any] | None = None) -> Callable[[], T]: ...


class ArgsMethod(Protocol):
    """A method with arguments that returns the type it is called on."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: T, owner: type[Any] | None = None) -> Callable[..., T]: ...


class AnyMethod(Protocol):
    """A method whose result depends on its argument."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Callable[..., Any]: ...


def described(fn: Callable[..., Any], name: str, doc: str) -> Any:
    """Set the name and docstring of a generated method."""
    fn.__name__ = name
    fn.__qualname__ = f"TensorDictBase.{name}"
    fn.__doc__ = doc
    return fn
