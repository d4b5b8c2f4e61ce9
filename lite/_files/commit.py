"""Write a whole tree of files so that a reader sees all of it or nothing.

A tree is written beside its place under a name that no key has. One rename then makes it valid: to the
place itself if that is free, else to the folder `%commit` inside it. A reader takes from `%commit` what is
there and everything else from the folder itself, so from that rename on the new files count. They are
moved to where other readers look for them next; a writer that dies on the way leaves the rest to the next.
Killing a process loses nothing; a power failure may, as nothing waits for the disk.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar

from lite._files import meta
from lite._files.mapping import read_file
from lite._files.plan import PICKLES

fcntl: Any
try:
    import fcntl
except ImportError:  # no Unix
    fcntl = None

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

COMMIT = "%commit"
_STAGE = "%new-"
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY)


def replace_tree(root: str, write: Callable[[str, bool], T]) -> T:
    """Let `write` fill a new folder, then make that the content of `root`; other files there stay.

    Nothing changes if `write` raises. It is told whether `root` exists; if so, no other writer is at work
    (where the system has locks), and it may look at what is there.
    """
    while not os.path.isdir(root):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        with _stage(root) as stage:
            result = write(stage, False)
            if _renamed(stage, root):
                return result
    with locked(root):
        finish(root)
        _remove_abandoned(root)
        with _stage(f"{root}/") as stage:
            result = write(stage, True)
            while not _renamed(stage, f"{root}/{COMMIT}"):
                finish(root)
        finish(root)
    return result


def stage_name(before: str) -> str:
    """A name for what is not in its place yet; it tells whose it is."""
    return f"{before}{_STAGE}{_host()}-{os.getpid()}-{os.urandom(4).hex()}"


@contextmanager
def _stage(before: str) -> Iterator[str]:
    """A new folder, removed with what is in it unless it has been renamed."""
    path = stage_name(before)
    os.mkdir(path)
    try:
        yield path
    finally:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def locked(root: str) -> Iterator[None]:
    """Keep other writers out; the system lifts the lock if this process dies."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(root, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _renamed(source: str, target: str) -> bool:
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        return False
    return True


def _host() -> str:
    return os.uname().nodename.replace("/", "_")[:64] if hasattr(os, "uname") else "host"


def _remove_abandoned(root: str) -> None:
    """Drop what writers on this machine left behind when they died."""
    mine = f"{_STAGE}{_host()}-"
    for name in os.listdir(root):
        if name.startswith(mine):
            pid = name.removeprefix(mine).split("-")[0]
            if pid.isdigit() and not _is_alive(int(pid)):
                shutil.rmtree(f"{root}/{name}", ignore_errors=True)


def _is_alive(pid: int) -> bool:
    if os.name != "posix":
        return True  # there, signal 0 is not a question
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def finish(root: str) -> None:
    """Move the files of a valid new tree to their places; several processes may do it at once."""
    _move(f"{root}/{COMMIT}", root)


def _move(source: str, target: str) -> None:
    try:
        entries = list(os.scandir(source))
    except FileNotFoundError:
        return
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    files = {entry.name for entry in entries} - set(folders)
    for name in folders:
        with suppress(FileExistsError):
            os.mkdir(f"{target}/{name}")
        _move(f"{source}/{name}", f"{target}/{name}")
    order = sorted(files, key=lambda name: name == meta.NAME)
    if meta.NAME in files:
        kept = files.intersection(PICKLES)
        if kept:
            # As long as a pickle waits here, meta.json must not say that there is none.
            order.sort(key=lambda name: name != meta.NAME)
        for name in set(PICKLES) - kept:
            with suppress(FileNotFoundError):
                os.unlink(f"{target}/{name}")
        _drop_parts(f"{source}/{meta.NAME}", target)
    for name in order:
        with suppress(FileNotFoundError):
            os.replace(f"{source}/{name}", f"{target}/{name}")
    with suppress(OSError):  # gone, or the next tree has come
        os.rmdir(source)


def _drop_parts(path: str, target: str) -> None:
    """Where a lazy stack has become shorter, remove the parts that do not count: others would read them."""
    if not os.path.isdir(f"{target}/0"):
        return
    with suppress(FileNotFoundError, ValueError):
        extension = meta.loads(read_file(path, meta.MAX_BYTES), path).get("_lite")
        about = extension[0] if isinstance(extension, list) and extension else {}
        at = about.get("count") if isinstance(about, dict) else None
        while isinstance(at, int) and os.path.isfile(f"{target}/{at}/{meta.NAME}"):
            shutil.rmtree(f"{target}/{at}")
            at += 1


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends without an error."""
    target = os.path.realpath(path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    stage = f"{target}{_STAGE}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with open(stage, "x+b") as file:
            yield file
        os.replace(stage, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(stage)
        raise
