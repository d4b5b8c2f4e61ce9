"""Keys with lone surrogates, which UTF-8 does not have: the error names the key, and nothing is written."""

import os
import sys

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict, lazy_stack

BAD = "b\ud800"  # what no file name can hold, either


def bad(key=BAD):
    return TensorDict({"ok": np.zeros(3), "n": {key: np.ones(3)}}, batch_size=[3])


WRITERS = {
    "folder": lambda td, path: td.memmap(path),
    "folder in place": lambda td, path: td.memmap_(path),
    "folder, like": lambda td, path: td.memmap_like(path),
    "folder, threads": lambda td, path: td.memmap(path, num_threads=2),
    "folder of a lazy stack": lambda td, path: lazy_stack([td, td]).memmap(path),
    "tdz": lambda td, path: lite.save(td, f"{path}.tdz"),
    "npz": lambda td, path: lite.save(td, f"{path}.npz"),
    "safetensors": lambda td, path: lite.save(td, f"{path}.safetensors"),
    "h5": lambda td, path: td.to_h5(f"{path}.h5"),
    "parquet": lambda td, path: td.to_parquet(f"{path}.parquet", separator="."),
}


PACKAGES = {"safetensors": "safetensors", "h5": "h5py", "parquet": "pyarrow"}


@each_case("name", WRITERS)
def test_nothing_is_written(name, tmp_path):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    with pytest.raises(ValueError, match=r"'(n[./])?b\\ud800.*' (cannot be written|has no form)"):
        WRITERS[name](bad(), tmp_path / "x")
    assert os.listdir(tmp_path) == []


@each_case("name", ["folder", "tdz", "npz", "safetensors", "h5"])
def test_what_was_there_stays(name, tmp_path):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    WRITERS[name](TensorDict({"ok": np.arange(3)}, batch_size=[3]), tmp_path / "x")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    raises(ValueError, "ud800", lambda: WRITERS[name](bad(), tmp_path / "x"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_entries_made_in_a_folder(tmp_path):
    td = TensorDict(a=np.zeros(3), batch_size=[3]).memmap_(tmp_path / "x")
    raises(ValueError, "has no form", lambda: td.make_memmap(BAD, (3,), dtype=np.float32))
    assert set(td.keys()) == set(lite.load_memmap(tmp_path / "x").keys()) == {"a"}


@each_case("write", ["h5", "parquet"])
def test_text_in_formats_of_utf8(write, tmp_path):
    pytest.importorskip(PACKAGES[write])
    td = TensorDict({"a": np.zeros(2), "t": "x\ud800"}, batch_size=[2])
    raises(ValueError, "text at key 't'", lambda: WRITERS[write](td, tmp_path / "x"))
    assert os.listdir(tmp_path) == []


@each_case("suffix", ["", ".tdz", ".npz"])
def test_text_that_json_holds(suffix, tmp_path):
    lite.save(TensorDict({"t": "x\ud800"}), f"{tmp_path / 'x'}{suffix}")
    assert lite.load(f"{tmp_path / 'x'}{suffix}")["t"] == "x\ud800"


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes that are no UTF-8 are Linux's")
def test_names_that_linux_takes(tmp_path):
    td = bad("b\udc80")  # how Python spells a byte of a file name that is no UTF-8
    td.memmap(tmp_path / "x")
    found = lite.load_memmap(tmp_path / "x")
    np.testing.assert_array_equal(found["n", "b\udc80"], np.ones(3))
    for suffix in (".tdz", ".npz"):
        raises(ValueError, r"b\\udc80.*lone surrogate", lite.save, td, f"{tmp_path / 'y'}{suffix}")
    assert os.listdir(tmp_path) == ["x"]
