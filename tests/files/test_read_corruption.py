"""Damaged, foreign and hostile files raise, and nothing on disk changes."""

import json
import os
import pickle
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from helpers.cases import each_case, raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lite
from lite import TensorDict
from lite._files.commit import COMMIT

quick = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


def saved(at: Path) -> Path:
    td = TensorDict(
        {
            "a": np.arange(6.0).reshape(3, 2),
            "n": {"b": np.arange(3, dtype=np.int8), "s": "text"},
            "r": ["x", "y", "z"],
            "lazy": lite.lazy_stack([TensorDict(q=np.arange(i + 1)) for i in range(3)]),
        },
        [3],
    )
    td.memmap(at)
    return at


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def edit(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **fields}), encoding="utf-8")


def refuses(root: Path, error: Any = ValueError, match: str | None = None) -> None:
    before = content(root)
    raises(error, match, lambda: TensorDict.load_memmap(root))
    assert content(root) == before


@each_case("size", [0, 1, 47])
def test_a_leaf_that_is_too_short(size, tmp_path):
    root = saved(tmp_path / "td")
    (root / "a.memmap").write_bytes(b"\xff" * size)
    refuses(root, match=f"has {size} bytes, expected 48")


@each_case("size", [1, 48, 10_000])
def test_bytes_beyond_the_array(size, tmp_path):
    root = saved(tmp_path / "td")
    expected = TensorDict.load_memmap(root)["a"].copy()
    with (root / "a.memmap").open("ab") as file:
        file.write(b"\xff" * size)
    td = TensorDict.load_memmap(root)
    np.testing.assert_array_equal(td["a"], expected, strict=True)
    again = pickle.loads(pickle.dumps(td[1:]))
    td["a"][1] = 7
    np.testing.assert_array_equal(again["a"], td["a"][1:], strict=True)
    assert td.memmap_(root) is td
    td.memmap_refresh_()
    assert (root / "a.memmap").stat().st_size == 48 + size
    np.testing.assert_array_equal(TensorDict.load_memmap(root)["a"][1], expected[1] * 0 + 7)


def test_a_missing_leaf(tmp_path):
    root = saved(tmp_path / "td")
    (root / "n" / "b.memmap").unlink()
    refuses(root, FileNotFoundError, "'b'")


def test_damaged_json(tmp_path):
    root = saved(tmp_path / "td")
    texts = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000]
    texts += [b'{"_type": 3}', b'{"_type": "<class \'os\'>"}', b"{}"]
    for path in ("meta.json", "n/meta.json", "r/meta.json", "lazy/meta.json", "lazy/1/meta.json"):
        whole = (root / path).read_bytes()
        for text in texts if path == "meta.json" else texts[-3:]:
            (root / path).write_bytes(text)
            refuses(root, match="damaged or foreign")
        (root / path).write_bytes(whole)


def test_no_meta_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder '.*nothing'"):
        TensorDict.load_memmap(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(FileNotFoundError, match=r"meta\.json is missing, which each folder has that save"):
        TensorDict.load_memmap(tmp_path)
    root = saved(tmp_path / "td")
    (root / "n" / "meta.json").unlink()
    refuses(root, FileNotFoundError)


def leaf(dtype: Any = "torch.float64", shape: Any = (3, 2), **more: Any) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, **more}}


SHAPES = ([-1], [2**63, 2**63], [3, 2**62], ["3"], [True, 6], 6, None, [1] * 65, [3, 2.0], {"x": 1})
DTYPES = ("torch.qint8", "object", "torch.", None, 3, [], "torch.longdouble")
DIMS = (-1, 1, 2, None, "0", 10**30, True)
EXTENSIONS = (3, "x", [], [{}], [{"names": 3, "entries": 4}], [{"names": ["a", "b"]}], [[]])


def test_impossible_fields(tmp_path: Path) -> None:
    root = saved(tmp_path / "td")
    cases: list[tuple[str, Any, str | None]] = [
        *((".", leaf(shape=shape), None) for shape in SHAPES),
        *((".", leaf(dtype), "dtype") for dtype in DTYPES),
        (".", leaf(is_nested=True), "nested tensor"),
        ("n", {"shape": [2]}, None),
        ("n", {"shape": []}, "does not start with the batch size"),
        *(("lazy", {"stack_dim": dim}, None) for dim in DIMS),
        *((".", {"_lite": extension}, None) for extension in EXTENSIONS),
        ("r", {"data": "../../other.pkl"}, None),
    ]
    for path, fields, match in cases:
        meta = root / path / "meta.json"
        whole = meta.read_bytes()
        edit(meta, **fields)
        refuses(root, match=match)
        meta.write_bytes(whole)


