"""Arrays over mapped files.

A leaf is a plain array over a `FileMap`, never an `np.memmap`: that subclass costs microseconds at each
index. The map lives as long as an array over it.
"""

from __future__ import annotations

import errno
import math
import os
import stat
from typing import Any

import numpy as np

from lite._collection import Array, Shape
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


def open_regular(path: str, flags: int) -> int:
    """Open an existing regular file for reading or writing, refusing symbolic links.

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
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file.")
    return descriptor


def read_file(path: str, limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes."""
    descriptor = open_regular(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise ValueError(f"{path} has {size} bytes, more than the {limit} that are read at once.")
        return file.read()


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
    private = False
    try:
        descriptor = open_regular(path, os.O_RDWR)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY):
            raise
        descriptor = open_regular(path, os.O_RDONLY)
        private = True
    try:
        status, wanted = os.fstat(descriptor), math.prod(shape) * dtype.itemsize
        size = status.st_size
        if size != wanted:
            raise ValueError(f"{path} has {size} bytes, expected {wanted} for {dtype} of shape {shape}.")
        return _map(FileMap(descriptor, size, private, final or path, status.st_ino), dtype, shape)
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
            write_all(descriptor, bytes_of(array))
        else:
            os.ftruncate(descriptor, array.nbytes)
        dtype = array.dtype.newbyteorder("<")
        inode = os.fstat(descriptor).st_ino
        return _map(FileMap(descriptor, array.nbytes, False, final, inode), dtype, array.shape)
    finally:
        os.close(descriptor)


def anonymous_leaf(array: Array, filled: bool) -> Array:
    """A copy (or zeros) in memory that forked processes share."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    out = _map(FileMap(-1, array.nbytes, False, "", 0), array.dtype, array.shape)
    if filled:
        out[...] = array
    return out


def _map(memory: FileMap, dtype: np.dtype[Any], shape: Shape) -> Array:
    return np.asarray(memory).view(dtype).reshape(shape)


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
