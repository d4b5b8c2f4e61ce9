"""Arrays over memory-mapped files.

A leaf is a plain array over a `FileMap`, not an `np.memmap`, a subclass that costs microseconds at each
index. The map lives as long as an array over it.

Before Python 3.13, and on Windows in all versions, an `mmap` object keeps its file open. With one file per
leaf a process would soon run out of descriptors, so `system` asks the system itself.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import stat
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape
from lite._files.blocks import SharedBlock
from lite._files.system import VIEWS, WINDOWS, open_existing

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_READ_FLAGS = _NOFOLLOW | _BINARY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
_CHUNK = 1 << 30
_ZEROS = memoryview(bytes(1 << 20))


def _unmapped(code: int | None, path: str) -> OSError:
    """The error of a file that the system does not map."""
    reason = os.strerror(code or 0)
    if code == errno.ENOMEM:
        reason += ": a process maps so many files (vm.max_map_count) and bytes (ulimit -v)"
        reason += "; an archive, .tdz, is one file"
    return OSError(code, reason, path)


_VIEW, _END_VIEW = VIEWS or (None, None)
_PICKLED = (
    "a pickled mapped array refers. Such a pickle is for processes of the same machine while the files are "
    "there; pickle td.clone() to keep the values."
)


class FileMap:
    """The memory of arrays in a file, which is unmapped after the last of them is freed.

    Args:
        descriptor: an open file of at least `size` bytes, which may be closed afterwards.
        size: bytes, not 0.
        private: writes stay in memory.
        path: the file, "" if there is none.
        inode: its inode number, 0 if there is none.
        file_size: bytes of the whole file, if not all are mapped.
        readonly: the memory must not be written to.
        offset: where in the file it begins, a multiple of `mmap.ALLOCATIONGRANULARITY`.

    Raises:
        OSError: the system cannot map the file.
    """

    __slots__ = ("__array_interface__", "_memory", "address", "file_size", "inode", "path", "private", "size")

    def __init__(
        self, descriptor: int, size: int, private: bool, path: str, inode: int, file_size: int | None = None,
        readonly: bool = False, offset: int = 0,
    ) -> None:  # fmt: skip
        self.size, self.private, self.path, self.inode = size, private, path, inode
        self.file_size = size if file_size is None else file_size
        self._memory: Any = None
        access: Any = mmap.ACCESS_READ if readonly else mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
        try:
            if _VIEW is not None:
                self.address = _VIEW(descriptor, size, access, offset)
            else:
                memory = mmap.mmap(descriptor, size, access=access, offset=offset, trackfd=False)  # type: ignore[call-arg]
                self._memory = np.frombuffer(memory, np.uint8)
                self.address = self._memory.ctypes.data
        except OSError as error:
            self.size = 0
            raise _unmapped(error.errno, path) from None

    def array(
        self, dtype: np.dtype[Any], shape: Shape, offset: int = 0, strides: Shape | None = None,
        writeable: bool = True,
    ) -> Array:  # fmt: skip
        """An array over the memory. It keeps the memory alive.

        Raises:
            ValueError: the array does not fit into the memory.
        """
        if strides is not None or offset:
            low, high = _extent(shape, strides or (), dtype.itemsize)
            if offset + low < 0 or offset + high > self.size:
                raise ValueError(f"an array of {dtype} {shape} at byte {offset} is not in {self.size} bytes.")
        kind = dtype if dtype.isbuiltin == 1 else np.dtype(f"V{dtype.itemsize}")
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": kind.str,
            "data": (self.address + offset, not writeable),
            "strides": strides,
        }
        array: Array = np.asarray(self)
        return array if kind is dtype else array.view(dtype)

    def reference(self, array: Array) -> Reference | None:
        """A `Reference` to an array over this memory by the path of its file; None if that is impossible.

        It is impossible if writes stay in memory, or if the file is not at its path (any more).
        """
        if self.private or not self.path:
            return None
        try:
            status = os.lstat(self.path)
        except OSError:
            return None
        if status.st_ino != self.inode or status.st_size != self.file_size:
            return None
        return Reference(array, self)

    def __del__(self, end: Any = _END_VIEW) -> None:
        if end is not None and self.size:
            end(self.address, self.size)


def _extent(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """The first byte of an array and the byte after its last, relative to its first element."""
    if len(strides) != len(shape):
        raise ValueError(f"strides {strides} do not fit the shape {shape}.")
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), itemsize + sum(step for step in steps if step > 0)


def bytes_in(descriptor: int, size: int, private: bool) -> memoryview:
    """The first bytes of an open file, not 0, mapped; arrays over them do not count as memory-mapped."""
    return FileMap(descriptor, size, private, "", 0).array(np.dtype(np.uint8), (size,)).data


def part_of(path: str | os.PathLike[str], offset: int, size: int) -> Array:
    """Bytes of a file, not 0, mapped and read only; they do not count as memory-mapped.

    Unlike an `np.memmap` they keep no file open, so models of a thousand weights have room, and Windows
    renames the file.
    """
    before = offset % mmap.ALLOCATIONGRANULARITY
    with open(path, "rb") as file:
        memory = FileMap(
            file.fileno(), before + size, False, "", 0, readonly=True, offset=offset - before
        ).array(np.dtype(np.uint8), (before + size,), writeable=False)
    return np.frombuffer(memory.data, np.uint8, offset=before)


class Reference:
    """The pickled form of a mapped array, which has the path of its file; unpickling gives the array."""

    __slots__ = ("_array", "_source")

    def __init__(self, array: Array, source: FileMap) -> None:
        self._array, self._source = array, source

    def __reduce__(self) -> Any:
        array, source = self._array, self._source
        offset = array.ctypes.data - source.address
        file = source.path, source.inode, source.file_size
        return _from_file, (*file, array.dtype, array.shape, offset, array.strides, array.flags.writeable)


def _from_file(
    path: str, inode: int, size: int, dtype: np.dtype[Any], shape: Shape, offset: int, strides: Shape,
    writeable: bool,
) -> Array:  # fmt: skip
    try:
        descriptor, private, status = open_to_map(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing, to which {_PICKLED}") from error
    try:
        if (status.st_ino, status.st_size) != (inode, size):
            raise ValueError(f"{path} has been replaced or cut since it was pickled; {_PICKLED}")
        memory = FileMap(descriptor, size, private, path, inode)
        return memory.array(dtype, shape, offset, strides or (), writeable)
    finally:
        os.close(descriptor)


# -- files -----------------------------------------------------------------------------------------


def source_of(array: Array) -> FileMap | SharedBlock | None:
    """The `FileMap` of an array or of its base; None for ordinary memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, FileMap):
        return base
    return base if isinstance(base, SharedBlock) and base.mapped else None


