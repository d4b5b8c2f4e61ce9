"""Minari's data sets: HDF5 files of episodes."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from lite import TensorDictBase
from lite._arrays.types import Path
from lite._files.mapping import read_file
from lite.data.datasets.conversion import PIECE, Layout, converted, steps_at_a_time

_FILE = "main_data.hdf5"
_DEEPEST = 16  # groups in groups
_METADATA = 1 << 26  # bytes
_EPISODE = re.compile(r"episode_(\d{1,18})\Z")
_SIGNALS = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}


def minari_to_memmap(source: str | os.PathLike[str], folder: str | os.PathLike[str]) -> TensorDictBase:
    """Convert a Minari data set to a TensorDict in the memory-mapped files of a new folder.

    The result has a step per row, [steps], episode after episode in the order of their numbers:
    `"observation"`, `"action"`, `"episode"` (its number), and under `"next"` the observation after the step,
    `"reward"`, `"done"`, `"terminated"` and `"truncated"` of shape (steps, 1), which is TorchRL's layout.
    Dictionaries of observations and actions are nested; the parts of a tuple are `"_index_0"` and so on.
    Numbers of the infos are under `"info"`, and `("next", "info")`. What holds text, or not a row for each
    step, is left out of these, and a warning names it.

    Files are read piece by piece, so data sets larger than memory are converted. Nothing in them is run, no
    link in them followed. The folder appears when it is whole. tensordict opens it, too.

    Args:
        source: the folder of the data set, such as `~/.minari/datasets/D4RL/door/human-v2`, or its `data`.
        folder: where to write; there must be nothing yet.

    Returns:
        The TensorDict over the files, locked; writes to its arrays reach them.

    Raises:
        FileNotFoundError: there is no `main_data.hdf5`.
        FileExistsError: there is something at `folder`.
        ImportError: h5py is missing.
        ValueError: another format (`data_format` "arrow" or "parquet"), images stored as JPEG (write them
            with `jpeg_encoding=False`), text in observations or actions, episodes of different
            entries, a file that is damaged, has links, or claims to hold more than it can.

    Source:
        Minari's data set standards, https://minari.farama.org/content/dataset_standards/ (the tests read
        files that Minari wrote); the layout is that of TorchRL's `MinariExperienceReplay`.

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
    h5py = _package()
    data = os.fspath(source)
    if not os.path.isfile(os.path.join(data, _FILE)):
        data = os.path.join(data, "data")
    metadata = _metadata(os.path.join(data, "metadata.json"))
    path = os.path.join(data, _FILE)
    kind = metadata.get("data_format", "hdf5")
    if kind != "hdf5":
        raise ValueError(f"{source} has the data_format {kind!r}; only Minari's 'hdf5' is read.")
    if not os.path.isfile(path) or os.path.islink(path):
        raise FileNotFoundError(f"there is no {_FILE} in {source}, nor in its folder 'data'.")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} is damaged or foreign: {error}") from error
    with file:
        episodes = _Episodes(h5py, file, path, metadata)
        return converted(folder, episodes.layout, episodes.steps, os.path.getsize(path), episodes.fill)


