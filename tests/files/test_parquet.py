"""Parquet files; what becomes a column, `tests/convert/test_tables.py` has."""

from pathlib import Path

import numpy as np

from lite import TensorDict


def test_round_trip(tmp_path: Path) -> None:
    td = TensorDict({"a": np.arange(3), "n": {"b": np.ones((3, 2), np.float32)}, "s": ["x", "y", "z"]}, [3])
    td.to_parquet(tmp_path / "td.parquet", separator=".", compression="gzip")
    out = TensorDict.from_parquet(tmp_path / "td.parquet", separator=".", columns=["n.b", "s"])
    np.testing.assert_array_equal(out["n", "b"], td["n", "b"])
    assert (out["s"], "a" in out) == (["x", "y", "z"], False)
