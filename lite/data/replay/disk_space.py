"""Space on the disk for rows of mapped files, and pages in memory, got before rows are written."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lite._arrays.types import Array
from lite._files.mapping import open_regular, source_of

# Bytes that all files together get beyond the rows that are about to be written: a call that writes them
# takes a millisecond longer, which a loop that controls something can bear.
AHEAD = 1 << 22
_ZEROS = memoryview(bytes(1 << 20))


class DiskSpace:
    """Asks the disk for blocks ahead of the rows that are written, and fills them with zeros.

    A write into a mapped page for which there is no block left kills the process. Asked for before, it is an
    error that leaves everything as it was. Zeros that are written in long pieces bring pages into memory in
    large groups, which takes a quarter of the time of one fault for each page. Systems without `pwrite` go
    without either.

    Args:
        arrays: mapped arrays, first dimension rows.
        rows: how many rows have been written, and so have theirs.
    """

    def __init__(self, arrays: Sequence[Array], rows: int) -> None:
        found = [(source_of(array), array.nbytes // len(array)) for array in arrays]
        self._files = [(source.path, size) for source, size in found if source is not None and size]
        self._ahead = AHEAD // max(1, sum(size for _, size in self._files))
        self._rows = rows if hasattr(os, "pwrite") else len(arrays[0]) if arrays else 0

    def reserve(self, filled: int, rows: int, most: int) -> None:
        """Have blocks for the first `rows` rows of `most`, of which the first `filled` hold something.

        Raises:
            OSError: the disk has no room for them.
        """
        if rows <= self._rows:
            return
        start = max(self._rows, filled)  # rows beyond those reserved may have been written
        end = max(start, min(most, rows + self._ahead))
        for path, size in self._files:
            file, _ = open_regular(path, os.O_WRONLY)
            try:
                _fill(file, start * size, end * size)
            except OSError as error:
                raise OSError(error.errno, f"no room for {end:,} rows: {error.strerror}", path) from None
            finally:
                os.close(file)
        self._rows = end


def _fill(file: int, start: int, end: int) -> None:
    """Write zeros from one byte to another."""
    if start < end and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, end - start)  # at once, which takes less than block by block
    while start < end:
        start += os.pwrite(file, _ZEROS[: end - start], start)
