"""`@tensorclass` and `from_dataclass`: make a class with annotated fields, or a dataclass, a tensorclass."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from lite._convert.from_python import tensorclass_of
from lite._tensorclass.tensorclass import TensorClass
from lite._tree.nontensor import NonTensorData
from lite._tree.values import is_dataclass, plain

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
    skip_post_init_on_rebuild: bool = False,
    cast_filter: Callable[..., bool] | None = None,
    kw_only: bool = False,
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
    skip_post_init_on_rebuild: bool = False,
    cast_filter: Callable[..., bool] | None = None,
    kw_only: bool = False,
) -> Any:
    """Make a class with annotated fields a tensorclass; see `TensorClass`.

    Deriving from `TensorClass` does the same and lets type checkers see TensorDict's methods.

    Args:
        cls: the class; without it (`@tensorclass(frozen=True)`) a decorator is returned.
        autocast: convert values to the annotated type, unless that is a union; numbers and text stay Python
            objects.
        frozen: fields cannot be assigned, and instances are locked.
        nocast: store numbers as objects instead of as arrays.
        shadow: let fields hide methods of TensorDict of the same name.
        tensor_only: every field is annotated as an array or a TensorDict.
        skip_post_init_on_rebuild: accepted for compatibility; `__post_init__` runs only when the class is
            called.
        cast_filter: which fields casts of an instance change, unless the call says it; see `TensorDict.to`.
        kw_only: fields are given by name only.

    Raises:
        TypeError: two options that exclude each other, or `tensor_only` and a field of another type.
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
    options = _options(
        autocast=autocast,
        frozen=frozen,
        nocast=nocast,
        shadow=shadow,
        tensor_only=tensor_only,
        cast_filter=cast_filter,
        kw_only=kw_only,
    )
    if cls is None:
        return partial(_decorated, options=options)
    return _decorated(cls, options)


def _options(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value}


def _decorated(cls: type[T], options: dict[str, Any]) -> type[T]:
    if issubclass(cls, TensorClass) and not options:
        return cls
    bases = (cls,) if issubclass(cls, TensorClass) else (cls, TensorClass)
    # The given class stays a base, so that super() works in its methods and instances are of it, too.
    annotations = inspect.get_annotations(cls)
    namespace = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__annotations__": annotations,
        **{name: cls.__dict__[name] for name in (*annotations, "__orig_bases__") if name in cls.__dict__},
    }
    if dataclasses.is_dataclass(cls) and not issubclass(cls, TensorClass):
        namespace |= _undone(cls)
    return types.new_class(cls.__name__, bases, options, lambda ns: ns.update(namespace))


def _undone(cls: Any) -> dict[str, Any]:
    """What a class that is a dataclass already lacks: fields as they were written, TensorClass's methods."""
    fields = {
        field.name: dataclasses.field(default_factory=field.default_factory)
        for field in dataclasses.fields(cls)
        if field.default_factory is not dataclasses.MISSING
    }
    made = ("__init__", "__repr__", "__eq__", "__hash__")
    return fields | {name: getattr(TensorClass, name) for name in made if name in cls.__dict__}


def from_dataclass(
    obj: object,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: object = None,
    frozen: bool = False,
    autocast: bool = False,
    nocast: bool = False,
    inplace: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
    device: str | None = None,
) -> Any:
    """Make a dataclass a tensorclass, or an instance of a dataclass an instance of a tensorclass.

    `TensorDict.from_dataclass` gives a TensorDict.

    Args:
        obj: a dataclass, or an instance of one. Arrays are not copied.
        dest_cls: the tensorclass to make an instance of; without it, one with the fields of the dataclass.
        auto_batch_size: give the instance the longest batch size that fits.
        batch_dims: at most that many dims of it.
        batch_size: batch size of the instance.
        frozen, autocast, nocast, shadow, tensor_only: options of the class, see `tensorclass`.
        inplace: keep the name and the methods of a dataclass, as `@tensorclass` does.
        device: device of the instance.

    Raises:
        TypeError: neither a dataclass nor an instance of one, or conflicting options or batch sizes.

    Example:
        >>> from dataclasses import dataclass
        >>> from lite import from_dataclass
        >>> @dataclass
        ... class Step:
        ...     reward: float
        ...     text: str = "ok"
        >>> from_dataclass(Step([1.0, 2.0]), batch_size=[2]).reward
        array([1., 2.], dtype=float32)
        >>> from_dataclass(Step, autocast=True)(reward=3).reward
        3.0
    """
    if not dataclasses.is_dataclass(obj):
        raise TypeError(f"from_dataclass expects a dataclass or an instance of one, got a {type(obj)}.")
    options = _options(
        autocast=autocast, frozen=frozen, nocast=nocast, shadow=shadow, tensor_only=tensor_only
    )
    if isinstance(obj, type):
        if issubclass(obj, TensorClass):
            return obj
        return _decorated(obj, options) if inplace else tensorclass_of(obj, frozenset(options))
    if auto_batch_size and batch_size is not None:
        raise TypeError(
            "Conflicting batch sizes in from_dataclass: batch_size and auto_batch_size cannot be both "
            "specified."
        )
    cls = tensorclass_of(type(obj), frozenset(options)) if dest_cls is None else dest_cls
    values = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    values = {name: plain(value) if is_dataclass(value) else value for name, value in values.items()}
    out = cls(**values, batch_size=batch_size, device=device)
    if auto_batch_size:
        out.auto_batch_size_(batch_dims)
    return out


def is_tensorclass(obj: object) -> bool:
    """Tell whether an object, or a type, is a tensorclass; so is `NonTensorData`.

    Example:
        >>> from lite import TensorClass, TensorDict, is_tensorclass
        >>> class Point(TensorClass):
        ...     x: float
        >>> is_tensorclass(Point), is_tensorclass(Point(x=1.0)), is_tensorclass(TensorDict())
        (True, True, False)
    """
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, TensorClass | NonTensorData)
