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
    """The memory behind a leaf, unmapped when the last array over it is gone.

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

    __slots__ = ("__array_interface__", "_memory", "address", "inode", "path", "size")

    def __init__(self, descriptor: int, size: int, private: bool, path: str, inode: int) -> None:
        self.size, self.path, self.inode = size, path, inode
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
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.address, False),
        }

    def __del__(self, library: Any = _LIBRARY) -> None:
        if library is not None and self._memory is None and self.size:
            library.munmap(self.address, self.size)
