"""Data frames and Arrow tables: a column per array and object.

A row is an element of the first batch dimension. pandas and pyarrow are imported when they are
needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import as_dtype
from lite._arrays.foreign import class_name
from lite._arrays.types import Array, Device, Path, Shape, Size, host_array, is_array
from lite._convert.from_python import refuse_two_sizes
from lite._tree.collection import is_leaf_nontensor
from lite._tree.duck_typed_columns import column_values
from lite._tree.key_views import walk
from lite._tree.keys import require_utf8, to_key
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, class_registry
from lite._tree.walks import require_shared


def to_pandas(td: Container, *, separator: str | None = None) -> Any:
    """A pandas data frame with a column per entry.

    Args:
        separator: joins the parts of nested keys to column names.

    Raises:
        ImportError: without pandas.
        ValueError: no batch dimension; nested entries without `separator`; an array with further
            dimensions, which no column can hold (see `to_parquet`).
        RuntimeError: a lazy stack whose parts have different keys.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.arange(2), "n": {"s": ["x", "y"]}}, [2])
        >>> frame = td.to_pandas(separator=".")
        >>> list(frame.columns), frame["a"].tolist()
        (['a', 'n.s'], [0, 1])
    """
    columns: dict[str, Any] = {}
    for name, entry in columns_of(td, separator, "to_pandas").items():
        if isinstance(entry, NonTensorBase):
            columns[name] = entry._objects().tolist()
        elif isinstance(entry, _Ragged) or host_array(entry, name).ndim > 1:
            raise ValueError(
                f"the array at {name!r} has shape {tuple(entry.shape)}; a column holds one dimension: store "
                "entry[:, 0] of entries (rows, 1), or take lite.to_arrow(td), whose columns hold lists."
            )
        else:
            columns[name] = _native(entry, name)
    return require_pandas().DataFrame(columns)


def from_pandas(
    cls: type[Any],
    dataframe: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Size = None,
    separator: str | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    """A TensorDict of the columns of a data frame, with one batch dimension: its rows.

    Numbers become arrays, categories their codes, times nanoseconds since 1970, everything else
    objects. What is missing is NaN, the code -1, None among objects, and of times NumPy's NaT: the least
    int64, -2**63. The index is left out; `dataframe.reset_index()` makes a column of it.

    Args:
        dataframe: the data frame.
        auto_batch_size: use the longest leading shape that all entries share: the rows.
        batch_dims: with `auto_batch_size`, at most this many dimensions of it.
        device: see `TensorDict`.
        batch_size: the number of rows, unless given.
        separator: splits column names into nested keys.
        dtype: dtype of all arrays of numbers, instead of their own.

    Raises:
        TypeError: both `batch_size` and `auto_batch_size` are given.
        KeyError: a column name is both an entry and the beginning of others.
        ValueError: two names are one as text, such as 1 and "1".

    Example:
        >>> import pandas
        >>> from lite import TensorDict
        >>> td = TensorDict.from_pandas(pandas.DataFrame({"n.a": [1, 2], "s": ["x", "y"]}), separator=".")
        >>> td["n", "a"], td["s"], td.batch_size
        (array([1, 2]), ['x', 'y'], (2,))
    """
    refuse_two_sizes("from_pandas", auto_batch_size, batch_size)
    columns = {str(name): column_values(dataframe[name]).copy() for name in dataframe.columns}
    if len(columns) < len({*dataframe.columns}):
        raise ValueError(f"names become text, and two columns share one: {list(dataframe.columns)}.")
    size = [len(dataframe)] if batch_size is None else batch_size
    td = assembled(cls, columns, size, device, separator, dtype)
    return td.auto_batch_size_(batch_dims) if auto_batch_size else td


def columns_of(td: Container, separator: str | None, method: str) -> dict[str, Any]:
    """The entries by column name, for a method."""
    if not td.batch_size:
        raise ValueError("a TensorDict needs a batch dimension to become a table: its rows.")
    columns: dict[str, Any] = {}
    for path, entry in _entries(td, method):
        if separator is None and len(path) > 1:
            raise ValueError(f'the nested key {to_key(path)} is not a name of a column: pass separator=".".')
        name = (separator or "").join(path)
        if name in columns:
            raise ValueError(f"two entries would share the column {name!r}.")
        columns[name] = entry
    return columns


class _Ragged(NamedTuple):
    """Rows of different lengths: row i is ``values[offsets[i] : offsets[i + 1]]``."""

    values: Array
    offsets: Array

    @property
    def shape(self) -> Shape:
        return (len(self.offsets) - 1, -1, *self.values.shape[1:])


def _entries(td: Container, method: str) -> Iterator[tuple[Path, Any]]:
    """The leaves and their paths, of which those whose rows differ in length are `_Ragged`."""
    parts: Sequence[Any] = ()
    require_shared(td, method)
    for path, found in walk(td, True, False, is_leaf_nontensor, peek=True):
        if (node := td._as_node(found)) is not None and not isinstance(found, NonTensorBase):
            require_shared(node, method)
            continue
        try:
            entry = td._get_entry(path)
        except RuntimeError:
            parts = parts or td.unbind(0)
            rows = [part._get_entry(path) for part in parts]
            if not all(map(is_array, rows)) or len({(row.ndim, row.shape[1:]) for row in rows}) > 1:
                raise
            values = np.concatenate([host_array(row, ".".join(path)) for row in rows])
            entry = _Ragged(values, np.cumsum([0, *map(len, rows)]))
        yield path, entry


def assembled(
    cls: type[Any], columns: dict[str, Any], size: Size, device: Device, separator: str | None,
    dtype: DTypeLike | None,
) -> Any:  # fmt: skip
    """A TensorDict, or one of a class, of columns by name."""
    kind = None if dtype is None else as_dtype(dtype)
    td = class_registry.dense({}, size, device)
    for name, value in columns.items():
        number = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
        td.set(name, value.astype(kind) if kind is not None and number else value)
    if separator is not None:
        td = td.unflatten_keys(separator)
    wrap = getattr(cls, "from_tensordict", None)
    return td if wrap is None else wrap(td)


def _native(entry: Any, key: str) -> Array:
    """An array in this machine's byte order, as pandas and Arrow want it."""
    from lite.kernels._arrays import native

    return native(host_array(entry, key))


