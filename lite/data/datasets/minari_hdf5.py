"""Minari's data sets in one HDF5 file, with a group for each episode."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any, Self

from lite._arrays.types import Path
from lite._files.h5 import member, require_new
from lite._files.meta import damaged
from lite.data.datasets.conversion import PIECE
from lite.kernels._install import install, needed

FILE = "main_data.hdf5"
DEEPEST = 16  # groups in groups
_EPISODE = re.compile(r"episode_(\d{1,18})\Z")


class Hdf5File:
    """The file `main_data.hdf5` of a folder, open until the context ends. No link in it is followed.

    Raises:
        ImportError: h5py is missing.
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged, has links, or entries that are not episodes.
    """

    def __init__(self, folder: str) -> None:
        self._h5py = needed("h5py", "Minari's files need the package h5py", install("files"))
        self.path = os.path.join(folder, FILE)
        if not os.path.isfile(self.path) or os.path.islink(self.path):
            raise FileNotFoundError(f"there is no {FILE} in {folder}, nor in its folder 'data'.")
        self.size = os.path.getsize(self.path)
        with damaged(self.path, OSError):
            self._file = self._h5py.File(self.path, "r")
        try:
            self._episodes = dict(sorted(self._found()))
        except BaseException:
            self._file.close()
            raise
        self.numbers = list(self._episodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _found(self) -> Iterator[tuple[int, Any]]:
        for name in self._file:
            match = _EPISODE.match(name)
            if match is None:
                raise ValueError(f"{self.path} has an entry {name!r} among its episodes.")
            yield int(match[1]), member(self._h5py, self._file, name)

    def read(self, number: int) -> dict[str, list[tuple[Path, Any]]]:
        """The entries of an episode: h5py's data sets, which are read where they are indexed."""
        group, seen = self._episodes[number], set[Any]()
        return {name: list(self._leaves(member(self._h5py, group, name), (), seen)) for name in group}

    def numeric(self, data: Any, where: str) -> Any:
        """`data`, if it is plain numbers in this file, in pieces of a reasonable size."""
        if not isinstance(data, self._h5py.Dataset) or data.dtype.kind not in "biuf" or not data.shape:
            raise ValueError(
                f"{data.name} of {where} is not an array of numbers, got {getattr(data, 'dtype', data)}."
            )
        if data.is_virtual or data.external:
            raise ValueError(f"refusing to follow {data.name} of {where} to other files.")
        if data.chunks and math.prod(data.chunks) * data.dtype.itemsize > max(data.nbytes, 4 * PIECE):
            raise ValueError(f"{data.name} of {where} claims chunks larger than itself.")
        return data

    def _leaves(self, item: Any, path: Path, seen: set[Any]) -> Iterator[tuple[Path, Any]]:
        require_new(self._h5py, item, seen)
        if not isinstance(item, self._h5py.Group):
            yield path, item
            return
        if len(path) > DEEPEST:
            raise ValueError(f"{self.path} nests groups deeper than {DEEPEST}.")
        for name in item:
            yield from self._leaves(member(self._h5py, item, name), (*path, name), seen)
