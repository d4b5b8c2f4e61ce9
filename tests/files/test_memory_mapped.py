"""`MemoryMappedTensor`: single arrays in files."""

import copy
import os
import pickle

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import MemoryMappedTensor, TensorDict


def test_from_values(tmp_path):
    array = np.arange(12, dtype=">i4").reshape(3, 4).T
    path = tmp_path / "new" / "x"
    x = MemoryMappedTensor.from_tensor(array, filename=path)
    assert isinstance(x, MemoryMappedTensor)
    assert x.filename == str(path)
    assert x.dtype == np.dtype("<i4")
    np.testing.assert_array_equal(x, array)
    np.testing.assert_array_equal(np.fromfile(path, "<i4").reshape(4, 3), array)
    assert MemoryMappedTensor.from_tensor(x, filename=path) is x
    raises(RuntimeError, "already exists", lambda: MemoryMappedTensor.from_tensor(array, filename=path))
    raises(RuntimeError, "copy_existing=True", MemoryMappedTensor.from_tensor, x, filename=tmp_path / "y")
    y = MemoryMappedTensor.from_tensor(x, filename=tmp_path / "y", copy_existing=True)
    y[0] = -1
    assert x[0, 0] == 0
    again = MemoryMappedTensor.from_tensor(np.ones(2), filename=path, existsok=True)
    assert again.tolist() == [1, 1]
    np.testing.assert_array_equal(x, array)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(RuntimeError, match="symbolic link"):
        MemoryMappedTensor.from_tensor(np.ones(2), filename=tmp_path / "link", existsok=True)
    flat = MemoryMappedTensor.from_tensor(array, shape=(12,), copy_data=False)
    assert flat.shape == (12,)
    assert not flat.any()
    raises(ValueError, r"cannot get the shape \(5,\)", lambda: MemoryMappedTensor.from_tensor(array, shape=5))


def test_without_a_file():
    x = MemoryMappedTensor.from_tensor([1.5, 2.5])
    assert MemoryMappedTensor.from_tensor(x) is x
    raises(RuntimeError, "no file associated", lambda: x.filename)
    out = pickle.loads(pickle.dumps(x))
    assert type(out) is MemoryMappedTensor
    assert out.tolist() == [1.5, 2.5]


@each_case("name", ["empty", "zeros", "ones", "full"])
@each_case("to_file", [True, False])
def test_filled(name, to_file, tmp_path):
    """Other sizes and dtypes are in tests/parity/test_file_methods.py."""
    make, options = getattr(MemoryMappedTensor, name), {"fill_value": 7} if name == "full" else {}
    value = {"ones": 1, "full": 7}.get(name, 0)
    path = tmp_path / "x" if to_file else None
    x = make(np.int64(2), 3, dtype=np.int16, filename=path, **options)
    np.testing.assert_array_equal(x, np.full((2, 3), value, np.int16), strict=True)
    if to_file:
        raises(RuntimeError, "already exists", lambda: make(3, filename=path, **options))
        assert make(np.int64(3), filename=path, existsok=True, **options).shape == (3,)
    assert make(shape=(2, 3), **options).dtype == lite.get_default_dtype()
    raises(TypeError, "shape", lambda: make(**options))
    raises(RuntimeError, "CPU", lambda: make(2, device="cuda", **options))


def test_like(tmp_path):
    like = MemoryMappedTensor.full_like(np.zeros((2, 3), np.int8), 9, filename=tmp_path / "x")
    np.testing.assert_array_equal(like, np.full((2, 3), 9, np.int8), strict=True)
    assert np.fromfile(like.filename, np.int8).tolist() == [9] * 6
    for name, wanted in (("empty", None), ("zeros", 0), ("ones", 1)):
        made = getattr(MemoryMappedTensor, f"{name}_like")(like, filename=tmp_path / name)
        assert (made.shape, made.dtype, os.path.basename(made.filename)) == ((2, 3), np.int8, name)
        assert wanted is None or (made == wanted).all()


def test_nothing_is_no_file(tmp_path):
    assert MemoryMappedTensor.zeros_like(np.zeros((2, 3))).shape == (2, 3)
    assert MemoryMappedTensor.zeros(0, 3, filename=tmp_path / "none").shape == (0, 3)
    assert not (tmp_path / "none").exists()


