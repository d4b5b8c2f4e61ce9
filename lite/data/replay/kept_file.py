"""The file of frames that transforms withhold, which must survive together with the rows of a ring.

Before the first row the frames are in the file `%first`. Then they are in the file `%kept`, which has two
halves of equal size. New frames are written into the half that does not count. `ring_file` knows their size,
and makes the half count in the same write as the new rows.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from lite._files.commit import flush, naming, new_file, waits_for_disk
from lite._files.consolidated import from_bytes, to_bytes
from lite._files.mapping import open_regular, read_file, write_all

_NAME = "%kept"
_FIRST = "%first"
_SMALLEST = 4096


class KeptFile:
    """The file of a folder; made when something is to be kept."""

    def __init__(self, folder: str) -> None:
        self.path = f"{folder}/{_NAME}"
        self._first = f"{folder}/{_FIRST}"

    @property
    def has_first(self) -> bool:
        """Whether something is kept that no row has followed."""
        return os.path.lexists(self._first)

    def read_first(self) -> Any:
        """The frames withheld before the first row, or None."""
        if not self.has_first:
            return None
        data = read_file(self._first, sys.maxsize)
        return from_bytes(np.frombuffer(data, np.uint8), self._first) if data else None

    def write_first(self, content: Any) -> None:
        """Store a container, or None, while there are no rows."""
        with new_file(self._first) as file:
            file.write(b"" if content is None else to_bytes(content))

    def forget_first(self) -> None:
        """Remove the file of the time before the first row."""
        with suppress(FileNotFoundError):
            os.unlink(self._first)

    def read(self, kept: tuple[int, int]) -> Any:
        """The withheld frames: a container, or None.

        Args:
            kept: the half that counts, and the size in bytes of the frames in it.

        Raises:
            ValueError: the file is damaged.
        """
        return from_bytes(np.frombuffer(self._bytes(kept), np.uint8), self.path) if kept[1] else None

    def _bytes(self, kept: tuple[int, int]) -> bytes:
        place, size = kept
        descriptor, status = open_regular(self.path, os.O_RDONLY)
        try:
            capacity = status.st_size // 2
            if size > capacity:
                raise ValueError(f"{self.path} is damaged: {size} bytes are not in {capacity}.")
            os.lseek(descriptor, place * capacity, os.SEEK_SET)
            found = b""
            while len(found) < size and (part := os.read(descriptor, size - len(found))):
                found += part
        finally:
            os.close(descriptor)
        if len(found) < size:
            raise ValueError(f"{self.path} is damaged: it ends after {len(found)} of {size} bytes.")
        return found

    def write(self, content: Any, kept: tuple[int, int]) -> tuple[int, int]:
        """Write a container, or None, into the half that does not count; gives that half and the size.

        Args:
            content: what to keep.
            kept: the half that counts now, and the size in bytes of the frames in it.
        """
        if content is None:
            return kept[0], 0
        data, place = to_bytes(content), 1 - kept[0]
        if not os.path.exists(self.path) or os.path.getsize(self.path) // 2 < len(data):
            old = self._bytes(kept) if kept[1] else b""
            self._grow(old, kept[0], max(_SMALLEST, 1 << (len(data) - 1).bit_length()))
        descriptor, status = open_regular(self.path, os.O_RDWR)
        try:
            os.lseek(descriptor, place * (status.st_size // 2), os.SEEK_SET)
            with naming(self.path):
                write_all(descriptor, data)
        finally:
            os.close(descriptor)
        if waits_for_disk():
            flush(self.path)
        return place, len(data)

    def _grow(self, old: bytes, place: int, capacity: int) -> None:
        """A larger file takes the place of the old one, with what counts in it."""
        with new_file(self.path) as file:
            file.truncate(2 * capacity)
            file.seek(place * capacity)
            file.write(old)
