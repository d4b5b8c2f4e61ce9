"""TensorDict's methods, operators, properties and class methods as attributes of tensorclasses.

They are on the class, so that Python finds operators there, and methods of subclasses find them by `super()`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType
from typing import Any

from lite._tensordict import TensorDict
from lite._tree.methods import LazyMethod, resolved, set_lazily
from lite._tree.protocol import Container

_OWN = frozenset({"__class_getitem__", "__init_subclass__", "__getstate__", "__setstate__"})


def delegate(cls: type) -> None:
    """Add what TensorDict has and a class lacks; methods go through its `_call` to the TensorDict."""
    for base in TensorDict.__mro__[:-1]:
        for name, value in base.__dict__.items():
            special = name.startswith("__") and name not in _OWN
            if name in cls.__dict__ or not (special or not name.startswith("_")):
                continue
            if isinstance(value, LazyMethod | FunctionType):  # 500 forms, of which programs use few
                set_lazily(cls, name, partial(_delegated, name, value))
            elif not special and isinstance(value, property | classmethod):
                setattr(cls, name, _delegated(name, value))


def _delegated(name: str, value: object) -> Any:
    member: Any = resolved(value)
    if isinstance(member, property):
        return _property(name, member)
    return (_class_method if isinstance(member, classmethod) else _method)(name, member)


def _method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def method(self: Any, *args: object, **kwargs: object) -> Any:
        return self._call(name, args, kwargs)

    return method


def _property(name: str, original: property) -> property:
    def read(self: Any) -> Any:
        value = getattr(self._tensordict, name)
        return self._rewrapped(value, set()) if isinstance(value, Container) else value

    def write(self: Any, value: object) -> None:
        setattr(self._tensordict, name, value)

    return property(read, None if original.fset is None else write, doc=original.__doc__)


def _class_method(name: str, original: classmethod[Any, ..., Any]) -> Any:
    @wraps(original.__func__)
    def method(cls: Any, *args: Any, **kwargs: Any) -> Any:
        result = getattr(TensorDict, name)(*args, **kwargs)
        return cls.from_tensordict(result) if isinstance(result, Container) else result

    return classmethod(method)
