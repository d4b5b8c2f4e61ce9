"""Memory over a file.

Before Python 3.13 an `mmap` object keeps a file descriptor for as long as it lives. With one file per leaf
a process would soon have no descriptors left, so there the C library is asked directly.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape

_FAILED = ctypes.c_void_p(-1).value


def _c_library() -> Any:
    if os.name != "posix" or sys.version_info >= (3, 13):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.mmap.argtypes = [ctypes.c_void_p, *numbers]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


_LIBRARY = _c_library()
_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class FileMap:
    """The memory behind arrays in a file, unmapped when the last of them is gone.

    Args:
        descriptor: an open file of at least `size` bytes, which may be closed afterwards; -1 for memory
            that forked processes share.
        size: bytes, not 0.
        private: writes stay in memory.
        path: the file, "" if there is none.
        inode: its inode number, 0 if there is none.

    Raises:
        OSError: the system refuses.
    """

    __slots__ = ("__array_interface__", "_memory", "address", "inode", "path", "private", "size")

    def __init__(self, descriptor: int, size: int, private: bool, path: str, inode: int) -> None:
        self.size, self.private, self.path, self.inode = size, private, path, inode
        if _LIBRARY is None or descriptor < 0:
            access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
            memory = mmap.mmap(descriptor, size, access=access, **(_OPTIONS if descriptor >= 0 else {}))
            self._memory: Any = np.frombuffer(memory, np.uint8)
            self.address: int = self._memory.ctypes.data
        else:
            self._memory = None
            kind = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
            address = _LIBRARY.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, kind, descriptor, 0)
            if address == _FAILED:
                self.size = 0
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), path)
            self.address = address

    def array(
        self,
        dtype: np.dtype[Any],
        shape: Shape,
        offset: int = 0,
        strides: Shape | None = None,
        writeable: bool = True,
    ) -> Array:
        """An array over the memory, which it keeps alive.

        Raises:
            ValueError: it would reach beyond the memory.
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
        """How to find an array over this memory again from the path of the file; None if that is impossible.

        It is where writes stay in memory, and where the file is not (or no longer) at its path.
        """
        if self.private or not self.path:
            return None
        try:
            status = os.lstat(self.path)
        except OSError:
            return None
        if status.st_ino != self.inode or status.st_size != self.size:
            return None
        return Reference(array, self)

    def __del__(self, library: Any = _LIBRARY) -> None:
        if library is not None and self._memory is None and self.size:
            library.munmap(self.address, self.size)


def _extent(shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """The first byte of an array and the one after its last, from where its first element starts."""
    if len(strides) != len(shape):
        raise ValueError(f"strides {strides} do not fit the shape {shape}.")
    steps = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), itemsize + sum(step for step in steps if step > 0)


class Reference:
    """A mapped array on its way into a pickle as the place of its file; what comes out is the array."""

    __slots__ = ("_array", "_source")

    def __init__(self, array: Array, source: FileMap) -> None:
        self._array, self._source = array, source

    def __reduce__(self) -> Any:
        array, source = self._array, self._source
        offset = array.ctypes.data - source.address
        file = source.path, source.inode, source.size
        return _from_file, (*file, array.dtype, array.shape, offset, array.strides, array.flags.writeable)


def _from_file(
    path: str,
    inode: int,
    size: int,
    dtype: np.dtype[Any],
    shape: Shape,
    offset: int,
    strides: Shape,
    writeable: bool,
) -> Array:
    from lite._files.mapping import open_to_map

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


_PICKLED = (
    "a pickled mapped array refers. Such a pickle is for processes of the same machine while the files are "
    "there; pickle td.clone() to keep the values."
)
