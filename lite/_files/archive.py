"""`.tdz` archives: a zip file of a saved folder, whose leaves are memory-mapped in place.

`Archive` reads one, `write_archive` writes one; `pack` and `unpack` turn folders into archives and back.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import struct
import time
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lite._arrays.types import Array, Shape
from lite._files.commit import COMMIT, finish, new_file, outermost, replace_tree
from lite._files.mapping import bytes_in, bytes_of, open_regular
from lite._files.meta import MAX_BYTES, NAME
from lite._files.payload import if_pickled
from lite._files.system import WINDOWS
from lite._tree.keys import require_utf8

try:
    from lzma import LZMAError
except ImportError:  # Python was built without it
    LZMAError = zlib.error  # type: ignore[assignment, misc]

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
# Errors of zipfile for damaged files; IndexError is for an entry without a name, the last for its bytes.
_BAD_ZIP = (
    zipfile.BadZipFile, zlib.error, LZMAError, EOFError, NotImplementedError, struct.error, OSError,
    IndexError, UnicodeDecodeError,
)  # fmt: skip
_ALIGNMENT = 64
_PAD = struct.Struct("<HH")
_PAD_ID = 0x6474
_ZIP64_EXTRA = 20  # bytes that zipfile adds to a header with force_zip64
_CHUNK = 1 << 24
_TEXT = 1 << 23  # bytes that a packed text may have, however small it is packed
# Errors of the system for names and offsets in damaged archives.
_BAD_NAMES = (errno.EINVAL, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
_COMPRESSION = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def is_archive(path: str) -> bool:
    """See `is_memmap_archive`."""
    return os.path.isfile(path) and _is_archive(path)


def _is_archive(source: Any) -> bool:
    """Whether a file, or the file at a path, is an archive."""
    if not zipfile.is_zipfile(source):
        return False
    try:
        with zipfile.ZipFile(source) as archive:
            return NAME in archive.namelist()
    except _BAD_ZIP:
        return False


def payload_offset(file: BinaryIO | memoryview, info: zipfile.ZipInfo, where: str) -> int:
    """The offset of the bytes of an entry, which only its local header has."""
    at = info.header_offset
    if isinstance(file, memoryview):
        header = bytes(file[at : at + _LOCAL_HEADER.size]) if at >= 0 else b""
    else:
        try:
            file.seek(at)
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{where} is damaged: the place of the entry {info.filename!r}: {error}."
            ) from error
        header = file.read(_LOCAL_HEADER.size)
    if len(header) != _LOCAL_HEADER.size or header[:4] != _LOCAL_SIGNATURE:
        raise ValueError(f"{where} is damaged: no header where the entry {info.filename!r} should be.")
    name_length, extra_length = struct.unpack_from("<2H", header, 26)
    return int(at + _LOCAL_HEADER.size + name_length + extra_length)


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
        def opened(path: str, _: int) -> int:
            return open_regular(path, os.O_RDWR if writable else os.O_RDONLY)[0]

        # One file for all, as a writer may put another one in its place meanwhile.
        self._file = open(os.path.realpath(path), "r+b" if writable else "rb", opener=opened)  # noqa: SIM115
        try:
            if not _is_archive(self._file):
                raise ValueError(
                    f"{path} is not a memory-mapped tensordict archive (a zip file with a meta.json)"
                    f"{if_pickled(path) or '.'}"
                )
            size = os.fstat(self._file.fileno()).st_size
            self._memory = bytes_in(self._file.fileno(), size, not writable)
            self._zip = zipfile.ZipFile(self._file)
        except BaseException:
            self._file.close()
            raise
        self.where = path
        self._writable = writable
        self._entries = {i.filename: i for i in self._zip.infolist() if not i.filename.endswith("/")}
        self._sorted = sorted(self._entries)

    def close(self) -> None:
        """Close the zip file; mapped arrays stay valid."""
        self._zip.close()
        self._file.close()

    def verify(self) -> None:
        """Compare all entries with their checksums; ValueError names the first that differs."""
        for info in self._entries.values():
            stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
            start = payload_offset(self._memory, info, self.where) if stored else 0
            if stored and info.compress_size == info.file_size:
                with memoryview(self._memory) as memory:
                    same = zlib.crc32(memory[start : start + info.file_size]) == info.CRC
            else:
                same = self._unpacks(info)
            if not same:
                raise ValueError(f"{self.where} is damaged: the checksum of {info.filename!r} differs.")

    def _unpacks(self, info: zipfile.ZipInfo) -> bool:
        try:
            for _ in _pieces(self._zip, info):  # raises at the end if the checksum differs
                pass
        except (*_BAD_ZIP, RuntimeError):
            return False
        return True

    def text(self, path: str) -> bytes | None:
        """The content of a small entry, None if there is none."""
        info = self._entries.get(path)
        if info is None:
            return None
        # A text that repeats itself packs to a thousandth, and what is read of it may take 20 times its size.
        packed = info.compress_type != zipfile.ZIP_STORED
        return self._read(info, min(MAX_BYTES, _TEXT + 32 * info.compress_size) if packed else MAX_BYTES)

    def leaf(self, path: str, dtype: np.dtype[Any], shape: Shape) -> Array | None:
        """An array over the archive itself; a copy if the entry is compressed or out of line."""
        info = self._entries.get(path)
        if info is None:
            return None
        count, stored = math.prod(shape), info.compress_type == zipfile.ZIP_STORED
        wanted = count * dtype.itemsize
        # Bytes after the array are ignored and never unpacked, as a small archive can expand to gigabytes.
        if info.file_size < wanted or (info.file_size > wanted and not stored):
            raise ValueError(
                f"the entry {path!r} of {self.where} has {info.file_size} bytes, expected "
                f"{wanted} for {dtype} of shape {shape}."
            )
        if not stored:
            self._require_read_only(f"the entry {path!r} is compressed")
            return np.frombuffer(bytearray(self._read(info, wanted)), dtype).reshape(shape)
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
        """Whether a path is a folder with entries."""
        at = bisect_left(self._sorted, f"{path}/")
        return at < len(self._sorted) and self._sorted[at].startswith(f"{path}/")

    def leaves(self, path: str) -> set[str]:
        """Empty, as the archive lists all of its files."""
        return set()

    def place(self, path: str) -> None:
        """None, as folders in an archive have no path in the file system."""

    def _read(self, info: zipfile.ZipInfo, limit: int) -> bytes:
        try:
            data = b"".join(_pieces(self._zip, info)) if info.file_size <= limit else b""
        except (*_BAD_ZIP, RuntimeError) as error:
            raise ValueError(f"{self.where} is damaged or encrypted: entry {info.filename!r}.") from error
        if len(data) != info.file_size:
            raise ValueError(
                f"{self.where}: the entry {info.filename!r} is not as long as it says, or too long."
            )
        return data

    def _require_read_only(self, reason: str) -> None:
        if self._writable:
            raise RuntimeError(
                f"cannot open {self.where} with mode='r+': {reason}, so that writes could not reach the file."
            )


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of an entry, up to the size that it says.

    zipfile unpacks all that it has read at once, but for deflate: of LZMA, 4 kB become 30 MB at most; of
    bzip2, 1 kB may become a gigabyte.
    """
    if info.compress_type == zipfile.ZIP_BZIP2:
        yield from _of_bzip2(archive, info)
        return
    size = 1 << 12 if info.compress_type == zipfile.ZIP_LZMA else 1 << 20
    with archive.open(info) as file:
        while piece := file.read(size):
            yield piece


