"""The fields of a tensorclass and their options: how a value becomes an entry, and an entry a value."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.dtypes import is_numeric
from lite._arrays.foreign import is_foreign, is_tensor
from lite._arrays.numbers import SCALARS
from lite._arrays.settings import list_to_stack
from lite._arrays.types import Shape, is_array
from lite._ops.cast import require_filter
from lite._tensorclass.annotations import UNKNOWN, alternatives, annotation_of, is_array_type, is_kind
from lite._tree.collection import TensorCollection
from lite._tree.entry_errors import entry_error, error_path
from lite._tree.nontensor import MetaData, NonTensorBase, NonTensorData, NonTensorStack, unwrap
from lite._tree.protocol import MISSING, Container


class Options(NamedTuple):
    """The options that `TensorClass["nocast"]`, `TensorClass["frozen"]` and `@tensorclass(nocast=True)` set.

    Attributes:
        autocast: convert values to the annotated type, unless that is a union; numbers and text stay Python
            objects.
        nocast: store numbers as objects instead of as arrays.
        frozen: fields cannot be assigned, and instances are locked.
        shadow: let fields hide methods of TensorDict of the same name.
        tensor_only: every field is annotated as an array or a TensorDict, and values become one or the
            other where they can.
        skip_post_init_on_rebuild: without effect, as `__post_init__` runs only when the class is called.
        cast_filter: the `cast_filter` of casts that are called without one; see `TensorDict.to`.
    """

    autocast: bool = False
    nocast: bool = False
    frozen: bool = False
    shadow: bool = False
    tensor_only: bool = False
    skip_post_init_on_rebuild: bool = False
    cast_filter: Callable[..., bool] | None = None

    def extended(self, flags: Mapping[str, Any]) -> Options:
        """With some options changed.

        Raises:
            TypeError: an unknown option, or two that exclude each other.
        """
        unknown = [flag for flag in flags if flag not in self._fields]
        if unknown:
            raise TypeError(f"unknown tensorclass options {unknown}; there are {list(self._fields)}.")
        out = self._replace(**flags)
        exclusive = [name for name in ("autocast", "nocast", "tensor_only") if getattr(out, name)]
        if len(exclusive) > 1:
            raise TypeError(f"the tensorclass options {' and '.join(exclusive)} are exclusive.")
        if out.cast_filter is not None:
            require_filter(out.cast_filter)
        return out


_NO_OPTIONS = Options()


class Field:
    """The class attribute behind a field: reads and writes the entry of the instance's TensorDict."""

    __slots__ = ("default", "factory", "flag", "kind", "kw_only", "name", "one_flag", "options", "owner")

    def __init__(self, field: dataclasses.Field[Any], owner: type, options: Options = _NO_OPTIONS) -> None:
        self.name = field.name
        self.kw_only = field.kw_only
        self.owner = owner
        self.options = options
        self.kind = UNKNOWN
        self.default = MISSING if field.default is dataclasses.MISSING else field.default
        self.factory = None if field.default_factory is dataclasses.MISSING else field.default_factory
        # Declared as bool, equal flags of a batch read as one; any other field has a list of them.
        self.one_flag = not options.tensor_only and is_kind(field.type, bool)
        self.flag = self.one_flag or (not options.tensor_only and type(field.default) is bool)
        if options.tensor_only:
            self._require_arrays()

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None:
            entry = instance._tensordict._get_entry(self.name)
            if entry is None and owner._deletes and self.name in instance._was_deleted():
                raise AttributeError(self.name)
            return self.read(entry)
        if self.default is MISSING:
            raise AttributeError(f"the field {self.name!r} of {owner.__name__} has no default.")
        return self.default

    def __set__(self, instance: Any, value: Any) -> None:
        instance._set_field(self, value)

    def __delete__(self, instance: Any) -> None:
        if instance._tensordict._peek_entry(self.name) is None:
            raise AttributeError(f"the field {self.name!r} has no value that could be deleted.")
        instance._tensordict.del_(self.name)
        type(instance)._deletes = True
        object.__setattr__(instance, "_deleted", {*instance._was_deleted(), self.name})

    def initial(self, owner: type) -> Any:
        """The value of an instance that is given none; TypeError if the field has no default."""
        if self.factory is not None:
            return self.factory()
        if self.default is MISSING:
            raise TypeError(f"{owner.__name__} is missing a value for its field {self.name!r}.")
        return self.default

    def read(self, entry: object) -> Any:
        """The value a user sees for an entry."""
        if not isinstance(entry, NonTensorBase):
            return entry
        if self.one_flag and isinstance(entry, NonTensorStack):
            values = list(_flat(entry._array.tolist()))
            if values and all(value is values[0] for value in values):
                return values[0]
        return unwrap(entry)

    def entry(self, value: object, batch_size: Shape) -> Any:
        """The entry for a value: flags, mappings, tuples and empty lists are objects."""
        options = self.options
        if options.autocast:
            with error_path(self.name):
                return self._cast(value, batch_size)
        if type(value) is np.ndarray:
            return value
        if options.tensor_only:
            kind = self._annotated()
            objects = isinstance(kind, type) and issubclass(kind, NonTensorBase)
            return _as_collection(value, kind, batch_size) if objects else value
        if (
            isinstance(value, tuple)
            or (isinstance(value, Mapping) and not isinstance(value, TensorCollection))
            or (self.flag and type(value) is bool)
            or (options.nocast and isinstance(value, SCALARS))
        ):
            return NonTensorData._make(value, batch_size)
        if type(value) is list and not list_to_stack():
            return NonTensorData._make(value, batch_size)
        if type(value) is list and not value:
            return NonTensorStack._wrap(np.empty((0,), dtype=object))
        return value

    def _annotated(self) -> Any:
        """The annotated type, which may not be known when the class is defined."""
        if self.kind is UNKNOWN:
            self.kind = annotation_of(self.owner, self.name)
        return self.kind

    def _require_arrays(self) -> None:
        kind = self._annotated()
        if kind is not UNKNOWN and not all(map(_is_tensor_type, alternatives(kind))):
            raise TypeError(
                f"tensor_only requires fields to be annotated as arrays, TensorDicts or None, got {kind} for "
                f"{self.name!r} of {self.owner.__name__}."
            )

    def _cast(self, value: object, batch_size: Shape) -> Any:
        """A value as what the field is annotated with; unions and the like accept what there is."""
        kind = self._annotated()
        if not isinstance(kind, type) or kind in (object, Any):
            kind = None
        collection = kind is not None and issubclass(kind, TensorCollection)
        if isinstance(value, Mapping) and not isinstance(value, TensorCollection):
            if not collection:
                return NonTensorData._make(value, batch_size)
            if issubclass(kind, NonTensorBase):
                return _as_collection(value, kind, batch_size)
            from_mapping = getattr(kind, "_from_mapping", None)
            return value if from_mapping is None else from_mapping(value, batch_size)
        if kind is None:
            kept = isinstance(value, (TensorCollection, *SCALARS)) or _is_any_array(value)
            return value if kept else NonTensorData._make(value, batch_size)
        if collection:
            return _as_collection(value, kind, batch_size)
        if is_array_type(kind):
            return _as_array(value, kind)
        return _as_object(value, kind, batch_size)


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _is_any_array(value: object) -> bool:
    return is_array(value) or is_tensor(value) or is_foreign(value)