@each_case("path", ["a.memmap", "meta.json", "n/meta.json", "n", "lazy/1", "r"])
def test_symbolic_links_are_refused(path, tmp_path):
    root = saved(tmp_path / "td")
    elsewhere = tmp_path / "elsewhere"
    (root / path).rename(elsewhere)
    (root / path).symlink_to(elsewhere)
    raises(ValueError, "symbolic link", lambda: TensorDict.load_memmap(root))


def test_writing_through_links_is_refused(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("precious")
    for path in ("a.memmap", "meta.json"):
        root = saved(tmp_path / path)
        (root / path).unlink()
        (root / path).symlink_to(secret)
        before = content(root)
        raises(RuntimeError, "symbolic link", TensorDict({"a": np.zeros(3)}).memmap, root)
        assert content(root) == before
    root = saved(tmp_path / "nested")
    (tmp_path / "folder").mkdir()
    os.rename(root / "n", tmp_path / "old")
    (root / "n").symlink_to(tmp_path / "folder")
    raises(RuntimeError, "symbolic link", lambda: TensorDict({"n": {"b": np.zeros(3)}}).memmap(root))
    assert not list((tmp_path / "folder").iterdir())
    assert secret.read_text() == "precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_hang(tmp_path):
    root = saved(tmp_path / "td")
    (root / "a.memmap").unlink()
    os.mkfifo(root / "a.memmap")
    raises(ValueError, "not a regular file", lambda: TensorDict.load_memmap(root))


@each_case("key", ["../secret", "/etc/passwd", "..", "a/../../secret", "..\\secret"])
def test_keys_cannot_leave_the_folder(key, tmp_path):
    (tmp_path / "secret.memmap").write_bytes(bytes(8))
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "meta.json").write_text('{"_type": "<class \'tensordict._td.TensorDict\'>"}')
    root = saved(tmp_path / "td")
    meta = json.loads((root / "meta.json").read_text())
    for member in ({"dtype": "torch.int64", "shape": [1]}, {"type": "TensorDict"}):
        (root / "meta.json").write_text(json.dumps({key: member, **meta, "shape": []}))
        refuses(root, FileNotFoundError)
    with pytest.raises(ValueError, match="cannot be a file name"):
        TensorDict({key: np.zeros(3)}).memmap(tmp_path / "new", robust_key=False)
    raises(ValueError, "no tensordict under", lambda: TensorDict.load_memmap(root, subpath=(key,)))
    raises(ValueError, r"no tensordict under|subpath", lambda: TensorDict.load_memmap(root, subpath=key))


class Bomb:
    def __reduce__(self) -> Any:
        return (os.mkdir, (self.path,))

    def __init__(self, path: str) -> None:
        self.path = path


@each_case("name", ["other.pickle", "pickle.pkl"])
def test_pickles_are_not_run(name, tmp_path):
    root = saved(tmp_path / "td")
    target = tmp_path / "ran"
    node = root / ("n/s" if name == "other.pickle" else "r")
    (node / name).write_bytes(pickle.dumps({"data": Bomb(str(target))}))
    meta = json.loads((node / "meta.json").read_text())
    meta.pop("data")
    if name == "pickle.pkl":
        meta["data"] = name
    (node / "meta.json").write_text(json.dumps(meta))
    refuses(root, RuntimeError, "allow_pickle=True")
    assert not target.exists()
    raises(TypeError, "allow_pickle must be a bool", lambda: TensorDict.load_memmap(root, allow_pickle=None))
    assert not target.exists()


@pytest.mark.depth
@quick
@given(data=st.data())
def test_any_changed_byte_raises_or_loads(data, tmp_path_factory):
    """Flip, cut or insert anywhere: never another error, never a change on disk."""
    root = saved(tmp_path_factory.mktemp("fuzz") / "td")
    files = sorted(p for p in root.rglob("*") if p.is_file())
    path = data.draw(st.sampled_from(files))
    old = path.read_bytes()
    at = data.draw(st.integers(0, len(old)))
    new = old[:at] + data.draw(st.binary(max_size=3)) + old[data.draw(st.integers(0, len(old))) :]
    path.write_bytes(new)
    before = content(root)
    with suppress(ValueError, FileNotFoundError, RuntimeError):
        TensorDict.load_memmap(root)
    assert content(root) == before


