"""The .safetensors files of tensordict, which has them as of version 0.15.

An array is called by its key, joined with ".", as in the state dict of a module. The structure is JSON in the
metadata: for each node its batch size, names, class, stack dimension, and the form of each entry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, Unbatched, host_array, is_array
from lite._files import meta, payload
from lite._files.read import tensorclass_named
from lite._tree.keys import require_utf8
from lite._tree.names import check_names, set_names
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import Container, class_registry
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import keys_differ, nodes

METADATA = "tensordict"
RESERVED = "__metadata__"  # the format's own name
_VERSION = 1


def described(td: Any, arrays: dict[str, Array]) -> meta.Json:
    """The structure of a TensorDict, whose arrays are added to `arrays`.

    Raises:
        TypeError: no TensorDict; or what has no place in this format: non-tensor data alone, one object per
            row, objects that JSON does not keep, lazy stacks whose parts have different keys.
        ValueError: two arrays get one name, or one gets "__metadata__".
        RuntimeError: a ragged lazy stack.
    """
    if Container._as_node(td) is None:
        raise TypeError(f"data must be a TensorDict or a tensorclass, got {type(td).__name__}.")
    return {"version": _VERSION, "root": _level(td, (), arrays)}


def _level(entry: Any, path: tuple[str, ...], arrays: dict[str, Array]) -> meta.Json:
    node = getattr(entry, "_tensordict", entry)
    level: meta.Json = {"batch_size": list(node.batch_size), "names": node._names}
    stacked = node._parts()
    if stacked is not None:
        if -1 in node.batch_size:
            raise RuntimeError(f"the lazy stack at {path} is ragged: its batch size is {node.batch_size}.")
        if keys_differ(stacked[0]):
            raise TypeError(
                f"the parts of the lazy stack at {path} have different keys, which cannot be saved."
            )
        level["stack_dim"] = stacked[1]
    if node is not entry:
        level["class"] = str(type(entry))
    level["keys"] = {key: _entry(node._get_entry((key,)), (*path, key), arrays) for key in node._keys()}
    return level


def _entry(entry: Any, path: tuple[str, ...], arrays: dict[str, Array]) -> meta.Json:
    if isinstance(entry, NonTensorBase):
        if not isinstance(entry, NonTensorData):
            raise TypeError(f"{path} has one object per row, and one for all can be saved.")
        try:
            value, tagged = payload.to_json(entry.data)
        except (TypeError, RecursionError) as error:
            raise TypeError(f"the object at {path} cannot be saved: {error}.") from error
        if tagged is not None:
            raise TypeError(f"the object at {path} must not have tuples or sets, got {entry.data!r:.80}.")
        return {"non_tensor": value}
    if not is_array(entry):
        return {"td": _level(entry, path, arrays)}
    name = ".".join(path)
    require_utf8(name, "the key")
    if name in arrays or name == RESERVED:
        raise ValueError(f"the name {name!r} of an array is taken, by another array or by the format.")
    unbatched = isinstance(entry, Unbatched)
    arrays[name] = np.asarray(entry) if unbatched else host_array(entry, name)
    return {"tensor": name, "unbatched": True} if unbatched else {"tensor": name}


def built(node: meta.Json, arrays: dict[str, Array]) -> Any:
    """The TensorDict of a structure; a tensorclass that is not known is one, too.

    Raises:
        ValueError: another version, or arrays that the structure lacks. Other mistakes raise what they raise.
    """
    if node["version"] != _VERSION:
        raise ValueError(f"its version is {node['version']!r}, expected {_VERSION}.")
    left = dict(arrays)
    out = _built(node["root"], arrays, left)
    if left:
        raise ValueError(f"the structure lacks the arrays {sorted(left)}.")
    return out


def _built(level: meta.Json, arrays: dict[str, Array], left: dict[str, Array]) -> Any:
    out = class_registry.dense({}, meta.shape_of(level["batch_size"], "a TensorDict"))
    set_names(out, check_names(level["names"], out.ndim))
    for key, about in level["keys"].items():
        if "tensor" in about:
            left.pop(about["tensor"], None)
            entry: Any = arrays[about["tensor"]]
            entry = UnbatchedTensor(entry) if about.get("unbatched") else entry
        elif "non_tensor" in about:
            entry = NonTensorData(about["non_tensor"])
        else:
            entry = _built(about["td"], arrays, left)
        out._put(key, out._convert(entry))
    dim = level.get("stack_dim")
    if dim is not None:
        made = out.batch_size[dim] * sum(1 for _ in nodes(out))
        if made > max(4096, sum(array.nbytes for array in arrays.values())):
            raise ValueError(f"{made} TensorDicts in a lazy stack are more than the file has bytes.")
        out = out.to_lazystack(dim)
    cls = tensorclass_named(level.get("class", ""))
    return out if cls is None or not set(out._keys()) <= set(cls._fields) else cls._wrap_tensordict(out)


def nested(arrays: dict[str, Array]) -> Any:
    """The arrays of another program's file as a TensorDict, nested at the dots of their names."""
    out = class_registry.dense({})
    for name, array in arrays.items():
        out._set_path(tuple(name.split(".")), array, False)
    return out
