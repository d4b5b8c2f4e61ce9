"""Conversion of stored values to entries: arrays or collections."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from lite._arrays.device import on_leaves, unwrap
from lite._arrays.dtypes import NUMBERS, get_default_dtype, is_numeric
from lite._arrays.foreign import from_dlpack, is_foreign, is_tensor
from lite._arrays.numbers import SCALARS
from lite._arrays.settings import list_to_stack
from lite._arrays.types import (
    Array,
    Path,
    Shape,
    Unbatched,
    has_namespace,
    is_array,
    refuse_masked,
    without_number,
)
from lite._tree.collection import Entry, TensorCollection
from lite._tree.duck_typed_columns import duck_typed_column
from lite._tree.entry_errors import shape_error
from lite._tree.keys import to_path
from lite._tree.nontensor import NonTensorData, NonTensorStack
from lite._tree.protocol import class_registry


def invalid_keys(entries: dict[Any, Any], batch_size: Shape, device: str | None) -> list[str] | None:
    """Keys of entries that must be converted before they are stored; None if a key is not a string.

    A valid leaf is a NumPy array of numbers whose leading dimensions are the batch size. Nearly all entries
    are, so the test is a copy of `is_valid_leaf` in one loop over plain attributes. Numbers of rarer dtypes,
    such as bfloat16, are among the keys, too; their conversion keeps them as they are.

    Args:
        entries: the user's keys and values.
        batch_size: batch size of the container.
        device: device of the container.
    """
    if device is not None and device != "cpu":
        return list(entries) if all(type(key) is str for key in entries) else None
    ndim = len(batch_size)
    rows = batch_size[0] if ndim == 1 else -1
    found: list[str] = []
    for key, value in entries.items():
        if type(key) is not str:
            return None
        if (
            type(value) is not ndarray
            or value.dtype not in NUMBERS
            # len() costs a quarter of .shape, which creates a tuple.
            or (
                ndim
                and (not value.ndim or len(value) != rows if ndim == 1 else value.shape[:ndim] != batch_size)
            )
        ):
            found.append(key)
    return found


def as_tree(entries: dict[Any, Any]) -> dict[str, Any] | None:
    """Nested dicts of entries under flat and nested keys; None if two keys collide or one is not a key."""
    out: dict[str, Any] = {}
    nodes: dict[Path, dict[str, Any]] = {(): out}
    for key, value in entries.items():
        node: Any = out
        last = key
        if type(key) is not str:
            path = to_path(key)
            if not path:
                return None
            above, last = path[:-1], path[-1]
            node = nodes.get(above)
            if node is None:
                node = out
                for depth, name in enumerate(above, 1):
                    child = nodes.get(path[:depth])
                    if child is None:
                        if name in node:
                            return None
                        child = node[name] = nodes[path[:depth]] = {}
                    node = child
        if last in node:
            return None
        node[last] = value
    return out


def is_valid_leaf(value: object, batch_size: Shape, device: str | None) -> bool:
    """Whether a value can be stored without conversion; see `invalid_keys`."""
    return (
        type(value) is ndarray
        and (
            not (ndim := len(batch_size))
            or (
                value.ndim > 0 and len(value) == batch_size[0]
                if ndim == 1
                else value.shape[:ndim] == batch_size
            )
        )
        and value.dtype in NUMBERS
        and (device is None or device == "cpu")
    )


def to_entry(
    value: Any, batch_size: Shape, make_node: Callable[[Mapping[Any, Any]], TensorCollection]
) -> Any:
    """Convert `value` to an array leaf or a collection; shapes are checked by the caller.

    Args:
        value: anything. Arrays and collections are kept as they are (no copy).
        batch_size: batch size that a wrapped Python object gets.
        make_node: builds the nested TensorDict of a mapping.
    """
    kind = type(value)
    if kind is dict:
        return make_node(value)
    if kind is str:
        return NonTensorData._make(value, batch_size)
    if isinstance(value, np.ndarray):
        return _from_array(value, batch_size, make_node)
    if isinstance(value, TensorCollection):
        return value
    if isinstance(value, SCALARS):
        return _from_scalar(value, batch_size)
    if isinstance(value, Mapping):
        return make_node(value)
    if isinstance(value, list):
        return _from_list(value, batch_size)
    if isinstance(value, tuple):
        array = numeric_array(value)
        return NonTensorData._make(value, batch_size) if array is None else array
    if isinstance(value, str | bytes) or value is None:
        return NonTensorData._make(value, batch_size)
    if is_tensor(value):
        return from_dlpack(value)
    column = duck_typed_column(value)
    if column is not None:
        return to_entry(column, batch_size, make_node)
    if is_foreign(value) and not is_array(value):
        return from_dlpack(value)
    if is_array(value):
        return without_number(unwrap(value))
    if callable(getattr(value, "numpy", None)):
        return np.asarray(value.numpy())
    return NonTensorData._make(value, batch_size)


def _from_array(
    value: Array, batch_size: Shape, make_node: Callable[[Mapping[Any, Any]], TensorCollection]
) -> Any:
    if type(value) is not ndarray:
        refuse_masked(value)
        # np.matrix, as from todense() of a sparse array: indexing it would give matrices
        if isinstance(value, np.matrix):
            value = np.asarray(value)
        elif type(value).__name__ == "chararray":  # as texts of FITS files, whose elements end at blanks
            value = np.strings.rstrip(np.asarray(value))
    if is_numeric(value.dtype):
        return value
    if value.dtype.names is not None:
        return make_node({name: value[name] for name in value.dtype.names})
    if value.ndim and value.shape[: len(batch_size)] == batch_size:
        objects = value.astype(object)
        if value.dtype.kind in "mM" and any(isinstance(item, int) for item in objects.flat):
            # Dates and times that Python's classes cannot hold, such as nanoseconds, stay NumPy scalars.
            objects = np.empty(value.shape, object)
            objects.reshape(-1)[:] = list(value.flat)
        return NonTensorStack._wrap(objects)
    return NonTensorData._make(value, batch_size)


def _from_scalar(value: object, batch_size: Shape) -> Any:
    if type(value) is float:
        return np.asarray(value, dtype=get_default_dtype())
    array = np.asarray(value)
    return array if is_numeric(array.dtype) else NonTensorData._make(value, batch_size)


def _from_list(value: list[Any], batch_size: Shape) -> Any:
    """A list as an entry: an array, a stack of TensorDicts, or non-tensor data.

    Raises:
        ValueError: arrays of different shapes, or nested numbers that are not rectangular.
    """
    if not list_to_stack():
        array = np.asarray(value)
        return array if is_numeric(array.dtype) else NonTensorData._make(array, batch_size)
    if not value:
        return np.zeros((0,), dtype=get_default_dtype())
    if any(isinstance(item, TensorCollection) and not item._is_non_tensor for item in value):
        return class_registry.dense.maybe_dense_stack(value)
    if all(isinstance(item, np.ndarray) and is_numeric(item.dtype) for item in value):
        for item in value:
            if type(item) is not ndarray:
                refuse_masked(item)
        shapes = {item.shape for item in value}
        if len(shapes) == 1:
            return np.stack(value)
        raise ValueError(
            f"a list of arrays must have equal shapes to become one entry, got {sorted(shapes)}; "
            "ragged rows belong in a LazyStackedTensorDict (lite.lazy_stack)."
        )
    numbers = numeric_array(value)
    if numbers is not None:
        return numbers
    if type(value[0]) is not str and any(map(has_namespace, value)):
        return _joined(value)
    if _number_types(value) is not None and not all(isinstance(item, SCALARS) for item in value):
        raise ValueError(
            "a nested list of numbers must be rectangular, and fit an array, to become one entry; "
            "ragged rows belong in a LazyStackedTensorDict (lite.lazy_stack)."
        )
    return NonTensorStack.from_list(value)


def _joined(value: list[Any]) -> Any:
    """A JAX array stacked from a list with JAX arrays; otherwise one object per item."""
    if not all(is_array(item) or isinstance(item, SCALARS) for item in value):
        return NonTensorStack.from_list(value)
    shapes = {np.shape(item) for item in value}
    if len(shapes) > 1:
        raise ValueError(f"a list of arrays needs equal shapes to become one entry, got {sorted(shapes)}.")
    return on_leaves(lambda *items: np.stack(items), *value)


def numeric_array(value: object) -> Array | None:
    """The array of rectangular nested lists of numbers, Python floats in the default dtype; else None."""
    kinds = _number_types(value)
    if kinds is None:
        return None
    try:
        array = np.asarray(value)
        if array.dtype.kind == "f" and kinds and kinds <= {int, bool}:  # beyond int64
            array = np.asarray(value, np.uint64)
    except (ValueError, OverflowError):
        return None
    if array.dtype.kind not in "biufc":
        return None
    keep = any(issubclass(kind, np.generic) for kind in kinds)
    return array.astype(get_default_dtype()) if array.dtype.kind == "f" and not keep else array


def _number_types(value: Any) -> set[type] | None:
    """The scalar types in nested lists and tuples; None if any item is not a number."""
    kinds: set[type] = set()
    stack = [value]
    while stack:
        for item in stack.pop():
            if isinstance(item, list | tuple):
                stack.append(item)
            elif isinstance(item, np.ndarray) and is_numeric(item.dtype):
                if type(item) is not ndarray:
                    refuse_masked(item)
                kinds.add(item.dtype.type)
            elif isinstance(item, bool | int | float | complex | np.number | np.bool_):
                kinds.add(type(item))
            else:
                return None
    return kinds


def fit_leaf(value: Any, batch_size: Shape) -> None:
    """Raise the shape error unless the leading dimensions of a leaf are the batch size."""
    if value.shape[: len(batch_size)] != batch_size:
        raise shape_error(batch_size, value.shape)


def fit_node(value: Entry, batch_size: Shape) -> Entry:
    """The collection, or a shallow copy with `batch_size` if its own does not start with that."""
    own = value.batch_size
    if own[: len(batch_size)] == batch_size and (own == batch_size or not isinstance(value, Unbatched)):
        return value
    return value._rebatch(batch_size)


def plain(obj: Any) -> Any:
    """Convert other classes' containers to dicts and `NonTensorStack`s, and data frames to TensorDicts."""
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
        # A class's own fields, as FITS files scale theirs; those of one row may be no arrays.
        fields = np.asarray(obj) if isinstance(obj, np.void) else obj
        return {name: _column(fields[name]) for name in obj.dtype.names}
    if isinstance(obj, list):
        return _list(obj)
    if is_data_frame(obj):
        return class_registry.dense.from_pandas(obj)
    return obj


def _column(field: Array) -> Any:
    """A field of a structured array. A 0-d array of text or objects is unwrapped."""
    if field.dtype.names is not None:
        return plain(field)
    return field.item() if not field.ndim and field.dtype.kind in "USOV" else field


def _list(items: list[Any]) -> Any:
    flat: list[Any] = items
    while flat and all(isinstance(item, list) for item in flat):
        flat = [leaf for row in flat for leaf in row]
    kinds = {type(item) for item in flat}
    array = numeric_array(items) if len(kinds) < 2 else None
    if array is not None or any(isinstance(item, np.ndarray | TensorCollection) for item in items):
        return items if array is None else array
    return NonTensorStack.from_list(items)


def is_data_frame(obj: object) -> bool:
    """Whether a value is a pandas DataFrame. pandas is not imported, as an instance exists only if it was."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(obj, pandas.DataFrame)


def is_namedtuple(obj: object) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_fields")


def is_dataclass(obj: object) -> bool:
    return dataclasses.is_dataclass(obj) and not isinstance(obj, type)
