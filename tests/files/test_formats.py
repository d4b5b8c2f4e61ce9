"""Archives, consolidated files, .npz, .safetensors, HDF5 and Arrow."""

from __future__ import annotations

import builtins
import sys
import zipfile

import numpy as np
import pytest
from trees import snapshot, tree, unchanged

import lite
from lite import LazyStackedTensorDict, NonTensorStack, TensorClass, TensorDict, lazy_stack


class Pair(TensorClass):
    x: np.ndarray
    y: str = "y"


def sample():
    return TensorDict(
        {
            "a": np.arange(6, dtype=np.int16).reshape(3, 2),
            "shape": np.ones((3, 0)),
            "n.b": {"x y": np.array([True, False, True]), "t": (1, {2})},
            "n": {"b": {"x y": np.zeros(3)}},
            "lazy": lazy_stack([TensorDict(q=np.arange(i + 1)) for i in range(3)]),
            "r": [["a", "b"], ["c", "d"], ["e", None]],
            "z": np.arange(3) * (1 + 2j),
            "pair": Pair(x=np.arange(3), batch_size=[3]),
        },
        [3],
        names=["t"],
    )


def check(found, expected, order=True):
    assert (list if order else sorted)(found.keys()) == (list if order else sorted)(expected.keys())
    assert found.batch_size == expected.batch_size
    assert found.names == expected.names
    for key in expected.keys():  # noqa: SIM118
        mine, other = found.get(key), expected.get(key)
        assert type(mine) is type(other)
        if isinstance(other, np.ndarray):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
        elif isinstance(other, LazyStackedTensorDict):
            for part, it in zip(mine.tensordicts, other.tensordicts, strict=True):
                check(part, it)
        elif lite.is_non_tensor(other):
            assert mine.tolist() == other.tolist()
            assert mine.batch_size == other.batch_size
        else:
            check(getattr(mine, "_tensordict", mine), getattr(other, "_tensordict", other), order)


@pytest.mark.parametrize("compression", [None, "stored", "deflate", "bzip2", "lzma", zipfile.ZIP_DEFLATED])
def test_archives(compression, tmp_path):
    td = sample()
    path = tmp_path / "td.tdz"
    with unchanged(tree()):
        out = td.save(path, compression=compression)
    check(out, td)
    check(TensorDict.load(path), td)
    assert lite.is_memmap_archive(path)
    assert TensorDict.load(path, subpath=("n", "b"))["x y"].sum() == 0
    lite.unpack_memmap(path, tmp_path / "folder")
    check(TensorDict.load_memmap(tmp_path / "folder"), td)
    lite.pack_memmap(tmp_path / "folder", tmp_path / "again.tdz", compression="deflate", compresslevel=9)
    check(TensorDict.load(tmp_path / "again.tdz"), td)


