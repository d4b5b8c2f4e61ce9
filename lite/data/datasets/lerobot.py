"""LeRobot's data sets: Parquet files of frames, and videos."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.types import Path
from lite._files.mapping import read_file
from lite._files.meta import damaged, loads
from lite.data.datasets.conversion import Layout, converted, steps_at_a_time
from lite.data.datasets.frames import image, resized, video
from lite.kernels._install import install, needed
from lite.kernels._integer import integer

_METADATA = 1 << 26  # bytes
_ROWS = 4096  # that are decoded at a time
_IMAGE_ROWS = 64  # where there are images among them
_LEAST = 16  # bytes that a frame takes in a video, at least
_VERSIONS = ("v2.0", "v2.1", "v3.0")
_NAMES: dict[str, Path] = {"episode_index": ("episode",), "frame_index": ("frame",)}
_IMAGES = "observation.images."
_DONE, _TERMINATED, _TRUNCATED = (("next", name) for name in ("done", "terminated", "truncated"))


def lerobot_to_memmap(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    images: bool | Sequence[str] = False,
    image_size: tuple[int, int] | None = None,
) -> TensorDictBase:
    """Convert a LeRobot data set to a TensorDict in the memory-mapped files of a new folder.

    The result has a frame per row, [frames], in the order of the files. Names of columns are nested at their
    dots, as in TorchRL: `("observation", "state")`, `"action"`, `("next", "reward")`; `"episode"` and
    `"frame"` count episodes and their frames. Rewards, flags, and observations and actions of one number have
    a last dimension of 1.

    `("next", "observation")` of an episode's last frame is its own, as LeRobot records no later one; that
    frame is done, and truncated unless the data say that it terminated.

    A warning names what is left out: text, and images and videos unless `images` has them decoded. These are
    `("observation", "image", camera)`, uint8 of shape (frames, height, width, colours), and there once: what
    would be in `"next"` of row i is row i + 1, or i where it is done. Data sets may be larger than memory.

    Args:
        source: the folder of the data set, with `meta/info.json` and `data/`; versions 2.0 and 2.1 (a
            file for each episode) and 3.0 (files of many). Of Hugging Face's, one that was downloaded to a
            `local_dir`: the cache has links.
        folder: where to write; there must be nothing yet. The result is mapped there, and locked.
        images: the names of images (PNG, JPEG) and videos (mp4) to decode, such as "observation.images.top";
            True for all of them. Needs the extra `video`: ffmpeg reads the videos.
        image_size: their height and width, by `Resize`; as they are if None.

    Raises:
        FileNotFoundError: `meta/info.json`, all Parquet files or a video are missing.
        FileExistsError: `folder` exists.
        ImportError: pyarrow, Pillow or ffmpeg is missing.
        ValueError: another version, columns, sizes or values that differ or are missing, frames out of order,
            a file that is damaged, a link, or claims to hold more than it can; names that are not images, a
            video that has other frames than its episodes.

    Source:
        LeRobot's data set format, https://github.com/huggingface/lerobot, as versions 0.3.3 and 0.4.4 write
        it; keys as in TorchRL's `LeRobotExperienceReplay`.

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
    if image_size is not None and np.shape(image_size) != (2,):
        raise ValueError(f"image_size must be a height and a width, got {image_size!r}.")
    size = None if image_size is None else tuple(integer("image_size", x, least=1) for x in image_size)
    frames = _Frames(root, info, [images] if isinstance(images, str) else images, size)
    out = converted(folder, frames.layout, frames.count, frames.source_bytes, frames.fill)
    if frames.left_out:
        how = "; images=True decodes images and videos" if frames.left_out & frames.decodable else ""
        warn(f"left out of {root}: {sorted(frames.left_out)}{how}.")
    return out


