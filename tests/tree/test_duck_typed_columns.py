"""Columns of other libraries are arrays; tables, sparse, lazy and incomplete ones are refused."""

from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from helpers.cases import each_case, raises

from lite import NonTensorData, TensorDict
from lite._tree.duck_typed_columns import duck_typed_column


def stored(value: Any) -> Any:
    return TensorDict({"v": value}, [3])["v"]


def refused(value: Any, *words: str) -> None:
    td = TensorDict({"v": np.zeros(3), "n": {}}, [3])
    for key in ("v", ("n", "v")):
        with pytest.raises(TypeError) as caught:
            td[key] = value
        text = str(caught.value)
        assert [word for word in (f"at key {key!r}", *words) if word not in text] == [], text
    np.testing.assert_array_equal(td["v"], np.zeros(3))


def test_what_is_no_column_stays_an_object() -> None:
    class Series:
        """Of this module, and so of no library."""

    nameless = type("Series", (), {"__module__": None})()
    one = Series()
    assert duck_typed_column(one) is None
    assert duck_typed_column(nameless) is None
    assert isinstance(TensorDict({"v": one}, [3]).get("v"), NonTensorData)


# -- pandas and pyarrow ---------------------------------------------------------------------------------


def test_matrices_of_numpy_are_arrays() -> None:
    with pytest.warns(PendingDeprecationWarning, match="matrix"):
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    got = TensorDict({"v": matrix}, [3])
    assert type(got["v"]) is np.ndarray
    assert np.shares_memory(got["v"], matrix)
    assert got[0]["v"].shape == (2,)


def test_times_of_pandas_are_nanoseconds() -> None:
    zone = pandas.Series(pandas.date_range("2020-01-01", periods=3, tz="Europe/Berlin"))
    frame = pandas.DataFrame({"zone": zone, "long": pandas.to_timedelta([1, 2, 3], unit="s")})
    whole = TensorDict.from_pandas(frame)
    midnight = int(np.datetime64("2019-12-31T23:00", "ns").astype(np.int64))  # there, said in UTC
    np.testing.assert_array_equal(whole["zone"], midnight + np.arange(3) * 86400 * 10**9)
    np.testing.assert_array_equal(whole["long"], np.arange(1, 4) * 10**9)
    for name in frame.columns:
        assert stored(frame[name]).dtype == np.int64
        np.testing.assert_array_equal(stored(frame[name]), whole[name])
    refused(pandas.Series(pandas.to_timedelta([1, None, 3], unit="s")), "lacks some values", "fillna")


def test_columns_of_pandas() -> None:
    frame = pandas.DataFrame(
        {
            "real": [1.0, np.nan, 3.0],
            "nullable": pandas.array([1, 2, 3], dtype="Int16"),
            "flag": pandas.array([True, False, True], dtype="boolean"),
            "category": pandas.Categorical(["b", "a", "b"]),
            "when": pandas.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"]),
        }
    )
    whole = TensorDict.from_pandas(frame)
    for name in frame.columns:
        got = stored(frame[name])
        np.testing.assert_array_equal(got, whole[name])
        assert got.dtype == whole[name].dtype
        np.testing.assert_array_equal(stored(frame[name].array), whole[name])
    assert stored(frame["nullable"]).dtype == np.int16
    got = stored(pandas.array([1.5, None, 3], dtype="Float32"))
    np.testing.assert_array_equal(got, np.array([1.5, np.nan, 3], np.float32), strict=True)
    np.testing.assert_array_equal(stored(pandas.Index([1, 2, 3])), [1, 2, 3])
    assert TensorDict({"s": pandas.Series(["a", "b", "c"])}, [3])[1]["s"] == "b"
    td = TensorDict({"v": pandas.Series([1.0, 2, 3])}, [3])
    td["v"][0] = 7  # not read-only
    np.testing.assert_array_equal((td[1:] + 1)["v"], [3, 4])


def test_columns_as_operands() -> None:
    td = TensorDict({"x": np.arange(6.0).reshape(3, 2), "n": {"y": np.ones(3)}}, [3])
    column = pandas.Series([1.0, 2, 3])
    for got in (td + column, column + td, np.add(td, column), td.add(column)):
        np.testing.assert_array_equal(got["x"], td["x"] + [[1], [2], [3]])
        np.testing.assert_array_equal(got["n", "y"], [2, 3, 4])
    np.testing.assert_array_equal((td == column)["n", "y"], [True, False, False])
    np.testing.assert_array_equal((column > td)["n", "y"], [False, True, True])
    total = td.clone()
    total += column
    np.testing.assert_array_equal(total["n", "y"], [2, 3, 4])
    raises(TypeError, "from_pandas", lambda: td + pandas.DataFrame({"a": [1, 2, 3]}))
    raises(TypeError, "lacks some values", lambda: td + pandas.Series([1, None, 3], dtype="Int64"))