def test_archive_modes(tmp_path):
    path = tmp_path / "td.tdz"
    TensorDict({"a": np.arange(4)}, [4]).save(path)
    private = TensorDict.load(path)
    private["a"][0] = 9
    assert TensorDict.load(path)["a"][0] == 0
    shared = TensorDict.load(path, mode="r+")
    shared["a"][0] = 9
    assert TensorDict.load(path)["a"][0] == 9
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == "a.memmap"
    with pytest.raises(ValueError, match="damaged"):
        lite.unpack_memmap(path, tmp_path / "bad")
    lite.refresh_archive_checksums(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    assert not shared.is_memmap()
    shared.memmap(tmp_path / "folder")
    TensorDict({"a": np.arange(4)}, [4]).save(path, compression="deflate")
    with pytest.raises(RuntimeError, match="compressed"):
        TensorDict.load(path, mode="r+")
    lite.refresh_archive_checksums(path)
    check(TensorDict.load(path), TensorDict({"a": np.arange(4)}, [4]))


def test_unaligned_archives_are_copied(tmp_path):
    TensorDict({"a": np.arange(4)}, [4]).memmap(tmp_path / "td")
    for extra in range(8):
        path = tmp_path / f"{extra}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(tmp_path / "td" / "meta.json", "meta.json")
            archive.writestr("x" * (extra + 1), "")
            archive.write(tmp_path / "td" / "a.memmap", "a.memmap")
        td = TensorDict.load(path)
        assert td["a"].tolist() == [0, 1, 2, 3]
        assert td["a"].flags.aligned


def test_what_archives_refuse(tmp_path):
    td = TensorDict({"a": np.arange(4)}, [4])
    for bad in ("zip", 99):
        with pytest.raises(ValueError, match="compression"):
            td.save(tmp_path / "td.tdz", compression=bad)
    with pytest.raises(ValueError, match="archive"):
        td.memmap(tmp_path / "td", compression="lzma")
    with pytest.raises(ValueError, match="prefix"):
        td.memmap(archive=True)
    (tmp_path / "folder.tdz").mkdir()
    with pytest.raises(ValueError, match="folder"):
        td.memmap(tmp_path / "folder.tdz", archive=True)
    td.save(tmp_path / "td.tdz")
    with pytest.raises(RuntimeError, match="already exists"):
        td.save(tmp_path / "td.tdz", existsok=False)
    td.memmap(tmp_path / "td")
    with pytest.raises(ValueError, match="outside"):
        lite.pack_memmap(tmp_path / "td", tmp_path / "td" / "x.tdz")
    with pytest.raises(ValueError, match=r"no meta\.json"):
        lite.pack_memmap(tmp_path, tmp_path / "x.tdz")
    (tmp_path / "td" / "link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="symbolic link"):
        lite.pack_memmap(tmp_path / "td", tmp_path / "x.tdz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.tdz", "td", "td.tdz"]


def test_consolidated(tmp_path):
    td = sample().exclude("pair")
    td["n"].set("cls", np.ones(3))
    in_memory = td.consolidate()
    on_disk = td.consolidate(tmp_path / "td")
    for out in (in_memory, on_disk, TensorDict.from_consolidated(tmp_path / "td")):
        got = out.clone()
        expected = td.clone()
        if out is not in_memory and out is not on_disk:
            expected.set(("n.b", "t"), lite.NonTensorData([1, [2]], batch_size=[3]))
        check(got, expected, order=False)
        assert out.is_consolidated()
    assert in_memory.is_locked
    assert on_disk.is_locked
    with pytest.raises(RuntimeError, match="locked"):
        in_memory["x"] = 1
    in_memory.unlock_()
    assert not in_memory.is_consolidated()
    in_memory.lock_()
    assert in_memory.is_consolidated()
    assert not td.is_consolidated()


def test_consolidated_in_place_and_later(tmp_path):
    td = TensorDict({"a": np.arange(6).reshape(2, 3).T[::-1], "b": np.ones(3, np.int8)}, [3])
    expected = snapshot(td.clone())
    assert td.consolidate(inplace=True) is td
    assert td.is_consolidated()
    assert np.shares_memory(td["a"], td._source)
    assert snapshot(td.clone()) == expected
    future = td.consolidate(tmp_path / "td", return_early=True)
    check(future.result(timeout=60).clone(), td.clone())
    out = lite.from_consolidated(tmp_path / "td")
    out["a"][...] = 7
    assert lite.from_consolidated(tmp_path / "td")["a"].max() == 5


def test_what_consolidation_refuses(tmp_path):
    path = tmp_path / "td"
    with pytest.raises(RuntimeError, match="to json"):
        TensorDict({"x": object()}).consolidate(path)
    with pytest.raises(RuntimeError, match="no tensorclasses"):
        TensorDict({"x": Pair(x=np.ones(3))}).consolidate(path)
    for key in ("cls", "leaves", "non_tensors", "cls_metadata", "size"):
        with pytest.raises(ValueError, match=key):
            TensorDict({key: {"a": 1}}).consolidate(path)
        TensorDict({key: np.ones(2)}).consolidate(path)
        assert lite.from_consolidated(path)[key].sum() == 2
        path.unlink()
    with pytest.raises(ValueError, match="NJT"):
        TensorDict({"<NJT_VALUES>a": np.ones(2)}).consolidate(path)
    with pytest.raises(ValueError, match="cpu"):
        TensorDict().consolidate(device="cuda")
    assert not path.exists()


def test_empty_consolidated(tmp_path):
    TensorDict({"n": {}, "s": "x"}, [2]).consolidate(tmp_path / "td")
    out = lite.from_consolidated(tmp_path / "td")
    assert (out.batch_size, out["s"], list(out.keys())) == ((2,), "x", ["s", "n"])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_named_arrays(suffix, tmp_path):
    td = sample()
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
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
    with pytest.raises(RuntimeError, match="already exists"):
        td.save(path, existsok=False)
    with pytest.raises(TypeError, match="options"):
        td.save(path, compression="lzma")
    with pytest.raises(TypeError, match="cannot be saved"):
        TensorDict({"x": object()}).save(path)
    lazy_stack([TensorDict(a=np.arange(i)) for i in range(3)]).save(path)
    assert isinstance(TensorDict.load(path), LazyStackedTensorDict)


@pytest.mark.parametrize("key", ["", "/", "..", "a\0b", "%lite", "file", "allow_pickle", "é", "a.npy"])
def test_odd_names_in_npz(key, tmp_path):
    td = TensorDict({key: np.arange(3), "n": {key: np.ones(3)}})
    td.save(tmp_path / "td.npz")
    check(TensorDict.load(tmp_path / "td.npz"), td)


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
    with pytest.raises(ValueError, match="complex128"):
        sample().save(tmp_path / "z.safetensors")
    assert not (tmp_path / "z.safetensors").exists()
    with np.load(tmp_path / "x.npz") as plain:
        assert sorted(plain.files) == ["a", "b"]


def test_h5(tmp_path):
    h5py = pytest.importorskip("h5py")
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
    with pytest.raises(ValueError, match="exclude"):
        TensorDict.from_h5(path, auto_batch_size=True, batch_size=[3])


def test_arrow():
    pyarrow = pytest.importorskip("pyarrow")
    td = TensorDict(
        {
            "a": np.arange(6).reshape(3, 2),
            "n": {
                "b": np.arange(24, dtype=np.float32).reshape(3, 2, 4)[:, ::-1],
                "flag": np.array([True, False, True]),
            },
            "s": "x",
            "r": ["p", "q", None],
        },
        [3],
    )
    table = lite.to_arrow(td)
    assert table.column_names == ["a", "n.b", "n.flag", "s", "r"]
    found = lite.from_arrow(table).unflatten_keys(".")
    np.testing.assert_array_equal(found["n", "b"], td["n", "b"])
    np.testing.assert_array_equal(found["n", "flag"], td["n", "flag"])
    assert (found["s"], found["r"]) == (["x"] * 3, ["p", "q", None])
    assert found["n", "b"].dtype == np.float32
    sliced = lite.from_arrow(table.slice(1))
    np.testing.assert_array_equal(sliced["n.b"], td["n", "b"][1:])
    chunked = lite.from_arrow(pyarrow.concat_tables([table, table]))
    assert chunked["a"].shape == (6, 2)
    nulls = lite.from_arrow(pyarrow.table({"x": [1, None]}))
    assert isinstance(nulls.get("x"), NonTensorStack)
    with pytest.raises(ValueError, match="batch dimension"):
        lite.to_arrow(TensorDict(a=1))
    with pytest.raises(ValueError, match="complex"):
        lite.to_arrow(TensorDict({"a": np.ones(2, complex)}, [2]))
    with pytest.raises(ValueError, match="column"):
        lite.to_arrow(TensorDict({"a.b": np.ones(2), "a": {"b": np.ones(2)}}, [2]))


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("safetensors", lambda td, path: td.save(path / "x.safetensors")),
        ("h5py", lambda td, path: td.to_h5(path / "x.h5")),
        ("pyarrow", lambda td, path: lite.to_arrow(td)),
    ],
)
def test_missing_packages_are_named(package, use, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "tensordict-lite\[files\]"'):
        use(TensorDict({"a": np.ones(2)}, [2]), tmp_path)
    assert not list(tmp_path.iterdir())
