"""Where the files of a saved tree come from: a folder, or (in `archive`) a zip file."""

from __future__ import annotations

import os
import stat
from typing import Any, Protocol

import numpy as np

from lite._collection import Array, Shape
from lite._files.commit import COMMIT
from lite._files.mapping import map_leaf, open_regular, read_file
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

    def place(self, path: str) -> str | None:
        """Where a folder is in the file system, None in an archive."""


class Folder:
    """A folder, possibly with a new tree in it that is not in place yet (see `commit`)."""

    def __init__(self, root: str) -> None:
        self.where = root
        # A file in the new tree counts before the one at its place. It may move there at any moment,
        # so the order of looking matters.
        commit = f"{root}/{COMMIT}"
        self._places = [commit, root] if os.path.isdir(commit) and not os.path.islink(commit) else [root]

    def text(self, path: str) -> bytes | None:
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
            try:
                mode = os.lstat(f"{place}/{path}").st_mode
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISLNK(mode):
                raise ValueError(f"refusing to follow the symbolic link {place}/{path}.")
            if stat.S_ISDIR(mode):
                return True
        return False

    def place(self, path: str) -> str:
        return f"{self.where}/{path}" if path else self.where


class Version:
    """Holds on to the state of a folder, to tell whether a writer has replaced it meanwhile.

    Every writer replaces the `meta.json` at the root. As long as the old one is open, its inode number
    cannot be given to another.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._descriptor = -1
        for path in (f"{root}/{COMMIT}/{NAME}", f"{root}/{NAME}"):
            try:
                self._descriptor, _ = open_regular(path, os.O_RDONLY)
                return
            except (FileNotFoundError, NotADirectoryError):
                continue

    def is_current(self) -> bool:
        """Whether the folder is still what it was."""
        for path in (f"{self._root}/{COMMIT}/{NAME}", f"{self._root}/{NAME}"):
            try:
                inode = os.stat(path).st_ino
            except (FileNotFoundError, NotADirectoryError):
                continue
            return self._descriptor >= 0 and inode == os.fstat(self._descriptor).st_ino
        return self._descriptor < 0

    def close(self) -> None:
        """Let go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
