"""Methods that a class body lists and another file implements: lazy ones, and types of generated ones.

The module of a lazy method is imported when one of its methods is first used, so that `import lite` is short.
With `text = LazyModule("lite._show.text")`, a class lists `__repr__ = text.repr` like any other method.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar, overload

T = TypeVar("T")


class LazyModule:
    """A module whose functions are `LazyMethod`s until it has been imported.

    Args:
        name: the full name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if self._name in sys.modules:
            found = self.__dict__[name] = getattr(sys.modules[self._name], name)
            return found
        return LazyMethod(lambda: getattr(import_module(self._name), name))


class LazyMethod:
    """An attribute of a class that replaces itself by the real one on its first access.

    Args:
        make: returns the real attribute: a function, classmethod, staticmethod or property.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = owner, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        made = self.make()
        setattr(*self._place, made)
        return made.__get__(instance, owner)  # not by name, which is an override's where that calls super()

    def __call__(self, *args: Any) -> Any:
        """The result, where the body of a method calls a function of a `LazyModule`."""
        return self.make()(*args)


def set_lazily(cls: type, name: str, make: Callable[[], Any]) -> None:
    """Set an attribute of a class to a `LazyMethod`."""
    method = LazyMethod(make)
    method.__set_name__(cls, name)
    setattr(cls, name, method)


def resolved(member: Any) -> Any:
    """A value of the `__dict__` of a class as it is after its first access."""
    return member.make() if isinstance(member, LazyMethod) else member


def make_lazy(cls: type) -> None:
    """Make the class and static methods over `LazyMethod`s in a class lazy as well."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, classmethod | staticmethod) and isinstance(member.__func__, LazyMethod):
            set_lazily(cls, name, _wrapped(type(member), member.__func__))


def _wrapped(kind: Callable[..., Any], function: LazyMethod) -> Callable[[], Any]:
    return lambda: kind(function.make())


# -- methods made from tables ------------------------------------------------------------------------


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