def require_pandas() -> ModuleType:
    """The package pandas; raises ImportError with the command to install it."""
    from lite.kernels._install import install, needed  # lite.kernels loads on use

    return needed("pandas", "data frames need pandas", install("files"))


# -- Arrow -----------------------------------------------------------------------------------------


def pyarrow_module() -> ModuleType:
    from lite.kernels._install import install, needed

    return needed("pyarrow", "Arrow tables need the package pyarrow", install("files"))


def arrow_table(columns: dict[str, Any]) -> Any:
    """A table of arrays and objects by column name."""
    package = pyarrow_module()
    for name in columns:
        require_utf8(name, "the key")
    return package.table({name: _arrow_column(package, entry, name) for name, entry in columns.items()})


def _arrow_column(package: ModuleType, entry: Any, key: str) -> Any:
    if isinstance(entry, _Ragged):
        offsets = package.array(entry.offsets, package.int32())
        return package.ListArray.from_arrays(offsets, _arrow_column(package, entry.values, key))
    if not is_array(entry):
        objects = entry._objects().tolist()
        try:
            return package.array(objects)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the text at key {key!r} cannot be written: {error.object[:80]!r} is not UTF-8."
            ) from None
        except package.ArrowException as error:
            raise ValueError(f"Arrow has no type for the objects at key {key!r}: {error}") from None
    array = np.ascontiguousarray(_native(entry, key))
    if array.dtype.kind in "cV" or array.dtype.char == "g" or 0 in array.shape[1:]:
        raise ValueError(f"Arrow has no type for the {array.dtype} array of {array.shape} at key {key!r}.")
    column = package.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        column = package.FixedSizeListArray.from_arrays(column, size)
    return column


def from_arrow(table: Any) -> Any:
    """See `lite.from_arrow`."""
    package = pyarrow_module()
    if not isinstance(table, package.Table):
        try:
            table = package.table(table)
        except (TypeError, ValueError) as error:
            wrong = f"table must be one of pyarrow, or what it makes one of, got {class_name(table)}: {error}"
            raise TypeError(wrong) from None
    out = class_registry.dense({}, [table.num_rows])
    for name in table.column_names:
        out.set(name, _arrow_values(package, table.column(name)))
    return out


def _arrow_values(package: ModuleType, column: Any) -> Any:
    chunks = column.combine_chunks() if isinstance(column, package.ChunkedArray) else column
    array = package.concat_arrays(chunks.chunks) if isinstance(chunks, package.ChunkedArray) else chunks
    if package.types.is_dictionary(array.type):  # a category of pandas
        try:
            array = array.dictionary_decode()
        except NotImplementedError:  # texts of polars
            array = package.array(array.to_pylist())
    kind = array.type
    if isinstance(kind, package.BaseExtensionType) and _is_list(package.types, kind.storage_type):
        values = _arrow_values(package, array.storage)
        if values.dtype == object or not isinstance(kind, package.FixedShapeTensorType):
            return values
        values = values.reshape(len(array), *kind.shape)
        return values.transpose(0, *(n + 1 for n in kind.permutation or range(len(kind.shape))))
    shape, inner = [len(array)], array
    while (size := _list_size(package.types, inner)) is not None:
        shape.append(size)
        inner = inner.flatten()
    values = _numbers(package, inner) if len(shape) == 1 or not inner.null_count else None
    return np.fromiter(array.to_pylist(), object, len(array)) if values is None else values.reshape(shape)


def _is_list(types: ModuleType, kind: Any) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _list_size(types: ModuleType, array: Any) -> int | None:
    """How long each of the lists is, if all are there and as long as another."""
    if array.null_count or not _is_list(types, array.type):
        return None
    if types.is_fixed_size_list(array.type):
        return int(array.type.list_size)
    sizes = np.unique(np.diff(array.offsets))
    return int(sizes[0]) if len(sizes) == 1 else None


def _numbers(package: ModuleType, array: Any) -> Array | None:
    """An array of its own of numbers, NaN for null, or of nanoseconds; None if it cannot hold them."""
    types, kind = package.types, array.type
    try:
        if types.is_timestamp(kind) or types.is_duration(kind):
            fine = package.timestamp("ns", kind.tz) if types.is_timestamp(kind) else package.duration("ns")
            return np.array(array.cast(fine).to_numpy(zero_copy_only=False)).view(np.int64)
        if types.is_integer(kind) and array.null_count:
            array = array.cast(package.float64())
    except package.ArrowInvalid:  # years that nanoseconds do not reach, integers that are not exact
        return None
    exact = types.is_integer(kind) or (types.is_boolean(kind) and not array.null_count)
    return np.array(array.to_numpy(zero_copy_only=False)) if exact or types.is_floating(kind) else None
