"""`to_torch` and `from_torch`: conversions that share memory; torch is only imported by `to_torch`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from lite._arrays.foreign import from_dlpack, is_tensor
from lite._arrays.types import Array, Device, HostArray, Size, has_namespace, host_array, is_array, raw
from lite._tree.collection import TensorCollection
from lite._tree.nontensor import MetaData, NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import Container, class_registry
from lite._tree.unbatched import UnbatchedTensor


def from_torch(
    cls: type[Any],
    obj: Any,
    *,
    batch_size: Size = None,
    auto_batch_size: bool | None = None,
    device: Device = None,
    batch_dims: int | None = None,
    names: Any = None,
) -> Any:
    """A TensorDict over the memory of torch tensors; writes to one show in the other.

    Takes a TensorDict of torch's tensordict (also lazy stacks, tensorclasses and non-tensor data;
    batch size, device, names and lock state are kept) or a nested mapping of tensors, for which the
    other arguments are those of `from_dict`. Gradients are left behind. torch is not imported.

    Raises:
        TypeError: `obj` is neither, or a tensor has no plain memory; the key is named.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict.from_torch({"a": np.zeros(3), "n": {"b": 1}}, auto_batch_size=True).batch_size
        ()
    """

    if isinstance(obj, Mapping) and not hasattr(obj, "batch_size"):
        return class_registry.dense.from_dict(
            _mapping(obj, ()),
            batch_size=batch_size,
            auto_batch_size=auto_batch_size,
            device=device,
            batch_dims=batch_dims,
            names=names,
        )
    if not hasattr(obj, "batch_size"):
        raise TypeError(f"from_torch expects a tensordict or a mapping of tensors, got {type(obj).__name__}.")
    return _read(obj, ())


def to_torch(td: Container, *, as_dict: bool = False, copy: bool | None = None) -> Any:
    """A torch `TensorDict` over the same memory, or nested dicts of torch tensors.

    Non-tensor data, batch size, names, device and lock state are kept; lazy stacks stay lazy;
    tensorclasses become plain TensorDicts. Arrays on a GPU stay there.

    Args:
        as_dict: return nested dicts of tensors and objects, for which tensordict is not needed.
        copy: None copies only what torch cannot share safely: read-only arrays (torch would write
            to them), negative strides and foreign byte orders. False shares read-only arrays too
            and raises for the others. True copies everything.

    Raises:
        ImportError: torch, or tensordict, is not installed.
        ValueError: `copy=False` and an array cannot be shared.
        TypeError: torch has no such dtype.
        RuntimeError: `as_dict=True` on a lazy stack with ragged entries.
    """
    torch = _imported("torch")
    if as_dict:
        return _as_dict(torch, td, copy)
    return _as_tensordict(torch, _imported("tensordict"), td, copy)


def _imported(name: str) -> ModuleType:
    found = sys.modules.get(name)
    if found is not None:
        return found
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"to_torch needs {name}: pip install {name}") from error


# -- from torch -------------------------------------------------------------------------------------


def _read(obj: Any, path: tuple[str, ...]) -> Any:
    """Convert an object of torch's tensordict, recognised by its attributes."""

    if isinstance(obj, TensorCollection):
        return obj
    size = tuple(obj.batch_size)
    if getattr(obj, "_is_non_tensor", False):
        return _objects(obj, size)
    inner = getattr(obj, "_tensordict", None)
    if hasattr(inner, "batch_size"):  # a tensorclass; a TensorDict's own is a dict
        out = _read(inner, path)
        for key, value in getattr(obj, "_non_tensordict", {}).items():
            if value is not None:
                out._put(key, out._convert(_value(value, (*path, key))))
        return out
    if hasattr(obj, "tensordicts") and hasattr(obj, "stack_dim"):
        parts = [_read(part, path) for part in obj.tensordicts]
        if all(isinstance(part, NonTensorBase) for part in parts):
            return _objects(obj, size)
        out = class_registry.lazy(*parts, stack_dim=obj.stack_dim)
    else:
        names = list(obj.names) if any(name is not None for name in obj.names) else None
        out = class_registry.dense({}, size, None if obj.device is None else str(obj.device), names)
        for key in obj.keys():  # noqa: SIM118  iterating a tensordict gives rows, not keys
            out._put(key, out._convert(_value(obj.get(key), (*path, key))))
    if obj.is_locked:
        out.lock_()
    return out


def _value(value: Any, path: tuple[str, ...]) -> Any:
    if is_tensor(value):
        try:
            if getattr(value, "_pass_through", False):  # unbatched
                return UnbatchedTensor(from_dlpack(value._base_tensor()), value.batch_size)
            return from_dlpack(value)
        except TypeError as error:
            raise TypeError(f"key {path}: {error}") from error
    if hasattr(value, "batch_size"):
        return _read(value, path)
    return _mapping(value, path) if isinstance(value, Mapping) else value


