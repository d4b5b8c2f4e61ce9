"""Duck-typed columns: columns, tables and variables of other libraries, which look like arrays.

Columns are converted to arrays; tables, sparse and lazy arrays raise TypeError. Without this, each would be
stored as one Python object for the whole batch, which indexing and arithmetic skip in silence. No library is
imported: classes are recognised by the names of their modules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite._tree.entry_errors import entry_error

_NAMES = """
    pandas.Series pandas.Index pandas.ExtensionArray polars.Series pyarrow.Array pyarrow.ChunkedArray
    xarray.DataArray xarray.Variable flax.Variable
"""
_COLUMNS = frozenset(_NAMES.split())
_FRAME = "makes an entry of each column, and to_numpy() one array of them all"
_SPARSE = "has no rows in memory; store value.toarray()"
_FILE = "is in a file; store what is read of it: value[...]"
_LAZY = "is not computed yet; store value.compute()"
_MISSING = "lacks some values, as no array can; store value.{}(...), and which are missing as another entry"
# Refused, because the conversion is ambiguous or could exhaust memory.
_REFUSED = {
    "pandas.DataFrame": f"has columns of its own; TensorDict.from_pandas(value) {_FRAME}",
    "polars.DataFrame": f"has columns of its own; lite.from_arrow(value) {_FRAME}",
    "polars.LazyFrame": "is not computed yet; lite.from_arrow(value.collect()) takes it",
    "astropy.Table": "has columns of its own; TensorDict.from_struct_array(value.as_array()) takes it",
    "pyarrow.Table": "has columns of its own; lite.from_arrow(value) makes an entry of each",
    "pyarrow.RecordBatch": "is a table; lite.from_arrow(value) is a TensorDict",
    "scipy._spbase": _SPARSE,
    "scipy.spmatrix": _SPARSE,
    "sparse.SparseArray": "has no rows in memory; store value.todense()",
    "dask.Array": _LAZY,
    "dask.FrameBase": _LAZY,
    "dask._Frame": _LAZY,
    "h5py.Dataset": _FILE,
    "zarr.Array": _FILE,
    "netCDF4.Variable": _FILE,
    "datasets.Column": "is not read yet; store value[:]",
    "datasets.Dataset": 'is a table; lite.from_arrow(value.with_format("arrow")[:]) takes it',
    "awkward.Array": "may be ragged; store value.to_numpy(), or its rows in lite.lazy_stack",
}
_TIMES = {"M": "datetime64[ns]", "m": "timedelta64[ns]"}


@lru_cache(1024)
def _known(kind: type) -> str | None:
    """The listed name of a class or of its nearest listed base class."""
    for base in kind.__mro__:
        name = f"{str(base.__module__).partition('.')[0]}.{base.__name__}"
        if name in _COLUMNS or name in _REFUSED:
            return name
    return None


def duck_typed_column(value: Any) -> Array | None:
    """The array of a duck-typed column; None if `value` is of no class listed above.

    Columns of pandas are converted as in `TensorDict.from_pandas`. Memory is shared if the library makes it
    writeable, else copied; variables of flax.nnx give the array of JAX that they hold.

    Raises:
        TypeError: a table, a sparse or a lazy array, or a column with missing values.
    """
    kind: Any = type(value)
    name = _known(kind)
    if name is None:
        return None
    if name in _REFUSED:
        raise _refusal(value, _REFUSED[name])
    library = name.partition(".")[0]
    if library == "flax":  # variables of nnx hold an array of JAX, or another object
        return value[...] if hasattr(value, "shape") else None
    if library == "xarray":
        if value.chunks is not None:
            raise _refusal(value, _LAZY)
        array = np.asarray(value)
    elif library == "pandas":
        kind = value.dtype.kind
        if kind in "iubmM" and value.isna().any():
            raise _refusal(value, _MISSING.format("fillna"))
        if kind == "f" and hasattr(value.dtype, "numpy_dtype"):  # missing values are NaN
            array = value.to_numpy(value.dtype.numpy_dtype, na_value=np.nan)
        else:
            array = column_values(value)
    else:
        array = np.asarray(value)
        lacking = value.null_count() if library == "polars" else value.null_count
        if lacking and array.dtype.kind != "O":
            raise _refusal(value, _MISSING.format("fill_null"))
    return array if array.flags.writeable else array.copy()


def column_values(series: Any) -> Array:
    """The array of a pandas column: numbers, codes of categories, nanoseconds (since 1970 for times), or
    objects, as are times that nanoseconds do not reach (before 1678, after 2262) and integers from 2**53 on
    beside missing ones. Among objects, what is missing is None.
    """
    dtype = getattr(series, "dtype", None)  # several columns of one name have none
    if str(dtype) == "category":
        series = getattr(series, "cat", series).codes
    unit = _TIMES.get(getattr(dtype, "kind", ""))
    # also with a time zone, where to_numpy() gives objects
    if unit is not None and hasattr(series, "to_numpy"):
        coarse = np.asarray(series.to_numpy(dtype=unit.replace("ns", "s")))
        try:
            fine = np.asarray(series.to_numpy(dtype=unit))
            if np.array_equal(fine.astype(coarse.dtype), coarse, equal_nan=True):
                return fine.astype(np.int64)
        except OverflowError:  # before NumPy 2.5 they come out as other times
            pass
        return _objects(series)
    array = np.asarray(series.to_numpy() if hasattr(series, "to_numpy") else series)
    if array.dtype.kind == "f" and getattr(dtype, "kind", "") in ("i", "u") and (abs(array) >= 2**53).any():
        return _objects(series)  # beside missing ones pandas 3 rounds them
    return _objects(series) if array.dtype == object and hasattr(series, "isna") else array


def _objects(series: Any) -> Array:
    """The objects of a pandas column; what is missing is None, as Arrow takes no NaN among texts."""
    out = np.array(series.to_numpy(dtype=object))
    out[np.asarray(series.isna())] = None
    return out


def _refusal(value: object, reason: str) -> Exception:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return entry_error(TypeError, f"the value{{at}} is a {library} {kind.__name__}, which {reason}.")
