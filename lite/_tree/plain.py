"""From containers of any kind to plain dicts, of which TensorDicts are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorStack


def plain(obj: Any) -> Any:
    """Containers as plain dicts and `NonTensorStack`s; anything else as it is."""
    kind = type(obj)
    if kind is np.ndarray and obj.dtype.names is None:
        return obj
    if kind is dict:
        return {key: plain(value) for key, value in obj.items()}
    if isinstance(obj, TensorCollection):
        return obj
    if isinstance(obj, Mapping):
        return {key: plain(value) for key, value in obj.items()}
    if is_namedtuple(obj):
        return {name: plain(value) for name, value in zip(obj._fields, obj, strict=True)}
    if isinstance(obj, tuple):
        return {str(i): plain(value) for i, value in enumerate(obj)}
    if is_dataclass(obj):
        return {field.name: plain(getattr(obj, field.name)) for field in dataclasses.fields(obj)}
    if isinstance(obj, np.ndarray | np.void) and obj.dtype.names is not None:
        return {name: _column(np.asarray(obj)[name]) for name in obj.dtype.names}
    if isinstance(obj, list):
        return _list(obj)
    return obj


def _column(field: Array) -> Any:
    """A field of a structured array; a single text or object is taken out of its 0-d array."""
    if field.dtype.names is not None:
        return plain(field)
    return field.item() if not field.ndim and field.dtype.kind in "USOV" else field


def _list(items: list[Any]) -> Any:
    from lite._tree.values import numeric_array

    flat: list[Any] = items
    while flat and all(isinstance(item, list) for item in flat):
        flat = [leaf for row in flat for leaf in row]
    kinds = {type(item) for item in flat}
    array = numeric_array(items) if len(kinds) < 2 else None
    if array is not None or any(isinstance(item, np.ndarray | TensorCollection) for item in items):
        return items if array is None else array
    return NonTensorStack.from_list(items)


def is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_fields")


def is_dataclass(obj: Any) -> bool:
    return dataclasses.is_dataclass(obj) and not isinstance(obj, type)
