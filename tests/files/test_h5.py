"""HDF5 files."""

import h5py
import numpy as np
import pytest
from helpers.saved_samples import check

import lite
from lite import TensorDict


def test_h5(tmp_path):
    path = tmp_path / "td.h5"
    td = TensorDict(
        {"a": np.arange(6).reshape(3, 2), "n": {"b": np.ones(3, bool), "s": "é"}, "e": np.ones((3, 0))}, [3]
    )
    assert td.to_h5(path, compression="gzip") is td
    check(TensorDict.from_h5(path), td.select("a", "e", "n"), order=False)
    assert TensorDict.from_h5(path, batch_size=[3, 2][:1]).batch_size == (3,)
    with h5py.File(path) as file:
        assert file["a"].compression == "gzip"
    for bad, error in (
        ({"x": object()}, TypeError),
        ({"r": ["a", "b"]}, TypeError),
        ({"a/b": 1}, ValueError),
    ):
        with pytest.raises(error):
            TensorDict(bad).to_h5(path)
    check(TensorDict.from_h5(path), td.select("a", "e", "n"), order=False)
    with pytest.raises(FileNotFoundError):
        TensorDict.from_h5(tmp_path / "none.h5")
    with pytest.raises(ValueError, match="mode"):
        TensorDict.from_h5(path, mode="r+")
    found = lite.from_h5(path, auto_batch_size=True, device="cpu")
    assert (found.batch_size, found["n"].batch_size, found.device) == ((3,), (3,), "cpu")
    assert TensorDict.from_h5(path, auto_batch_size=True, batch_dims=0).batch_size == ()
    with pytest.raises(TypeError, match="Conflicting batch sizes in from_h5"):
        TensorDict.from_h5(path, auto_batch_size=True, batch_size=[3])
