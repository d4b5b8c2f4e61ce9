"""Parts of a saved tree: entries added later, nested folders written or read by themselves."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.versions import stopped, tree

from lite import TensorClass, TensorDict
from lite._files import commit


def waiting(path: Path) -> None:
    """Version 1 is in place, and version 2 counts but has not been moved there yet."""
    tree(1).memmap(path)
    tree(2).memmap(path.with_name("new"))
    os.rename(path.with_name("new"), path / commit.COMMIT)


@each_case("at", [("n",), ("n", "fresh", "er")], ids=len)
def test_an_entry_added_while_new_files_wait(at, tmp_path):
    """Recovery must not move what waits outside over an entry that was added later."""
    path = tmp_path / "td"
    waiting(path)
    node = TensorDict.load_memmap(path)
    there = [key for key in at if not key.startswith("f") and key != "er"]
    below = node[tuple(there)] if there else node
    below.make_memmap((*at[len(there) :], "added"), (5, 2), dtype="int8")[...] = 7
    for _ in range(2):
        assert (TensorDict.load_memmap(path)[(*at, "added")] == 7).all()
        commit.finish(str(path))
    np.testing.assert_array_equal(TensorDict.load_memmap(path)["x0"], tree(2)["x0"])
    assert not (path / commit.COMMIT).exists()


@each_case("nested", ["n", "n/deep"])
def test_a_nested_folder_written_while_new_files_wait(nested, tmp_path):
    path = tmp_path / "td"
    waiting(path)
    TensorDict({"only": np.arange(5)}, [5]).memmap(path / nested)
    assert not (path / commit.COMMIT).exists()
    for _ in range(2):
        assert TensorDict.load_memmap(path / nested)["only"].tolist() == list(range(5))
        commit.finish(str(path))
    assert TensorDict.load_memmap(path)["r"] == tree(2)["r"]
    inner = TensorDict.load_memmap(path)["n"]
    if nested != "n":
        assert inner["s"] == "v2", "what is beside the nested folder stays"


class Row(TensorClass):
    x: np.ndarray
    what: object = None


def test_a_part_of_a_tensorclass_keeps_its_pickle(tmp_path):
    path = tmp_path / "td"
    row = Row(x=np.arange(3), batch_size=[3])
    TensorDict({"row": row}, [3]).memmap(path)
    (path / "row" / "other.pickle").write_bytes(pickle.dumps({"what": b"bytes"}))
    TensorDict({"x": np.arange(3) + 1}, [3]).memmap(path / "row" / "_tensordict")
    found = TensorDict.load_memmap(path, allow_pickle=True).get("row")
    assert found.x.tolist() == [1, 2, 3]
    assert found.what == b"bytes"


def kept(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_a_folder_beside_a_foreign_file_is_a_tree_of_its_own(tmp_path):
    """Another program's meta.json is no reason to write to its folder."""
    for content in ("{}", "[", '{"_type": 3}'):
        (tmp_path / "meta.json").write_text(content)
        before = kept(tmp_path / "meta.json")
        for _ in range(2):
            tree(1).memmap(tmp_path / "td")
        assert kept(tmp_path / "meta.json") == before
        assert commit.outermost(str(tmp_path / "td")) == (str(tmp_path / "td"), "")
    assert commit.outermost("/") == ("/", "")


