"""Atomic writes of a tree of files, or of a part of one: a reader sees all new files or none.

The new tree is written next to the target under a name that no key has. One rename then makes it valid: to
the target itself if that does not exist, else to the folder `%commit` inside it. A reader prefers files in
`%commit` to those of the folder itself, so the new files are valid from that rename on. They are then moved
to their final places; if a writer dies before that, the next one finishes.

A whole tree has one `%commit` and one lock, those of its outermost folder, also for writes to a nested
folder. Otherwise older files of an outer `%commit` would later be moved over the new ones.

Killing a process loses nothing. A power failure may, unless the environment has `LITE_FSYNC=1`: then every
write waits until its files are on the disk before they become valid.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from io import FileIO
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar

from lite._files import meta
from lite._files.keys import file_name
from lite._files.mapping import read_file, write_all
from lite._files.system import ASIDE, WINDOWS, is_alive, locked_folder, remove, rename, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")
Listing: TypeAlias = "Mapping[str, os.DirEntry[str]]"

COMMIT = "%commit"
_STAGE = "%new-"
_listed_until: dict[str, float] = {}
_waiting = ContextVar("waiting for the disk", default=False)
PROCESS = os.urandom(4).hex()  # in a container the next process has the number of this one
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY)


def replace_tree(root: str, write: Callable[[str, Listing], T], names: Collection[str] | None = None) -> T:
    """Call `write` on a new folder, then make its files the content of `root`; other files in `root` stay.

    Nothing changes if `write` raises. Its second argument has the entries of `root`. If there are some, no
    other writer is active (if the system has locks), and `write` may read `root`.

    Args:
        root: the folder.
        write: see above.
        names: all files that `write` may make, if it makes no folders: listing them takes a twentieth of all.
    """
    with naming(root):
        return _replaced(root, write, names)


def _replaced(root: str, write: Callable[[str, Listing], T], names: Collection[str] | None) -> T:
    top, subfolder = outermost(root)
    while not subfolder and not os.path.isdir(root):
        with _stage(root) as stage:
            result = write(stage, {})
            if _renamed(stage, root):
                return result
            shutil.rmtree(stage)
            if not os.path.isdir(root):
                raise FileExistsError(f"{root} exists and is not a folder.")
    with locked_folder(top):
        there = listed(top)
        _remove_abandoned(top, there)
        if COMMIT in there:
            finish(top)
            there = listed(top)
        with _stage(f"{top}/") as stage:
            _add_ancestors(top, subfolder, stage)
            result = write(f"{stage}/{subfolder}", listed(root)) if subfolder else write(stage, there)
            while not _renamed(stage, f"{top}/{COMMIT}"):
                finish(top)
                there = listed(top)
        # It is the folder of this writer, so no link.
        _move(f"{top}/{COMMIT}", top, there, None if subfolder else names)
    return result


def listed(folder: str) -> Listing:
    """The entries of a folder by name; none if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry for entry in entries}
    except FileNotFoundError:
        return {}


def outermost(folder: str) -> tuple[str, str]:
    """The outermost folder of the saved tree that an absolute path belongs to, and the relative path in it.

    A folder outside of a tree, or behind a symbolic link, is its own outermost folder.
    """
    top, subfolder = folder, ""
    while True:
        parent, name = os.path.split(top)
        if parent == top or not _is_node(parent) or os.path.islink(top):
            return top, subfolder
        top, subfolder = parent, f"{name}/{subfolder}" if subfolder else name


def _is_node(folder: str) -> bool:
    """Whether a folder, other than the root of the file system, holds a saved container."""
    where = f"{folder}/{meta.NAME}"
    if not os.access(where, os.F_OK) or folder == os.path.dirname(folder):
        return False
    try:
        return isinstance(meta.loads(read_file(where, meta.MAX_BYTES), where).get("_type"), str)
    except (OSError, ValueError):
        return False


