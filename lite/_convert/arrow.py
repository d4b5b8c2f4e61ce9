"""Arrow tables, one row per element of the first batch dimension; pandas is one call further."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import is_array
from lite._files.keys import require_utf8
from lite._files.plan import host_array
from lite._tree.protocol import kinds


def _package() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(
            'Arrow tables need the package pyarrow: pip install "tensordict-lite[files]"'
        ) from error
    return pyarrow


def parquet() -> Any:
    """The module that reads and writes Parquet files."""
    _package()
    import pyarrow.parquet

    return pyarrow.parquet


def table(columns: dict[str, Any]) -> Any:
    """A table of arrays and objects by column name."""
    package = _package()
    for name in columns:
        require_utf8(name, "the key")
    return package.table({name: _column(package, entry, name) for name, entry in columns.items()})


def _column(package: Any, entry: Any, key: str) -> Any:
    if not is_array(entry):
        objects = entry._objects().tolist()
        try:
            return package.array(objects)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the text at key {key!r} cannot be written: {error.object[:80]!r} is no UTF-8."
            ) from None
    array = np.ascontiguousarray(host_array(entry, key))
    if array.dtype.kind in "cV":
        raise ValueError(f"Arrow has no type for the {array.dtype} array at key {key!r}.")
    column = package.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        column = package.FixedSizeListArray.from_arrays(column, size)
    return column


def from_arrow(table: Any) -> Any:
    """See `lite.from_arrow`."""

    package = _package()
    out = kinds.dense({}, [table.num_rows])
    for name in table.column_names:
        out.set(name, _values(package, table.column(name)))
    return out


def _values(package: Any, column: Any) -> Any:
    chunks = column.combine_chunks() if isinstance(column, package.ChunkedArray) else column
    array = package.concat_arrays(chunks.chunks) if isinstance(chunks, package.ChunkedArray) else chunks
    shape = [len(array)]
    inner = array
    while package.types.is_fixed_size_list(inner.type) and not inner.null_count:
        shape.append(inner.type.list_size)
        inner = inner.flatten()
    kind = inner.type
    number = (
        package.types.is_integer(kind) or package.types.is_floating(kind) or package.types.is_boolean(kind)
    )
    if number and not inner.null_count:
        return np.array(inner.to_numpy(zero_copy_only=False)).reshape(shape)
    objects = np.empty(len(array), object)
    for i, item in enumerate(array.to_pylist()):
        objects[i] = item
    return objects
