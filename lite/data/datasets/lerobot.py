"""LeRobot's data sets: Parquet files of frames."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDictBase
from lite._arrays.types import Path
from lite._files.mapping import read_file
from lite._files.meta import loads
from lite.data.datasets.conversion import Layout, converted, steps_at_a_time
from lite.kernels._install import install, needed

_METADATA = 1 << 26  # bytes
_ROWS = 4096  # that are decoded at a time
_VERSIONS = ("v2.0", "v2.1", "v3.0")
_NAMES: dict[str, Path] = {"episode_index": ("episode",), "frame_index": ("frame",)}
_IMAGES = "observation.images."
_DONE, _TERMINATED, _TRUNCATED = (("next", name) for name in ("done", "terminated", "truncated"))


def lerobot_to_memmap(source: str | os.PathLike[str], folder: str | os.PathLike[str]) -> TensorDictBase:
    """Convert a LeRobot data set to a TensorDict in the memory-mapped files of a new folder.

    The result has a frame per row, [frames], in the order of the files. Names of columns are nested at their
    dots, as in TorchRL: `("observation", "state")`, `"action"`, `("next", "reward")`; `"episode"` and
    `"frame"` count episodes and their frames. Rewards and flags have a last dimension of 1.

    `("next", "observation")` of an episode's last frame is its own, as LeRobot records no later one; that
    frame is done, and truncated unless the data say that it terminated.

    A warning names text, images and videos, which are left out. Data sets may be larger than memory.

    Args:
        source: the folder of the data set, with `meta/info.json` and `data/`; versions 2.0 and 2.1 (a
            file for each episode) and 3.0 (files of many).
        folder: where to write; there must be nothing yet. The result is mapped there, and locked.

    Raises:
        FileNotFoundError: `meta/info.json` or all Parquet files are missing.
        FileExistsError, ImportError: there is something at `folder`; pyarrow is missing.
        ValueError: another version, columns, sizes or values that differ or are missing, frames out of order,
            a file that is damaged, a link, or claims to hold more than it can.

    Source:
        LeRobot's data set format, https://github.com/huggingface/lerobot (not tested on files that LeRobot
        wrote); keys as in TorchRL's `LeRobotExperienceReplay`.

    Example:
        >>> import json, os, pathlib, tempfile, pyarrow as pa, pyarrow.parquet
        >>> from lite.data import lerobot_to_memmap
        >>> folder = tempfile.mkdtemp()
        >>> _ = os.makedirs(f"{folder}/meta"), os.makedirs(f"{folder}/data/chunk-000")
        >>> info = json.dumps({"codebase_version": "v3.0", "total_frames": 3})
        >>> _ = pathlib.Path(folder, "meta/info.json").write_text(info)
        >>> columns = {"observation.state": [[0.0, 1], [2, 3], [4, 5]], "action": [[1.0], [2], [3]]}
        >>> table = pa.table({**columns, "episode_index": [0, 0, 1]})
        >>> pa.parquet.write_table(table, f"{folder}/data/chunk-000/file-000.parquet")
        >>> td = lerobot_to_memmap(folder, f"{folder}/converted")
        >>> td["next", "observation", "state"].tolist(), td["next", "done"].ravel().tolist()
        ([[2.0, 3.0], [2.0, 3.0], [4.0, 5.0]], [False, True, True])
    """
    root = os.fspath(source)
    info = _info(os.path.join(root, "meta", "info.json"))
    paths = list(_parquet_files(os.path.join(root, "data")))
    frames = _Frames(paths, info)
    size = sum(os.path.getsize(path) for path in paths)
    out = converted(folder, frames.layout, frames.count, size, frames.fill)
    if frames.left_out:
        warnings.warn(f"left out of {root}: {sorted(frames.left_out)}.", stacklevel=2)
    return out


class _Frames:
    """The frames of all files: their entries, and copying them."""

    def __init__(self, paths: list[str], info: dict[str, Any]) -> None:
        self._pq = needed("pyarrow.parquet", "LeRobot's files need the package pyarrow", install("files"))
        self._paths = paths
        self.left_out = {
            str(name)
            for name, feature in info.get("features", {}).items()
            if isinstance(feature, dict) and feature.get("dtype") == "video"
        }
        self._columns: dict[str, Path] = {}
        self.layout: Layout = {}
        self.count = 0
        columns = None
        for path in paths:
            with _opened(self._pq, path) as file:
                found = {field.name: _item_type(field.type) for field in file.schema_arrow}
                if columns is None and file.metadata.num_rows:
                    columns = found
                    self._describe(file, path)
                elif columns is not None and found != columns:
                    raise ValueError(f"{path} has other columns, or other types, than {paths[0]}.")
                self.count += file.metadata.num_rows
        if info.get("total_frames", self.count) != self.count:
            raise ValueError(
                f"meta/info.json says that there are {info['total_frames']} frames, the files hold "
                f"{self.count}."
            )
        if ("episode",) not in self.layout:
            raise ValueError(f"the files have no episode_index; their columns are {sorted(self._columns)}.")
        self._observations = [key for key in self.layout if key[0] == "observation"]
        for key in self._observations:
            self.layout["next", *key] = self.layout[key]
        flags = (_DONE, _TERMINATED, _TRUNCATED)
        self._given = {key for key in flags if key in self.layout}
        self.layout.update(dict.fromkeys(flags, ((1,), np.dtype(np.bool_))))

    def fill(self, out: TensorDictBase) -> None:
        """Copy all frames to the rows of `out`, and write what follows from their order."""
        start = 0
        for path in self._paths:
            with _opened(self._pq, path) as file:
                for batch in _batches(file, path, list(self._columns)):
                    rows: Any = out[start : start + batch.num_rows]
                    for name, key in self._columns.items():
                        target = rows.get(key)
                        values = _numbers(batch.column(name), f"column {name!r} of {path}")
                        if values.size != target.size:
                            raise ValueError(
                                f"column {name!r} of {path} has rows of other sizes than its first, "
                                f"{target.shape[1:]}."
                            )
                        target[...] = values.reshape(target.shape)
                    start += batch.num_rows
        if start != self.count:
            raise ValueError(f"the files hold {start} frames, but say that there are {self.count}.")
        self._write_ends(out)
        for key in self._observations:
            self._write_following(out.get(key), out.get(("next", *key)), out.get(_DONE))

    def _describe(self, file: Any, path: str) -> None:
        """Record the entries of a frame."""
        first = next(_batches(file, path, None, 1), None)
        if first is None or not first.num_rows:
            raise ValueError(f"{path} is damaged: it says that it has rows, and has none.")
        for field in first.schema:
            inner = _item_type(field.type)
            if inner is None:
                self.left_out.add(field.name)
                continue
            key = _key(field.name)
            row = np.asarray(first.column(field.name)[0].as_py())
            if row.dtype.kind not in "biuf":
                raise ValueError(
                    f"column {field.name!r} of {path} has missing values, or rows of several sizes."
                )
            shape = (1,) if key[0] == "next" and not row.shape else row.shape
            clash = next((other for other in self.layout if other[: len(key)] == key[: len(other)]), None)
            if clash is not None:
                raise ValueError(f"column {field.name!r} of {path} would be in the place of {clash}.")
            self.layout[key] = (shape, np.dtype(inner))
            self._columns[field.name] = key

    def _write_ends(self, out: TensorDictBase) -> None:
        """The flags, from what the data say and where episodes end."""
        episode = out.get("episode")
        done, terminated, truncated = (out.get(path) for path in (_DONE, _TERMINATED, _TRUNCATED))
        piece = steps_at_a_time((), episode.dtype)
        for at in range(0, self.count, piece):
            part = slice(at, min(at + piece, self.count))
            now, ahead = episode[part], episode[at + 1 : part.stop + 1]
            if (ahead < now[: len(ahead)]).any():
                raise ValueError("episodes are out of order: an episode_index is less than the one before.")
            end = np.ones(len(now), np.bool_)
            end[: len(ahead)] = ahead != now[: len(ahead)]
            done[part] |= end[:, None]
            if _TERMINATED in self._given:
                done[part] |= terminated[part]
            if _TRUNCATED in self._given:
                done[part] |= truncated[part]
                truncated[part] |= end[:, None] & ~terminated[part]
            else:
                truncated[part] = done[part] & ~terminated[part]

    def _write_following(self, now: NDArray[Any], following: NDArray[Any], done: NDArray[Any]) -> None:
        """The observation of the next frame; of the last of an episode, its own."""
        piece = steps_at_a_time(now.shape[1:], now.dtype)
        for at in range(0, self.count, piece):
            until = min(at + piece, self.count)
            ahead = now[at + 1 : until + 1]
            following[at:until] = now[at:until]
            kept = ~done[at : at + len(ahead), 0]
            following[at : at + len(ahead)][kept] = ahead[kept]


def _info(path: str) -> dict[str, Any]:
    found = loads(read_file(path, _METADATA), path)
    version = found.get("codebase_version")
    if version not in _VERSIONS or not isinstance(found.get("features", {}), dict):
        raise ValueError(f"{path} must be of version {', '.join(_VERSIONS)}, got {version!r}.")
    return found


def _parquet_files(data: str) -> Iterator[str]:
    """The Parquet files below a folder in the order of their names, none of them a link."""
    paths = []
    for folder, folders, names in os.walk(data):
        paths += [os.path.join(folder, name) for name in names if name.endswith(".parquet")]
        paths += [link for name in folders if os.path.islink(link := os.path.join(folder, name))]
    for path in sorted(paths):
        if os.path.islink(path):
            raise ValueError(f"refusing to follow the link {path}; copy the files it leads to.")
    if not paths:
        raise FileNotFoundError(f"there is no Parquet file in {data}.")
    yield from sorted(paths)


def _opened(parquet: Any, path: str) -> Any:
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's errors of damaged files are these
        raise ValueError(f"{path} is damaged or foreign: {error}") from error


def _batches(file: Any, path: str, columns: list[str] | None, rows: int = _ROWS) -> Iterator[Any]:
    try:
        yield from file.iter_batches(rows, columns=columns)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _item_type(kind: Any) -> Any:
    """The NumPy type of a column of numbers, or of lists of them; None for others."""
    import pyarrow.types as types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return kind.to_pandas_dtype() if plain else None


def _numbers(column: Any, where: str) -> NDArray[Any]:
    """The numbers of a column, all rows in a row."""
    while hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        if column.null_count:
            raise ValueError(f"{where} has missing values.")
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"{where} has missing values.")
    return column.to_numpy(zero_copy_only=False)


def _key(name: str) -> Path:
    """TorchRL's key of a column."""
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(_IMAGES):
        return ("observation", "image", name.removeprefix(_IMAGES))
    return tuple(name.split("."))
