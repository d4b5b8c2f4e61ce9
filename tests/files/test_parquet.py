"""Parquet files; what becomes a column, `tests/convert/test_tables.py` has."""

from pathlib import Path

import numpy as np
from helpers.cases import raises

from lite import TensorDict


def test_round_trip(tmp_path: Path) -> None:
    td = TensorDict({"a": np.arange(3), "n": {"b": np.ones((3, 2), np.float32)}, "s": ["x", "y", "z"]}, [3])
    td.to_parquet(tmp_path / "td.parquet", separator=".", compression="gzip")
    out = TensorDict.from_parquet(tmp_path / "td.parquet", separator=".", columns=["n.b", "s"])
    np.testing.assert_array_equal(out["n", "b"], td["n", "b"])
    assert (out["s"], "a" in out) == (["x", "y", "z"], False)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "td.parquet"
    raises(FileNotFoundError, "td.parquet", TensorDict.from_parquet, path)
    TensorDict({"a": np.arange(100)}, [100]).to_parquet(path)
    raises(
        ValueError,
        "td.parquet has not what is asked for, or is damaged.*FieldRef.Name.b",
        TensorDict.from_parquet,
        path,
        columns=["b"],
    )
    whole = path.read_bytes()
    for content in (whole[:-20], whole[:4] + bytes(60) + whole[64:]):  # its end, and the header of a page
        path.write_bytes(content)
        raises(
            ValueError,
            "td.parquet has not what is asked for, or is damaged or foreign: ",
            TensorDict.from_parquet,
            path,
        )
