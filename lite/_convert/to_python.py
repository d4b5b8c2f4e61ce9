"""TensorDicts as dicts, lists, structured arrays, named tuples and plain copies."""

from __future__ import annotations

from collections import namedtuple
from operator import methodcaller
from typing import Any

import numpy as np
from numpy import ndarray

from lite._arrays.device import on_leaves
from lite._arrays.types import Array, HostArray, Unbatched, has_namespace, host_array, is_array, raw, stored
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import Container, class_registry, plain_arrays
from lite._tree.walks import require_shared

_copy = methodcaller("copy")


def to_dict(
    td: Container,
    *,
    retain_none: bool = True,
    convert_tensors: bool | str = False,
    tolist_first: bool = False,
) -> Any:
    """A nested dict; arrays are the same objects, non-tensor data is unwrapped.

    Args:
        retain_none: keep entries whose object is None.
        convert_tensors: True turns arrays into Python numbers and lists, "numpy" Parameters and arrays of JAX
            into those of NumPy.
        tolist_first: turn nested TensorDicts that have a batch size into lists of dicts.

    Raises:
        RuntimeError: a lazy stack whose parts have different keys; "numpy" of results of gradients.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2], "n": {"s": "x"}}).to_dict(convert_tensors=True)
        {'a': [1, 2], 'n': {'s': 'x'}}
    """
    if convert_tensors is not True and not tolist_first:
        tree = _tree(td)
        if tree is not None:
            return tree
    require_shared(td, "to_dict")
    if tolist_first and td.batch_size:
        return td.tolist(convert_tensors=convert_tensors, tolist_first=True)
    return _as_dict(td, retain_none, convert_tensors, tolist_first)


def _as_dict(
    td: Container, retain_none: bool, convert_tensors: bool | str, tolist_first: bool
) -> dict[str, Any]:
    checked = td._parts() is not None and not tolist_first  # for different keys, at every depth
    out: dict[str, Any] = {}
    for key, entry in td._items():
        if is_array(entry):
            if convert_tensors is True:
                entry = np.asarray(stored(entry)).tolist()
            elif convert_tensors == "numpy":
                entry = _numpy(raw(entry))
            out[key] = entry
        elif isinstance(entry, NonTensorBase):
            value = entry._export()
            if retain_none or value is not None:
                out[key] = value
        elif checked and isinstance(entry, Container):
            out[key] = _as_dict(entry, retain_none, convert_tensors, tolist_first)
        else:
            out[key] = entry.to_dict(
                retain_none=retain_none, convert_tensors=convert_tensors, tolist_first=tolist_first
            )
    return out


def _numpy(array: Any) -> Any:
    if isinstance(array, HostArray):
        return array.numpy()
    return np.asarray(array) if has_namespace(array) else array


def _export(td: Container) -> Any:
    return td.to_dict()


def numpy(td: Container) -> dict[str, Any]:
    """A nested dict of NumPy arrays and objects that shares memory; None objects are left out.

    Raises:
        RuntimeError: results of gradients; td.detach() has their values.
    """
    return td.to_dict(retain_none=False, convert_tensors="numpy")


def tolist(
    td: Container,
    *,
    convert_nodes: bool = True,
    convert_tensors: bool | str = False,
    tolist_first: bool = False,
    as_linked_list: bool = False,
) -> Any:
    """Nested lists over the batch, with one dict per element.

    Args:
        convert_nodes: turn each element into a dict (else leave it a TensorDict).
        convert_tensors: see `to_dict`; only with `convert_nodes=True`.
        tolist_first: see `to_dict`.
        as_linked_list: accepted for compatibility; the dicts are copies either way.

    Raises:
        TypeError: `convert_tensors` with `convert_nodes=False`, which leaves no dict to convert arrays in.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2]}, batch_size=[2]).tolist(convert_tensors=True)
        [{'a': 1}, {'a': 2}]
    """
    if convert_tensors and not convert_nodes:
        raise TypeError(f"convert_tensors={convert_tensors!r} needs convert_nodes=True, got False.")
    if not td.batch_size:
        if not convert_nodes:
            return td
        return td.to_dict(convert_tensors=convert_tensors, tolist_first=tolist_first)
    if len(td.batch_size) == 1 and convert_nodes and convert_tensors is not True and plain_arrays(td):
        return td._rows(0)
    return [
        row.tolist(convert_nodes=convert_nodes, convert_tensors=convert_tensors, tolist_first=tolist_first)
        for row in td.unbind(0)
    ]