def _add_ancestors(top: str, subfolder: str, stage: str) -> None:
    """Create the folders down to a part of a tree. Readers notice the change by the new `meta.json` of each.

    Pickles are copied too, as a new `meta.json` without its own pickle removes the old one.
    """
    at = ""
    for name in subfolder.split("/") if subfolder else ():
        for file in (meta.NAME, *meta.PICKLES):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{top}{at}/{file}", f"{stage}{at}/{file}", follow_symlinks=False)
        at += f"/{name}"
        os.mkdir(f"{stage}{at}")


@contextmanager
def _stage(before: str) -> Iterator[str]:
    """A new folder, which is removed with its content if the block raises."""
    path = f"{before}{_own()}"
    try:
        os.mkdir(path)
    except FileNotFoundError:
        make_folder(os.path.dirname(before))
        os.mkdir(path)
    try:
        yield path
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _renamed(source: str, target: str) -> bool:
    waits = waits_for_disk()
    if waits:
        for folder, _, names in os.walk(source):
            for path in (*(f"{folder}/{name}" for name in names), folder):
                flush(path)
    try:
        rename(source, target)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        return False
    if waits:
        flush(os.path.dirname(target))
    return True


def waits_for_disk() -> bool:
    return _waiting.get() or os.environ.get("LITE_FSYNC", "0") not in ("", "0")


@contextmanager
def waiting_for_disk(wanted: bool = True) -> Iterator[None]:
    """Writes in the block wait as with `LITE_FSYNC=1`, if `wanted`; for rare ones that all else needs."""
    before = _waiting.set(wanted)
    try:
        yield
    finally:
        _waiting.reset(before)


def make_folder(path: str) -> None:
    """`os.makedirs` of a folder that may be there; what it makes is on the disk if writes wait for that."""
    parent = os.path.dirname(path) or "."
    if waits_for_disk() and not os.path.isdir(path) and parent != path:
        make_folder(parent)
        with suppress(FileExistsError):
            os.mkdir(path)
            flush(parent)
    os.makedirs(path, exist_ok=True)


def flush(path: str) -> None:
    """Wait until a file, or the listing of a folder, is on the disk."""
    if os.name != "posix" and os.path.isdir(path):
        return  # Windows can only open files
    descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def _host() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "host")
    return name.replace("/", "_")[:64]


def _own() -> str:
    """The suffix of names of new files and folders, which identifies the writing process."""
    return f"{_STAGE}{_host()}-{os.getpid()}-{PROCESS}{os.urandom(4).hex()}"


def _remove_abandoned(folder: str, names: Iterable[str], beside: str = "") -> None:
    """Remove files and folders of dead writers of this machine: those among `names`, or of one file only."""
    mine = f"{beside}{_STAGE}{_host()}-"
    for name in names:
        if name.startswith(mine):
            pid, _, rest = name.removeprefix(mine).partition("-")
            if pid.isdigit() and not is_writing(int(pid), rest):
                if os.path.isdir(f"{folder}/{name}"):
                    shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
                else:
                    with suppress(OSError):
                        os.unlink(f"{folder}/{name}")
        elif beside and name.startswith(beside) and ASIDE.fullmatch(name, len(beside)):
            with suppress(OSError):
                os.unlink(f"{folder}/{name}")


def is_writing(pid: int, rest: str) -> bool:
    """Whether the process of this number is alive and made the name that ends in `rest`."""
    return rest.startswith(PROCESS) if pid == os.getpid() else is_alive(pid)


def _remove_abandoned_beside(folder: str, name: str) -> None:
    """Remove the files that dead writers to a file left.

    A listing takes the longer the more files there are: 3 ms for 10,000, where a write takes 0.1. It takes at
    most a twentieth of the time.
    """
    start = time.monotonic()
    if start < _listed_until.get(folder, start):
        return
    _remove_abandoned(folder, os.listdir(folder), name)
    _listed_until.clear()  # one folder is enough: usually folders are written one after the other
    end = time.monotonic()
    _listed_until[folder] = end + 20 * (end - start)