def _mapping(obj: Mapping[Any, Any], path: tuple[str, ...]) -> dict[Any, Any]:
    return {key: _value(value, (*path, key)) for key, value in obj.items()}


def _objects(obj: Any, size: tuple[int, ...]) -> NonTensorBase:
    items = obj.tolist() if hasattr(obj, "tensordicts") else None
    if items is None:
        kind = MetaData if "MetaData" in [base.__name__ for base in type(obj).__mro__] else NonTensorData
        return kind(obj.data, size)
    if any(n < 0 for n in size):
        return NonTensorStack.from_list(items)
    array = np.empty(size, dtype=object)
    for at in np.ndindex(size):
        item = items
        for i in at:
            item = item[i]
        array[at] = item
    return NonTensorStack._wrap(array)


# -- to torch ---------------------------------------------------------------------------------------


def _as_dict(torch: ModuleType, td: Container, copy: bool | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, entry in td._items():
        if is_array(entry):
            out[key] = to_tensor(torch, entry, copy, key)
        elif isinstance(entry, NonTensorBase):
            out[key] = entry._export()
        else:
            out[key] = _as_dict(torch, td._as_node(entry), copy)
    return out


def _as_tensordict(torch: ModuleType, tensordict: ModuleType, td: Container, copy: bool | None) -> Any:
    stacked = td._parts()
    if stacked is not None:
        parts = [_as_tensordict(torch, tensordict, part, copy) for part in stacked[0]]
        out = tensordict.LazyStackedTensorDict(*parts, stack_dim=stacked[1])
    else:
        values = {}
        for key, entry in td._items():
            if isinstance(entry, UnbatchedTensor):
                values[key] = tensordict.UnbatchedTensor(to_tensor(torch, np.asarray(entry), copy, key))
            elif is_array(entry):
                values[key] = to_tensor(torch, entry, copy, key)
            elif isinstance(entry, NonTensorData):
                kind = tensordict.MetaData if isinstance(entry, MetaData) else tensordict.NonTensorData
                values[key] = kind(entry.data, batch_size=entry.batch_size)
            elif isinstance(entry, NonTensorBase):
                values[key] = _as_stack(tensordict, entry._objects())
            else:
                values[key] = _as_tensordict(torch, tensordict, td._as_node(entry), copy)
        out = tensordict.TensorDict(values, batch_size=td.batch_size, device=td.device)
        if td._names is not None:
            out.names = td.names
    return out.lock_() if td.is_locked else out


def _as_stack(tensordict: ModuleType, objects: Array) -> Any:
    """One `NonTensorData` per object, stacked dimension by dimension, so that lists stay objects."""
    if not objects.ndim:
        return tensordict.NonTensorData(objects[()])
    return tensordict.NonTensorStack(*[_as_stack(tensordict, objects[i, ...]) for i in range(len(objects))])


def to_tensor(torch: ModuleType, leaf: Any, copy: bool | None, key: str) -> Any:
    """A torch tensor over a leaf's memory; see `to_torch` for `copy`."""
    leaf = raw(leaf)
    if isinstance(leaf, HostArray) or has_namespace(leaf):
        leaf = host_array(leaf, key)
    if not isinstance(leaf, np.ndarray):
        tensor = torch.as_tensor(leaf, device="cuda")
        return tensor.clone() if copy else tensor
    reason = _unshared(leaf)
    if copy is False and reason is not None:
        raise ValueError(f"key {key!r}: torch cannot share an array with {reason}; copy=None copies it.")
    if copy or reason is not None or (copy is None and not leaf.flags.writeable):
        leaf = np.array(leaf, dtype=leaf.dtype.newbyteorder("="), order="C")
    if leaf.dtype.isbuiltin != 2:  # 0 after a change of byte order
        return _shared(torch, leaf, key)
    name = leaf.dtype.name
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise TypeError(f"key {key!r}: torch has no dtype {name}.")
    return _shared(torch, leaf.view(f"u{leaf.dtype.itemsize}"), key).view(dtype)


def _unshared(leaf: Array) -> str | None:
    """Why torch cannot describe the array, or None."""
    if any(stride < 0 for stride in leaf.strides):
        return "negative strides"
    if any(stride % leaf.itemsize for stride in leaf.strides):
        return "strides that are not a multiple of the item size"
    return None if leaf.dtype.isnative else "a foreign byte order"


def _shared(torch: ModuleType, leaf: Array, key: str) -> Any:
    try:
        # DLPack says that an array is read-only, where torch.from_numpy warns.
        return torch.from_numpy(leaf) if leaf.flags.writeable else torch.from_dlpack(leaf)
    except (TypeError, BufferError) as error:
        raise TypeError(f"key {key!r}: torch has no dtype {leaf.dtype}.") from error
