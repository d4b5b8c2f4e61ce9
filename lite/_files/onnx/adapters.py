"""onnxruntime's files of adapters (`.onnx_adapter`): named arrays in a FlatBuffer, written and read by hand.

The layout is that of `adapter_schema.fbs` of onnxruntime: a table of a version and parameters, each with its
name, sizes, element type and bytes. https://flatbuffers.dev/internals/ has the encoding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.writer import ELEMENT_TYPES, element_type

_IDENTIFIER = b"TORT"
_VERSION = 1
_ALIGNMENT = 16  # of the numbers, in bytes
MAX_BYTES = (1 << 31) - 1  # offsets are of 32 bits
MAX_DIMENSIONS = 8


def read_adapter(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of an adapter file by name, as views of its bytes.

    Args:
        data: the content of the file.

    Raises:
        ValueError: `data` is not an adapter of onnxruntime, or is damaged.
    """
    if len(data) < 8 or data[4:8] != _IDENTIFIER:
        raise ValueError(f"it must begin with an offset and {_IDENTIFIER!r}, got {bytes(data[:8])!r}")
    reader = _Reader(data)
    root = reader.table(reader.follow(0))
    version = reader.integer(root[0]) if root[0] else 0
    if version != _VERSION:
        raise ValueError(f"it has version {version} of the format, {_VERSION} is known")
    found: dict[str, NDArray[Any]] = {}
    for at in reader.offsets(root[3]):
        name, array = reader.parameter(at)
        if name in found:
            raise ValueError(f"it has {name!r} twice")
        found[name] = array
    return found


class _Reader:
    """Reads values of a FlatBuffer at byte positions; ValueError for a position outside of the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def unpack(self, kind: str, at: int) -> int:
        size = struct.calcsize(kind)
        if at < 0 or at + size > len(self.data):
            raise ValueError(f"it is damaged: it ends at byte {len(self.data)}, {size} are needed at {at}")
        return struct.unpack_from(kind, self.data, at)[0]

    def integer(self, at: int) -> int:
        return self.unpack("<i", at)

    def follow(self, at: int) -> int:
        """The position that an offset points to."""
        return at + self.unpack("<I", at)

    def table(self, at: int) -> list[int]:
        """Positions of the first four fields of a table; 0 for a missing field."""
        fields = at - self.unpack("<i", at)
        count = (self.unpack("<H", fields) - 4) // 2
        places = [self.unpack("<H", fields + 4 + 2 * i) if i < count else 0 for i in range(4)]
        return [at + place if place else 0 for place in places]

    def vector(self, field: int, size: int) -> tuple[int, int]:
        """Position and number of the elements of a vector field."""
        if not field:
            return 0, 0
        at = self.follow(field)
        count = self.unpack("<I", at)
        if count * size > len(self.data) - at - 4:
            raise ValueError(f"it is damaged: {count} elements of {size} bytes do not fit behind byte {at}")
        return at + 4, count

    def offsets(self, field: int) -> list[int]:
        first, count = self.vector(field, 4)
        return [self.follow(first + 4 * i) for i in range(count)]

    def parameter(self, at: int) -> tuple[str, NDArray[Any]]:
        fields = self.table(at)
        first, count = self.vector(fields[0], 1)
        name = bytes(self.data[first : first + count]).decode("utf-8", "replace")
        first, count = self.vector(fields[1], 8)
        if count > MAX_DIMENSIONS:
            raise ValueError(f"{name!r} has {count} dimensions; at most {MAX_DIMENSIONS} are known")
        shape = struct.unpack_from(f"<{count}q", self.data, first)
        kind = self.integer(fields[2]) if fields[2] else 0
        if kind not in ELEMENT_TYPES.values():
            raise ValueError(f"{name!r} must have a numeric element type, got {kind}")
        dtype = dtype_of(kind)
        first, count = self.vector(fields[3], 1)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != count:
            raise ValueError(f"{name!r} of shape {shape} and dtype {dtype} has {count} bytes")
        flat: NDArray[Any] = np.frombuffer(self.data, np.uint8, count, first).view(dtype)
        return name, flat.reshape(shape)


def adapter_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of an adapter file with these arrays.

    Raises:
        ValueError: the file would be larger than the format allows, or an array is 0-d, which onnxruntime
            does not read.
        NotImplementedError: ONNX has no element type for a dtype.
    """
    total = sum(array.nbytes + len(name) + 128 for name, array in arrays.items())
    if total > MAX_BYTES:
        raise ValueError(f"an adapter file has at most {MAX_BYTES} bytes, these arrays need {total}.")
    if flat := [name for name, array in arrays.items() if not array.ndim]:
        raise ValueError(f"arrays of an adapter file have dimensions, {flat[0]!r} has none.")
    # All tables have four fields of 4 bytes, so they share a vtable: its size, a table's, offsets.
    vtable_at = 8
    vtable = struct.pack("<6H", 12, 20, 4, 8, 12, 16)
    root = vtable_at + len(vtable)
    out = bytearray(struct.pack("<I4s", root, _IDENTIFIER)) + vtable
    out += struct.pack("<i4I", root - vtable_at, _VERSION, 0, 0, 4)
    out += struct.pack("<I", len(arrays)) + bytes(4 * len(arrays))
    slots = len(out) - 4 * len(arrays)
    for i, (name, array) in enumerate(arrays.items()):
        out += bytes(-len(out) % 4)
        table = len(out)
        struct.pack_into("<I", out, slots + 4 * i, table - slots - 4 * i)
        out += struct.pack("<i4I", table - vtable_at, 0, 0, element_type(array.dtype), 0)
        text = name.encode()
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        _append(out, table + 4, len(text), text + b"\0", 1)
        _append(out, table + 8, array.ndim, struct.pack(f"<{array.ndim}q", *array.shape), 8)
        _append(out, table + 16, len(data), data, _ALIGNMENT)
    return bytes(out)


def _append(out: bytearray, field: int, count: int, content: bytes, alignment: int) -> None:
    """Append a vector with aligned elements, and write its offset to a field."""
    out += bytes(-(len(out) + 4) % max(alignment, 4))
    struct.pack_into("<I", out, field, len(out) - field)
    out += struct.pack("<I", count) + content
