"""Data frames, Arrow tables and Parquet files."""

import datetime
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same

import lite
from lite import NonTensorStack, TensorDict, from_pandas


def tree() -> TensorDict:
    return TensorDict(
        {"a": np.arange(3), "n": {"b": np.array([0.5, 1, 2]), "s": ["x", "y", "z"]}, "c": "same"},
        batch_size=[3],
    )


def test_frames_there_and_back() -> None:
    frame = tree().to_pandas(separator="/")
    assert list(frame.columns) == ["a", "n/b", "n/s", "c"]
    assert frame["c"].tolist() == ["same"] * 3
    back = from_pandas(frame, separator="/")
    assert_same(back, tree(), strict=True)
    assert (back["n", "s"], back["c"], back.batch_size) == (["x", "y", "z"], ["same"] * 3, (3,))


def test_columns_of_other_kinds() -> None:
    frame = pandas.DataFrame(
        {
            "kind": pandas.Categorical(["b", "a", None]),
            "time": pandas.to_datetime(["1970-01-01", "1970-01-02", None]),
            "flag": [True, False, True],
            3: [1, 2, 3],
        }
    )
    td = from_pandas(frame, dtype="float32", device="cpu")
    assert td["kind"].tolist() == [1, 0, -1]
    np.testing.assert_array_equal(td["time"], np.float32([0, 86_400_000_000_000, -(2**63)]))
    assert td["3"].dtype == np.float32
    assert td.device == "cpu"
    td["3"][0] = 9
    assert frame[3][0] == 1
    doubled = from_pandas(pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    np.testing.assert_array_equal(doubled["a"], [[1, 2], [3, 4]])
    raises(ValueError, "two columns share one", from_pandas, pandas.DataFrame({1: [0], "1": [1]}))

    class Frame(dict[str, Any]):  # as those of polars
        columns = ("a",)

    np.testing.assert_array_equal(from_pandas(Frame(a=np.ones(1)))["a"], [1])


def test_integers_beside_missing_ones_are_not_rounded() -> None:
    frame = pandas.DataFrame({"small": [5, None], "large": [2**53 + 1, None]}, dtype="Int64")
    found = from_pandas(frame)
    np.testing.assert_array_equal(found["small"], [5, np.nan])
    assert found["large"] == [2**53 + 1, None]


@each_case("kind", ["str", "string", "boolean", object])
def test_missing_objects_are_none_as_in_files(kind: Any, tmp_path: Any) -> None:
    column = pandas.Series([True, None] if kind == "boolean" else ["x", None], dtype=kind)
    td = from_pandas(pandas.DataFrame({"s": column}))
    assert td["s"] == [column[0], None]
    td.to_parquet(tmp_path / "td")
    assert TensorDict.from_parquet(tmp_path / "td")["s"] == td["s"]
    (tmp_path / "csv").write_text("s,n\na,1\n,2\n")
    assert TensorDict.from_csv(tmp_path / "csv")["s"] == ["a", None]


@each_case("zone", [None, "UTC"])
@each_case("last", ["1500-01-01", "9999-12-31"])
def test_times_that_nanoseconds_do_not_reach(zone: Any, last: str) -> None:
    days = pandas.Series(np.array(["2024-01-01", "NaT", last], "M8[us]")).dt.tz_localize(zone)
    found = from_pandas(pandas.DataFrame({"day": days}))
    moments = [pandas.Timestamp("2024-01-01", tz=zone), None, pandas.Timestamp(last, tz=zone)]
    assert found["day"] == moments
    assert TensorDict({"day": days[::2]}, [2])["day"] == found["day"][::2]
    assert from_pandas(pandas.DataFrame({"day": days[:2]}))["day"].dtype == np.int64


def test_parquet_keeps_shapes(tmp_path: Any) -> None:
    td = tree().set("wide", np.arange(12).reshape(3, 2, 2))
    td.to_parquet(tmp_path / "td", separator=".")
    back = TensorDict.from_parquet(tmp_path / "td", separator=".")
    assert_same(back, td, strict=True)
    assert back["n", "s"] == ["x", "y", "z"]
    part = TensorDict.from_parquet(tmp_path / "td", columns=["a"], batch_size=[], dtype="float64")
    assert list(part.keys()) == ["a"]
    assert part.batch_size == ()
    assert part["a"].dtype == np.float64


def test_what_no_table_holds(tmp_path: Any) -> None:
    raises(ValueError, 'pass separator="."', lambda: tree().to_pandas())
    raises(ValueError, "holds one dimension", lambda: TensorDict({"a": np.ones((2, 2))}, [2]).to_pandas())
    raises(ValueError, "needs a batch dimension", lambda: TensorDict(a=1).to_parquet(tmp_path / "td"))
    rows = lite.lazy_stack([TensorDict(a=1), TensorDict(a=1, b=1)])
    raises(
        RuntimeError, "to_parquet cannot complete when there are exclusive", rows.to_parquet, tmp_path / "x"
    )
    raises(RuntimeError, "to_arrow cannot .* exclusive", lite.to_arrow, TensorDict({"n": {"m": rows}}, [2]))
    with pytest.raises(ValueError, match="share the column"):
        TensorDict({"a.b": np.ones(2), "a": {"b": np.ones(2)}}, [2]).to_pandas(separator=".")
    raises(KeyError, "override", lambda: from_pandas(pandas.DataFrame({"a": [1], "a.b": [2]}), separator="."))


def test_arrow():
    td = TensorDict(
        {
            "a": np.arange(6).reshape(3, 2),
            "n": {
                "b": np.arange(24, dtype=np.float32).reshape(3, 2, 4)[:, ::-1],
                "flag": np.array([True, False, True]),
            },
            "s": "x",
            "r": ["p", "q", None],
        },
        [3],
    )
    table = lite.to_arrow(td)
    assert table.column_names == ["a", "n.b", "n.flag", "s", "r"]
    found = lite.from_arrow(table).unflatten_keys(".")
    np.testing.assert_array_equal(found["n", "b"], td["n", "b"])
    np.testing.assert_array_equal(found["n", "flag"], td["n", "flag"])
    assert (found["s"], found["r"]) == (["x"] * 3, ["p", "q", None])
    assert found["n", "b"].dtype == np.float32
    sliced = lite.from_arrow(table.slice(1))
    np.testing.assert_array_equal(sliced["n.b"], td["n", "b"][1:])
    chunked = lite.from_arrow(pyarrow.concat_tables([table, table]))
    assert chunked["a"].shape == (6, 2)
    raises(ValueError, "batch dimension", lambda: lite.to_arrow(TensorDict(a=1)))
    raises(ValueError, "complex", lambda: lite.to_arrow(TensorDict({"a": np.ones(2, complex)}, [2])))
    raises(ValueError, "at key 'a'", lambda: lite.to_arrow(TensorDict({"a": np.ones(2, "g")}, [2])))
    mixed = TensorDict({"n": {"a": [{"x": 1}, {"x": "y"}]}}, [2])
    raises(ValueError, "objects at key 'n.a': Could not convert 'y'", lite.to_arrow, mixed)
    raises(ValueError, r"of \(2, 0\) at key 'a'", lite.to_arrow, TensorDict({"a": np.ones((2, 0))}, [2]))
    raises(ValueError, "column", lite.to_arrow, TensorDict({"a.b": np.ones(2), "a": {"b": np.ones(2)}}, [2]))


def test_big_endian_arrays_as_of_fits_files() -> None:
    td = TensorDict({"a": np.array([1, 2], ">i4"), "b": np.array([[0.5], [2]], ">f8")}, [2])
    assert lite.to_arrow(td).to_pydict() == {"a": [1, 2], "b": [[0.5], [2.0]]}
    assert td.select("a").to_pandas()["a"].dtype == "<i4"


def test_tables_that_pyarrow_takes() -> None:
    class Frame:  # as those of polars and DuckDB
        def __arrow_c_stream__(self, schema: Any = None) -> Any:
            return pyarrow.table({"a": [1, 2]}).__arrow_c_stream__(schema)

    np.testing.assert_array_equal(lite.from_arrow(Frame())["a"], [1, 2])
    raises(TypeError, "table must be one of pyarrow, .* got str", lambda: lite.from_arrow("td.parquet"))


def test_rows_of_different_lengths(tmp_path: Any) -> None:
    rows = [
        TensorDict({"ids": np.arange(n), "wide": np.full((n, 2), n, np.float32), "text": "x" * n, "one": n})
        for n in (2, 0, 3)
    ]
    td = TensorDict({"n": lite.lazy_stack(rows), "a": np.ones(3)}, [3])
    table = lite.to_arrow(td)
    assert table["n.ids"].to_pylist() == [[0, 1], [], [0, 1, 2]]
    assert table["n.wide"].to_pylist() == [[[2.0, 2.0]] * 2, [], [[3.0, 3.0]] * 3]
    assert table["n.text"].to_pylist() == ["xx", "", "xxx"]
    assert table["n.one"].to_pylist() == [2, 0, 3]
    assert table.schema.field("n.wide").type == pyarrow.list_(pyarrow.list_(pyarrow.float32(), 2))
    td["n"].to_parquet(tmp_path / "td")
    assert TensorDict.from_parquet(tmp_path / "td")["ids"] == [[0, 1], [], [0, 1, 2]]
    side_by_side = TensorDict({"n": lite.lazy_stack([row.expand(3) for row in rows[::2]], 1)}, [3])
    for wrong in (TensorDict({"n": lite.lazy_stack([td["n"], td["n"]])}, [2]), side_by_side):
        raises(RuntimeError, "'ids' have different shapes", lite.to_arrow, wrong)
    raises(ValueError, r"'n.ids' has shape \(3, -1\); a column", lambda: td.to_pandas(separator="."))
    uneven = lite.lazy_stack([TensorDict({"a": np.ones((n, n))}) for n in (1, 2)])
    raises(RuntimeError, "'a' have different shapes", lite.to_arrow, uneven)


def test_columns_that_others_write() -> None:
    """As pandas, Hugging Face and LeRobot write numbers: nulls for NaN, and lists that could differ."""
    pyarrow = pytest.importorskip("pyarrow", reason='pip install -e ".[files]"')
    moment = datetime.datetime(1970, 1, 2)
    table = pyarrow.table(
        {
            "float": pyarrow.array([1.5, None, float("nan"), 0], pyarrow.float32()),
            "int": [1, None, 3, 4],
            "large": [2**53 + 1, None, 3, 4],
            "flag": [True, None, False, True],
            "list": [[0, 1], [2, 3], [4, 5], [6, 7]],
            "image": pyarrow.array(
                [[[n, n + 1]] * 3 for n in range(4)], pyarrow.list_(pyarrow.list_(pyarrow.uint8()))
            ),
            "ragged": [[0], [2, 3], [4], [6]],
            "missing": [[0, 1], None, [4, 5], [6, 7]],
            "words": [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]],
            "time": pyarrow.array([moment, None, moment, moment], pyarrow.timestamp("ms", "Europe/Paris")),
            "category": pyarrow.array([10, 20, None, 10]).dictionary_encode(),
            "enum": pyarrow.DictionaryArray.from_arrays(  # as polars exports categories
                [1, 0, None, 1], pyarrow.array(["a", "b"], getattr(pyarrow, "string_view", pyarrow.string)())
            ),
            "duration": pyarrow.array([1, None, 2, 3], pyarrow.duration("us")),
            "antiquity": pyarrow.array(
                [datetime.datetime(1, 1, 1), None, moment, moment], pyarrow.timestamp("us")
            ),
        }
    )
    td = lite.from_arrow(table.slice(1))
    np.testing.assert_array_equal(td["float"], np.array([np.nan, np.nan, 0], np.float32), strict=True)
    np.testing.assert_array_equal(td["int"], np.array([np.nan, 3, 4]), strict=True)
    np.testing.assert_array_equal(td["category"], [20, np.nan, 10])
    np.testing.assert_array_equal(td["list"], np.arange(2, 8).reshape(3, 2), strict=True)
    np.testing.assert_array_equal(
        td["image"][:, 2], np.array([[1, 2], [2, 3], [3, 4]], np.uint8), strict=True
    )
    np.testing.assert_array_equal(td["time"], [np.iinfo(np.int64).min, 86_400 * 10**9, 86_400 * 10**9])
    np.testing.assert_array_equal(td["duration"], [np.iinfo(np.int64).min, 2000, 3000])  # as of pandas
    whole = lite.from_arrow(table)
    for key in ("large", "flag", "ragged", "missing", "words", "antiquity", "enum"):
        assert isinstance(whole.get(key), NonTensorStack), key
        assert whole[key] == table[key].to_pylist()
    assert lite.from_arrow(table.slice(4)).batch_size == (0,)