def test_what_pandas_has_that_arrays_have_not() -> None:
    refused(pandas.Series([1, None, 3], dtype="Int64"), "pandas Series", "lacks", "fillna")
    refused(pandas.Series([pandas.Timestamp("2020"), pandas.NaT, pandas.NaT]), "pandas Series", "lacks")
    refused(pandas.array([True, None, False]), "pandas BooleanArray", "lacks", "fillna")
    refused(pandas.DataFrame({"a": [1, 2, 3]}), "pandas DataFrame", "from_pandas", "to_numpy")
    raises(
        ValueError,
        "from_any pandas' data frames",
        lambda: TensorDict(pandas.DataFrame({"a": [1, 2, 3]}), [3]),
    )


def test_columns_of_arrow() -> None:
    np.testing.assert_array_equal(stored(pyarrow.array([1, 2, 3])), [1, 2, 3])
    np.testing.assert_array_equal(stored(pyarrow.chunked_array([[1.5, 2], [3]])), [1.5, 2, 3])
    assert list(stored(pyarrow.array(["a", "b", "c"]))) == ["a", "b", "c"]
    refused(pyarrow.array([1, None, 3]), "pyarrow Int64Array", "lacks", "fill_null")
    refused(pyarrow.table({"a": [1, 2, 3]}), "pyarrow Table", "from_arrow")


# -- libraries that no extra brings: as they are where they are installed -----------------------------------


def test_sparse() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    refused(sparse.csr_matrix(np.eye(3)), "scipy csr_matrix", "toarray()")
    refused(sparse.coo_array(np.eye(3)), "scipy coo_array", "toarray()")


def of_library(name: str, **members: Any) -> Any:
    """An object whose class says that it is a library's, and that has what is asked of it."""
    module, _, kind = name.rpartition(".")
    return type(kind, (), {"__module__": module, **members})()


@each_case(
    ("name", "word"),
    [
        ("scipy.sparse._base._spbase", "toarray()"),
        ("sparse.numba_backend._sparse_array.SparseArray", "todense()"),
        ("dask.array.core.Array", "compute()"),
        ("polars.dataframe.frame.DataFrame", "from_arrow"),
        ("h5py._hl.dataset.Dataset", "value[...]"),
        ("astropy.table.table.Table", "from_struct_array"),
        ("zarr.core.array.Array", "value[...]"),
        ("netCDF4._netCDF4.Variable", "value[...]"),
        ("awkward.highlevel.Array", "lazy_stack"),
        ("datasets.arrow_dataset.Column", "value[:]"),
        ("datasets.arrow_dataset.Dataset", "from_arrow"),
    ],
)
def test_a_class_is_told_by_its_name(name: str, word: str) -> None:
    refused(of_library(name), name.partition(".")[0], name.rpartition(".")[2], word)
    inherits = type("Own", (type(of_library(name)),), {})()
    refused(inherits, "Own", word)


def test_stand_ins_for_columns() -> None:
    values = np.arange(3)
    values.flags.writeable = False
    members = {
        "__array__": lambda self, dtype=None, copy=None: values,
        "null_count": lambda self: 0,
        "chunks": None,
    }
    for name in ("polars.series.series.Series", "xarray.core.dataarray.DataArray"):
        got = stored(of_library(name, **members))
        np.testing.assert_array_equal(got, [0, 1, 2])
        assert got.flags.writeable
    variable = of_library(
        "flax.nnx.variablelib.Variable", shape=(3,), __getitem__=lambda self, index: values[index]
    )
    param = type("Param", (type(variable),), {"__module__": "flax.nnx.variablelib"})()
    np.testing.assert_array_equal(stored(param), [0, 1, 2])
    np.testing.assert_array_equal((TensorDict(x=np.ones(3), batch_size=[3]) + param)["x"], [1, 2, 3])
    assert duck_typed_column(of_library("flax.nnx.variablelib.Variable")) is None  # it holds another object
    refused(
        of_library("polars.series.series.Series", **{**members, "null_count": lambda self: 1}), "fill_null"
    )
    refused(of_library("xarray.core.dataarray.DataArray", **{**members, "chunks": ((3,),)}), "compute()")
