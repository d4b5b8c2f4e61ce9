"""Consolidation: all leaves in one buffer, or in one file that starts with that buffer.

The file is the buffer, a JSON description of the tree, and the description's length as a little-endian
int64. Each leaf takes a multiple of 8 bytes.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Any

import numpy as np

from lite._arrays.dtypes import dtype_name, dtype_of
from lite._arrays.types import Array, host_array, is_array
from lite._files import meta, payload
from lite._files.commit import new_file
from lite._files.mapping import bytes_in, bytes_of, open_regular
from lite._files.read import tensorclass_named
from lite._tree.names import check_names, set_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import class_registry

_RESERVED = frozenset({"cls", "leaves", "non_tensors", "cls_metadata", "size"})
_NESTED = ("<NJT>", "<NJT_VALUES>", "<NJT_LENGTHS>", "<NJT_OFFSETS>")  # keys of nested tensors
_TENSORCLASS = "tensorclass"
_LENGTH = struct.Struct("<q")
_MAX_DEPTH = 500


class _Layout:
    """The offsets of all leaves in the buffer."""

    def __init__(self) -> None:
        self.leaves: list[tuple[Array, int]] = []
        self.size = 0

    def node(self, entry: Any, key: str = "") -> meta.Json:
        """The description of a container."""
        if isinstance(entry, NonTensorStack):
            return self._objects(entry._objects(), key)
        if hasattr(entry, "_fields"):
            # tensordict neither writes nor reads these in nested containers.
            fields = self.node(entry._tensordict, key)
            fields["cls_metadata"][_TENSORCLASS] = str(type(entry))
            return fields
        stacked = entry._parts()
        out: meta.Json = {"cls": "TensorDict", "non_tensors": {}, "leaves": {}}
        if stacked is not None:
            out["cls"] = "LazyStackedTensorDict"
            out["cls_metadata"] = _stack_metadata(stacked[1], entry._dim_name, entry.is_locked)
            items = [(str(i), part) for i, part in enumerate(stacked[0])]
        else:
            out["cls_metadata"] = {
                "device": entry.device,
                "names": entry.names,
                "batch_size": list(entry.batch_size),
                "is_locked": entry.is_locked,
            }
            items = list(entry._items())
        for name, value in items:
            self._entry(out, name, value)
        return out

    def _entry(self, out: meta.Json, key: str, value: Any) -> None:
        if is_array(value):
            if key.startswith(_NESTED):
                raise ValueError(f"the key {key!r} means something else in a consolidated file.")
            out["leaves"][key] = self._leaf(host_array(value, key))
        elif isinstance(value, NonTensorData):
            out["non_tensors"][key] = [_json(value.data, key), list(value.batch_size), None]
        else:
            if key in _RESERVED:
                raise ValueError(f"a nested entry cannot be called {key!r} in a consolidated file.")
            out[key] = self.node(value, key)

    def _leaf(self, array: Array) -> list[Any]:
        start, pad = self.size, -array.nbytes % 8
        self.size += array.nbytes + pad
        self.leaves.append((array, start))
        return [dtype_name(array.dtype), list(array.shape), start, self.size, pad]

    def _objects(self, objects: Array, key: str) -> meta.Json:
        out: meta.Json = {"cls": "NonTensorStack", "non_tensors": {}, "leaves": {}}
        out["cls_metadata"] = _stack_metadata(0, None, False)
        for i, item in enumerate(objects):
            if objects.ndim > 1:
                out[str(i)] = self._objects(item, key)
            else:
                out["non_tensors"][str(i)] = [_json(item, key), [], None]
        return out


def _stack_metadata(dim: int, name: str | None, is_locked: bool) -> meta.Json:
    return {"stack_dim": dim, "stack_dim_name": name, "is_locked": is_locked}


def _json(value: Any, key: str) -> Any:
    try:
        return payload.to_json(value)[0]
    except (TypeError, RecursionError) as error:
        raise RuntimeError(
            f"Failed to convert the metadata to json: the object at key {key!r} is a {type(value).__name__}."
        ) from error


def consolidate(td: Any, filename: str | None) -> tuple[Array, list[Array]]:
    """Copy all leaves into one buffer; returns the buffer and, in order, views of it as the new leaves.

    Args:
        filename: file to write and map, None for memory.

    Raises:
        RuntimeError: an object that JSON has no form for.
        ValueError: a key or dtype that the format cannot hold.
    """
    layout = _Layout()
    # As in tensordict, a tensorclass at the top level is saved as its TensorDict.
    node = layout.node(getattr(td, "_tensordict", td))
    if filename is None:
        buffer: Array = np.zeros(layout.size, np.uint8)
        for array, start in layout.leaves:
            buffer[start : start + array.nbytes] = bytes_of(array)
    else:
        buffer = _write(filename, layout, node)
    return buffer, [_view(buffer, array, start) for array, start in layout.leaves]


def _write(filename: str, layout: _Layout, node: meta.Json) -> Array:
    parts = _parts(layout, node)
    with new_file(filename) as file:
        for part in parts:
            file.write(part)
        file.flush()
        if not layout.size:
            return np.zeros(0, np.uint8)
        return np.frombuffer(bytes_in(file.fileno(), layout.size, False), np.uint8)


def _parts(layout: _Layout, node: meta.Json) -> list[bytes | memoryview]:
    """The parts of a file, in order."""
    try:
        text = meta.dumps(node)
    except (TypeError, ValueError, RecursionError) as error:
        raise RuntimeError(f"Failed to convert the metadata to json: {error}") from error
    parts: list[bytes | memoryview] = []
    for array, _ in layout.leaves:
        parts += [bytes_of(array), bytes(-array.nbytes % 8)]
    return [*parts, text + _LENGTH.pack(len(text))]


def to_bytes(td: Any) -> bytes:
    """The bytes of the file of a container; `from_bytes` reads them."""
    layout = _Layout()
    return b"".join(_parts(layout, layout.node(td)))


def _view(buffer: Array, array: Array, start: int) -> Array:
    dtype = array.dtype.newbyteorder("<")
    return buffer[start : start + array.nbytes].view(dtype).reshape(array.shape)


def from_consolidated(filename: str | os.PathLike[str]) -> Any:
    """See `lite.from_consolidated`."""
    where = os.fspath(filename)
    descriptor, _ = open_regular(os.path.realpath(where), os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        if size < _LENGTH.size + 2:
            raise ValueError(f"{where} is damaged or foreign: it has {size} bytes.")
        memory = np.frombuffer(bytes_in(descriptor, size, True), np.uint8)
    finally:
        os.close(descriptor)
    return from_bytes(memory, where)


def from_bytes(memory: Array, where: str) -> Any:
    """The container of the bytes of a file; its arrays are views of them.

    Raises:
        ValueError: damaged or foreign bytes.
    """
    size = len(memory)
    if size < _LENGTH.size + 2:
        raise ValueError(f"{where} is damaged or foreign: it has {size} bytes.")
    (length,) = _LENGTH.unpack(memory[-_LENGTH.size :].tobytes())
    end = size - _LENGTH.size - length
    if not 2 <= length <= meta.MAX_BYTES or end < 0:
        raise ValueError(f"{where} is damaged or foreign: no description of {length} bytes before its end.")
    node = meta.loads(memory[end : size - _LENGTH.size].tobytes(), where)
    buffer = memory[:end]
    with meta.damaged(where, TypeError, ValueError, LookupError, AttributeError, RuntimeError):
        out = _build(node, buffer, 0)
    if isinstance(out, NonTensorBase):
        return out
    out._source = buffer
    return out.lock_()


def _build(node: meta.Json, buffer: Array, depth: int) -> Any:

    if depth > _MAX_DEPTH:
        raise ValueError(f"nested more than {_MAX_DEPTH} levels deep.")
    about, kind = node["cls_metadata"], node["cls"]
    entries: dict[str, Any] = {
        key: NonTensorData(value, size) for key, (value, size, _) in node["non_tensors"].items()
    }
    for key, member in node["leaves"].items():
        if key.startswith(_NESTED):
            raise ValueError(f"the entry {key!r} belongs to a nested tensor, which arrays cannot hold.")
        entries[key] = _leaf_of(member, buffer)
    for key, child in node.items():
        if key not in _RESERVED or (key == "size" and isinstance(child, dict)):
            entries[key] = _build(child, buffer, depth + 1)
    if kind == "NonTensorStack":
        objects = [entries[str(i)] for i in range(len(entries))]
        return NonTensorStack(*objects, stack_dim=meta.stack_dim_of(about["stack_dim"], objects, "an entry"))
    if kind == "LazyStackedTensorDict":
        parts = [entries[str(i)] for i in range(len(entries))]
        out: Any = class_registry.lazy(
            *parts, stack_dim=meta.stack_dim_of(about["stack_dim"], parts, "an entry")
        )
        out._dim_name = about.get("stack_dim_name")
    elif kind == "TensorDict" or kind.startswith("<class "):
        device = None if about["device"] is None else "cpu"
        out = class_registry.dense({}, about["batch_size"], device)
        for key, entry in entries.items():
            out._put(key, out._convert(entry))
        set_names(out, check_names(about["names"], out.ndim))
    else:
        raise ValueError(f"unknown class {kind!r:.80}.")
    # tensordict names the class of a tensorclass in `cls`, from version 0.15 on.
    name = about.get(_TENSORCLASS, kind)
    cls = tensorclass_named(name) if name.startswith("<class ") else None
    return out if cls is None else cls.from_tensordict(out)


def _leaf_of(member: Any, buffer: Array) -> Array:
    name, shape, start, stop, pad = member
    dtype, shape = dtype_of(name), meta.shape_of(shape, "a leaf")
    if any(type(n) is not int for n in (start, stop, pad)) or not 0 <= start <= stop <= len(buffer):
        raise ValueError(f"a leaf lies at [{start!r:.40}, {stop!r:.40}) of {len(buffer)} bytes.")
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= pad < 8 or stop - start - pad != size:
        raise ValueError(f"a leaf has {stop - start} bytes, expected {size} for {dtype} of shape {shape}.")
    array = buffer[start : start + size]
    return (array if start % dtype.alignment == 0 else array.copy()).view(dtype).reshape(shape)