def test_columns_of_tensors() -> None:
    """Arrow's type for tensors, as tensordict 0.15 writes arrays, and a type like that of `datasets`."""
    pyarrow = pytest.importorskip("pyarrow", reason='pip install -e ".[files]"')

    def column(values: Any, kind: Any, shape: list[int], order: list[int] | None = None) -> Any:
        kind = pyarrow.fixed_shape_tensor(kind, shape, permutation=order)
        return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array(values, kind.storage_type))

    numbers = [list(range(6)), list(range(6, 12))]
    flags, turned = column([[True, False]] * 2, pyarrow.bool_(), [2, 1]), [1, 0]
    columns = {"x": column(numbers, pyarrow.int16(), [2, 3]), "flags": flags}
    columns["turned"] = column(numbers, pyarrow.int16(), [2, 3], turned)
    td = lite.from_arrow(pyarrow.table(columns).slice(1))
    expected = np.arange(6, 12, dtype=np.int16).reshape(1, 2, 3)
    np.testing.assert_array_equal(td["x"], expected, strict=True)
    np.testing.assert_array_equal(td["turned"], expected.transpose(0, 2, 1), strict=True)
    np.testing.assert_array_equal(td["turned"], columns["turned"].to_numpy_ndarray()[1:], strict=True)
    np.testing.assert_array_equal(td["flags"], [[[True], [False]]], strict=True)
    assert lite.from_arrow(pyarrow.table(columns).slice(2))["x"].shape == (0, 2, 3)

    class Image(pyarrow.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(pyarrow.list_(pyarrow.list_(pyarrow.uint8())), "image")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> Any:
            return cls()

    lists = pyarrow.array([[[1, 2], [3, 4]]], Image().storage_type)
    image = lite.from_arrow(pyarrow.table({"x": pyarrow.ExtensionArray.from_storage(Image(), lists)}))["x"]
    np.testing.assert_array_equal(image, np.array([[[1, 2], [3, 4]]], np.uint8), strict=True)
    missing = column([[1, 2], None], pyarrow.int16(), [2])
    assert lite.from_arrow(pyarrow.table({"x": missing}))["x"] == [[1, 2], None]


def test_frames_among_other_things() -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"]})
    td = TensorDict.from_any(frame)
    assert (td.batch_size, td["a"].tolist(), td["s"]) == ((3,), [1, 2, 3], ["x", "y", "z"])
    assert TensorDict.from_any(frame, batch_size=[], device="cpu").device == "cpu"
    nested = TensorDict.from_any({"n": {"table": frame}, "pair": (frame, 1)})
    assert nested["n", "table"].batch_size == nested["pair", "0"].batch_size == (3,)
    assert nested["n", "table", "s"] == ["x", "y", "z"]
    assert TensorDict.from_dict({"table": frame}, auto_batch_size=True).batch_size == (3,)
    assert isinstance(TensorDict.from_list([frame, frame]), TensorDict)


@each_case("make", [TensorDict.from_pandas, TensorDict.from_any])
def test_batch_sizes_of_frames(make: Any) -> None:
    frame = pandas.DataFrame({"a": [1, 2, 3]})
    assert make(frame, batch_size=[]).batch_size == ()
    assert make(frame, auto_batch_size=True).batch_size == (3,)
    assert make(frame, auto_batch_size=True, batch_dims=0).batch_size == ()
    assert make(frame, batch_dims=0).batch_size == (3,)
    with pytest.raises(TypeError, match="Conflicting batch sizes in from_pandas"):
        make(frame, auto_batch_size=True, batch_size=[3])


def test_batch_sizes_of_parquet(tmp_path: Any) -> None:
    path = tmp_path / "x.parquet"
    TensorDict({"a": np.zeros((3, 2))}, [3]).to_parquet(path)
    assert TensorDict.from_parquet(path, auto_batch_size=True).batch_size == (3, 2)
    assert TensorDict.from_parquet(path, auto_batch_size=True, batch_dims=1).batch_size == (3,)
    with pytest.raises(TypeError, match="Conflicting batch sizes in from_parquet"):
        TensorDict.from_parquet(path, auto_batch_size=True, batch_size=[3])
