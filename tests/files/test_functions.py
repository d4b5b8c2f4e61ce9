"""Saving and loading as functions do what the methods do."""

from pathlib import Path

import numpy as np
import pytest
from helpers.saved_samples import check, sample

import lite
from lite import TensorDict


def test_folders(tmp_path: Path) -> None:
    lite.save(sample(), tmp_path / "saved")
    lite.memmap(sample(), tmp_path / "mapped", num_threads=2)
    check(lite.load(tmp_path / "saved"), sample())
    check(lite.load_memmap(tmp_path / "mapped", device="cpu"), TensorDict.load_memmap(tmp_path / "mapped"))


def test_archives_there_and_back(tmp_path: Path) -> None:
    lite.memmap(sample(), tmp_path / "td")
    packed = lite.pack_memmap(tmp_path / "td", tmp_path / "td.tdz", compression="deflate")
    assert lite.is_memmap_archive(packed)
    assert not lite.is_memmap_archive(tmp_path / "td")
    unpacked = lite.unpack_memmap(packed, tmp_path / "again")
    check(lite.load_memmap(unpacked), sample())


def test_checksums_follow_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "td.tdz"
    lite.memmap(TensorDict(a=np.zeros(3)), path)
    lite.load_memmap(path, mode="r+")["a"][...] = 5
    with pytest.raises(ValueError, match="CRC"):
        lite.unpack_memmap(path, tmp_path / "td")
    assert lite.refresh_archive_checksums(path) == path
    lite.unpack_memmap(path, tmp_path / "td")
    np.testing.assert_array_equal(lite.load_memmap(tmp_path / "td")["a"], np.full(3, 5.0))


def test_consolidated_files(tmp_path: Path) -> None:
    td = TensorDict({"a": np.arange(3)}, [3])
    td.consolidate(tmp_path / "td")
    for read in (lite.from_consolidated, TensorDict.from_consolidated):
        np.testing.assert_array_equal(read(tmp_path / "td")["a"], td["a"])


def test_h5_on_a_device(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    TensorDict({"a": np.arange(3)}, [3]).to_h5(tmp_path / "td.h5")
    assert lite.from_h5(tmp_path / "td.h5").device is None
    assert lite.from_h5(tmp_path / "td.h5", device="cpu").device == "cpu"
