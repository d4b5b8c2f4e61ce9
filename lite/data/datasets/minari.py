"""Conversion of Minari's data sets, which are files of HDF5, Arrow or Parquet."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from lite import TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.types import Path
from lite._files.mapping import read_file
from lite._files.meta import loads
from lite.data.datasets.conversion import Layout, converted, steps_at_a_time
from lite.data.datasets.minari_arrow import ArrowFiles
from lite.data.datasets.minari_hdf5 import FILE, Hdf5File

_METADATA = 1 << 26  # bytes
_SIGNALS = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}


def minari_to_memmap(source: str | os.PathLike[str], folder: str | os.PathLike[str]) -> TensorDictBase:
    """Convert a Minari data set to a TensorDict in the memory-mapped files of a new folder.

    The result has the batch size [steps], with episodes in the order of their numbers, and TorchRL's layout:
    `"observation"`, `"action"`, `"episode"` (its number), and under `"next"` the observation after the step,
    `"reward"`, `"done"`, `"terminated"` and `"truncated"` of shape (steps, 1). Dictionaries are nested; the
    parts of a tuple are `"_index_0"` and so on. Numbers of the infos are under `"info"` and `("next",
    "info")`. A warning names what is left out: infos of other kinds or without a row for each step, and texts
    among numbers in observations, such as the mission of a Minigrid.

    Files are read in pieces, so data sets may be larger than memory. No link is followed. The folder appears
    when the conversion is complete.

    Args:
        source: the folder of the data set, such as `~/.minari/datasets/D4RL/door/human-v2`, or its `data`.
        folder: where to write; there must be nothing yet. The result is mapped there, and locked.

    Raises:
        FileNotFoundError: there is no `main_data.hdf5`, and no metadata that names another format.
        FileExistsError: `folder` exists.
        ImportError: h5py, or for "arrow" pyarrow, is missing.
        ValueError: another format, images stored as JPEG (write them with `jpeg_encoding=False`), text as
            observations or in actions, episodes with different entries, or a file that is damaged, a link, or
            smaller than it claims.

    Source:
        https://minari.farama.org/content/dataset_standards/; TorchRL's `MinariExperienceReplay`.

    Example:
        >>> import tempfile, h5py, numpy as np
        >>> from lite.data import minari_to_memmap
        >>> folder = tempfile.mkdtemp()
        >>> with h5py.File(f"{folder}/main_data.hdf5", "w") as file:
        ...     episode = file.create_group("episode_0")
        ...     episode["observations"], episode["actions"] = np.arange(4.0), np.array([1, 0, 1])
        ...     episode["rewards"] = np.ones(3)
        ...     episode["terminations"], episode["truncations"] = np.array([[0, 0, 1], [0, 0, 0]], bool)
        >>> td = minari_to_memmap(folder, f"{folder}/converted")
        >>> td["observation"], td["next", "observation"], td["next", "done"].ravel()
        (array([0., 1., 2.]), array([1., 2., 3.]), array([False, False,  True]))
    """
    data = os.fspath(source)
    inner = os.path.join(data, "data")
    if not os.path.isfile(os.path.join(data, FILE)) and os.path.isdir(inner):
        data = inner
    metadata = _metadata(os.path.join(data, "metadata.json"))
    kind = metadata.get("data_format", "hdf5")
    spaces = {name: _space(metadata.get(f"{name[:-1]}_space")) for name in ("observations", "actions")}
    opened: AbstractContextManager[_Files]
    if kind == "hdf5":
        opened = Hdf5File(data)
    elif kind in ("arrow", "parquet"):
        opened = ArrowFiles(data, kind, spaces)
    else:
        raise ValueError(f"{source} has the data_format {kind!r}; 'hdf5', 'arrow' and 'parquet' are read.")
    with opened as files:
        episodes = _Episodes(files, spaces)
        return converted(folder, episodes.layout, episodes.steps, files.size, episodes.fill)


class _Files(Protocol):
    """The open files of a data set."""

    path: str
    size: int  # bytes
    numbers: list[int]  # of the episodes, rising

    def read(self, number: int) -> dict[str, list[tuple[Path, Any]]]:
        """The entries of an episode by Minari's names, each as pairs of a relative path and its data.

        Data have a `name`, a `shape`, a `dtype` (object for data other than numbers), and give arrays for
        slices.
        """

    def numeric(self, data: Any, where: str) -> Any:
        """The data; ValueError unless they are plain numbers stored in these files."""


class _Episodes:
    """The episodes of open files: the layout of their steps, and copies of them."""

    def __init__(self, files: _Files, spaces: dict[str, Any]) -> None:
        self._files = files
        self._path = path = files.path
        self._spaces = spaces
        if not files.numbers:
            raise ValueError(f"{path} holds no episode.")
        self._left_out: set[str] = set()
        self.layout: Layout = {}
        self._lengths = {}
        for number in files.numbers:
            steps, entries = self._described(number)
            layout = {path: (tuple(data.shape[1:]), data.dtype) for path, (data, _) in entries.items()}
            if not self.layout:
                self.layout = layout
            elif layout != self.layout:
                keys = sorted(str(key) for key in set(layout.items()) ^ set(self.layout.items()))
                raise ValueError(f"episode {number} of {path} differs from the first one in {keys[:4]}.")
            self._lengths[number] = steps
        self.steps = sum(self._lengths.values())
        self.layout["next", "reward"] = ((1,), self.layout["next", "reward"][1])
        for name in ("done", "terminated", "truncated"):
            self.layout["next", name] = ((1,), np.dtype(np.bool_))
        self.layout[("episode",)] = ((), np.dtype(np.int64))
        if self._left_out:
            warn(f"left out of {path}: {sorted(self._left_out)}.")

    def fill(self, out: TensorDictBase) -> None:
        """Copy all episodes to the rows of `out`."""
        start = 0
        for number in self._files.numbers:
            steps = self._lengths[number]
            rows: Any = out[start : start + steps]
            _, entries = self._described(number)
            for path, (data, first) in entries.items():
                target = rows.get(path)
                piece = steps_at_a_time(tuple(data.shape[1:]), data.dtype)
                for at in range(0, steps, piece):
                    until = min(at + piece, steps)
                    try:
                        values = data[first + at : first + until]
                    except (OSError, RuntimeError, TypeError, ValueError) as error:
                        raise ValueError(
                            f"episode {number} of {self._path} is damaged at {data.name}: {error}"
                        ) from error
                    target[at:until] = values.reshape(target[at:until].shape)
            following = rows.get("next")
            np.logical_or(following.get("terminated"), following.get("truncated"), out=following.get("done"))
            rows.get("episode")[...] = number
            start += steps

    def _described(self, number: int) -> tuple[int, dict[Path, tuple[Any, int]]]:
        """The number of steps of an episode, and each entry with its data and the row of the first step."""
        where = f"episode {number} of {self._path}"
        found = self._files.read(number)
        for name in ("observations", "actions", *_SIGNALS):
            if name not in found:
                raise ValueError(f"{where} has no {name}.")
        entries: dict[Path, tuple[Any, int]] = {}
        numeric = self._files.numeric
        steps = -1
        for name, key in _SIGNALS.items():
            ((path, data), *more) = found[name]
            if path or more:
                raise ValueError(f"{name} of {where} is not an array of numbers.")
            steps = int(numeric(data, where).shape[0]) if steps < 0 else steps
            if numeric(data, where).shape not in ((steps,), (steps, 1)):
                raise ValueError(f"{data.name} of {where} has the shape {data.shape}, not ({steps},).")
            entries["next", key] = (data, 0)
        for path, data in found["actions"]:
            self._check_space("actions", path, data, where)
            self._require_rows(numeric(data, where), steps, where)
            entries["action", *path] = (data, 0)
        for path, data in found["observations"]:
            self._check_space("observations", path, data, where)
            if path and data.dtype.kind not in "biuf":  # such as the mission of a Minigrid
                self._left_out.add("/".join(("observations", *path)))
                continue
            self._require_rows(numeric(data, where), steps + 1, where)
            entries["observation", *path] = (data, 0)
            entries["next", "observation", *path] = (data, 1)
        for path, data in found.get("infos", ()):
            rows = data.shape[0] if data.shape else -1
            if rows not in (steps, steps + 1) or data.dtype.kind not in "biuf" or not path:
                self._left_out.add("/".join(("infos", *path)))
                continue
            numeric(data, where)
            if rows == steps + 1:
                entries["info", *path] = (data, 0)
            entries["next", "info", *path] = (data, rows - steps)
        return steps, entries

    def _require_rows(self, data: Any, rows: int, where: str) -> None:
        if data.shape[0] != rows:
            raise ValueError(f"{data.name} of {where} has {data.shape[0]} rows, expected {rows}.")

    def _check_space(self, name: str, path: Path, data: Any, where: str) -> None:
        """Raise ValueError for images stored as JPEG, which look like arrays of bytes."""
        space = self._spaces[name]
        for part in path:
            parts = space.get("subspaces") if isinstance(space, dict) else None
            if isinstance(parts, list) and part.startswith("_index_"):
                index = part.removeprefix("_index_")
                space = parts[int(index)] if index.isdecimal() and int(index) < len(parts) else None
            else:
                space = parts.get(part) if isinstance(parts, dict) else None
        shape = space.get("shape") if isinstance(space, dict) and space.get("type") == "Box" else None
        if isinstance(shape, list) and data.dtype.kind in "uO" and list(data.shape[1:]) != shape:
            raise ValueError(
                f"{data.name} of {where} holds images of shape {shape} as JPEG, which is not read; write the "
                "data set with jpeg_encoding=False."
            )


def _metadata(path: str) -> dict[str, Any]:
    return loads(read_file(path, _METADATA), path) if os.path.isfile(path) else {}


def _space(text: Any) -> Any:
    """A space as Minari describes it: JSON, or a string of it."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
