"""Space on the disk for rows of mapped files, asked for before they are written."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lite._arrays.types import Array
from lite._files.mapping import open_regular, source_of

AHEAD = 1 << 20  # bytes that the widest file gets beyond the rows that are about to be written


class DiskSpace:
    """Asks the disk for blocks ahead of the rows that are written.

    A write into a mapped page for which there is no block left kills the process. Asked for before, it is an
    error that leaves everything as it was; and pages of blocks that are there are mapped in two thirds of the
    time. Systems without `posix_fallocate` go without.

    Args:
        arrays: mapped arrays, first dimension rows.
        rows: how many rows have been written, and so have theirs.
    """

    def __init__(self, arrays: Sequence[Array], rows: int) -> None:
        found = [(source_of(array), array.nbytes // len(array)) for array in arrays]
        self._files = [(source.path, size) for source, size in found if source is not None and size]
        self._ahead = AHEAD // max((size for _, size in self._files), default=AHEAD)
        self._rows = rows if hasattr(os, "posix_fallocate") else len(arrays[0]) if arrays else 0

    def reserve(self, rows: int, most: int) -> None:
        """Have blocks for the first `rows` rows of `most`.

        Raises:
            OSError: the disk has no room for them.
        """
        if rows <= self._rows:
            return
        end = min(most, rows + self._ahead)
        for path, size in self._files:
            file, _ = open_regular(path, os.O_WRONLY)
            try:
                os.posix_fallocate(file, self._rows * size, (end - self._rows) * size)
            except OSError as error:
                raise OSError(error.errno, f"no room for {end:,} rows: {error.strerror}", path) from None
            finally:
                os.close(file)
        self._rows = end
