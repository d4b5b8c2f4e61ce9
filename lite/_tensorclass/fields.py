"""The fields of a tensorclass and their options: how a value becomes an entry, and an entry a value."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.numbers import SCALARS
from lite._arrays.types import Shape
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack, unwrap
from lite._tree.protocol import MISSING, Container


class Options(NamedTuple):
    """What `TensorClass["nocast"]`, `TensorClass["frozen"]` ... and `@tensorclass(nocast=True)` set.

    Attributes:
        autocast: convert values to the annotated type; numbers and text stay Python objects.
        nocast: store numbers as objects instead of as arrays.
        frozen: fields cannot be assigned, and instances are locked.
        shadow: let fields hide methods of TensorDict of the same name.
        tensor_only: accepted for compatibility.
    """

    autocast: bool = False
    nocast: bool = False
    frozen: bool = False
    shadow: bool = False
    tensor_only: bool = False

    def extended(self, flags: Mapping[str, bool]) -> Options:
        """With some options changed.

        Raises:
            TypeError: an unknown option, or two that exclude each other.
        """
        unknown = sorted(set(flags) - set(self._fields))
        if unknown:
            raise TypeError(f"unknown tensorclass options {unknown}; there are {list(self._fields)}.")
        out = self._replace(**flags)
        exclusive = [name for name in ("autocast", "nocast", "tensor_only") if getattr(out, name)]
        if len(exclusive) > 1:
            raise TypeError(f"the tensorclass options {' and '.join(exclusive)} are exclusive.")
        return out


_NO_OPTIONS = Options()


class Field:
    """The class attribute behind a field: reads and writes the entry of the instance's TensorDict."""

    __slots__ = ("convert", "default", "factory", "flag", "mapping", "name")

    def __init__(self, field: dataclasses.Field[Any], kind: Any, options: Options = _NO_OPTIONS) -> None:
        self.convert = _converter(options, kind)
        self.name = field.name
        self.default = MISSING if field.default is dataclasses.MISSING else field.default
        self.factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        self.flag = type(field.default) is bool or _is_kind(kind, bool)
        self.mapping = _is_kind(kind, dict)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is not None:
            return self.read(instance._tensordict._get_str(self.name))
        if self.default is MISSING:
            raise AttributeError(f"the field {self.name!r} of {owner.__name__} has no default.")
        return self.default

    def __set__(self, instance: Any, value: Any) -> None:
        instance._set_field(self, value)

    def __delete__(self, instance: Any) -> None:
        instance._set_field(self, None)

    def initial(self, owner: type) -> Any:
        """The value of an instance that is given none; TypeError if the field has no default."""
        if self.factory is not None:
            return self.factory()
        if self.default is MISSING:
            raise TypeError(f"{owner.__name__} is missing a value for its field {self.name!r}.")
        return self.default

    def read(self, entry: Any) -> Any:
        """The value a user sees for an entry."""
        if not isinstance(entry, NonTensorBase):
            return entry
        if self.flag and isinstance(entry, NonTensorStack):
            values = list(_flat(entry._array.tolist()))
            if values and all(value is values[0] for value in values):
                return values[0]
        return unwrap(entry)

    def entry(self, value: Any, batch_size: Shape) -> Any:
        """What is stored for a value: flags, declared mappings and empty lists are objects."""
        if self.convert is not None:
            value = self.convert(value, batch_size)
        if (self.flag and type(value) is bool) or (self.mapping and isinstance(value, dict)):
            return NonTensorData._make(value, batch_size)
        if type(value) is list and not value:
            return NonTensorStack._wrap(np.empty((0,), dtype=object))
        return value


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _converter(options: Options, annotation: Any) -> Callable[[Any, Shape], Any] | None:
    """What a field's values go through before they are stored, or None."""
    if options.nocast:
        return _keep_number
    if options.autocast:
        kind = _only_type(annotation)
        return None if kind is None else lambda value, size: _cast(value, size, kind)
    return None


def _keep_number(value: Any, batch_size: Shape) -> Any:
    return NonTensorData._make(value, batch_size) if isinstance(value, SCALARS) else value


def _only_type(annotation: Any) -> type | None:
    """The one class that an annotation names, `| None` aside."""
    options = [a for a in typing.get_args(annotation) if a is not type(None)]
    if typing.get_origin(annotation) is not None:
        return options[0] if len(options) == 1 and isinstance(options[0], type) else None
    is_class = isinstance(annotation, type) and annotation not in (object, Any)
    return annotation if is_class else None


def _cast(value: Any, batch_size: Shape, kind: type) -> Any:
    if isinstance(value, kind):
        if issubclass(kind, TensorCollection) or kind is np.ndarray:
            return value
        return NonTensorData._make(value, batch_size)
    made: Any = kind
    if hasattr(kind, "from_tensordict") and Container._as_node(value) is not None:
        return made.from_tensordict(value)
    if issubclass(kind, NonTensorData):
        return made(value)  # TypeError for an object that is not of the type of `MetaData[type]`
    if issubclass(kind, TensorCollection):
        return made(**value, batch_size=batch_size) if isinstance(value, Mapping) else value
    try:
        if kind is np.ndarray:
            return np.asarray(value)
        return NonTensorData._make(made(value), batch_size)
    except (TypeError, ValueError) as error:
        found = type(value).__name__
        raise TypeError(f"cannot convert a {found} to the annotated {kind.__name__}.") from error


def annotations_of(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError):  # names that only type checkers see
        return {}


def _is_kind(annotation: Any, kind: type) -> bool:
    """Whether an annotation is `kind`, possibly parametrised, possibly `| None`."""
    if isinstance(annotation, str):
        text = annotation.replace(" ", "").removeprefix("Optional[").removesuffix("|None")
        return text.split("[")[0].rstrip("]") == kind.__name__
    options = [a for a in typing.get_args(annotation) if a is not type(None)]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return len(options) == 1 and _is_kind(options[0], kind)
    return annotation is kind or typing.get_origin(annotation) is kind


def signature_of(cls: Any) -> inspect.Signature:
    """What `help` and editors show of the constructor."""
    empty = inspect.Parameter.empty
    given = []
    for field in dataclasses.fields(cls):
        factory = "<factory>" if field.default_factory is not dataclasses.MISSING else empty
        default = factory if field.default is dataclasses.MISSING else field.default
        kind = inspect.Parameter.KEYWORD_ONLY
        given.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    ordered = not any(a.default is not empty and b.default is empty for a, b in pairwise(given))
    if ordered:
        given = [p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in given]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("batch_size", "device", "names")
    ]
    return inspect.Signature([*given, *options])
