"""CSV and JSON files of a column per array and object; pandas reads and writes them.

Both formats hold text: no code in a file is run, and dtypes are inferred from the text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from numpy.typing import DTypeLike

from lite._arrays.types import Device, Size
from lite._convert.from_python import refuse_two_sizes
from lite._convert.tables import require_pandas, to_pandas
from lite._files.commit import new_file
from lite._tree.protocol import Container


def to_csv(td: Container, path: Any, *, separator: str | None = None, **kwargs: Any) -> None:
    """Write a CSV file with a column per entry; an old file stays until the new one is whole.

    Args:
        path: file to write. Its ending chooses a compression, such as ".gz".
        separator: joins the parts of nested keys to column names.
        kwargs: for `pandas.DataFrame.to_csv`.

    Raises:
        ImportError: without pandas.
        ValueError: no batch dimension; nested entries without `separator`; an array with further dimensions.

    Source:
        tensordict.TensorDict.to_csv.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.csv"
        >>> TensorDict({"a": np.arange(2), "n": {"s": ["x", "y"]}}, [2]).to_csv(path, separator=".")
        >>> pathlib.Path(path).read_text()
        'a,n.s\\n0,x\\n1,y\\n'
        >>> TensorDict.from_csv(path, separator=".")["n", "s"]
        ['x', 'y']
    """
    _write(
        to_pandas(td, separator=separator).to_csv, path, {"index": False, "lineterminator": "\n", **kwargs}
    )


def to_json(
    td: Container, path: Any, *, separator: str | None = None, lines: bool = False, **kwargs: Any
) -> None:
    """Write a JSON file: a list with an object per row; an old file stays until the new one is whole.

    NaN and infinity become null, and floats are written with 10 digits after the point unless
    `double_precision` says more, up to 15.

    Args:
        path: file to write. Its ending chooses a compression, such as ".gz".
        separator: joins the parts of nested keys to the names of columns.
        lines: write an object per line instead of a list.
        kwargs: for `pandas.DataFrame.to_json`.

    Raises:
        ImportError: without pandas.
        ValueError: no batch dimension; nested entries without `separator`; an array with further dimensions.

    Source:
        tensordict.TensorDict.to_json.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from lite import TensorDict
        >>> path = tempfile.mkdtemp() + "/td.jsonl"
        >>> TensorDict({"a": np.arange(2)}, [2]).to_json(path, lines=True)
        >>> pathlib.Path(path).read_text()
        '{"a":0}\\n{"a":1}\\n'
        >>> TensorDict.from_json(path, lines=True)["a"]
        array([0, 1])
    """
    frame = to_pandas(td, separator=separator)
    _write(frame.to_json, path, {"orient": "records", "lines": lines, **kwargs})


def from_csv(
    cls: type[Any],
    /,
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
    separator: str | None = None,
    dtype: DTypeLike | None = None,
    **kwargs: Any,
) -> Any:
    """A TensorDict of the columns of a CSV file, as `from_pandas` gives them.

    Args:
        path: the file.
        auto_batch_size: use the longest leading shape that all entries share: the rows.
        batch_dims: with `auto_batch_size`, at most this many dimensions of it.
        device: see `TensorDict`.
        batch_size: the number of rows, unless given.
        separator: splits column names into nested keys.
        dtype: dtype of all arrays of numbers, instead of their own.
        kwargs: for `pandas.read_csv`.

    Raises:
        ImportError: without pandas.
        TypeError: both `batch_size` and `auto_batch_size` are given.
        KeyError: a column name is both an entry and the beginning of others.

    Source:
        tensordict.TensorDict.from_csv.
    """
    refuse_two_sizes("from_csv", auto_batch_size, batch_size)
    return cls.from_pandas(
        require_pandas().read_csv(path, **kwargs),
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
    )


def from_json(
    cls: type[Any],
    /,
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
    separator: str | None = None,
    dtype: DTypeLike | None = None,
    lines: bool = False,
    **kwargs: Any,
) -> Any:
    """A TensorDict of a JSON file, a list with an object per row, as `from_pandas` gives it.

    Lists and objects in a row stay Python's; `TensorDict.from_dict` of what `json.load` gives nests them.
    What looks like a time in a column whose name is that of one ("date", "created_at") becomes nanoseconds
    since 1970.

    Args:
        path: the file.
        auto_batch_size: use the longest leading shape that all entries share: the rows.
        batch_dims: with `auto_batch_size`, at most this many dimensions of it.
        device: see `TensorDict`.
        batch_size: the number of rows, unless given.
        separator: splits column names into nested keys.
        dtype: dtype of all arrays of numbers, instead of their own.
        lines: read an object per line.
        kwargs: for `pandas.read_json`.

    Raises:
        ImportError: without pandas.
        TypeError: both `batch_size` and `auto_batch_size` are given.
        KeyError: a column name is both an entry and the beginning of others.

    Source:
        tensordict.TensorDict.from_json.
    """
    refuse_two_sizes("from_json", auto_batch_size, batch_size)
    return cls.from_pandas(
        require_pandas().read_json(path, lines=lines, **kwargs),
        auto_batch_size=auto_batch_size,
        batch_dims=batch_dims,
        device=device,
        batch_size=batch_size,
        separator=separator,
        dtype=dtype,
    )


def _write(write: Callable[..., None], path: Any, options: dict[str, Any]) -> None:
    """Let pandas write a complete new file; an open file, or a path with `mode`, is passed on unchanged."""
    if "mode" in options or not isinstance(path, str | os.PathLike):
        write(path, **options)
        return
    from pandas.io.common import infer_compression

    # pandas infers the compression from a path, not from an open file.
    options["compression"] = infer_compression(path, options.get("compression", "infer"))
    with new_file(os.fspath(path)) as file:
        write(file, **options)