def _is_tensor_type(annotation: object) -> bool:
    return is_array_type(annotation) or (
        isinstance(annotation, type) and issubclass(annotation, TensorCollection)
    )


def _as_collection(value: Any, kind: Any, batch_size: Shape) -> Any:
    if issubclass(kind, MetaData) and not isinstance(value, kind):
        return kind(value)  # TypeError for an object that is not of the type of `MetaData[type]`
    if issubclass(kind, NonTensorBase):
        return value if isinstance(value, NonTensorBase) else NonTensorData._make(value, batch_size)
    if Container._as_node(value) is None:
        raise _not_cast(ValueError, value, kind)
    convert = None if isinstance(value, kind) else getattr(kind, "from_tensordict", None)
    return value if convert is None else convert(value)


def _as_array(value: object, kind: type) -> Any:
    if _is_any_array(value) or isinstance(value, SCALARS):
        return value
    if not isinstance(value, list | tuple):
        raise _not_cast(TypeError, value, kind)
    try:
        numeric = is_numeric(np.asarray(value).dtype)
    except ValueError:  # ragged
        numeric = False
    if not numeric:
        raise _not_cast(ValueError, value, kind)
    return value


def _as_object(value: Any, kind: Any, batch_size: Shape) -> Any:
    if isinstance(value, NonTensorData):
        value = value.data
    if not isinstance(value, kind) or (type(value) is bool and kind is not bool):
        try:
            value = kind(value)
        except ValueError as error:
            raise _not_cast(ValueError, value, kind) from error
        except TypeError as error:
            raise _not_cast(TypeError, value, kind) from error
    return NonTensorData._make(value, batch_size)


def _not_cast(error: type[Exception], value: object, kind: type) -> Exception:
    return entry_error(
        error, f"cannot convert a {type(value).__name__} to the annotated {kind.__name__}{{at}}."
    )


def signature_of(cls: Any) -> inspect.Signature:
    """The signature of the constructor, for `help` and editors."""
    empty = inspect.Parameter.empty
    placed: list[inspect.Parameter] = []
    named: list[inspect.Parameter] = []
    for field in dataclasses.fields(cls):
        factory = "<factory>" if field.default_factory is not dataclasses.MISSING else empty
        default = factory if field.default is dataclasses.MISSING else field.default
        kind = inspect.Parameter.KEYWORD_ONLY
        given = named if field.kw_only else placed
        given.append(inspect.Parameter(field.name, kind, default=default, annotation=field.type))
    if not any(a.default is not empty and b.default is empty for a, b in pairwise(placed)):
        placed = [p.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in placed]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("batch_size", "device", "names")
    ]
    return inspect.Signature([*placed, *named, *options])
