"""What each system does in its own way: views of files, replacing a file, locks, whether a process is alive.

Windows neither replaces nor removes a file that something has open or mapped, and renames no folder with
such a file in it. A mapped file without an open handle it renames. So views are made without handles there,
folders are renamed before their files are mapped, and a mapped file makes room under another name.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # no Unix
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None

WINDOWS = os.name == "nt"
ASIDE = re.compile("%old-[0-9a-f]{8}$")  # ends the name of a file that made room for another
_FAILED = ctypes.c_void_p(-1).value
_PAUSES = (0.01, 0.04, 0.16, 0.64)  # seconds in which a virus scanner lets go of what was just written
# Of Windows.
_WAITING, _LOCKED, _DENIED = 0x102, 33, 5
_READ, _WRITE, _SHARED, _OPEN_EXISTING = 1 << 31, 1 << 30, 1 | 2 | 4, 3

View = Callable[[int, int, int, int], int]  # descriptor, size, access as of `mmap.mmap`, offset


def _of_the_c_library() -> tuple[View, Callable[[int, int], Any]]:
    library = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.mmap.argtypes = [ctypes.c_void_p, *numbers]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    call, failed = library.mmap, _FAILED
    reads, copies, shared, private = mmap.ACCESS_READ, mmap.ACCESS_COPY, mmap.MAP_SHARED, mmap.MAP_PRIVATE
    read, write = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE

    def view(descriptor: int, size: int, access: int, offset: int) -> int:
        protection, kind = read if access == reads else write, private if access == copies else shared
        address: int = call(None, size, protection, kind, descriptor, offset)
        if address == failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return address

    return view, library.munmap


def _kernel32() -> Any:
    from ctypes import wintypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    handle, number, flag, name = wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.LPCWSTR
    for function_name, result, arguments in (
        ("CreateFileMappingW", handle, [handle, ctypes.c_void_p, number, number, number, name]),
        ("MapViewOfFile", ctypes.c_void_p, [handle, number, number, number, ctypes.c_size_t]),
        ("UnmapViewOfFile", flag, [ctypes.c_void_p]),
        ("CreateFileW", handle, [name, number, number, ctypes.c_void_p, number, number, handle]),
        ("CloseHandle", flag, [handle]),
        ("CreateMutexW", handle, [ctypes.c_void_p, flag, name]),
        ("ReleaseMutex", flag, [handle]),
        ("LockFile", flag, [handle, number, number, number, number]),
        ("WaitForSingleObject", number, [handle, number]),
        ("OpenProcess", handle, [number, flag, number]),
    ):
        function = getattr(kernel, function_name)
        function.restype, function.argtypes = result, arguments
    return kernel


def _of_windows() -> tuple[View, Callable[[int, int], Any]]:
    kinds = {mmap.ACCESS_READ: (0x02, 4), mmap.ACCESS_WRITE: (0x04, 2), mmap.ACCESS_COPY: (0x08, 1)}

    def view(descriptor: int, size: int, access: int, offset: int) -> int:
        file, end = msvcrt.get_osfhandle(descriptor), offset + size
        protection, kind = kinds[access]
        section = _kernel.CreateFileMappingW(file, None, protection, end >> 32, end & 0xFFFFFFFF, None)
        address = section and _kernel.MapViewOfFile(section, kind, offset >> 32, offset & 0xFFFFFFFF, size)
        code = ctypes.get_last_error()  # type: ignore[attr-defined]
        if section:
            _kernel.CloseHandle(section)
        if not address:
            raise ctypes.WinError(code)  # type: ignore[attr-defined]
        return int(address)

    return view, lambda address, _: _kernel.UnmapViewOfFile(address)


_kernel: Any = _kernel32() if WINDOWS else None
# From Python 3.13 on its own `mmap` closes the file, but not on Windows.
VIEWS = _of_windows() if WINDOWS else None if sys.version_info >= (3, 13) else _of_the_c_library()


def _open_shared(path: str, flags: int) -> int:
    """`os.open` of a file that is there, which others may rename meanwhile."""
    access = _READ if not flags & (os.O_RDWR | os.O_WRONLY) else _READ | _WRITE
    handle = _kernel.CreateFileW(path, access, _SHARED, None, _OPEN_EXISTING, 0, None)
    if handle in (None, _FAILED):
        code = ctypes.get_last_error()  # type: ignore[attr-defined]
        raise OSError(0, ctypes.FormatError(code), path, code)  # type: ignore[attr-defined]
    return int(msvcrt.open_osfhandle(handle, flags))


open_existing: Callable[[str, int], int] = _open_shared if WINDOWS else os.open


def rename(source: str, target: str) -> None:
    """`os.rename`; on Windows again for a second, as a virus scanner opens what was just written."""
    for pause in _PAUSES if WINDOWS else ():
        try:
            return os.rename(source, target)
        except PermissionError:
            time.sleep(pause)
    os.rename(source, target)


def replace(source: str, target: str) -> None:
    """`os.replace`, on Windows also of a file that is mapped: it keeps its memory under another name.

    Raises:
        PermissionError: on Windows, the file is open.
    """
    try:
        os.replace(source, target)
    except OSError as error:  # Windows has several for a file in use
        if not WINDOWS or isinstance(error, FileNotFoundError) or not os.path.isfile(target):
            raise
        aside = _aside(target)
        try:
            rename(source, target)
        except BaseException:
            os.rename(aside, target)
            raise
        with suppress(OSError):  # who writes next removes what is still mapped
            os.unlink(aside)


def remove(path: str) -> None:
    """`os.unlink`; on Windows what is mapped, or opened by a virus scanner, stays under another name."""
    if not WINDOWS or ASIDE.search(path):
        os.unlink(path)
        return
    aside = _aside(path)
    with suppress(OSError):
        os.unlink(aside)


def _aside(path: str) -> str:
    aside = f"{path}%old-{os.urandom(4).hex()}"
    rename(path, aside)
    return aside


@contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Wait until no other process has locked a folder; the system lifts the lock if this process dies.

    Without effect where system or file system have no locks.
    """
    if _kernel is not None:  # Windows opens no folders
        import hashlib

        where = os.path.normcase(os.path.realpath(folder)).encode("utf-8", "surrogatepass")
        mutex = _kernel.CreateMutexW(None, False, f"Global\\lite-{hashlib.sha256(where).hexdigest()}")
        try:
            while mutex and _kernel.WaitForSingleObject(mutex, 100) == _WAITING:
                pass  # Python looks for Ctrl-C
            yield
        finally:
            if mutex:
                _kernel.ReleaseMutex(mutex)
                _kernel.CloseHandle(mutex)
    elif fcntl is None:
        yield
    else:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def lock_file(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if it is locked already.

    True where system or file system have no locks.
    """
    if _kernel is not None:  # a byte far behind the end, as nobody else reads a locked byte
        file = msvcrt.get_osfhandle(descriptor)
        return bool(_kernel.LockFile(file, 0, 1 << 30, 1, 0)) or ctypes.get_last_error() != _LOCKED  # type: ignore[attr-defined]
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs, also one of another user."""
    if _kernel is not None:  # `os.kill` would end it
        process = _kernel.OpenProcess(0x00100000, False, pid)  # to wait for it
        if not process:
            return ctypes.get_last_error() == _DENIED  # type: ignore[attr-defined]
        try:
            return bool(_kernel.WaitForSingleObject(process, 0) == _WAITING)
        finally:
            _kernel.CloseHandle(process)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
