"""Where the files of a saved tree come from: a folder, or (in `archive`) a zip file."""

from __future__ import annotations

import os
import stat
from typing import Any, Protocol

import numpy as np

from lite._arrays.types import Array, Shape
from lite._files.commit import COMMIT
from lite._files.mapping import map_leaf, open_regular, read_all, read_file
from lite._files.meta import MAX_BYTES, NAME


class Store(Protocol):
    """Files by path below the root of the tree; `/` separates folders."""

    where: str

    def text(self, path: str) -> bytes | None:
        """The content of a small file, None if there is none."""

    def leaf(self, path: str, dtype: np.dtype[Any], shape: Shape) -> Array | None:
        """The array that a file holds, None if there is no such file."""

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there."""

    def leaves(self, path: str) -> set[str]:
        """The names of the files of arrays in a folder; none where not all of them need be entries."""

    def place(self, path: str) -> str | None:
        """Where a folder is in the file system, None in an archive."""


class Folder:
    """A folder, possibly with a new tree in it that is not in place yet (see `commit`).

    It holds on to the `meta.json` at the root, which every writer replaces, and so can tell whether one
    has: as long as the old file is open, its inode number cannot be given to another. Close it after use.
    """

    def __init__(self, root: str) -> None:
        self.where = root
        # A file in the new tree counts before the one at its place. It may move there at any moment,
        # so the order of looking matters.
        commit = f"{root}/{COMMIT}"
        self._places = [commit, root] if kind_of(commit) == stat.S_IFDIR else [root]
        self._descriptor, self._inode = -1, -1
        for place in self._places:
            try:
                self._descriptor, status = open_regular(f"{place}/{NAME}", os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            self._inode, self._size = status.st_ino, status.st_size
            return

    def is_current(self) -> bool:
        """Whether no writer has been here meanwhile."""
        for path in (f"{self.where}/{COMMIT}/{NAME}", f"{self.where}/{NAME}"):
            try:
                return os.stat(path).st_ino == self._inode
            except (FileNotFoundError, NotADirectoryError):
                continue
        return self._descriptor < 0

    def close(self) -> None:
        """Let go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def text(self, path: str) -> bytes | None:
        if path == NAME and self._descriptor >= 0:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            return read_all(self._descriptor, self._size, f"{self.where}/{path}", MAX_BYTES)
        for place in self._places:
            try:
                return read_file(f"{place}/{path}", MAX_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                continue
        return None

    def leaf(self, path: str, dtype: np.dtype[Any], shape: Shape) -> Array | None:
        for place in self._places:
            try:
                return map_leaf(f"{place}/{path}", dtype, shape, f"{self.where}/{path}")
            except (FileNotFoundError, NotADirectoryError):
                continue
        return None

    def is_folder(self, path: str) -> bool:
        for place in self._places:
            kind = kind_of(f"{place}/{path}")
            if kind == stat.S_IFLNK:
                raise ValueError(f"refusing to follow the symbolic link {place}/{path}.")
            if kind == stat.S_IFDIR:
                return True
        return False

    def leaves(self, path: str) -> set[str]:
        if len(self._places) > 1:  # a writer has yet to remove those of former entries
            return set()
        return {name for name in os.listdir(self.place(path)) if name.endswith(".memmap")}

    def place(self, path: str) -> str:
        return f"{self.where}/{path}" if path else self.where


def kind_of(path: str) -> int:
    """The kind of what is at a path, as `stat.S_IFMT` gives it; 0 for nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0