class _Frames:
    """The frames of all files: their entries, and copying them."""

    def __init__(self, root: str, info: dict[str, Any], images: bool | Sequence[str], size: Any) -> None:
        self._pq = needed("pyarrow.parquet", "LeRobot's files need the package pyarrow", install("files"))
        self._root, self._info, self._wanted, self._size = root, info, images, size
        self.left_out: set[str] = set()
        self.decodable: set[str] = set()  # names of images and videos
        self._columns: dict[str, Path] = {}
        self._images: dict[str, Path] = {}  # columns of the bytes of images
        self._videos: dict[str, list[tuple[str, int]]] = {}  # the files of each, and their frames
        self.layout: Layout = {}
        self._rows: dict[str, int] = {}  # of the files that have some
        columns = None
        paths = list(_parquet_files(os.path.join(root, "data")))
        self.source_bytes = sum(os.path.getsize(path) for path in paths)
        for path in paths:
            with _opened(self._pq, path) as file:
                found = {field.name: _item_type(field.type) for field in file.schema_arrow}
                rows = file.metadata.num_rows
                if columns is None and rows:
                    columns = found
                    self._describe(file, path)
                elif columns is not None and found != columns:
                    raise ValueError(f"{path} has other columns, or other types, than {paths[0]}.")
                if rows:
                    self._rows[path] = rows
        self.count = sum(self._rows.values())
        if info.get("total_frames", self.count) != self.count:
            raise ValueError(
                f"meta/info.json says that there are {info['total_frames']} frames, the files hold "
                f"{self.count}."
            )
        if ("episode",) not in self.layout:
            raise ValueError(f"the files have no episode_index; their columns are {sorted(self._columns)}.")
        self._observations = [key for key in self._columns.values() if key[0] == "observation"]
        self._describe_videos()
        for key in self._observations:
            self.layout["next", *key] = self.layout[key]
        flags = (_DONE, _TERMINATED, _TRUNCATED)
        self._given = {key for key in flags if key in self.layout}
        self.layout.update(dict.fromkeys(flags, ((1,), np.dtype(np.bool_))))

    def fill(self, out: TensorDictBase) -> None:
        """Copy all frames to the rows of `out`, and write what follows from their order."""
        start, most = 0, _IMAGE_ROWS if self._images else _ROWS
        for path in self._rows:
            with _opened(self._pq, path) as file:
                for batch in _batches(file, path, [*self._columns, *self._images], most):
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
                    for name, key in self._images.items():
                        where = f"column {name!r} of {path}"
                        for target, content in zip(rows.get(key), _contents(batch.column(name)), strict=True):
                            self._put(image(content.as_py(), where), target, where)
                    start += batch.num_rows
        if start != self.count:
            raise ValueError(f"the files hold {start} frames, but say that there are {self.count}.")
        for name, files in self._videos.items():
            self._fill_from_videos(out.get(_key(name)), files)
        self._write_ends(out)
        for key in self._observations:
            self._write_following(out.get(key), out.get(("next", *key)), out.get(_DONE))

    def _describe(self, file: Any, path: str) -> None:
        """Record the entries of a frame."""
        first = next(_batches(file, path, None, 1), None)
        if first is None or not first.num_rows:
            raise ValueError(f"{path} is damaged: it says that it has rows, and has none.")
        for field in first.schema:
            inner, column = _item_type(field.type), first.column(field.name)
            where = f"column {field.name!r} of {path}"
            key = _key(field.name)
            if inner is not None:
                row = np.asarray(column[0].as_py())
                if row.dtype.kind not in "biuf":
                    raise ValueError(f"{where} has missing values, or rows of several sizes.")
                shape = row.shape
                if not shape and key[0] in ("observation", "action", "next"):
                    shape = (1,)  # LeRobot writes numbers in place of rows of one number
                self._add(key, shape, inner, where)
                self._columns[field.name] = key
            elif _contents(column) is not None and self._is_wanted(field.name):
                frame = resized(image(_contents(column)[0].as_py(), where), self._size)
                self._add(key, frame.shape, np.uint8, where)
                self._images[field.name] = key
            else:
                self.left_out.add(field.name)

    def _describe_videos(self) -> None:
        """Record the entries of videos, whose first frame says their size."""
        root = os.path.realpath(self._root)
        for name, feature in self._info.get("features", {}).items():
            if not isinstance(feature, dict) or feature.get("dtype") != "video":
                continue
            if not self._is_wanted(name):
                self.left_out.add(name)
                continue
            files = self._videos[name] = self._files_of(name)
            for path, frames in files:
                if os.path.realpath(path) != os.path.join(root, os.path.relpath(path, self._root)):
                    raise ValueError(f"refusing to follow the link {path}; copy the file it leads to.")
                if frames * _LEAST > os.path.getsize(path):
                    raise ValueError(f"refusing to make {frames} frames of {path}: it is damaged or hostile.")
            with closing(video(files[0][0])) as found:
                first = next(found, None)
            if first is None:
                raise ValueError(f"{files[0][0]} is damaged: it has no frame.")
            shape = resized(first, self._size).shape
            self._add(_key(name), shape, np.uint8, f"video {name!r}")
            self.source_bytes += self.count * math.prod(shape)
        if not isinstance(self._wanted, bool) and not self.decodable >= set(self._wanted):
            raise ValueError(f"images must be of {sorted(self.decodable)}, got {list(self._wanted)}.")

    def _is_wanted(self, name: str) -> bool:
        """Whether images or a video are to be decoded."""
        self.decodable.add(name)
        return self._wanted if isinstance(self._wanted, bool) else name in self._wanted

    def _add(self, key: Path, shape: tuple[int, ...], dtype: Any, where: str) -> None:
        clash = next((other for other in self.layout if other[: len(key)] == key[: len(other)]), None)
        if clash is not None:
            raise ValueError(f"{where} would be in the place of {clash}.")
        self.layout[key] = (shape, np.dtype(dtype))

    def _files_of(self, name: str) -> list[tuple[str, int]]:
        """The files of a video in the order of frames, with the number of theirs.

        Version 2 has a file for each episode; in version 3 the descriptions of episodes say where they are.
        """
        videos = os.path.join(self._root, "videos")
        files: list[tuple[str, int]] = []
        if self._info["codebase_version"] != "v3.0":
            for path, rows in self._rows.items():
                chunk, file = os.path.split(os.path.relpath(path, os.path.join(self._root, "data")))
                files.append(
                    (os.path.join(videos, chunk, name, file.removesuffix(".parquet") + ".mp4"), rows)
                )
            return files
        fps, last = self._info.get("fps"), -1
        if not isinstance(fps, int | float):
            raise ValueError(f"meta/info.json must have the fps of the videos, got {fps!r}.")
        kinds = {"episode_index": "i", "length": "i"}
        kinds |= {f"videos/{name}/{x}": "i" for x in ("chunk_index", "file_index")}
        kinds[f"videos/{name}/from_timestamp"] = "f"
        for path in _parquet_files(os.path.join(self._root, "meta", "episodes")):
            with _opened(self._pq, path) as file:
                if file.metadata.num_rows > os.path.getsize(path):  # they are looped over
                    raise ValueError(f"refusing to read {file.metadata.num_rows} episodes of {path}.")
                types = {field.name: _item_type(field.type) for field in file.schema_arrow}
                if any(np.dtype(types.get(x) or object).kind != kind for x, kind in kinds.items()):
                    raise ValueError(f"{path} must have the columns {list(kinds)}, of numbers.")
                for batch in _batches(file, path, list(kinds)):
                    found = (_numbers(batch.column(x), f"{x!r} of {path}").tolist() for x in kinds)
                    for episode, length, chunk, number, start in zip(*found, strict=True):
                        place = os.path.join(videos, name, f"chunk-{chunk:03d}", f"file-{number:03d}.mp4")
                        before = files.pop()[1] if files and files[-1][0] == place else 0
                        if episode <= last or length < 1 or not abs(start * fps - before) < 0.5:
                            raise ValueError(
                                f"{place} must have episodes one after the other, but episode {episode}, of "
                                f"{length} frames, starts at {start} s, behind {before} frames."
                            )
                        files.append((place, before + length))
                        last = episode
        told = sum(frames for _, frames in files)
        if told != self.count:
            raise ValueError(f"the episodes of video {name!r} must have {self.count} frames, got {told}.")
        return files

    def _fill_from_videos(self, target: NDArray[np.uint8], files: list[tuple[str, int]]) -> None:
        at = 0
        for path, frames in files:
            found = 0
            with closing(video(path)) as decoded:
                for frame in itertools.islice(decoded, frames + 1):
                    found += 1
                    if found <= frames:
                        self._put(frame, target[at + found - 1], path)
            if found != frames:
                got = found if found < frames else "more"
                raise ValueError(f"{path} must have the {frames} frames of its episodes, got {got}.")
            at += frames

    def _put(self, frame: NDArray[np.uint8], target: NDArray[np.uint8], where: str) -> None:
        frame = resized(frame, self._size)
        if frame.shape != target.shape:
            raise ValueError(f"{where} has images of shape {frame.shape}, the first is {target.shape}.")
        target[...] = frame

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
        if not os.path.isfile(path):  # a pipe would never end
            raise ValueError(f"{path} is not a regular file.")
    if not paths:
        raise FileNotFoundError(f"there is no Parquet file in {data}.")
    yield from sorted(paths)


def _opened(parquet: Any, path: str) -> Any:
    with damaged(path, OSError, ValueError):  # pyarrow's errors of damaged files are these
        return parquet.ParquetFile(path)


def _batches(file: Any, path: str, columns: list[str] | None, rows: int = _ROWS) -> Iterator[Any]:
    with damaged(path, OSError, ValueError):
        yield from file.iter_batches(rows, columns=columns)


def _item_type(kind: Any) -> Any:
    """The NumPy type of a column of numbers, or of lists of them; None for others."""
    import pyarrow.types as types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    plain = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    return kind.to_pandas_dtype() if plain else None


def _contents(column: Any) -> Any:
    """The bytes of a column of encoded images; None of another column."""
    import pyarrow.types as types

    has = types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0
    return column.field("bytes") if has else None


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