@pytest.mark.processes
def test_stopping_while_a_part_is_written(tmp_path, monkeypatch):
    """Entries and nested folders are added whole or not at all."""
    actions = {
        "entry": lambda path: TensorDict.load_memmap(path).make_memmap_from_tensor(
            ("n", "new", "z"), np.full(4, 9)
        ),
        "folder": lambda path: TensorDict({"new": {"z": np.full(4, 9)}}, [4]).memmap(path / "n"),
    }
    for name, action in actions.items():
        for stop in range(10_000):
            path = tmp_path / f"{name}{stop}"
            tree(1).memmap(path)
            with monkeypatch.context() as patch:
                finished = stopped(patch, stop, lambda path=path, action=action: action(path))
            found = TensorDict.load_memmap(path)
            np.testing.assert_array_equal(found["x0"], tree(1)["x0"])
            if ("n", "new") in found.keys(True):
                assert found["n", "new", "z"].tolist() == [9] * 4
            else:
                assert not finished
                assert found["n", "s"] == "v1"
            if finished:
                break
        assert stop > 8


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be flushed there")
def test_waiting_for_the_disk(tmp_path, monkeypatch):
    """With LITE_FSYNC=1, every file is on the disk before the rename that makes it count."""
    order: list[tuple[str, str]] = []
    names: dict[int, str] = {}
    real_open, real_sync = os.open, os.fsync

    def opened(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        names[descriptor] = str(path)
        return descriptor

    def synced(descriptor):
        order.append(("sync", names[descriptor]))
        real_sync(descriptor)

    def logged(name):
        real = getattr(os, name)

        def run(source, target):
            order.append((name, os.path.normpath(target)))
            real(source, target)

        return run

    td = TensorDict({"a": np.arange(3), "n": {"b": np.ones(3)}}, [3])
    td.memmap(tmp_path / "td")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "rename", logged("rename"))
        patch.setattr(os, "replace", logged("replace"))
        td.memmap(tmp_path / "td")
        assert not [what for what, _ in order if what == "sync"]
        order.clear()
        patch.setenv("LITE_FSYNC", "1")
        td.memmap(tmp_path / "td")
        at = order.index(("rename", str(tmp_path / "td" / commit.COMMIT)))
        before = {
            Path(os.path.relpath(path, tmp_path)).as_posix().split("/", 2)[-1] for _, path in order[:at]
        }
        assert {"a.memmap", "meta.json", "n", "n/b.memmap", "n/meta.json"} < before
        assert ("sync", str(tmp_path / "td")) in order[at:]
        for name in ("td.tdz", "td.npz"):
            order.clear()
            td.save(tmp_path / name)
            assert [what for what, _ in order] == ["sync", "replace", "sync"]
        order.clear()
        td.memmap(tmp_path / "x" / "y" / "z")
        td.save(tmp_path / "u" / "v" / "td.npz")
        made = [path for what, path in order if what == "sync" and path == str(tmp_path)]
        assert len(made) == 2  # that there are x and u, beside what is in them
        assert {("sync", str(tmp_path / "x")), ("sync", str(tmp_path / "u"))} <= set(order)
        patch.chdir(tmp_path)
        commit.make_folder("s/t")
        assert (tmp_path / "s/t").is_dir()


def replace_all(path: Path, end: float) -> None:
    k = 0
    while time.monotonic() < end:
        k += 3  # of these, all have a batch size of 3
        tree(k).memmap(path)


def replace_part(path: Path, end: float) -> None:
    while time.monotonic() < end:
        TensorDict({"y": np.full(3, -7), "z": np.full(3, -7)}, [3]).memmap(path / "n" / "deep")


def add_parts(path: Path, end: float) -> None:
    k = 0
    while time.monotonic() < end:
        k += 1
        with suppress(RuntimeError):  # replaced, or added by another in between
            td = TensorDict.load_memmap(path)
            td.make_memmap_from_tensor(("n", "added", f"k{k}"), np.full(td.batch_size, -5))


def read_all(path: Path, end: float) -> None:
    while time.monotonic() < end:
        td = TensorDict.load_memmap(path)
        k = int(td["x0"][0, 0])
        assert td["n", "s"] == f"v{k}"
        assert [part["q"].tolist() for part in td["lazy"].tensordicts] == [
            part["q"].tolist() for part in tree(k)["lazy"].tensordicts
        ]
        assert (td["n", "deep", "y"] == (-7 if ("n", "deep", "z") in td.keys(True) else k)).all()
        for key, value in td["n"].items(True, True):
            assert key[0] != "added" or (value == -5).all()
        inner = TensorDict.load_memmap(path / "n")
        if "z" not in inner["deep"].keys():  # noqa: SIM118
            assert (inner["deep", "y"] == int(inner["s"][1:])).all()


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_whole_trees_and_parts_are_written_and_read_at_once(tmp_path):
    path = tmp_path / "td"
    tree(0).memmap(path)
    context, end = multiprocessing.get_context("fork"), time.monotonic() + 1
    work = [replace_all, replace_part, add_parts, read_all, read_all]
    processes = [context.Process(target=target, args=(path, end)) for target in work]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(work)
    assert not [name for name in os.listdir(path) if name.startswith("%")]


def test_entries_added_at_once(tmp_path):
    path = tmp_path / "td"
    TensorDict({"a": np.zeros(3)}, [3]).memmap(path)

    def add(i: int) -> None:
        TensorDict.load_memmap(path).make_memmap_from_tensor(f"k{i}", np.full(3, i))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    td = TensorDict.load_memmap(path)
    assert sorted(td.keys()) == sorted(["a", *(f"k{i}" for i in range(12))])
    for i in range(12):
        assert td[f"k{i}"].tolist() == [i] * 3
