"""HDF5 files."""

import h5py
import numpy as np
import pytest
from helpers.cases import raises
from helpers.saved_samples import check

import lite
from lite import NonTensorData, TensorDict


def test_h5(tmp_path, monkeypatch):
    monkeypatch.setattr("lite._files.h5._SMALL", 1)  # so that the size of the file counts
    path = tmp_path / "td.h5"
    td = TensorDict(
        {"a": np.arange(6).reshape(3, 2), "n": {"b": np.ones(3, bool), "s": "é"}, "e": np.ones((3, 0))}, [3]
    )
    assert td.to_h5(path, compression="gzip") is td
    check(TensorDict.from_h5(path), td.select("a", "e", "n"), order=False)
    assert TensorDict.from_h5(path, batch_size=[3, 2][:1]).batch_size == (3,)
    with pytest.raises(TypeError, match=r"at key \('n', 'b'\) is a dict; .*exclude\(\('n', 'b'\)\)"):
        TensorDict(n=TensorDict(b=NonTensorData({}))).to_h5(tmp_path / "no.h5")
    TensorDict({"n": {"a": {"one": 3.0}}}).to_h5(tmp_path / "one.h5")
    with pytest.raises(ValueError, match=r"mismatch at key \('n', 'a', 'one'\), got .*\(3,\) and .*\(\)"):
        TensorDict.from_h5(tmp_path / "one.h5", batch_size=[3])
    with h5py.File(path) as file:
        assert file["a"].compression == "gzip"
    for bad, error in (
        ({"x": object()}, TypeError),
        ({"r": ["a", "b"]}, TypeError),
        ({"a/b": 1}, ValueError),
        ({"rows": lite.lazy_stack([TensorDict(a=1), TensorDict(a=1, b=1)])}, RuntimeError),  # b would be lost
    ):
        raises(error, "", TensorDict(bad).to_h5, path)
    check(TensorDict.from_h5(path), td.select("a", "e", "n"), order=False)
    raises(FileNotFoundError, "", TensorDict.from_h5, tmp_path / "none.h5")
    raises(ValueError, "mode", TensorDict.from_h5, path, mode="r+")
    found = lite.from_h5(path, auto_batch_size=True, device="cpu")
    assert (found.batch_size, found["n"].batch_size, found.device) == ((3,), (3,), "cpu")
    assert TensorDict.from_h5(path, auto_batch_size=True, batch_dims=0).batch_size == ()
    with pytest.raises(TypeError, match="Conflicting batch sizes in from_h5"):
        TensorDict.from_h5(path, auto_batch_size=True, batch_size=[3])


def test_files_of_other_programs(tmp_path):
    """Text of any length and of a fixed one; the batch size is that of the arrays, as in tensordict."""
    with h5py.File(tmp_path / "td.h5", "w") as file:
        file["texts"], file["codes"], file["n/x"] = ["a", "bü"], np.array([b"ab", b"c"]), np.ones((2, 3))
        file["name"] = "é"
    found = TensorDict.from_h5(tmp_path / "td.h5")
    assert (found["texts"], found["codes"], found["name"]) == (["a", "bü"], ["ab", "c"], "é")
    assert (found.batch_size, found["n"].batch_size) == ((2,), (2, 3))
    TensorDict({"x": np.ones((2, 3))}).to_h5(tmp_path / "own.h5")
    assert TensorDict.from_h5(tmp_path / "own.h5").batch_size == ()
    with h5py.File(tmp_path / "td.h5", "w") as file:
        file["bytes"], file["nothing"] = np.array([b"\xff", b"c"]), h5py.Empty(h5py.string_dtype())
    found = TensorDict.from_h5(tmp_path / "td.h5")
    assert (found["bytes"], found["nothing"]) == ([b"\xff", b"c"], h5py.Empty(object))


def test_arrays_are_in_the_order_of_bytes_that_torch_has(tmp_path):
    TensorDict({"x": np.arange(3, dtype=">i4")}, [3]).to_h5(tmp_path / "td.h5")
    with h5py.File(tmp_path / "td.h5") as file:
        assert file["x"].dtype == np.dtype("<i4")
        np.testing.assert_array_equal(file["x"], [0, 1, 2])


def test_hostile_files(tmp_path):
    """What is in other files, what is there by many names, and what claims more than there is."""
    (tmp_path / "secret").write_bytes(b"secret")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.arange(5)

    def outside(file):
        file.create_dataset("a", (6,), "u1", external=[(str(tmp_path / "secret"), 0, 6)])

    def virtual(file):
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (5,))
        file.create_virtual_dataset("a", layout)

    def doubled(file):
        for _ in range(40):
            inner = file.create_group("a")
            file["b"], file = inner, inner

    for write, message in (
        (outside, "refusing to follow '/a' of .* to other files"),
        (virtual, "refusing to follow '/a' of .* to other files"),
        (lambda file: file.__setitem__("a", h5py.SoftLink("/b")), "refusing to follow the link 'a'"),
        (doubled, "twice, by two names"),
        (lambda file: file.__setitem__("a", np.dtype("f4")), "'/a' of .* is a type with a name, no array"),
        (lambda file: file.create_dataset("a", (1 << 40,), "u1", chunks=(1 << 10,)), "claims 1099511627776"),
        (lambda file: file.attrs.__setitem__("batch_size", [-3]), "damaged or foreign: batch_size"),
    ):
        with h5py.File(tmp_path / "td.h5", "w") as file:
            write(file)
        with pytest.raises(ValueError, match=message) as caught:
            TensorDict.from_h5(tmp_path / "td.h5")
        assert "td.h5" in str(caught.value)
