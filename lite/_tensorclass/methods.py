"""How a tensorclass has what a TensorDict has: its class methods and operators, in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lite._tensordict import TensorDict
from lite._tree.protocol import Container


class TensorClassMeta(type):
    """Gives tensorclasses the class methods of TensorDict (`stack`, `cat`, `from_dict`, ...)."""

    def __getattr__(cls, name: str) -> Any:
        method = None if name.startswith("_") else getattr(TensorDict, name, None)
        if not inspect.ismethod(method):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return cls.from_tensordict(result) if isinstance(result, Container) else result

        return call


def _delegate(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._call(name, args, kwargs)

    method.__name__ = name
    return method


def delegate_operators(cls: type) -> None:
    """Python looks operators up on the class, past `__getattr__`: give the class TensorDict's own."""
    own = set(cls.__dict__) | {"__class_getitem__", "__init_subclass__", "__slots__", "__weakref__"}
    for base in TensorDict.__mro__[:-1]:
        for name, value in base.__dict__.items():
            if name.startswith("__") and name not in own and inspect.isfunction(value):
                own.add(name)
                setattr(cls, name, _delegate(name))
