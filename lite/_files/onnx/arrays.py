"""Tensors of a model as arrays: inside of its file, or in a file beside it."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.dtypes import extension_dtype
from lite._files.mapping import part_of
from lite._files.onnx.reader import Span, Tensor, integers_of, read_tensor
from lite._files.onnx.wire import Buffer, fields
from lite._files.onnx.writer import ELEMENT_TYPES


def check_links(file: Path, folder: Path) -> None:
    """Raise ValueError if a file of a model folder, or a folder in it, is a link to something outside.

    Such a file could show any other to a model. Links to ``blobs`` are those of download caches, which have a
    folder of links (``snapshots/REVISION``) beside it.
    """
    target, home = file.resolve(), folder.resolve()
    allowed = [home]
    for place in (home, *home.parents):
        if place.parent.name == "snapshots":
            allowed += [place, place.parents[1] / "blobs"]
            break
    if not any(target.is_relative_to(place) for place in allowed):
        raise ValueError(f"{file} is a link out of its folder, to {target}")


def check_external_files(graph: Path, names: Iterable[str]) -> None:
    """Raise unless every external data file of `graph` exists and lies in its folder; see `check_links`."""
    for name in sorted(names):
        parts = PurePosixPath(name).parts + PureWindowsPath(name).parts
        if not name or ".." in parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor:
            raise ValueError(f"{graph}: refers to external data outside its folder: {name!r}")
        if not os.path.isfile(graph.parent / name):  # also where the name is too long for any
            raise FileNotFoundError(
                f"{graph}: its external data file {name!r} is missing from {graph.parent}"
            )
        check_links(graph.parent / name, graph.parent)


STRING = 8
_COMPLEX = {14: "complex64", 15: "complex128"}
_FLOAT8 = {
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    24: "float8_e8m0fnu",
}
_NAMES = {number: name for name, number in ELEMENT_TYPES.items()} | _COMPLEX | _FLOAT8
PACKED = {21: (4, False), 22: (4, True), 25: (2, False), 26: (2, True)}  # bits of a number, and its sign
# Fields that hold the numbers one by one: their field, and the type in which they are written there.
_FIELD = {
    "float32": 4, "complex64": 4, "int64": 7, "float64": 10, "complex128": 10, "uint32": 11, "uint64": 11,
}  # fmt: skip
MAX_ITEMS = 1 << 48


def dtype_of(element_type: int) -> np.dtype[Any]:
    """The dtype that holds an element type of ONNX; integers of 2 and 4 bits are held by those of 8.

    Raises:
        ValueError: there is none.
    """
    if element_type in PACKED:
        return np.dtype(np.int8 if PACKED[element_type][1] else np.uint8)
    if element_type == STRING:
        return np.dtype(object)
    if element_type not in _NAMES:
        raise ValueError(f"numbers of ONNX's element type {element_type} are not supported")
    name = _NAMES[element_type]
    return extension_dtype(name) if name.startswith(("bfloat", "float8")) else np.dtype(name)


def read_array(model: Buffer, span: Span, folder: Path | None = None) -> NDArray[Any]:
    """The tensor there, as an array that must not be written to.

    Args:
        model: the model's bytes.
        span: position of the tensor.
        folder: folder of the model's file, where its external data is.

    Raises:
        ValueError: its data has another size than its shape, or is in a file outside of the folder.
        FileNotFoundError: the file of its data is missing.
    """
    tensor = read_tensor(model, span)
    count = math.prod(tensor.dims)
    if count > MAX_ITEMS:
        raise ValueError(f"a tensor of shape {tensor.dims} is larger than any file")
    bits, _ = PACKED.get(tensor.kind, (0, False))
    dtype = dtype_of(tensor.kind)
    length = -(-count * bits // 8) if bits else count * dtype.itemsize
    if tensor.kind == STRING:
        texts = [
            bytes(model[a:b]).decode("utf-8", "replace") for n, _, a, b in fields(model, *span) if n == 6
        ]
        return _shaped(np.array(texts, object), tensor, count)
    if tensor.outside:
        data: Any = _outside(tensor, length, folder)
    elif tensor.raw is not None:
        data = np.frombuffer(_slice(model, tensor.raw), np.uint8)
    else:
        return _shaped(_one_by_one(model, span, tensor, dtype, length), tensor, count)
    if len(data) != length:
        raise ValueError(f"a tensor of shape {tensor.dims} has {len(data)} bytes instead of {length}")
    found = _unpacked(data, tensor.kind, count) if bits else data.view(dtype)
    # Of numbers that lie across words NumPy makes a copy whenever it computes with them.
    return _shaped(found if found.flags.aligned else found.copy(), tensor, count)


def _slice(model: Buffer, span: Span) -> Any:
    """The bytes there, without a copy."""
    return memoryview(model)[slice(*span)] if isinstance(model, bytes | mmap.mmap) else model[slice(*span)]


def _outside(tensor: Tensor, length: int, folder: Path | None) -> NDArray[np.uint8]:
    place = {key.decode("utf-8", "replace"): value for key, value in tensor.outside.items()}
    name = place.get("location", b"").decode("utf-8", "replace")
    if folder is None:
        raise ValueError(f"its weights are in the file {name!r}: give the path of the model, not its bytes")
    check_external_files(folder / "model.onnx", [name])
    try:
        start = int(place.get("offset", b"0"))
    except ValueError:
        raise ValueError(f"the offset of external data must be a number, got {place['offset']!r}") from None
    size = (folder / name).stat().st_size
    if start < 0 or start + length > size:
        raise ValueError(f"{name!r} has {size} bytes; a tensor needs {length} from byte {start} on")
    if not length:
        return np.zeros(0, np.uint8)
    return part_of(folder / name, start, length)


def _one_by_one(model: Buffer, span: Span, tensor: Tensor, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    number = _FIELD.get(dtype.name, 5)
    given = [(wire, a, b) for n, wire, a, b in fields(model, *span) if n == number]
    if number in (4, 10):
        data = b"".join(bytes(model[a:b]) for _, a, b in given)
        if len(data) != length:
            raise ValueError(f"a tensor of shape {tensor.dims} has {len(data)} bytes instead of {length}")
        return np.frombuffer(data, dtype)
    values = [value for wire, a, b in given for value in integers_of(model, wire, a, b)]
    whole = np.array(values, np.uint64)
    if tensor.kind in PACKED:
        return _unpacked(whole.astype(np.uint8), tensor.kind, math.prod(tensor.dims))
    if dtype.name in ("float16", "bfloat16") or dtype.name.startswith("float8"):
        return whole.astype(f"u{dtype.itemsize}").view(dtype)
    return whole.astype(np.int64).astype(dtype) if dtype.kind in "ib" else whole.astype(dtype)


def _unpacked(data: NDArray[np.uint8], kind: int, count: int) -> NDArray[Any]:
    """Integers of 2 or 4 bits, the first of them in the lowest bits of a byte."""
    bits, signed = PACKED[kind]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return values
    half = 1 << (bits - 1)
    return (values.astype(np.int8) ^ half) - np.int8(half)


def _shaped(array: NDArray[Any], tensor: Tensor, count: int) -> NDArray[Any]:
    if array.size != count:
        raise ValueError(f"a tensor of shape {tensor.dims} has {array.size} numbers")
    out = array.reshape(tensor.dims)
    if out.flags.writeable:
        out.flags.writeable = False
    return out