def test_the_class_itself(tmp_path):
    array = np.arange(6)
    x = MemoryMappedTensor(array, shape=(2, 3), index=1)
    assert type(x) is np.ndarray  # a part of what has no file
    assert type(MemoryMappedTensor(array)) is MemoryMappedTensor
    x[0] = 30
    assert array.tolist() == [0, 1, 2, 30, 4, 5]
    raises(RuntimeError, "no file", lambda: MemoryMappedTensor([1, 2]).filename)
    y = MemoryMappedTensor(array, filename=tmp_path / "y", shape=[3, 2], device="cpu")
    assert (y.filename, y.shape) == (str(tmp_path / "y"), (3, 2))
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y", np.int64), array)
    assert pickle.loads(pickle.dumps(MemoryMappedTensor([1, 2]))).tolist() == [1, 2]
    raises(RuntimeError, "device='cuda'", lambda: MemoryMappedTensor(array, device="cuda"))
    raises(TypeError, "source must be an array, got 'y'; from_filename", lambda: MemoryMappedTensor("y"))
    raises(RuntimeError, "already exists", lambda: MemoryMappedTensor(array, filename=tmp_path / "y"))


def test_from_filename(tmp_path):
    td = TensorDict({"a": np.arange(6).reshape(3, 2)}, [3]).memmap(tmp_path / "td")
    path = tmp_path / "td" / "a.memmap"
    x = MemoryMappedTensor.from_filename(path, np.int64, (3, 2))
    assert x.filename == str(path)
    for mode, reached in (("r", False), ("r+", True)):
        MemoryMappedTensor.from_filename(path, np.int64, (3, 2), mode=mode)[0, 0] += 10
        assert (x[0, 0] > 9) == reached
    x[0, 0] -= 10
    raises(ValueError, "mode must be", MemoryMappedTensor.from_filename, path, np.int64, (3, 2), mode="w")
    row = MemoryMappedTensor.from_filename(str(path), "int64", [3, 2], index=1)
    row[0] = 50
    assert td["a"][1, 0] == x[1, 0] == 50
    raises(ValueError, "has 48 bytes, expected 64", MemoryMappedTensor.from_filename, path, np.int64, (4, 2))
    assert MemoryMappedTensor.from_filename(path, np.int64, 3).tolist() == [0, 1, 50]
    raises(FileNotFoundError, "", lambda: MemoryMappedTensor.from_filename(tmp_path / "none", np.int64, 3))
    assert MemoryMappedTensor.from_filename(path, "int64", 6).shape == (6,)
    assert path.stat().st_size == 48


def test_what_stays_mapped(tmp_path):
    x = MemoryMappedTensor.from_tensor(np.arange(12.0).reshape(3, 4), filename=tmp_path / "x")
    for view in (x[1], x[:, 1:3], x[::-1], x[..., None], x.T, x.reshape(4, 3)):
        assert view.filename == x.filename
        out = pickle.loads(pickle.dumps(view))
        assert type(out) is MemoryMappedTensor
        assert out.filename == x.filename
        np.testing.assert_array_equal(out, view)
    for value in (x[[0, 1]], x[x > 3], x + 1, np.sqrt(x), x.sum(0), -x):
        assert type(value) is np.ndarray
    for number in (x[0, 0], x.sum(), x.max()):
        assert isinstance(number, np.float64)
    x += 1
    np.add(x, 1, out=x)
    assert type(x) is MemoryMappedTensor
    assert np.fromfile(tmp_path / "x")[0] == 2
    assert copy.deepcopy(x).tolist() == x.tolist()
    copy.deepcopy(x)[0] = -9
    assert x[0, 0] == 2
    assert len(pickle.dumps(MemoryMappedTensor.zeros(10**6, filename=tmp_path / "big"))) < 500


def test_as_a_leaf(tmp_path):
    x = MemoryMappedTensor.ones(3, 2, filename=tmp_path / "x")
    td = TensorDict({"x": x, "y": x[:, 0]}, [3])
    assert td.is_memmap()
    td[0] = TensorDict({"x": [5, 5], "y": 6})
    assert np.fromfile(tmp_path / "x", np.float32).tolist() == [6, 5, 1, 1, 1, 1]
    assert len(pickle.dumps(td)) < 2000
    raises(RuntimeError, "copy_existing=True", lambda: td.memmap(tmp_path / "td"))
    out = td.memmap(tmp_path / "td", copy_existing=True)
    np.testing.assert_array_equal(out["y"], td["y"])


def test_a_stopped_write_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", None)
    raises(TypeError, "", lambda: MemoryMappedTensor.ones(3, filename=tmp_path / "x"))
    assert not list(tmp_path.iterdir())