def is_file(array: Array, source: FileMap | SharedBlock, path: str) -> bool:
    """Whether an array is the whole content of the file at `path`, in the same order."""
    if not isinstance(source, FileMap) or source.path != path:
        return False
    if not array.flags.c_contiguous or array.nbytes != source.size or array.ctypes.data != source.address:
        return False
    try:
        return os.lstat(path).st_ino == source.inode
    except FileNotFoundError:
        return False


def open_regular(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Open an existing regular file, not a symbolic link; returns (descriptor, status).

    Raises:
        ValueError: the path is a symbolic link, or not a regular file.
        OSError: as `os.open`.
    """
    if not _NOFOLLOW and os.path.islink(path):
        raise ValueError(f"refusing to follow the symbolic link {path}.")
    try:
        descriptor = open_existing(path, flags | _READ_FLAGS)
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
    """Open a file for writing if permissions allow, else for reading: (descriptor, read-only, status)."""
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
    """The bytes of an open file from its current position."""
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


def map_leaf(
    path: str, dtype: np.dtype[Any], shape: Shape, final: str | None = None, mode: str | None = None
) -> Array:
    """Map the file of a leaf. Writes reach the file if permissions allow, else they stay in memory.

    Args:
        path: the file.
        dtype: dtype of the array.
        shape: shape of the array.
        final: the final path of the file, if it will be moved.
        mode: "r" keeps writes in memory, "r+" wants them to reach the file.

    Bytes beyond the array are left alone: tensordict's files have them where a smaller array replaced one.

    Raises:
        ValueError: the file is shorter than dtype and shape require, or is not a regular file.
        FileNotFoundError: there is no file.
        PermissionError: it may not be written, and `mode` is "r+".
    """
    descriptor, private, status = open_to_map(path)
    try:
        if private and mode == "r+":
            raise PermissionError(f"{path} may not be written, which mode='r+' wants.")
        wanted, size = math.prod(shape) * dtype.itemsize, status.st_size
        if size < wanted:
            raise ValueError(f"{path} has {size} bytes, expected {wanted} for {dtype} of shape {shape}.")
        memory = FileMap(descriptor, wanted, private or mode == "r", final or path, status.st_ino, size)
        return memory.array(dtype, shape)
    finally:
        os.close(descriptor)


def create_leaf(path: str, array: Array, final: str, filled: bool) -> Array:
    """Write an array to a new file and map it; `final` is the final path of the file.

    On Windows an array without memory stands for it, until it is at that path: see `placed`.

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
        if WINDOWS:
            return np.broadcast_to(np.empty((), dtype), array.shape)
        inode = os.fstat(descriptor).st_ino
        return FileMap(descriptor, array.nbytes, False, final, inode).array(dtype, array.shape)
    finally:
        os.close(descriptor)


def placed(array: Array, path: str) -> Array:
    """The array of `create_leaf`; on Windows mapped again, now that the file is at its final path."""
    if not WINDOWS or not array.size or source_of(array) is not None:
        return array
    return map_leaf(path, array.dtype, array.shape)


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
    """Write all bytes, in several system calls if needed."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view[:_CHUNK]) :]


def write_zeros(path: str, parts: Iterable[tuple[int, int]], about: str) -> None:
    """Write zeros from one byte of a file to another, so that the disk has blocks for what is mapped there.

    Raises:
        OSError: the disk has no room for them; the message begins with `about`.
    """
    file, _ = open_regular(path, os.O_WRONLY)
    try:
        for start, end in parts:
            if start < end and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, start, end - start)  # at once: less time than block by block
            while start < end and hasattr(os, "pwrite"):
                start += os.pwrite(file, _ZEROS[: end - start], start)
    except OSError as error:
        raise OSError(error.errno, f"{about}: {error.strerror}", path) from None
    finally:
        os.close(file)