def to_tensordict(td: Container, *, retain_none: bool | None = None) -> Any:
    """A deep copy made of plain, unlocked TensorDicts; lazy stacks become dense.

    Args:
        retain_none: False leaves out entries whose object is None.

    Raises:
        RuntimeError: a lazy stack with arrays of different shapes.
    """
    out = class_registry.dense._make({}, td.batch_size, td.device, td._names)
    for key, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            out._put(key, node.to_tensordict(retain_none=retain_none))
        elif retain_none is not False or not (isinstance(entry, NonTensorData) and entry.data is None):
            out._put(
                key, entry._clone(True) if isinstance(entry, TensorCollection) else on_leaves(_copy, entry)
            )
    return out


def to_struct_array(td: Container) -> Array:
    """A structured array of the batch's shape; feature dimensions become subarray fields.

    Strings become fields of fixed width, other objects have no field type and raise TypeError.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": [1, 2], "b": np.zeros((2, 3))}, batch_size=[2]).to_struct_array().dtype
        dtype([('a', '<i8'), ('b', '<f8', (3,))])
    """
    require_shared(td, "to_struct_array")
    columns = {key: _column(td, key, entry) for key, entry in td._items()}
    ndim = td.ndim
    dtype = np.dtype([(key, column.dtype, column.shape[ndim:]) for key, column in columns.items()])
    out: Array = np.empty(td.batch_size, dtype)
    for key, column in columns.items():
        out[key] = column
    return out


def to_namedtuple(td: Container, dest_cls: type[Any] | None = None) -> Any:
    """A (nested) named tuple of the entries.

    Args:
        dest_cls: named tuple class to fill by keyword (a new `GenericDict` unless given).
    """
    require_shared(td, "to_namedtuple")
    values = {key: entry if is_array(entry) else _tuple_value(td, entry) for key, entry in td._items()}
    cls = namedtuple("GenericDict", list(values)) if dest_cls is None else dest_cls
    return cls(**values)


def _tuple_value(td: Container, entry: Any) -> object:
    node = td._as_node(entry)
    return entry._export() if node is None else node.to_namedtuple()


def _column(td: Container, key: str, entry: Any) -> Array:
    if is_array(entry):
        if isinstance(entry, Unbatched):
            raise ValueError(f"an UnbatchedTensor has no rows, but {key!r} is one: td.exclude({key!r}).")
        return host_array(entry, key)
    node = td._as_node(entry)
    if node is not None:
        return node.to_struct_array()
    objects = entry._objects()
    if not all(isinstance(item, str) for item in objects.flat):
        raise TypeError(f"the objects at key {key!r} have no field type; only strings can be fields.")
    width = max([10, *(len(item) for item in objects.flat)])
    return objects.astype(f"U{width}")


def _tree(td: Container) -> dict[str, Any] | None:
    """Nested dicts of arrays; None if td has entries of another kind."""
    if td._parts() is not None:
        return None
    flat: dict[str, Any] | None = plain_arrays(td)
    if flat is not None:
        return flat.copy()
    out: dict[str, Any] = td._data.copy()
    for key, entry in out.items():
        if type(entry) is not ndarray:
            nested = _tree(entry) if type(entry) is type(td) else None
            if nested is None:
                return None
            out[key] = nested
    return out