def _of_bzip2(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    from bz2 import BZ2Decompressor  # Python may have been built without it

    file: Any = archive.fp
    file.seek(payload_offset(file, info, str(archive.filename)))
    packed = file.read(min(info.compress_size, os.fstat(file.fileno()).st_size))
    unpacker, left, checksum = BZ2Decompressor(), info.file_size, 0
    while left and (piece := unpacker.decompress(packed, min(left, 1 << 20))):
        packed, left, checksum = b"", left - len(piece), zlib.crc32(piece, checksum)
        yield piece
    if left or checksum != info.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {info.filename!r}")


# -- writing ---------------------------------------------------------------------------------------


def compression_type(compression: str | int | None) -> int:
    """The zipfile constant for a compression given by name or number.

    Raises:
        ValueError: unknown compression.
    """
    if compression is None:
        return zipfile.ZIP_STORED
    if isinstance(compression, str):
        compression = _COMPRESSION.get(compression.lower(), -1)
    if compression not in _COMPRESSION.values():
        raise ValueError(f"compression must be one of {sorted(_COMPRESSION)} or a zipfile constant.")
    return compression


def write_archive(
    path: str, files: Iterable[tuple[str, Any]], compression: str | int | None, level: int | None = None
) -> None:
    """Write files, given as (path, array | bytes | Path), to an archive; replaces an old one atomically.

    Leaves start at multiples of 64 bytes, so that they can be mapped.
    """
    kind = compression_type(compression)
    if os.path.isdir(path):
        raise ValueError(f"cannot write the archive {path}: it is a folder.")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise PermissionError(f"cannot overwrite {path}: the file is not writable.")
    with new_file(path) as out:
        with zipfile.ZipFile(out, "w", allowZip64=True) as archive:
            for name, content in files:
                leaf = name.endswith(".memmap")
                _add(archive, name, content, kind if leaf else zipfile.ZIP_STORED, level, leaf)
        if os.path.exists(path):
            shutil.copymode(path, out.name)


def archive_order(files: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Files by path in the order of an archive: files of a folder before its folders, `meta.json` first."""

    def position(file: tuple[str, Any]) -> list[tuple[int, str]]:
        *folders, name = file[0].split("/")
        return [*((2, folder) for folder in folders), (0 if name == NAME else 1, name)]

    return sorted(files, key=position)


def _add(
    archive: zipfile.ZipFile, name: str, content: Array | bytes | Path, kind: int, level: int | None,
    leaf: bool,
) -> None:  # fmt: skip
    require_utf8(name, "the file name")
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    info.compress_type = kind
    info.external_attr = 0o644 << 16
    if level is not None:
        info._compresslevel = level  # type: ignore[attr-defined]
    if leaf and kind == zipfile.ZIP_STORED:
        start = (
            archive.start_dir + _LOCAL_HEADER.size + len(info.filename.encode()) + _PAD.size + _ZIP64_EXTRA
        )
        pad = -start % _ALIGNMENT
        info.extra = _PAD.pack(_PAD_ID, pad) + bytes(pad)
    with archive.open(info, "w", force_zip64=True) as out:
        if isinstance(content, Path):
            with open(content, "rb") as source:
                shutil.copyfileobj(source, out, _CHUNK)
            return
        view = memoryview(bytes_of(content) if isinstance(content, np.ndarray) else content)
        for at in range(0, len(view), _CHUNK):
            out.write(view[at : at + _CHUNK])


def pack(root: Path, archive: Path, compression: str | int | None, compresslevel: int | None) -> Path:
    """See `pack_memmap`."""
    finish(outermost(os.path.abspath(root))[0])
    if not (root / NAME).is_file():
        raise ValueError(f"{root} does not look like a saved tensordict: it has no {NAME}.")
    if archive.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"the archive {archive} must lie outside of the folder {root}.")
    files = {}
    for folder, subfolders, names in os.walk(root):
        for name in [*subfolders, *names]:
            if os.path.islink(os.path.join(folder, name)):
                raise ValueError(f"refusing to follow the symbolic link {os.path.join(folder, name)}.")
        subfolders[:] = [name for name in subfolders if not name.startswith("%new-")]
        for name in names:
            file = Path(folder, name)
            files[file.relative_to(root).as_posix()] = file
    write_archive(str(archive), archive_order(files.items()), compression, compresslevel)
    return archive


def unpack(path: Path, root: Path) -> Path:
    """See `unpack_memmap`."""
    if not is_archive(str(path)):
        raise ValueError(f"{path} is not a memory-mapped tensordict archive.")
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            parts = info.filename.replace("\\", "/").split("/")
            outside = info.filename.startswith("/") or ".." in parts or COMMIT in parts
            outside = outside or ":" in (info.filename if WINDOWS else parts[0])  # a stream of another file
            if outside or info.external_attr >> 28 == 0xA:
                raise ValueError(f"refusing to unpack the entry {info.filename!r} of {path}.")
        replace_tree(os.path.abspath(root), lambda stage, _: _extract(archive, stage, path))
    return root


def _extract(archive: zipfile.ZipFile, folder: str, path: Path) -> None:
    try:
        for info in archive.infolist():
            target = os.path.join(folder, info.filename)
            os.makedirs(target if info.is_dir() else os.path.dirname(target), exist_ok=True)
            if not info.is_dir():
                with open(target, "wb") as out:
                    out.writelines(_pieces(archive, info))
    except (*_BAD_ZIP, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno not in _BAD_NAMES:
            raise  # an error of the disk, not of the archive
        raise ValueError(f"{path} is damaged or encrypted: {error}") from error


def refresh_checksums(path: Path) -> Path:
    """See `refresh_archive_checksums`."""
    if not is_archive(str(path)):
        raise ValueError(f"{path} is not a memory-mapped tensordict archive.")
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        directory = archive.start_dir
    # A checksum is at byte 14 of an entry's own header, and at byte 16 of its record of 46 bytes in the
    # directory at the end, which a name, an extra field and a comment of any length follow.
    with open(path, "r+b") as file:
        sums = [_checksum(file, info, str(path)) for info in entries]
        for info, checksum in zip(entries, sums, strict=True):
            _patch(file, info.header_offset + 14, checksum)
        at = directory
        for checksum in sums:
            file.seek(at)
            record = file.read(46)
            if record[:4] != b"PK\x01\x02":
                raise ValueError(f"{path} is damaged: its list of entries cannot be read.")
            _patch(file, at + 16, checksum)
            at += 46 + sum(struct.unpack_from("<3H", record, 28))
    return path


def _checksum(file: BinaryIO, info: zipfile.ZipInfo, where: str) -> int:
    if info.flag_bits & 8:
        raise ValueError(f"{where} was written as a stream; its checksums cannot be replaced.")
    start = payload_offset(file, info, where)
    if info.compress_type != zipfile.ZIP_STORED:
        return info.CRC
    file.seek(start)
    checksum, left = 0, info.file_size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise ValueError(f"{where} is damaged: the entry {info.filename!r} is cut off.")
        checksum = zlib.crc32(chunk, checksum)
        left -= len(chunk)
    return checksum


def _patch(file: BinaryIO, at: int, checksum: int) -> None:
    """Write a checksum over the one at an offset."""
    file.seek(at)
    file.write(struct.pack("<I", checksum))
