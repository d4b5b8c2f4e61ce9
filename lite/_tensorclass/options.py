"""The options of a tensorclass: how values are converted, and whether fields can be set."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.numbers import SCALARS
from lite._arrays.types import Shape
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorData
from lite._tree.protocol import Container


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


def converter(options: Options, annotation: Any) -> Callable[[Any, Shape], Any] | None:
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
    if issubclass(kind, TensorCollection):
        return made(**value, batch_size=batch_size) if isinstance(value, Mapping) else value
    try:
        if kind is np.ndarray:
            return np.asarray(value)
        return NonTensorData._make(made(value), batch_size)
    except (TypeError, ValueError) as error:
        found = type(value).__name__
        raise TypeError(f"cannot convert a {found} to the annotated {kind.__name__}.") from error
