"""CSV and JSON files of tables."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import NonTensorStack, TensorDict

FORMATS = {
    "csv": (TensorDict.to_csv, lite.from_csv, {}),
    "json": (TensorDict.to_json, lite.from_json, {}),
    "jsonl": (TensorDict.to_json, lite.from_json, {"lines": True}),
}


def tree() -> TensorDict:
    content = {"i": np.arange(3), "b": np.array([True, False, True]), "n": {"s": ["x", "y, z", '"']}}
    return TensorDict(content | {"f": np.array([0.5, np.nan, -2], np.float32), "one": "same"}, batch_size=[3])


@pytest.mark.parametrize("ending", ["", ".gz"])
@each_case("name", FORMATS)
def test_there_and_back(tmp_path: Path, name: str, ending: str) -> None:
    write, read, options = FORMATS[name]
    path = tmp_path / f"table.{name}{ending}"
    path.write_text("an older file, which is longer than the new one" * 100)
    write(tree(), path, separator=".", **options)
    assert path.read_bytes()[:2] == b"\x1f\x8b" if ending else path.read_text()[0] in "[{i"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    back = read(path, separator=".", **options)
    assert (back.batch_size, back["n", "s"], back["one"]) == ((3,), ["x", "y, z", '"'], ["same"] * 3)
    for key in "ibf":
        np.testing.assert_array_equal(back[key], tree()[key])
    assert [back[key].dtype for key in "ibf"] == [np.int64, np.bool_, np.float64]
    assert read(path, dtype="float32", **options)["i"].dtype == np.float32
    assert read(path, batch_size=[], device="cpu", **options).batch_size == ()
    assert read(path, auto_batch_size=True, batch_dims=0, **options).batch_size == ()
    with pytest.raises(TypeError, match=f"from_{name[:3] if name == 'csv' else 'json'}: batch_size"):
        read(tmp_path / "missing", auto_batch_size=True, batch_size=[3])


def test_options_go_to_pandas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    td = tree().select("i", "f")
    td.to_csv(path, sep=";", na_rep="-", compression=None)
    td.to_csv(path, sep=";", na_rep="-", header=False, mode="a")
    assert path.read_text() == "i;f\n0;0.5\n1;-\n2;-2.0\n" + "0;0.5\n1;-\n2;-2.0\n"
    assert list(lite.from_csv(path, sep=";", usecols=["i"]).keys()) == ["i"]
    td.to_csv(path, compression="gzip")
    assert gzip.decompress(path.read_bytes()).startswith(b"i,f\n")
    exact = TensorDict(x=np.array([1 / 3]), batch_size=[1])
    exact.to_json(tmp_path / "x.json", double_precision=15)
    assert abs(lite.from_json(tmp_path / "x.json")["x"][0] - 1 / 3) < 1e-15


@each_case(
    ("td", "message"),
    [
        (TensorDict(a=1), "needs a batch dimension"),
        (TensorDict(a=np.ones((2, 3)), batch_size=[2]), "'a' has shape"),
        (tree(), "is not a name of a column"),
        (TensorDict(s=NonTensorStack("a", "\ud800"), batch_size=[2]), "surrogates"),
    ],
)
@each_case("name", FORMATS)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, name: str, td: Any, message: str) -> None:
    path = tmp_path / "t"
    path.write_text("old")
    raises(ValueError, message, FORMATS[name][0], td, path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["t"]


def test_text_is_not_run(tmp_path: Path) -> None:
    """Cells that look like calls, pickles and tagged objects are text and dicts."""
    attack = "__import__('os').system('touch ran')"
    (tmp_path / "t.csv").write_text(f'a,b\n"{attack}",=1+1\n')
    (tmp_path / "t.json").write_text('[{"a": {"py/object": "os.system", "py/reduce": ["x"]}}]')
    assert lite.from_csv(tmp_path / "t.csv").tolist() == [{"a": attack, "b": "=1+1"}]
    assert lite.from_json(tmp_path / "t.json")["a"] == [{"py/object": "os.system", "py/reduce": ["x"]}]
