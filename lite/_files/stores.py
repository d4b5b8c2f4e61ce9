"""Sources of the files of a saved tree: a folder, or (in `archive`) a zip file."""

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
    """Files by path relative to the root of the tree; `/` separates folders."""

    where: str

    def text(self, path: str) -> bytes | None:
        """The content of a small file, None if there is none."""

    def leaf(self, path: str, dtype: np.dtype[Any], shape: Shape) -> Array | None:
        """The array in a file, None if there is no such file."""

    def is_folder(self, path: str) -> bool:
        """Whether a folder exists."""

    def leaves(self, path: str) -> set[str]:
        """The names of files of arrays in a folder; empty if some of them may not be entries."""

    def place(self, path: str) -> str | None:
        """The path of a folder in the file system, None in an archive."""


class Folder:
    """A folder, possibly with a new tree in it that is not in place yet (see `commit`).

    It keeps the `meta.json` of the root open. Every writer replaces that file, and a new file cannot get the
    inode number of an open one, so a changed number means a new tree. Close the store after use.
    """

    def __init__(self, root: str, mode: str | None = None) -> None:
        self.where = root
        self._mode = mode  # as of `map_leaf`
        # A file in the new tree takes precedence over the one in its final place. It may be moved there at
        # any moment, so the new tree must be tried first.
        commit = f"{root}/{COMMIT}"
        kind = kind_of(commit)
        if kind == stat.S_IFLNK:
            raise ValueError(f"refusing to follow the symbolic link {commit}.")
        self._places = [commit, root] if kind == stat.S_IFDIR else [root]
        self._descriptor, self._inode = -1, -1
        for place in self._places:
            try:
                self._descriptor, status = open_regular(f"{place}/{NAME}", os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            self._inode, self._size = status.st_ino, status.st_size
            return

    def is_current(self) -> bool:
        """Whether no writer has replaced the tree since it was opened."""
        for path in (f"{self.where}/{COMMIT}/{NAME}", f"{self.where}/{NAME}"):
            try:
                return os.stat(path).st_ino == self._inode
            except (FileNotFoundError, NotADirectoryError):
                continue
        return self._descriptor < 0

    def close(self) -> None:
        """Close the open `meta.json`."""
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
                return map_leaf(f"{place}/{path}", dtype, shape, f"{self.where}/{path}", self._mode)
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
        if len(self._places) > 1:  # files of removed entries may still exist while a writer is active
            return set()
        return {name for name in os.listdir(f"{self.where}/{path}") if name.endswith(".memmap")}

    def place(self, path: str) -> str | None:
        if self._mode == "r":  # nothing of it is written there, also no objects
            return None
        return f"{self.where}/{path}" if path else self.where


def kind_of(path: str) -> int:
    """The file type at a path, as from `stat.S_IFMT`; 0 if there is none."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0
