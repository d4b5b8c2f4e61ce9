"""Public classes say that they live where users find them, whatever file defines them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from types import FunctionType
from typing import Any


def publish(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make a package the module of those of its names that are classes, and of the methods in their bodies.

    Pickles find a class by its module, so that they do not depend on the file that defines it; tracebacks and
    `help` show the name that users import. Annotations are evaluated before, since `typing.get_type_hints`
    looks their names up in the module that a class says.

    Args:
        namespace: `globals()` of the package.
        names: public names; what is no class is left alone.
    """
    package = namespace["__name__"]
    for name in names:
        cls = namespace.get(name)
        if not isinstance(cls, type):
            continue
        if "__annotations__" in vars(cls):
            with suppress(NameError):  # names that only type checkers see
                cls.__annotations__ = inspect.get_annotations(cls, eval_str=True)
        for member in list(vars(cls).values()):
            method = getattr(member, "__func__", member)
            own = f"{cls.__qualname__}.{getattr(method, '__name__', '')}"
            if isinstance(method, FunctionType) and (method.__module__, method.__qualname__) == (
                cls.__module__,
                own,
            ):
                method.__module__ = package
        cls.__module__ = package
