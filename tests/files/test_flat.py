"""Files of arrays by name: .npz and .safetensors."""

import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.saved_samples import Pair, check, sample

import lite
from lite import LazyStackedTensorDict, TensorDict, lazy_stack


@each_case("suffix", [".npz", ".safetensors"])
def test_named_arrays(suffix, tmp_path):
    td = sample()
    if suffix == ".safetensors":
        td.set("z", td["z"].astype(np.complex64))
    path = tmp_path / f"td{suffix}"
    assert td.save(path) is td
    found = TensorDict.load(path)
    check(found, td)
    assert not found.is_locked
    pair = Pair(x=np.arange(3), y="z", batch_size=[3])
    pair.save(path)
    loaded = Pair.load(path)
    assert (type(loaded), loaded.y, loaded.batch_size) == (Pair, "z", (3,))
    raises(RuntimeError, "already exists", lambda: td.save(path, existsok=False))
    raises(TypeError, "options", lambda: td.save(path, compression="lzma"))
    raises(TypeError, "cannot be saved", lambda: TensorDict({"x": object()}).save(path))
    lazy_stack([TensorDict(a=np.arange(i)) for i in range(3)]).save(path)
    assert isinstance(TensorDict.load(path), LazyStackedTensorDict)


@each_case("key", ["", "/", "..", "a\0b", "%lite", "file", "allow_pickle", "é", "a.npy"])
def test_odd_names_in_npz(key, tmp_path):
    td = TensorDict({key: np.arange(3), "n": {key: np.ones(3)}})
    td.save(tmp_path / "td.npz")
    check(TensorDict.load(tmp_path / "td.npz"), td)


def test_a_large_entry_of_npz(tmp_path, monkeypatch):
    monkeypatch.setattr("zipfile.ZIP64_LIMIT", 1000)
    td = TensorDict({"x": np.arange(999.0)})
    td.save(tmp_path / "td.npz")
    check(TensorDict.load(tmp_path / "td.npz"), td)


@each_case("suffix", [".npz", ".safetensors"])
def test_big_endian_arrays_keep_their_numbers(suffix, tmp_path):
    td = TensorDict({"x": np.array([1, 2], ">i4"), "y": np.array([0.5], ">f2")})
    td.save(tmp_path / f"td{suffix}")
    found = TensorDict.load(tmp_path / f"td{suffix}")
    assert (found["x"].tolist(), found["y"].tolist()) == ([1, 2], [0.5])


def test_arrays_from_elsewhere(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.float32(2))
    td = TensorDict.load(tmp_path / "x.npz")
    assert (td["a"].tolist(), float(td["b"]), td.batch_size) == ([0, 1, 2], 2.0, ())
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"layer.0.weight": np.ones((2, 3))}, tmp_path / "x.safetensors")
    td = TensorDict.load(tmp_path / "x.safetensors").unflatten_keys(".")
    assert td["layer", "0", "weight"].shape == (2, 3)
    sample().exclude("z").save(tmp_path / "y.safetensors")
    assert "n.b.x y" in safetensors.load_file(tmp_path / "y.safetensors")
    raises(ValueError, "complex128", lambda: sample().save(tmp_path / "z.safetensors"))
    header = b'{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}'
    (tmp_path / "f4.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    raises(ValueError, r"f4\.safetensors is damaged", TensorDict.load, tmp_path / "f4.safetensors")
    assert not (tmp_path / "z.safetensors").exists()
    with np.load(tmp_path / "x.npz") as plain:
        assert sorted(plain.files) == ["a", "b"]


@each_case(
    ("package", "use"),
    [
        ("safetensors", lambda td, path: td.save(path / "x.safetensors")),
        ("h5py", lambda td, path: td.to_h5(path / "x.h5")),
        ("pyarrow", lambda td, path: lite.to_arrow(td)),
    ],
)
def test_missing_packages_are_named(package, use, tmp_path, monkeypatch):
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    raises(ImportError, r'pip install -e "\.\[files\]"', use, TensorDict({"a": np.ones(2)}, [2]), tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_no_array_in_npz(tmp_path):
    """NumPy gives the bytes of such an entry."""
    path = tmp_path / "td.npz"
    for name in ("notes.txt", "%lite.npy"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"text")
        with pytest.raises(ValueError, match=rf"td\.npz is damaged or foreign: its entry '{name[:5]}"):
            TensorDict.load(path)


def test_safetensors_of_half_and_quarter_precision(tmp_path):
    """float8 is written by the library, and not given to NumPy by it."""
    names = (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    data = {name: np.array([[0.5, 1, 4]]).astype(getattr(ml_dtypes, name)) for name in names}
    td = TensorDict({**data, "float32": np.ones((1, 2), np.float32), "none": data["float8_e5m2"][:, :0]}, [1])
    td.save(tmp_path / "td.safetensors")
    check(TensorDict.load(tmp_path / "td.safetensors"), td, order=False)
