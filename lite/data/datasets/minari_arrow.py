"""Minari's data sets in files of Arrow or Parquet, one for each episode.

Minari writes columns of one length: signals and actions end with a row of zeros beside the last observation.
Rows of a `Box` are lists of a fixed length there; the space has their shape.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Path
from lite._files.meta import damaged
from lite.data.datasets.minari_hdf5 import DEEPEST
from lite.kernels._install import install, needed

_EPISODE = re.compile(r"\d{1,18}\Z")
_AS_LONG_AS_OBSERVATIONS = ("observations", "infos")
_NAMES = ("actions", "rewards", "terminations", "truncations", *_AS_LONG_AS_OBSERVATIONS)


class ArrowFiles:
    """The files of the episodes in a folder, such as `3/part-0.arrow`; each is opened where it is read.

    Args:
        folder: that of the data.
        kind: "arrow" or "parquet".
        spaces: spaces of "observations" and "actions", as Minari describes them.

    Raises:
        ImportError: pyarrow is missing.
        ValueError: links, or episodes that are not in one file each.
    """

    def __init__(self, folder: str, kind: str, spaces: dict[str, Any]) -> None:
        self._arrow = _package()
        self._kind, self._spaces = kind, spaces
        self.path = folder
        self._paths = dict(sorted(self._found()))
        self.numbers = list(self._paths)
        self.size = sum(os.path.getsize(path) for path in self._paths.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """No file is open between two reads."""

    def _found(self) -> Iterator[tuple[int, str]]:
        for name in os.listdir(self.path):
            if not _EPISODE.match(name):
                continue
            episode = os.path.join(self.path, name)
            if os.path.islink(episode) or not os.path.isdir(episode):
                raise ValueError(f"refusing to follow {episode}: it is a link, or no folder.")
            files = [file for file in os.listdir(episode) if file.endswith(f".{self._kind}")]
            if len(files) != 1:
                raise ValueError(f"{episode} has {len(files)} files of an episode, expected 1.")
            path = os.path.join(episode, files[0])
            if os.path.islink(path) or not os.path.isfile(path):
                raise ValueError(f"refusing to follow {path}: it is a link, or no file.")
            yield int(name), path

    def read(self, number: int) -> dict[str, list[tuple[Path, Any]]]:
        """The entries of an episode; a column is read when it is first indexed."""
        path = self._paths[number]
        schema, rows = self._described(path)
        if rows < 1:
            raise ValueError(f"{path} has no rows.")
        found = {}
        for field in schema:
            if field.name in _NAMES:
                count = rows if field.name in _AS_LONG_AS_OBSERVATIONS else rows - 1
                space = self._spaces.get(field.name)
                found[field.name] = list(self._leaves(_Place(self, path, rows, count), field, (), (), space))
        return found

    def numeric(self, data: Any, where: str) -> Any:
        """`data`, if it is plain numbers."""
        if data.dtype.kind not in "biuf":
            raise ValueError(f"{data.name} of {where} is not an array of numbers.")
        return data

    def _leaves(
        self, place: _Place, field: Any, names: Path, path: Path, space: Any
    ) -> Iterator[tuple[Path, Any]]:
        types, kind, names = self._arrow.types, field.type, (*names, field.name)
        if types.is_struct(kind):
            if len(names) > DEEPEST:
                raise ValueError(f"{place.path} nests columns deeper than {DEEPEST}.")
            parts = space.get("subspaces") if isinstance(space, dict) else None
            for child in kind:
                key, part = child.name, None
                if isinstance(parts, list):  # a tuple's members, which have numbers
                    key = f"_index_{key}"
                    part = dict(enumerate(parts)).get(int(child.name)) if child.name.isdecimal() else None
                elif isinstance(parts, dict):
                    part = parts.get(key)
                yield from self._leaves(place, child, names, (*path, key), part)
            return
        item: Any = kind
        shape: tuple[int, ...] = ()
        if types.is_fixed_size_list(kind):
            item, shape = kind.value_type, _shape(space, field.metadata, kind.list_size)
        plain = types.is_boolean(item) or types.is_integer(item) or types.is_floating(item)
        dtype = np.dtype(item.to_pandas_dtype()) if plain else np.dtype(object)
        yield path, _Column(place, names, shape, dtype)

    def _described(self, path: str) -> tuple[Any, int]:
        """The columns of a file, and its rows."""
        with damaged(path, self._arrow.ArrowException, OSError, ValueError, TypeError):
            if self._kind == "parquet":
                with self._arrow.parquet.ParquetFile(path) as file:
                    return file.schema_arrow, file.metadata.num_rows
            with self._arrow.memory_map(path) as source, self._arrow.ipc.open_file(source) as file:
                batches = (file.get_batch(i) for i in range(file.num_record_batches))
                return file.schema, sum(batch.num_rows for batch in batches)

    def column(self, path: str, names: Path) -> NDArray[Any]:
        """The numbers of a column, all rows in a row.

        Raises:
            ValueError: values are missing, or the file is damaged.
        """
        try:
            array = self._chunk(path, names)
            array.validate(full=True)
            for name in names[1:]:
                self._require_values(array)
                array = array.field(name)
            self._require_values(array)
            if self._arrow.types.is_fixed_size_list(array.type):
                array = array.flatten()
                self._require_values(array)
            values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        except (self._arrow.ArrowException, OSError, ValueError, TypeError) as error:
            raise ValueError(str(error)) from error
        return values

    def _chunk(self, path: str, names: Path) -> Any:
        """The column of the first of these names, in one piece."""
        if self._kind == "parquet":
            with self._arrow.parquet.ParquetFile(path) as file:
                column = file.read(columns=[".".join(names)], use_threads=False).column(names[0])
        else:
            with self._arrow.ipc.open_file(self._arrow.memory_map(path)) as file:
                column = file.read_all().column(names[0])
        return column.chunk(0) if column.num_chunks == 1 else self._arrow.concat_arrays(column.chunks)

    def _require_values(self, array: Any) -> None:
        if array.null_count:
            raise ValueError("values are missing")


class _Place:
    """The files of columns, and the numbers of their valid rows."""

    def __init__(self, files: ArrowFiles, path: str, rows: int, count: int) -> None:
        self.files, self.path, self.rows, self.count = files, path, rows, count


class _Column:
    """A column of a file, or a part of one: an array that is read when it is first indexed."""

    def __init__(self, place: _Place, names: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._place, self._names = place, names
        self.name = "/".join(names)
        self.shape, self.dtype = (place.count, *shape), dtype
        self._values: NDArray[Any] | None = None

    def __getitem__(self, index: slice) -> NDArray[Any]:
        if self._values is None:
            place = self._place
            values = place.files.column(place.path, self._names)
            row = self.shape[1:]
            if values.size != place.rows * math.prod(row) or values.dtype != self.dtype:
                raise ValueError("rows have several sizes")
            self._values = values.reshape(place.rows, *row)[: place.count]
        return self._values[index]


def _shape(space: Any, metadata: Any, size: int) -> tuple[int, ...]:
    """The shape of a row that is stored as `size` numbers; (size,) where nothing says otherwise."""
    found: Any = None
    if isinstance(space, dict):
        kind, bits = space.get("type"), space.get("n")
        if kind == "Box":
            found = space.get("shape")
        elif kind == "MultiDiscrete":
            found = list(np.shape(space.get("nvec", [])))
        elif kind == "MultiBinary":
            found = bits if isinstance(bits, list) else [bits]
    elif metadata and b"shape" in metadata:
        found = [int(part) for part in metadata[b"shape"].split(b",") if part.isdigit() and len(part) < 10]
    counts = isinstance(found, list) and all(type(part) is int and part >= 0 for part in found)
    return tuple(found) if counts and math.prod(found) == size else (size,)


def _package() -> Any:
    what = "Minari's files need the package pyarrow"
    for name in ("ipc", "parquet", "types"):
        needed(f"pyarrow.{name}", what, install("files"))
    return needed("pyarrow", what, install("files"))
