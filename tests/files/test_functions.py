"""Saving and loading as functions do what the methods do."""

from pathlib import Path

import numpy as np
from helpers.cases import raises
from helpers.saved_samples import check, sample

import lite
from lite import TensorDict


def test_folders(tmp_path: Path) -> None:
    lite.save(sample(), tmp_path / "saved")
    lite.memmap(sample(), tmp_path / "mapped", num_threads=2)
    check(lite.load(tmp_path / "saved"), sample())
    check(lite.load_memmap(tmp_path / "mapped", device="cpu"), TensorDict.load_memmap(tmp_path / "mapped"))


def test_checksums_follow_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "td.tdz"
    lite.memmap(TensorDict(a=np.zeros(3)), path)
    lite.load_memmap(path, mode="r+")["a"][...] = 5
    raises(ValueError, "CRC", lite.unpack_memmap, path, tmp_path / "td")
    assert lite.refresh_archive_checksums(path) == path
    lite.unpack_memmap(path, tmp_path / "td")
    np.testing.assert_array_equal(lite.load_memmap(tmp_path / "td")["a"], np.full(3, 5.0))


def test_h5_on_a_device(tmp_path: Path) -> None:
    TensorDict({"a": np.arange(3)}, [3]).to_h5(tmp_path / "td.h5")
    assert lite.from_h5(tmp_path / "td.h5").device is None
    assert lite.from_h5(tmp_path / "td.h5", device="cpu").device == "cpu"
