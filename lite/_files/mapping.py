"""Arrays over mapped files.

A leaf is a plain array over a `FileMap`, never an `np.memmap`: that subclass costs microseconds at each
index. The map lives as long as an array over it.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import sys
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape
from lite._files.filemap import FileMap

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_READ_FLAGS = _NOFOLLOW | _BINARY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
_CHUNK = 1 << 30


def source_of(array: Array) -> FileMap | None:
    """The map that an array, or the array it is a view of, lies in; None for ordinary memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, FileMap) else None


def is_file(array: Array, source: FileMap, path: str) -> bool:
    """Whether an array is the content of the file at `path` in order: no part, no rearrangement of it."""
    whole = array.flags.c_contiguous and array.nbytes == source.size and array.ctypes.data == source.address
    if not whole or source.path != path:
        return False
    try:
        return os.lstat(path).st_ino == source.inode
    except FileNotFoundError:
        return False


def open_regular(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Open an existing regular file for reading or writing, refusing symbolic links; gives its status, too.

    Raises:
        ValueError: the path is a symbolic link, or no regular file.
        OSError: as `os.open`.
    """
    if not _NOFOLLOW and os.path.islink(path):
        raise ValueError(f"refusing to follow the symbolic link {path}.")
    try:
        descriptor = os.open(path, flags | _READ_FLAGS)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ValueError(f"refusing to follow the symbolic link {path}.") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise ValueError(f"{path} is not a regular file.") from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file.")
    return descriptor, status


def open_to_map(path: str) -> tuple[int, bool, os.stat_result]:
    """Open a file for writing if permissions allow, else for reading; the bool tells that they do not."""
    try:
        descriptor, status = open_regular(path, os.O_RDWR)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
            raise
        descriptor, status = open_regular(path, os.O_RDONLY)
        return descriptor, True, status
    return descriptor, False, status


def read_file(path: str, limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes."""
    descriptor, status = open_regular(path, os.O_RDONLY)
    try:
        return read_all(descriptor, status.st_size, path, limit)
    finally:
        os.close(descriptor)


def read_all(descriptor: int, size: int, path: str, limit: int) -> bytes:
    """The bytes of an open file from where it stands."""
    if size > limit:
        raise ValueError(f"{path} has {size} bytes, more than the {limit} that are read at once.")
    parts = []
    while part := os.read(descriptor, size + 1):
        parts.append(part)
        size = max(size - len(part), 0)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_file(path: str, content: bytes) -> None:
    """Write a new file."""
    descriptor = os.open(path, _CREATE_FLAGS, 0o666)
    try:
        write_all(descriptor, content)
    finally:
        os.close(descriptor)


def map_leaf(path: str, dtype: np.dtype[Any], shape: Shape, final: str | None = None) -> Array:
    """Map the file of a leaf: writable through to the file where permissions allow, else privately.

    Args:
        path: the file.
        dtype: of the array.
        shape: of the array.
        final: where the file is going to be, if that is not where it is.

    Raises:
        ValueError: the file is not exactly as long as dtype and shape say, or is no regular file.
        FileNotFoundError: there is no file.
    """
    descriptor, private, status = open_to_map(path)
    try:
        wanted, size = math.prod(shape) * dtype.itemsize, status.st_size
        if size != wanted:
            raise ValueError(f"{path} has {size} bytes, expected {wanted} for {dtype} of shape {shape}.")
        return FileMap(descriptor, size, private, final or path, status.st_ino).array(dtype, shape)
    finally:
        os.close(descriptor)


def create_leaf(path: str, array: Array, final: str, filled: bool) -> Array:
    """Write an array to a new file and map it; `final` is where the file is going to be.

    Args:
        filled: write the values (else zeros that take no space until written).
    """
    descriptor = os.open(path, _CREATE_FLAGS, 0o666)
    try:
        if filled:
            _write_array(descriptor, array)
        else:
            os.ftruncate(descriptor, array.nbytes)
        dtype = array.dtype.newbyteorder("<")
        inode = os.fstat(descriptor).st_ino
        return FileMap(descriptor, array.nbytes, False, final, inode).array(dtype, array.shape)
    finally:
        os.close(descriptor)


def anonymous_leaf(array: Array, filled: bool) -> Array:
    """A copy (or zeros) in memory that forked processes share."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    out = FileMap(-1, array.nbytes, False, "", 0).array(array.dtype, array.shape)
    if filled:
        out[...] = array
    return out


def _write_array(descriptor: int, array: Array) -> None:
    if array.flags.c_contiguous and array.dtype.isbuiltin == 1 and sys.byteorder == "little":
        done = os.write(descriptor, array.data) if array.nbytes <= _CHUNK else 0
        if done == array.nbytes:
            return
        write_all(descriptor, bytes_of(array)[done:])
    else:
        write_all(descriptor, bytes_of(array))


def bytes_of(array: Array) -> memoryview:
    """The elements in row-major order, little-endian."""
    dtype = array.dtype.newbyteorder("<")
    contiguous = np.ascontiguousarray(array, dtype)
    flat: Any = contiguous.reshape(-1).view(np.uint8)
    return memoryview(flat)


def write_all(descriptor: int, data: memoryview | bytes) -> None:
    """Write all bytes, however many the system takes at once."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view[:_CHUNK]) :]
