"""Files of named arrays: .npz and .safetensors.

A tree is saved as named arrays ("n.b" for the entry b of n) and a JSON description of its structure. A file
without a description is read as a flat TensorDict of its arrays. The description is one more array in .npz (a
zip file of .npy files), and metadata in .safetensors.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from lite._arrays.dtypes import dtype_name, dtype_of
from lite._arrays.types import Array, host_array, is_array
from lite._files import meta, payload, safetensors
from lite._files.commit import new_file
from lite._files.read import tensorclass_named
from lite._tree.keys import require_utf8
from lite._tree.names import check_names, set_names
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import class_registry
from lite.kernels._install import install, needed

Arrays = dict[str, Array]
_DESCRIPTION = "%lite"
# Errors of NumPy and zipfile for damaged files; the last is for headers of huge arrays.
_DAMAGE = (
    OSError, EOFError, LookupError, TypeError, AttributeError, ValueError, RuntimeError, SyntaxError,
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, MemoryError,
)  # fmt: skip
_MISTAKES = (TypeError, LookupError, AttributeError, RuntimeError, ValueError)  # in a description
_METADATA = "lite"
# The format's names of dtypes that NumPy has through ml_dtypes.
_EXTENSION = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


def save_as(td: Any, path: str, options: dict[str, Any]) -> bool:
    """Write a file in the format of its suffix; False if the suffix is another one.

    Raises:
        TypeError: an object that JSON cannot hold, or an option that these formats lack.
    """
    write = _WRITERS.get(os.path.splitext(path)[1].lower())
    if write is None:
        return False
    if options.keys() - {"num_threads", "existsok", "atomic"}:
        raise TypeError(f"{path} cannot be saved with the options {sorted(options)}.")
    if not options.get("existsok", True) and os.path.exists(path):
        raise RuntimeError(f"The file {path} already exists.")
    arrays: Arrays = {}
    description = _describe(td, "", arrays)
    write(path, arrays, meta.dumps(description).decode("utf-8"))
    return True


def load_from(path: str) -> Any:
    """Read a file in the format of its suffix; None if the suffix is another one.

    Raises:
        ValueError: a damaged file.
    """
    read = _READERS.get(os.path.splitext(path)[1].lower())
    if read is None:
        return None
    arrays, text = read(path)
    return class_registry.dense(arrays) if text is None else _restored(path, arrays, text)


def save_for_tensordict(td: Any, path: str) -> None:
    """Write a .safetensors file as tensordict does; see `safetensors.described` for its errors."""
    arrays: Arrays = {}
    text = meta.dumps(safetensors.described(td, arrays)).decode("utf-8")
    write_safetensors(path, arrays, {safetensors.METADATA: text})


def load_nested(path: str) -> Any:
    """Read a .safetensors file: of tensordict, of lite, or of another program, at whose dots it is nested."""
    os.stat(path)  # raises the error of a file that is not there
    arrays, text = read_safetensors(path)
    if text is not None:
        return _restored(path, arrays, text)
    with meta.damaged(path, *_MISTAKES):
        return safetensors.nested(arrays)


def _restored(path: str, arrays: Arrays, text: str) -> Any:
    node = meta.loads(text.encode(), path)
    with meta.damaged(path, *_MISTAKES):
        return safetensors.built(node, arrays) if "version" in node else _build(node, arrays)


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
        parts = [_describe(part, _child_name(name, str(i)), arrays) for i, part in enumerate(stacked[0])]
        return {"parts": parts, "stack_dim": stacked[1], "name": entry._dim_name}
    entries: dict[str, Any] = {}
    for key, value in entry._items():
        path = _child_name(name, key)
        if is_array(value):
            require_utf8(path, "the key")
            while path in arrays or path == safetensors.RESERVED:
                path += "_"
            arrays[path] = host_array(value, key)
            entries[key] = [path, dtype_name(value.dtype), list(value.shape)]
        else:
            entries[key] = _describe(value, path, arrays)
    size = list(entry.batch_size)
    return {"entries": entries, "batch_size": size, "names": entry._names, "device": entry.device}


def _child_name(name: str, key: str) -> str:
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
        return NonTensorStack._wrap(np.fromiter(items, object, len(items)).reshape(shape))
    if "class" in node:
        fields, cls = _build(node["fields"], arrays), tensorclass_named(node["class"])
        return fields if cls is None else cls.from_tensordict(fields)
    if "parts" in node:
        parts = [_build(part, arrays) for part in node["parts"]]
        stack = class_registry.lazy(*parts, stack_dim=meta.stack_dim_of(node["stack_dim"], parts, "an entry"))
        stack._dim_name = node["name"]
        return stack
    out = class_registry.dense({}, node["batch_size"], node["device"])
    for key, value in node["entries"].items():
        entry = _array(value, arrays) if isinstance(value, list) else _build(value, arrays)
        out._put(key, out._convert(entry))
    set_names(out, check_names(node["names"], out.ndim))
    return out


def _array(member: Any, arrays: Arrays) -> Array:
    name, kind, shape = member
    array, dtype, size = arrays[name], dtype_of(kind), meta.shape_of(shape, name)
    if array.size != math.prod(size) or array.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"the array {name!r} is of {array.dtype} {array.shape}, expected {dtype} {size}.")
    # The description has no byte order; other dtypes are those that the format lacks.
    known = array.dtype.newbyteorder("<") == dtype.newbyteorder("<")
    return (array if known else array.view(dtype)).reshape(size)


# -- .npz -------------------------------------------------------------------------------------------


def write_npz(path: str, arrays: dict[str, Array], description: str) -> None:
    """Write arrays and their description; `np.load` reads the file."""
    text = np.frombuffer(description.encode(), np.uint8)
    # zipfile ends a name at a NUL, and one name is reserved for the description.
    names = [name.replace("%", "%25").replace("\0", "%00") for name in arrays]
    with new_file(path) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in [*zip(names, arrays.values(), strict=True), (_DESCRIPTION, text)]:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                npy.write_array(out, _in_known_dtype(array), allow_pickle=False)


def _in_known_dtype(array: Array) -> Array:
    """The same bytes in a dtype that .npy files support."""
    return array if array.dtype.isbuiltin != 2 else array.view(f"u{array.dtype.itemsize}")


def read_npz(path: str) -> tuple[dict[str, Array], str | None]:
    """Arrays and description (None in a file of another program).

    Raises:
        ValueError: not an .npz file, a damaged one, or one with pickled objects.
    """
    with meta.damaged(path, *_DAMAGE), open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        for info in archive.zip.infolist():  # zipfile unpacks all of bzip2 and LZMA at once
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{info.filename!r} is packed as np.load's files are not.")
        found: dict[str, Any] = {name: archive[name] for name in archive.files}
    for name, array in found.items():
        if not isinstance(array, np.ndarray):  # NumPy gives the bytes of what is not an array
            raise ValueError(f"{path} is damaged or foreign: its entry {name!r} is not an array.")
    text = found.pop(_DESCRIPTION, None)
    if text is None:
        return found, None
    arrays = {name.replace("%00", "\0").replace("%25", "%"): array for name, array in found.items()}
    try:
        return arrays, text.tobytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged or foreign: its description: {error}") from error


# -- .safetensors -----------------------------------------------------------------------------------


def _package() -> ModuleType:
    what = "files of type .safetensors need the package safetensors"
    needed("safetensors.numpy", what, install("files"))
    return needed("safetensors", what, install("files"))


def write_safetensors(path: str, arrays: dict[str, Array], metadata: dict[str, str]) -> None:
    """Write arrays and metadata.

    Raises:
        ImportError: without the package.
        ValueError: a dtype that the format does not have.
        OSError: as of other files, such as of a full disk.
    """
    package = _package()
    dense = {
        name: np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(a.shape)
        for name, a in arrays.items()
    }
    with new_file(path) as file:
        folder = f"{file.name}-folder"  # the library would leave its temporary file beside the target
        os.mkdir(folder)
        try:
            package.numpy.save_file(dense, f"{folder}/file", metadata)
            file.close()  # Windows replaces no open file
            os.replace(f"{folder}/file", file.name)
        except package.SafetensorError as error:
            if found := re.search(r"(.*) \(os error (\d+)\)", str(error)):
                code = int(found[2])  # Windows has numbers of its own, which the last argument takes
                raise OSError(code, found[1], path, code) from error
            raise ValueError(f"{path} cannot be written: {error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def read_safetensors(path: str) -> tuple[dict[str, Array], str | None]:
    """Arrays and description (None in a file of another program).

    Raises:
        ImportError: without the package, or ml_dtypes for the dtypes that need it.
        ValueError: a damaged file, or a dtype that the package does not give to NumPy.
    """
    package = _package()
    try:
        with package.safe_open(path, framework="np") as file:
            kinds = {name: file.get_slice(name).get_dtype() for name in list(file.keys())}
            # ml_dtypes registers the names with NumPy, of which the package gives it bfloat16 alone.
            dtypes = {kind: dtype_of(_EXTENSION[kind]) for kind in _EXTENSION.keys() & set(kinds.values())}
            others = dtypes.keys() - {"BF16"}
            views: dict[str, Any] = dict(package.deserialize(Path(path).read_bytes())) if others else {}
            arrays = {
                name: _array_of(views[name], dtypes[kind]) if kind in others else file.get_tensor(name)
                for name, kind in kinds.items()
            }
            metadata = file.metadata() or {}
    except (package.SafetensorError, OSError, AttributeError) as error:  # the last of a dtype, as float4's
        raise ValueError(f"{path} is damaged or foreign: {error}{payload.if_pickled(path)}") from error
    return arrays, metadata.get(_METADATA, metadata.get(safetensors.METADATA))


def _array_of(view: Any, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(bytearray(view["data"]), dtype).reshape(view["shape"])


_WRITERS: dict[str, Callable[[str, Arrays, str], None]] = {
    ".npz": write_npz,
    ".safetensors": lambda path, arrays, text: write_safetensors(path, arrays, {_METADATA: text}),
}
_READERS: dict[str, Callable[[str], tuple[Arrays, str | None]]] = {
    ".npz": read_npz,
    ".safetensors": read_safetensors,
}
