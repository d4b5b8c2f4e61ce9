"""`@tensorclass`: make a class with annotated fields a tensorclass."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from lite._tensorclass.tensorclass import TensorClass

T = TypeVar("T")


@overload
def tensorclass(cls: type[T], /) -> type[T]: ...
@overload
def tensorclass(
    cls: None = None,
    /,
    *,
    autocast: bool = False,
    frozen: bool = False,
    nocast: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
) -> Callable[[type[T]], type[T]]: ...


def tensorclass(
    cls: type[T] | None = None,
    /,
    *,
    autocast: bool = False,
    frozen: bool = False,
    nocast: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
) -> Any:
    """Make a class with annotated fields a tensorclass; see `TensorClass`.

    Deriving from `TensorClass` does the same and lets type checkers see TensorDict's methods.

    Args:
        cls: the class; without it (`@tensorclass(frozen=True)`) a decorator is returned.
        autocast: convert values to the annotated type; numbers and text stay Python objects.
        frozen: fields cannot be assigned, and instances are locked.
        nocast: store numbers as objects instead of as arrays.
        shadow: let fields hide methods of TensorDict of the same name.
        tensor_only: accepted for compatibility.

    Raises:
        TypeError: two options that exclude each other.
        AttributeError: a field has the name of a method of TensorDict, and `shadow` is False.

    Example:
        >>> import numpy as np
        >>> from lite import tensorclass
        >>> @tensorclass
        ... class Step:
        ...     obs: np.ndarray
        ...     info: str | None = None
        >>> Step(obs=np.zeros((4, 2)), batch_size=[4])[:2].obs.shape
        (2, 2)
    """
    given = {
        "autocast": autocast,
        "frozen": frozen,
        "nocast": nocast,
        "shadow": shadow,
        "tensor_only": tensor_only,
    }
    options: dict[str, bool] = {name: value for name, value in given.items() if value}
    if cls is None:
        return partial(_decorated, options=options)
    return _decorated(cls, options)


def _decorated(cls: type[T], options: dict[str, bool]) -> type[T]:
    if issubclass(cls, TensorClass) and not options:
        return cls
    bases = (cls,) if issubclass(cls, TensorClass) else (cls, TensorClass)
    # The given class stays a base, so that super() works in its methods.
    annotations = inspect.get_annotations(cls)
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": annotations,
        **{name: cls.__dict__[name] for name in annotations if name in cls.__dict__},
    }
    out: Any = types.new_class(cls.__name__, bases, options, lambda ns: ns.update(namespace))
    return out


def is_tensorclass(obj: Any) -> bool:
    """Tell whether an object, or a type, is a tensorclass.

    Example:
        >>> from lite import TensorClass, TensorDict, is_tensorclass
        >>> class Point(TensorClass):
        ...     x: float
        >>> is_tensorclass(Point), is_tensorclass(Point(x=1.0)), is_tensorclass(TensorDict())
        (True, True, False)
    """
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, TensorClass)
