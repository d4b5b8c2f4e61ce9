"""Archives: round trips, modes, what they refuse."""

import os
import zipfile

import numpy as np
from helpers.cases import each_case, raises
from helpers.saved_samples import check, sample
from helpers.trees import tree, unchanged

import lite
from lite import TensorDict
from lite._files import archive


@each_case("compression", [None, "stored", "deflate", "bzip2", "lzma", zipfile.ZIP_DEFLATED])
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
    raises(ValueError, r"damaged: the checksum of 'a.memmap' differs", lambda: TensorDict.load(path))
    assert TensorDict.load(path, verify=False)["a"][0] == TensorDict.load_memmap(path)["a"][0] == 9
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() == "a.memmap"
    raises(ValueError, "damaged", lambda: lite.unpack_memmap(path, tmp_path / "bad"))
    lite.refresh_archive_checksums(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            head = path.read_bytes()[info.header_offset :]
            assert head[14:18] == info.CRC.to_bytes(4, "little")
    assert not shared.is_memmap()
    shared.memmap(tmp_path / "folder")
    TensorDict({"a": np.arange(4)}, [4]).save(path, compression="deflate")
    raises(RuntimeError, "compressed", lambda: TensorDict.load(path, mode="r+"))
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
        raises(ValueError, "compression", td.save, tmp_path / "td.tdz", compression=bad)
    raises(ValueError, "archive", lambda: td.memmap(tmp_path / "td", compression="lzma"))
    raises(ValueError, "prefix", lambda: td.memmap(archive=True))
    (tmp_path / "folder.tdz").mkdir()
    raises(ValueError, "folder", lambda: td.memmap(tmp_path / "folder.tdz", archive=True))
    td.save(tmp_path / "td.tdz")
    raises(RuntimeError, "already exists", lambda: td.save(tmp_path / "td.tdz", existsok=False))
    td.memmap(tmp_path / "td")
    raises(ValueError, "outside", lambda: lite.pack_memmap(tmp_path / "td", tmp_path / "td" / "x.tdz"))
    raises(ValueError, r"no meta\.json", lambda: lite.pack_memmap(tmp_path, tmp_path / "x.tdz"))
    (tmp_path / "td" / "link").symlink_to(tmp_path)
    raises(ValueError, "symbolic link", lambda: lite.pack_memmap(tmp_path / "td", tmp_path / "x.tdz"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.tdz", "td", "td.tdz"]


def test_headers_that_contradict_each_other(tmp_path):
    path = tmp_path / "td.tdz"
    TensorDict({"a": np.arange(4)}, [4]).save(path)
    whole = path.read_bytes()
    record = whole.rindex(b"PK\x01\x02", 0, whole.rindex(b"a.memmap"))
    with zipfile.ZipFile(path) as archive:
        local = archive.getinfo("a.memmap").header_offset
    for at, value, message in (
        (local, b"PX", "no header where the entry 'a.memmap' should be"),
        (record + 8, b"\x01", "damaged or encrypted"),  # the flag of encryption
        (record + 20, b"\x21", "damaged or encrypted"),  # its packed size is another one
        (local + 28, b"\xff\xff", "damaged or encrypted"),  # it reaches beyond the end
    ):
        path.write_bytes(whole[:at] + value + whole[at + len(value) :])
        raises(ValueError, message, TensorDict.load_memmap, path)


def test_an_archive_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    """All that is read is of one file."""
    path, other = tmp_path / "td.tdz", tmp_path / "other.tdz"
    TensorDict({"a": np.zeros(3)}).save(path)
    TensorDict({"a": np.ones(5000), "b": np.ones(2)}).save(other)
    mapped = archive.bytes_in

    def replaced(*args):
        found = mapped(*args)
        os.replace(other, path)
        return found

    monkeypatch.setattr(archive, "bytes_in", replaced)
    np.testing.assert_array_equal(TensorDict.load(path)["a"], np.zeros(3))
    monkeypatch.undo()
    np.testing.assert_array_equal(TensorDict.load(path)["a"], np.ones(5000))


def test_a_name_that_is_no_text(tmp_path):
    path = tmp_path / "td.tdz"
    TensorDict({"a": np.zeros(3), "é": np.ones(2)}).save(path)
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    raises(ValueError, "is not a memory-mapped tensordict archive", TensorDict.load, path)
