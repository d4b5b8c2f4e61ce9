"""Folder or archive, at once or later."""

from concurrent.futures import Future

import numpy as np
from helpers.trees import same_content, tree, unchanged

import lite
from lite import TensorDict


def test_like_as_an_archive(tmp_path):
    td = tree()
    with unchanged(td):
        out = td.memmap_like(tmp_path / "td.tdz")
    assert not out["a"].any()
    assert out["s"] == "text"
    out["a"][...] = 3
    assert (TensorDict.load_memmap(tmp_path / "td.tdz")["a"] == 3).all()
    td.memmap_like(tmp_path / "other", archive=True)
    assert not td.memmap(tmp_path / "mapped").memmap_like(tmp_path / "again")["a"].any()
    assert lite.is_memmap_archive(tmp_path / "other")


def test_threads_and_futures(tmp_path):
    td = TensorDict({f"k{i}": np.full((50, 3), i) for i in range(40)}, [50])
    same_content(td.memmap(tmp_path / "threads", num_threads=4, atomic=True), td)
    same_content(TensorDict.load_memmap(tmp_path / "threads", mode=None), td)
    same_content(td.save(tmp_path / "td.npz", atomic=True), td)
    future = td.memmap(tmp_path / "later", return_early=True)
    assert isinstance(future, Future)
    same_content(future.result(timeout=60), td)
    same_content(TensorDict.load_memmap(tmp_path / "later"), td)
