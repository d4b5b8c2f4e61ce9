"""Arrays over files: what stays mapped, permissions, memory."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite._files import mapping


def test_without_a_folder():
    td = TensorDict({"a": np.arange(3), "empty": np.zeros((3, 0)), "c": np.ones(3, complex)}, [3])
    out = td.memmap()
    assert out.is_memmap()
    np.testing.assert_array_equal(out["a"], td["a"])
    raises(AttributeError, "", lambda: out.saved_path)
    raises(RuntimeError, "no path", lambda: out.memmap_refresh_())
    out.make_memmap("new", (3, 2))[...] = 1
    assert out["new"].sum() == 6
    assert td.memmap_like()["a"].tolist() == [0, 0, 0]


@pytest.mark.skipif(os.name != "posix", reason="other systems count otherwise")
def test_what_to_do_when_no_more_can_be_mapped(tmp_path, monkeypatch):
    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOMEM, "")

    (tmp_path / "x").write_bytes(b"x")
    monkeypatch.setattr(mapping.mmap, "mmap", full)
    for _ in ("by the C library, where Python's own would keep the file open", "by Python"):
        with (
            open(tmp_path / "x", "r+b") as file,
            pytest.raises(OSError, match=r"max_map_count.* \.tdz, is one file.*x'"),
        ):
            mapping.FileMap(file.fileno(), 1 << 60, False, file.name, 0)
        monkeypatch.setattr(mapping, "_VIEW", None)


def test_where_folders_of_mapped_files_cannot_be_renamed(tmp_path, monkeypatch):
    """As on Windows: files are mapped where they stay."""
    there = []
    view = mapping.FileMap.__init__
    monkeypatch.setattr(mapping, "WINDOWS", True)
    monkeypatch.setattr(
        mapping.FileMap, "__init__", lambda self, *args: (there.append(args[3]), view(self, *args))[1]
    )
    td = TensorDict({"a": np.arange(3.0), "n": {"b": np.arange(2), "none": np.zeros((0, 2))}})
    out = td.memmap(tmp_path / "td", num_threads=2)
    out.make_memmap(("n", "c"), [2])[:] = 5
    assert sorted(map(Path, there)) == [tmp_path / f"td/{name}.memmap" for name in ("a", "n/b", "n/c")]
    assert all(os.path.exists(path) for path in there)
    out["a"][0] = 7
    back = TensorDict.load_memmap(tmp_path / "td")
    assert (back["a"].tolist(), back["n", "c"].tolist()) == ([7, 1, 2], [5, 5])


def test_views_are_mapped_copies_are_not(tmp_path):
    td = TensorDict({"a": np.arange(12.0).reshape(4, 3), "n": {"b": np.arange(4)}}, [4]).memmap(
        tmp_path / "td"
    )
    for view in (
        td[0],
        td[1:],
        td[:2],
        td[..., None],
        td.reshape(2, 2),
        td.unsqueeze(0),
        td.select("a"),
        td["n"],
    ):
        assert view.is_memmap()
    for copy in (td[[0, 1]], td.clone(), td[np.array([True, False, True, True])], td + 1):
        assert not copy.is_memmap()
    assert td.copy().is_memmap()
    td[1:]["a"][0, 0] = -1
    assert TensorDict.load_memmap(tmp_path / "td")["a"][1, 0] == -1
    raises(RuntimeError, "memory-mapped", lambda: td[1:].lock_().make_memmap("x", (3,)))


def test_memory_is_returned(tmp_path):
    status = Path("/proc/self/maps")
    if not status.exists():
        pytest.skip("needs /proc")
    TensorDict({"a": np.zeros(5000)}).memmap(tmp_path / "td")
    for _ in range(3):
        loaded = TensorDict.load_memmap(tmp_path / "td")
        part = loaded["a"][10:20]
        del loaded
        assert status.read_text(encoding="utf-8").count(str(tmp_path)) == 1
        assert part.sum() == 0
        del part
        assert status.read_text(encoding="utf-8").count(str(tmp_path)) == 0


def test_read_only_files_are_mapped_privately(tmp_path):
    TensorDict({"a": np.arange(3)}).memmap(tmp_path / "td")
    path = tmp_path / "td" / "a.memmap"
    path.chmod(0o444)
    if os.access(path, os.W_OK):
        pytest.skip("permissions do not bind this user")
    td = TensorDict.load_memmap(tmp_path / "td")
    td["a"][0] = 9
    assert TensorDict.load_memmap(tmp_path / "td")["a"][0] == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_private_maps_do_not_reach_the_file(tmp_path, monkeypatch):
    from lite._files import mapping

    TensorDict({"a": np.arange(3)}).memmap(tmp_path / "td")
    real = mapping.open_regular

    def read_only(path, flags):
        if flags == os.O_RDWR:
            raise PermissionError(13, "denied", path)
        return real(path, flags)

    monkeypatch.setattr(mapping, "open_regular", read_only)
    with pytest.raises(PermissionError, match=r"mode='r\+'"):
        TensorDict.load_memmap(tmp_path / "td", mode="r+")
    td = TensorDict.load_memmap(tmp_path / "td")
    td["a"][0] = 9
    assert td["a"].tolist() == [9, 1, 2]
    assert (tmp_path / "td" / "a.memmap").read_bytes()[:8] == bytes(8)


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        TensorDict({"a": np.arange(3)}).memmap(tmp_path / "td")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "td" / "a.memmap").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(tmp_path / "td").st_mode) == 0o750