def finish(root: str, there: Listing | None = None) -> None:
    """Move the files of a valid new tree to their final places; several processes may do it at once.

    Args:
        root: the folder.
        there: its entries, if they are known.
    """
    _refuse_link(f"{root}/{COMMIT}")
    _move(f"{root}/{COMMIT}", root, there)


def _refuse_link(folder: str) -> None:
    """Raise ValueError for a link, by which files of another folder would be moved, or written over."""
    if os.path.islink(folder):
        raise ValueError(f"refusing to follow the symbolic link {folder}.")


def _move(
    source: str, target: str, before: Listing | None = None, names: Collection[str] | None = None
) -> None:
    entries = listed(source) if names is None else dict.fromkeys(names)
    folders = [name for name, entry in entries.items() if entry and entry.is_dir(follow_symlinks=False)]
    files = entries.keys() - folders
    for name in folders:
        with suppress(FileExistsError):
            os.mkdir(f"{target}/{name}")
        _refuse_link(f"{target}/{name}")
        _move(f"{source}/{name}", f"{target}/{name}")
    order = [*files - {meta.NAME}, *files & {meta.NAME}]
    if meta.NAME in files:
        kept = files.intersection(meta.PICKLES)
        if kept:
            # While a pickle is still here, the meta.json in place must not say that there is none.
            order.sort(key=lambda name: name != meta.NAME)
        if before is None:
            before = listed(target)
        there = before.keys() - files  # mostly nothing, as a tree is written over by one like it
        stale = {*there.intersection(meta.PICKLES), *filter(ASIDE.search, there)}
        if any(name.endswith(".memmap") for name in there):
            stale |= _leaves(f"{target}/{meta.NAME}") - _leaves(f"{source}/{meta.NAME}")
        if "0" in there:
            _drop_parts(f"{source}/{meta.NAME}", target)
        for name in stale:
            with suppress(OSError):
                remove(f"{target}/{name}")
    for name in order:
        try:
            replace(f"{source}/{name}", f"{target}/{name}")
        except FileNotFoundError:  # another process has moved it
            continue
    with suppress(OSError):  # removed, or the next tree has been written
        os.rmdir(source)


def _leaves(path: str) -> set[str]:
    """The names of the files of arrays that a `meta.json` lists; none if it cannot be read."""
    try:
        entries, _ = meta.split(meta.loads(read_file(path, meta.MAX_BYTES), path), path)
    except (OSError, ValueError):
        return set()
    return {file_name(key, ".memmap", True) for key, member in entries.items() if "dtype" in member}


def _drop_parts(path: str, target: str) -> None:
    """Remove parts beyond the length of a lazy stack that became shorter, as tensordict would read them."""
    with suppress(FileNotFoundError, ValueError):
        extension = meta.loads(read_file(path, meta.MAX_BYTES), path).get("_lite")
        about = extension[0] if isinstance(extension, list) and extension else {}
        at = about.get("count") if isinstance(about, dict) else None
        while isinstance(at, int) and os.path.isfile(f"{target}/{at}/{meta.NAME}"):
            shutil.rmtree(f"{target}/{at}")
            at += 1


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file that replaces `path` when the block ends without an error.

    Errors of the system name `path`. Files that killed writers to `path` on this machine left are removed.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    make_folder(folder)
    _remove_abandoned_beside(folder, name)
    stage = f"{target}{_own()}"
    try:
        with naming(path):
            with open(stage, "x+b") as file:
                mode = os.fstat(file.fileno()).st_mode
                yield file
            if not WINDOWS:  # where files have no modes
                os.chmod(stage, stat.S_IMODE(mode))  # a library may have created the file itself
            if waits_for_disk():
                flush(stage)
            replace(stage, target)
            if waits_for_disk():
                flush(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(stage)
        raise


def append(file: FileIO, content: bytes, path: str) -> None:
    """Write to a file that has no buffer, where bytes would wait behind an error, which names `path`."""
    with naming(path):
        write_all(file.fileno(), content)
        if waits_for_disk():
            os.fsync(file.fileno())


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Put a path into errors of the system, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = path
        raise