@pytest.mark.depth
@quick
@given(data=st.data(), kind=st.sampled_from(["td.tdz", "td.npz", "td.safetensors", "consolidated"]))
def test_any_changed_byte_of_one_file(data, kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / kind
    td = TensorDict({"a": np.arange(6.0).reshape(3, 2), "n": {"b": np.arange(3)}, "s": "text"}, [3])
    if kind == "consolidated":
        td.consolidate(path)
    else:
        td.save(path)
    old = path.read_bytes()
    at = data.draw(st.integers(0, len(old)))
    new = old[:at] + data.draw(st.binary(max_size=3)) + old[at + data.draw(st.integers(0, 4)) :]
    path.write_bytes(new)
    with suppress(ValueError, FileNotFoundError):
        (lite.from_consolidated if kind == "consolidated" else TensorDict.load)(path)
    assert path.read_bytes() == new


@each_case("length", [-1, 0, 1, 2**62, -(2**63)])
def test_the_length_of_a_consolidated_header(length, tmp_path):
    path = tmp_path / "td"
    TensorDict({"a": np.arange(4)}, [4]).consolidate(path)
    data = path.read_bytes()
    path.write_bytes(data[:-8] + struct.pack("<q", length))
    raises(ValueError, "damaged or foreign", lambda: lite.from_consolidated(path))
    path.write_bytes(data[-8:])
    raises(ValueError, "damaged or foreign", lambda: lite.from_consolidated(path))


@each_case("leaf", [[0, 2**40], [-8, 24], [24, 0], [8, 40], ["0", "32"], [0, 24]])
def test_leaves_outside_of_a_consolidated_buffer(leaf, tmp_path):
    path = tmp_path / "td"
    TensorDict({"a": np.arange(4)}, [4]).consolidate(path)
    data = path.read_bytes()
    node = json.loads(data[32:-8])
    node["leaves"]["a"][2:4] = leaf
    text = json.dumps(node).encode()
    path.write_bytes(data[:32] + text + struct.pack("<q", len(text)))
    raises(ValueError, "damaged or foreign", lambda: lite.from_consolidated(path))


def test_archives_with_wrong_sizes_and_names(tmp_path):
    root = saved(tmp_path / "td")
    bomb = tmp_path / "bomb.tdz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(root / "meta.json", "meta.json")
        archive.writestr("a.memmap", bytes(10**7))
    raises(ValueError, "expected 48", lambda: TensorDict.load_memmap(bomb))
    longer = tmp_path / "longer.tdz"
    with zipfile.ZipFile(longer, "w") as archive:
        for path in sorted(root.rglob("*.*")):
            more = b"more" if path.name == "a.memmap" else b""
            archive.writestr(str(path.relative_to(root)), path.read_bytes() + more)
    np.testing.assert_array_equal(TensorDict.load_memmap(longer)["a"], TensorDict.load_memmap(root)["a"])
    slip = tmp_path / "slip.tdz"
    for name in ("../outside", "a/../../outside", "/outside", "c:outside", f"a/{COMMIT}"):
        with zipfile.ZipFile(slip, "w") as archive:
            archive.write(root / "meta.json", "meta.json")
            archive.writestr(name, "x")
        raises(ValueError, "refusing to unpack", lite.unpack_memmap, slip, tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()
    assert not (tmp_path / "outside").exists()
    link = zipfile.ZipInfo("a.memmap")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(slip, "w") as archive:
        archive.write(root / "meta.json", "meta.json")
        archive.writestr(link, "/etc/passwd")
    raises(ValueError, "refusing to unpack", lambda: lite.unpack_memmap(slip, tmp_path / "unpacked"))


def test_files_that_are_no_archives(tmp_path):
    path = tmp_path / "td.tdz"
    for data in (b"", b"PK\x05\x06" + bytes(18), b"text" * 100):
        path.write_bytes(data)
        raises(ValueError, "not a memory-mapped tensordict archive", lambda: TensorDict.load_memmap(path))
        raises(ValueError, "not a memory-mapped tensordict archive", lite.unpack_memmap, path, tmp_path / "x")
        raises(ValueError, "not a memory-mapped tensordict archive", lite.refresh_archive_checksums, path)


def test_npz_with_pickles_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.array([Bomb(str(tmp_path / "ran"))], object))
    raises(ValueError, "allow_pickle", lambda: TensorDict.load(path))
    assert not (tmp_path / "ran").exists()


def test_h5_with_links_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
    raises(ValueError, "link", lambda: TensorDict.from_h5(path))
    path.write_bytes(b"nothing")
    raises(ValueError, "damaged or foreign", lambda: TensorDict.from_h5(path))
