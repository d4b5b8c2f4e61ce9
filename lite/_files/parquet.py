"""Parquet files, written by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from numpy.typing import DTypeLike

from lite._arrays.types import Device, Size
from lite._convert.from_python import refuse_two_sizes
from lite._convert.tables import arrow_table, assembled, columns_of, from_arrow, pyarrow_module
from lite._files.commit import new_file
from lite._tree.protocol import Container


def to_parquet(
    td: Container, path: str | os.PathLike[str], *, separator: str | None = None, **kwargs: Any
) -> None:
    """Write a Parquet file with a column per entry, as `lite.to_arrow` makes them.

    Args:
        path: file to write.
        separator: joins the parts of nested keys to column names.
        kwargs: for `pyarrow.parquet.write_table`.

    Raises:
        ImportError: without pyarrow.
        ValueError: no batch dimension, nested entries without `separator`, or a dtype that Arrow
            does not have.

    Example:
        >>> import tempfile, numpy as np
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.parquet"
        >>> td = TensorDict({"a": np.arange(2), "n": {"b": np.ones((2, 3))}}, [2])
        >>> td.to_parquet(path, separator=".")
        >>> TensorDict.from_parquet(path, separator=".")["n", "b"].shape
        (2, 3)
    """
    table = arrow_table(columns_of(td, separator, "to_parquet"))
    with new_file(os.path.abspath(path)) as file:
        _parquet().write_table(table, file, **kwargs)


def from_parquet(
    cls: type[Any],
    /,
    path: str | os.PathLike[str],
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
    separator: str | None = None,
    dtype: DTypeLike | None = None,
    columns: Sequence[str] | None = None,
    **kwargs: Any,
) -> Any:
    """A TensorDict of the columns of a Parquet file, as `from_arrow` gives them.

    Args:
        path: the file.
        auto_batch_size: use the longest leading shape that all entries share: the rows.
        batch_dims: with `auto_batch_size`, at most this many dimensions of it.
        device: see `TensorDict`.
        batch_size: the number of rows, unless given.
        separator: splits column names into nested keys.
        dtype: dtype of all arrays of numbers, instead of their own.
        columns: names of the columns to read.
        kwargs: for `pyarrow.parquet.read_table`.

    Raises:
        ImportError: without pyarrow.
        TypeError: both `batch_size` and `auto_batch_size` are given.
        KeyError: a column name is both an entry and the beginning of others.
        ValueError: a damaged file, or one without such columns.
    """
    refuse_two_sizes("from_parquet", auto_batch_size, batch_size)
    chosen = None if columns is None else list(columns)
    try:
        table = _parquet().read_table(os.fspath(path), columns=chosen, **kwargs)
    except (FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError) as error:  # pyarrow's do not name the file
        raise ValueError(f"{path} has not what is asked for, or is damaged or foreign: {error}") from error
    found = from_arrow(table)
    size = found.batch_size if batch_size is None else batch_size
    td = assembled(cls, dict(found.items()), size, device, separator, dtype)
    return td.auto_batch_size_(batch_dims) if auto_batch_size else td


def _parquet() -> ModuleType:
    """The module `pyarrow.parquet`; ImportError if it is missing."""
    pyarrow_module()
    import pyarrow.parquet

    return pyarrow.parquet
