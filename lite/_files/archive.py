"""Read `.tdz` archives: a zip file of a saved folder, whose leaves are mapped where they lie."""

from __future__ import annotations

import lzma
import math
import mmap
import os
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape
from lite._files.mapping import open_regular
from lite._files.meta import MAX_BYTES, NAME

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
LOCAL_SIGNATURE = b"PK\x03\x04"
# What zipfile raises for damaged files: IndexError for an entry without a name.
BAD_ZIP = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, struct.error, OSError,
    IndexError,
)  # fmt: skip


def is_archive(path: str) -> bool:
    """See `is_memmap_archive`."""
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return NAME in archive.namelist()
    except BAD_ZIP:
        return False


def payload_offset(file: Any, info: zipfile.ZipInfo, where: str) -> int:
    """Where the bytes of an entry start, which only the header before them tells."""
    file.seek(info.header_offset)
    header = file.read(LOCAL_HEADER.size)
    if len(header) != LOCAL_HEADER.size or header[:4] != LOCAL_SIGNATURE:
        raise ValueError(f"{where} is damaged: no header where the entry {info.filename!r} should be.")
    name_length, extra_length = struct.unpack_from("<2H", header, 26)
    return int(info.header_offset + LOCAL_HEADER.size + name_length + extra_length)


class Archive:
    """The files of an archive.

    Args:
        path: the archive.
        writable: map the leaves so that writes reach the file; else writes stay in memory.

    Raises:
        ValueError: not an archive, or a damaged one.
        PermissionError: `writable`, and the file is not.
    """

    def __init__(self, path: str, writable: bool) -> None:
        if not is_archive(path):
            raise ValueError(
                f"{path} is not a memory-mapped tensordict archive (a zip file with a meta.json)."
            )
        self.where = path
        self._writable = writable
        descriptor, _ = open_regular(os.path.realpath(path), os.O_RDWR if writable else os.O_RDONLY)
        try:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_COPY
            self._memory = mmap.mmap(descriptor, 0, access=access)
        finally:
            os.close(descriptor)
        self._zip = zipfile.ZipFile(path)
        self._entries = {i.filename: i for i in self._zip.infolist() if not i.filename.endswith("/")}
        self._folders = {name[:at] for name in self._entries for at in range(len(name)) if name[at] == "/"}

    def close(self) -> None:
        """Close the zip file; mapped arrays stay valid."""
        self._zip.close()

    def text(self, path: str) -> bytes | None:
        """The content of a small entry, None if there is none."""
        info = self._entries.get(path)
        return None if info is None else self._read(info, MAX_BYTES)

    def leaf(self, path: str, dtype: np.dtype[Any], shape: Shape) -> Array | None:
        """An array over the archive itself; a copy if the entry is compressed or out of line."""
        info = self._entries.get(path)
        if info is None:
            return None
        count = math.prod(shape)
        if info.file_size != count * dtype.itemsize:
            raise ValueError(
                f"the entry {path!r} of {self.where} has {info.file_size} bytes, expected "
                f"{count * dtype.itemsize} for {dtype} of shape {shape}."
            )
        if info.compress_type != zipfile.ZIP_STORED:
            self._require_read_only(f"the entry {path!r} is compressed")
            return np.frombuffer(bytearray(self._read(info, info.file_size)), dtype).reshape(shape)
        start = payload_offset(self._memory, info, self.where)
        if (
            info.flag_bits & 1
            or info.compress_size != info.file_size
            or start + info.file_size > len(self._memory)
        ):
            raise ValueError(f"{self.where} is damaged or encrypted: entry {path!r}.")
        array: Array = np.frombuffer(self._memory, dtype, count, start).reshape(shape)
        if array.flags.aligned:
            return array
        self._require_read_only(f"the entry {path!r} is not aligned")
        return array.copy()

    def is_folder(self, path: str) -> bool:
        """Whether entries lie below a path."""
        return path in self._folders

    def place(self, path: str) -> None:
        """Nothing in an archive has a place in the file system."""

    def _read(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        try:
            with self._zip.open(info) as file:
                data = file.read(limit + 1)
        except (*BAD_ZIP, RuntimeError) as error:
            raise ValueError(f"{self.where} is damaged or encrypted: entry {info.filename!r}.") from error
        if len(data) > limit or len(data) != info.file_size:
            raise ValueError(
                f"{self.where}: the entry {info.filename!r} is not as long as it says, or too long."
            )
        return data

    def _require_read_only(self, reason: str) -> None:
        if self._writable:
            raise RuntimeError(
                f"cannot open {self.where} with mode='r+': {reason}, so that writes could not reach the file."
            )
