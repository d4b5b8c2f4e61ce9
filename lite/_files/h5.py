"""HDF5 files: groups are nested TensorDicts, datasets are arrays and strings, as in tensordict."""

from __future__ import annotations

import math
import os
from types import ModuleType
from typing import Any

import numpy as np

from lite._arrays.types import Size, host_array, is_array
from lite._files.commit import new_file
from lite._files.meta import damaged
from lite._tree.entry_errors import entry_error, error_path
from lite._tree.keys import require_utf8
from lite._tree.nontensor import NonTensorData
from lite._tree.protocol import class_registry
from lite._tree.walks import require_shared
from lite.kernels._install import install, needed

_SMALL = 1 << 26  # bytes that a dataset may have in a file of any size
_MAX_RATIO = 1100  # of a dataset's bytes to the file's; constant data is compressed to a thousandth

_DAMAGE = (OSError, LookupError, RuntimeError, TypeError, ValueError)


def _package() -> ModuleType:
    """The module h5py; ImportError without it."""
    return needed("h5py", "HDF5 files need the package h5py", install("files"))


def write_h5(td: Any, filename: str, options: dict[str, Any]) -> None:
    """Write a TensorDict; see `TensorDict.to_h5`. `options` are those of h5py's `create_dataset`."""
    package = _package()
    with new_file(filename) as file, package.File(file, "w") as group:
        _write(td, group, options)


def _write(td: Any, group: Any, options: dict[str, Any]) -> None:
    require_shared(td, "to_h5")
    group.attrs["batch_size"] = np.array(td.batch_size, np.int64)
    for key, entry in td._items():
        if not key or key in (".", "..") or "/" in key or "\0" in key:
            raise ValueError(f"the key {key!r} cannot name an HDF5 entry.")
        require_utf8(key, "the key")
        if is_array(entry):
            array = host_array(entry, key)
            if array.dtype.kind == "V":
                raise ValueError(f"HDF5 has no dtype for the {array.dtype} array at key {key!r}.")
            data = array.astype(array.dtype.newbyteorder("<"), copy=False)  # torch reads no other order
            group.create_dataset(key, data=data, **(options if array.ndim else {}))  # h5py: not for scalars
        elif isinstance(entry, NonTensorData) and isinstance(entry.data, str):
            require_utf8(entry.data, f"the text at key {key!r},")
            group.create_dataset(key, data=entry.data)
        elif (node := td._as_node(entry)) is not None and not isinstance(entry, NonTensorData):
            with error_path(key):
                _write(node, group.create_group(key), options)
        else:
            kind = type(entry.data if isinstance(entry, NonTensorData) else entry).__name__
            message = (
                f"the object{{at}} is a {kind}; HDF5 holds arrays, and texts, one for all rows. "
                "Leave it out, td.exclude({key}), or write another format, such as td.save('td.tdz')."
            )
            raise entry_error(TypeError, message, (key,))


def read_h5(filename: str, batch_size: Size) -> Any:
    """Read a TensorDict to memory; see `TensorDict.from_h5`."""
    package = _package()
    if not os.path.isfile(filename):
        raise FileNotFoundError(f"{filename} is missing.")
    with damaged(filename, *_DAMAGE), package.File(filename, "r") as group:
        out = _read(package, group, batch_size, set())
        found_by_shape = batch_size is None and "batch_size" not in group.attrs
        return out.auto_batch_size_() if found_by_shape else out


def _read(package: Any, group: Any, batch_size: Size, seen: set[Any]) -> Any:
    """Read a group; `seen` are the objects of the file that were read before (see `require_new`)."""
    size = group.attrs.get("batch_size", ()) if batch_size is None else batch_size
    out = class_registry.dense({}, size)
    for key in group:
        item = member(package, group, key)
        require_new(package, item, seen)
        if isinstance(item, package.Group):
            with error_path(key):
                value: Any = _read(package, item, batch_size, seen)
        elif isinstance(item, package.Datatype):
            raise ValueError(f"{item.name!r} of {group.file.filename} is a type with a name, no array.")
        else:
            _check_size(item, group.file.filename)
            text = item.shape is not None and package.check_string_dtype(item.dtype) is not None
            try:
                value = (item.asstr("utf-8") if text else item)[()]
            except UnicodeDecodeError:  # an array of bytes (dtype "S"), which HDF5 also stores as strings
                value = item[()]
            value = value if isinstance(value, str | bytes) else np.asarray(value)
        with error_path(key):
            out._put(key, out._convert(value))
    return out


def member(package: Any, group: Any, name: str) -> Any:
    """The member of a group; ValueError for a soft or external link, which may lead to other files."""
    if not isinstance(group.get(name, getlink=True), package.HardLink):
        raise ValueError(f"refusing to follow the link {name!r} of {group.file.filename}.")
    return group[name]


def require_new(package: Any, item: Any, seen: set[Any]) -> None:
    """Add an object to `seen`; ValueError if it is there already, under another name.

    A small file could otherwise name each group twice in the one above, and take 2**levels reads.
    """
    info = package.h5o.get_info(item.id)
    if (info.fileno, info.addr) in seen:
        raise ValueError(f"refusing to read {item.name!r} of {item.file.filename} twice, by two names.")
    seen.add((info.fileno, info.addr))


def _check_size(data: Any, filename: str) -> None:
    """Raise ValueError for a dataset in other files, or one much larger than the file can hold."""
    if data.is_virtual or data.external:
        raise ValueError(f"refusing to follow {data.name!r} of {filename} to other files.")
    chunk = math.prod(data.chunks or ()) * data.dtype.itemsize
    if max(data.nbytes, chunk) > max(_SMALL, _MAX_RATIO * os.path.getsize(filename)):
        raise ValueError(f"{data.name!r} of {filename} claims {data.nbytes} bytes, in chunks of {chunk}.")
