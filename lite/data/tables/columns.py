"""Batches of tables, as from Ray and others: a dict of columns, NumPy arrays or lists, or a frame of pandas.

Columns may be read-only and are never written to. Lists of any lengths are objects in a column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, Any]
Row = TypeVar("Row")


def as_columns(batch: Any) -> Any:
    """A frame of pandas or polars, or a table of pyarrow, as a dict of columns; anything else as it is."""
    if hasattr(batch, "to_pydict"):
        return {name: batch[name].to_numpy(zero_copy_only=False) for name in batch.column_names}
    if isinstance(batch, Mapping) or not hasattr(batch, "columns") or not hasattr(batch, "to_dict"):
        return batch
    return {name: batch[name].to_numpy() for name in batch.columns}


def rows_of(batch: Mapping[str, Any]) -> int:
    """How many rows a batch has.

    Raises:
        TypeError: the batch is not a mapping of names to columns.
        ValueError: its columns have different lengths.
    """
    if not isinstance(batch, Mapping) or not all(isinstance(name, str) for name in batch):
        raise TypeError(f"a batch must be a dict of columns by name, got {type(batch).__name__}")
    lengths = {name: len(column) for name, column in batch.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a batch must have one length, got {lengths}")
    return next(iter(lengths.values()), 0)


def read_rows(
    batch: Any, key: str, done: Collection[Any], read: Callable[[Columns, int], Row]
) -> tuple[Columns, list[Any] | None, list[Row]]:
    """The columns of the rows that are not done, their ids, and what `read` makes of each row.

    Raises:
        ValueError: of `read`, with the name of the row.
    """
    batch = as_columns(batch)
    rows_of(batch)
    left = without(batch, key, done)
    ids, rows = ids_of(left, key), []
    for i in range(rows_of(left)):
        with row_named(ids, key, i):
            rows.append(read(left, i))
    return left, ids, rows


def record_of(batch: Mapping[str, Any], row: int, names: Sequence[str]) -> dict[str, Any]:
    """The values that a row has of these columns, as lists and Python's own numbers."""
    values = {name: plain(batch[name][row]) for name in names if name in batch}
    return {name: value for name, value in values.items() if value is not None}


def ids_of(batch: Mapping[str, Any], key: str) -> list[Any] | None:
    """The ids of the rows as Python's own integers and texts, or None without such a column."""
    if key not in batch:
        return None
    return [name.item() if isinstance(name, np.generic) else name for name in batch[key]]


def without(batch: Mapping[str, Any], key: str, done: Collection[Any]) -> dict[str, Any]:
    """The rows whose id is not among those that are done.

    Raises:
        ValueError: some are done and there is no column of ids.
    """
    if not done:
        return dict(batch)
    ids = ids_of(batch, key)
    if ids is None:
        raise ValueError(f"done rows are told by their ids: the batch has no column {key!r}")
    left = np.array([name not in done for name in ids], bool)
    return dict(batch) if left.all() else taken(batch, np.flatnonzero(left))


def taken(batch: Mapping[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    """The rows of these numbers, in this order, as new columns."""
    return {
        name: column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
        for name, column in batch.items()
    }


def ragged(rows: Sequence[Any]) -> NDArray[np.object_]:
    """A column of lists of any lengths: an array of objects, whose elements are lists of Python's numbers."""
    lists = (row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows)
    return np.fromiter(lists, object, len(rows))


def passed_on(batch: Mapping[str, Any]) -> Columns:
    """The columns for a result, with lists in place of arrays in them.

    Ray reads lists of a table as arrays of objects; given back as they are, it would pickle them.
    """
    columns: Columns = {}
    for name, column in batch.items():
        if isinstance(column, np.ndarray) and column.dtype == object:
            nested = any(isinstance(value, (np.ndarray, list, tuple, Mapping)) for value in column)
            column = np.fromiter(map(plain, column), object, len(column)) if nested else column
        columns[name] = column
    return columns


def plain(value: Any) -> Any:
    """Lists and mappings in place of the arrays that readers of tables make of them."""
    if isinstance(value, np.ndarray):
        items = value.tolist()
        return [plain(item) for item in items] if value.dtype == object else items
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value  # so pandas says None


def id_row(value: Any) -> NDArray[np.int64]:
    """Token ids of one row.

    Raises:
        ValueError: they are not consecutive integers.
    """
    row = np.asarray(value)
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise ValueError(f"token ids must be integers in a row, got {row.dtype} of shape {row.shape}")
    return row.astype(np.int64)


@contextmanager
def row_named(ids: Sequence[Any] | None, key: str, row: int) -> Iterator[None]:
    """Say of a ValueError from the body which row it is about, by its id where there are ids."""
    try:
        yield
    except ValueError as error:
        name = f"row {row} of the batch" if ids is None else f"{key} {ids[row]}"
        raise ValueError(f"{name}: {error}") from error