class _Episodes:
    """The episodes of an open file: what their steps hold, and copying them."""

    def __init__(self, h5py: Any, file: Any, path: str, metadata: dict[str, Any]) -> None:
        self._h5py = h5py
        self._path = path
        numbers = {}
        for name in file:
            match = _EPISODE.match(name)
            if match is None:
                raise ValueError(f"{path} has an entry {name!r} among its episodes.")
            numbers[int(match[1])] = self._child(file, name)
        if not numbers:
            raise ValueError(f"{path} holds no episode.")
        self._episodes = dict(sorted(numbers.items()))
        self._spaces = {
            "observations": _space(metadata.get("observation_space")),
            "actions": _space(metadata.get("action_space")),
        }
        self._left_out: set[str] = set()
        self.layout: Layout = {}
        self._lengths = {}
        for number, group in self._episodes.items():
            steps, entries = self._described(number, group)
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
            warnings.warn(f"left out of {path}: {sorted(self._left_out)}.", stacklevel=3)

    def fill(self, out: TensorDictBase) -> None:
        """Copy all episodes to the rows of `out`."""
        start = 0
        for number, group in self._episodes.items():
            steps = self._lengths[number]
            rows: Any = out[start : start + steps]
            _, entries = self._described(number, group)
            for path, (data, first) in entries.items():
                target = rows.get(path)
                piece = steps_at_a_time(tuple(data.shape[1:]), data.dtype)
                for at in range(0, steps, piece):
                    until = min(at + piece, steps)
                    try:
                        values = data[first + at : first + until]
                    except (OSError, RuntimeError, TypeError, ValueError) as error:
                        raise ValueError(f"{self._path} is damaged at {data.name}: {error}") from error
                    target[at:until] = values.reshape(target[at:until].shape)
            following = rows.get("next")
            np.logical_or(following.get("terminated"), following.get("truncated"), out=following.get("done"))
            rows.get("episode")[...] = number
            start += steps

    def _described(self, number: int, group: Any) -> tuple[int, dict[Path, tuple[Any, int]]]:
        """How many steps an episode has, and each entry with its data and the row of the first step."""
        where = f"episode {number} of {self._path}"
        for name in ("observations", "actions", *_SIGNALS):
            if name not in group:
                raise ValueError(f"{where} has no {name}.")
        entries: dict[Path, tuple[Any, int]] = {}
        rewards = self._numbers(self._child(group, "rewards"), where)
        steps = int(rewards.shape[0])
        for name, key in _SIGNALS.items():
            data = self._numbers(self._child(group, name), where)
            if data.shape not in ((steps,), (steps, 1)):
                raise ValueError(f"{data.name} of {where} has the shape {data.shape}, not ({steps},).")
            entries["next", key] = (data, 0)
        for path, data in self._leaves(self._child(group, "actions"), ()):
            self._check_space("actions", path, data, where)
            self._numbers(data, where)
            self._require_rows(data, steps, where)
            entries["action", *path] = (data, 0)
        for path, data in self._leaves(self._child(group, "observations"), ()):
            self._check_space("observations", path, data, where)
            self._numbers(data, where)
            self._require_rows(data, steps + 1, where)
            entries["observation", *path] = (data, 0)
            entries["next", "observation", *path] = (data, 1)
        if "infos" in group:
            for path, data in self._leaves(self._child(group, "infos"), ()):
                rows = data.shape[0] if data.shape else -1
                if rows not in (steps, steps + 1) or data.dtype.kind not in "biuf" or not path:
                    self._left_out.add("/".join(("infos", *path)))
                    continue
                self._numbers(data, where)
                if rows == steps + 1:
                    entries["info", *path] = (data, 0)
                entries["next", "info", *path] = (data, rows - steps)
        return steps, entries

    def _child(self, group: Any, name: str) -> Any:
        link = group.get(name, getlink=True)
        if not isinstance(link, self._h5py.HardLink):
            raise ValueError(f"refusing to follow the link {name!r} of {self._path}.")
        return group[name]

    def _leaves(self, item: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        if not isinstance(item, self._h5py.Group):
            yield path, item
            return
        if len(path) > _DEEPEST:
            raise ValueError(f"{self._path} nests groups deeper than {_DEEPEST}.")
        for name in item:
            yield from self._leaves(self._child(item, name), (*path, name))

    def _numbers(self, data: Any, where: str) -> Any:
        """`data`, if it is plain numbers in this file, in pieces of a reasonable size."""
        if not isinstance(data, self._h5py.Dataset) or data.dtype.kind not in "biuf" or not data.shape:
            raise ValueError(
                f"{data.name} of {where} is no array of numbers, got {getattr(data, 'dtype', data)}."
            )
        if data.is_virtual or data.external:
            raise ValueError(f"refusing to follow {data.name} of {where} to other files.")
        if data.chunks and math.prod(data.chunks) * data.dtype.itemsize > max(data.nbytes, 4 * PIECE):
            raise ValueError(f"{data.name} of {where} claims chunks larger than itself.")
        return data

    def _require_rows(self, data: Any, rows: int, where: str) -> None:
        if data.shape[0] != rows:
            raise ValueError(f"{data.name} of {where} has {data.shape[0]} rows, expected {rows}.")

    def _check_space(self, name: str, path: Path, data: Any, where: str) -> None:
        """Refuse images that are rows of JPEG: they look like arrays of bytes."""
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


def _package() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            'Minari\'s files need the package h5py: pip install "tensordict-lite[files]"'
        ) from error
    return h5py


def _metadata(path: str) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    try:
        found = json.loads(read_file(path, _METADATA))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no JSON object.")
    return found


def _space(text: Any) -> Any:
    """A space as Minari describes it: JSON, or a string of it."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return None
