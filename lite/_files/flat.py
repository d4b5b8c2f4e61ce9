"""Files that hold arrays by name: .npz and .safetensors.

A tree becomes named arrays ("n.b" for the entry b of n) and a JSON description that says how they belong
together. A file without description gives a flat TensorDict of its arrays.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import dtype_name, dtype_of
from lite._arrays.types import Array, is_array
from lite._files import meta, npz, payload, safetensors
from lite._files.keys import require_utf8
from lite._files.plan import host_array
from lite._files.read import tensorclass_named
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import kinds

Arrays = dict[str, Array]
_WRITERS: dict[str, Callable[[str, Arrays, str], None]] = {
    ".npz": npz.write,
    ".safetensors": safetensors.write,
}
_READERS: dict[str, Callable[[str], tuple[Arrays, str | None]]] = {
    ".npz": npz.read,
    ".safetensors": safetensors.read,
}


def save_as(td: Any, path: str, options: dict[str, Any]) -> bool:
    """Write by suffix; False if the suffix is none of ours.

    Raises:
        TypeError: an object that JSON cannot hold, or an option these formats do not have.
    """
    write = _WRITERS.get(os.path.splitext(path)[1].lower())
    if write is None:
        return False
    if options.keys() - {"num_threads", "existsok"}:
        raise TypeError(f"{path} cannot be saved with the options {sorted(options)}.")
    if not options.get("existsok", True) and os.path.exists(path):
        raise RuntimeError(f"The file {path} already exists.")
    arrays: Arrays = {}
    description = _describe(td, "", arrays)
    write(path, arrays, meta.dumps(description).decode("utf-8"))
    return True


def load_from(path: str) -> Any:
    """Read by suffix; None if the suffix is none of ours.

    Raises:
        ValueError: a damaged file.
    """

    read = _READERS.get(os.path.splitext(path)[1].lower())
    if read is None:
        return None
    arrays, text = read(path)
    if text is None:
        return kinds.dense(arrays)
    try:
        return _build(meta.loads(text.encode(), path), arrays)
    except (TypeError, KeyError, AttributeError, RuntimeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is damaged or foreign: {error}") from error


def _describe(entry: Any, name: str, arrays: Arrays) -> meta.Json:
    if isinstance(entry, NonTensorData):
        return {"data": _tagged(entry.data, name)}
    if isinstance(entry, NonTensorBase):
        objects = entry._objects()
        return {"objects": _tagged(list(objects.flat), name), "shape": list(objects.shape)}
    if hasattr(entry, "_fields"):
        return {"class": str(type(entry)), "fields": _describe(entry._tensordict, name, arrays)}
    stacked = entry._parts()
    if stacked is not None:
        parts = [_describe(part, _below(name, str(i)), arrays) for i, part in enumerate(stacked[0])]
        return {"parts": parts, "stack_dim": stacked[1], "name": entry._dim_name}
    entries: dict[str, Any] = {}
    for key, value in entry._items():
        path = _below(name, key)
        if is_array(value):
            require_utf8(path, "the key")
            while path in arrays:
                path += "_"
            arrays[path] = host_array(value, key)
            entries[key] = [path, dtype_name(value.dtype), list(value.shape)]
        else:
            entries[key] = _describe(value, path, arrays)
    size = list(entry.batch_size)
    return {"entries": entries, "batch_size": size, "names": entry._names, "device": entry.device}


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _tagged(value: Any, name: str) -> Any:
    try:
        plain, tagged = payload.to_json(value)
    except (TypeError, RecursionError) as error:
        raise TypeError(f"the object at key {name!r} cannot be saved in this format: {error}.") from error
    return [plain if tagged is None else tagged, tagged is not None]


def _untagged(value: Any) -> Any:
    content, tagged = value
    return payload.from_tagged(content) if tagged else content


def _build(node: meta.Json, arrays: Arrays) -> Any:

    if "data" in node:
        return NonTensorData(_untagged(node["data"]))
    if "objects" in node:
        items, shape = _untagged(node["objects"]), meta.shape_of(node["shape"], "an entry")
        objects = np.empty(len(items), object)
        for i, item in enumerate(items):
            objects[i] = item
        return NonTensorStack._wrap(objects.reshape(shape))
    if "class" in node:
        fields, cls = _build(node["fields"], arrays), tensorclass_named(node["class"])
        return fields if cls is None else cls.from_tensordict(fields)
    if "parts" in node:
        parts = [_build(part, arrays) for part in node["parts"]]
        stack = kinds.lazy(*parts, stack_dim=node["stack_dim"])
        stack._dim_name = node["name"]
        return stack
    out = kinds.dense({}, node["batch_size"], node["device"])
    for key, value in node["entries"].items():
        entry = _array(value, arrays) if isinstance(value, list) else _build(value, arrays)
        out._put(key, out._convert(entry))
    out._set_names(check_names(node["names"], out.ndim))
    return out


def _array(member: Any, arrays: Arrays) -> Array:
    name, kind, shape = member
    array, dtype, size = arrays[name], dtype_of(kind), meta.shape_of(shape, name)
    if array.size != math.prod(size) or array.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"the array {name!r} is of {array.dtype} {array.shape}, expected {dtype} {size}.")
    return array.reshape(size) if array.dtype == dtype else array.view(dtype).reshape(size)
