"""Folders: round trips, what is mapped, locks, paths, entries added later."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from trees import same_content, tree, unchanged

import lite
from lite import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack
from lite._files.mapping import source_of


class Step(TensorClass):
    obs: np.ndarray
    label: str | None = None
    extra: object = None


def test_round_trip(tmp_path):
    td = tree()
    with unchanged(td):
        mapped = td.memmap(tmp_path / "td")
    same_content(mapped, td)
    loaded = TensorDict.load_memmap(tmp_path / "td")
    same_content(loaded, td)
    for out in (mapped, loaded):
        assert out.is_memmap()
        assert out.is_locked
        assert out.device == "cpu"
        assert out.saved_path == str(tmp_path / "td")
        assert out["n"].saved_path == str(tmp_path / "td" / "n")
        assert source_of(out["n", "m", "c"]).path == str(tmp_path / "td" / "n" / "m" / "c.memmap")
    assert not td.is_memmap()
    with pytest.raises(AttributeError, match="no saved path"):
        td.saved_path  # noqa: B018
    loaded["i"][0, 0] = 77
    assert mapped["i"][0, 0] == 77
    with pytest.raises(RuntimeError, match="locked"):
        loaded["new"] = 1


def test_names_and_lazy_names_survive(tmp_path):
    td = TensorDict({"a": np.zeros((2, 3)), "names": np.ones((2, 3))}, [2, 3], names=["x", None])
    td.memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td").names == ["x", None]
    stack = lazy_stack([td, td.clone()], 1)
    stack.names = ["x", "new", None]
    stack.memmap(tmp_path / "lazy")
    assert TensorDict.load_memmap(tmp_path / "lazy").names == ["x", "new", None]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_lazy_stacks(dim, tmp_path):
    parts = [
        TensorDict({"a": np.full((2, 3, i + 1), i), f"own{i}": np.ones((2, 3))}, [2, 3]) for i in range(3)
    ]
    stack = LazyStackedTensorDict(*parts, stack_dim=dim)
    mapped = stack.memmap(tmp_path / "td")
    for out in (mapped, TensorDict.load_memmap(tmp_path / "td")):
        assert isinstance(out, LazyStackedTensorDict)
        assert (out.stack_dim, out.batch_size, out.is_memmap(), out.is_locked) == (
            dim,
            stack.batch_size,
            True,
            True,
        )
        for part, other in zip(out.tensordicts, parts, strict=True):
            same_content(part, other)
    with pytest.raises(RuntimeError, match="lazy stack"):
        mapped.make_memmap("x", (2,))
    with pytest.raises(ValueError, match="empty lazy stack"):
        LazyStackedTensorDict().memmap(tmp_path / "empty")


def test_a_lazy_stack_that_becomes_shorter(tmp_path):
    path = tmp_path / "td"
    for n in (5, 2, 3):
        lazy_stack([TensorDict(a=np.full(2, i)) for i in range(n)]).memmap(path)
        assert TensorDict.load_memmap(path).batch_size == (n,)
        assert sorted(p.name for p in path.iterdir() if p.is_dir()) == [str(i) for i in range(n)]


def test_tensorclasses(tmp_path):
    step = Step(obs=np.arange(6.0).reshape(3, 2), label="x", batch_size=[3])
    mapped = step.memmap(tmp_path / "one")
    td = TensorDict({"step": step, "a": np.zeros(3)}, [3])
    td.memmap(tmp_path / "td")
    for out in (
        mapped,
        Step.load_memmap(tmp_path / "one"),
        TensorDict.load_memmap(tmp_path / "one"),
        TensorDict.load_memmap(tmp_path / "td").get("step"),
    ):
        assert type(out) is Step
        assert (out.label, out.extra, out.batch_size) == ("x", None, (3,))
        np.testing.assert_array_equal(out.obs, step.obs)
        assert out.is_memmap()
    meta = json.loads((tmp_path / "one" / "meta.json").read_text())
    assert meta == {"_type": str(Step), "extra": None}
    (tmp_path / "one" / "meta.json").write_text(
        json.dumps({**meta, "_type": "<class 'elsewhere.Step'>", "more": 1})
    )
    plain = TensorDict.load_memmap(tmp_path / "one")
    assert type(plain) is TensorDict
    assert (plain["label"], plain["more"]) == ("x", 1)
    rows = lite.stack([step[i] for i in range(3)])
    rows.memmap(tmp_path / "rows")
    assert Step.load_memmap(tmp_path / "rows").label == ["x"] * 3


def test_in_place(tmp_path):
    td = TensorDict({"a": np.arange(3), "n": {"b": np.ones(3)}, "s": "x"}, [3])
    node = td["n"]
    assert td.memmap_(tmp_path / "td") is td
    assert td["n"] is node
    assert td.is_memmap()
    assert td.is_locked
    td.set_("a", np.full(3, 9))
    assert TensorDict.load_memmap(tmp_path / "td")["a"].tolist() == [9, 9, 9]
    stack = lazy_stack([TensorDict(a=np.zeros(i)) for i in (1, 2)])
    assert stack.memmap_(tmp_path / "lazy") is stack
    assert stack.is_memmap()


def test_like(tmp_path):
    td = tree()
    out = td.memmap_like(tmp_path / "td")
    assert out["a"].shape == (4, 3, 2)
    assert not out["a"].any()
    assert out["s"] == "text"
    out["a"][...] = 3
    assert (TensorDict.load_memmap(tmp_path / "td")["a"] == 3).all()


def test_like_as_an_archive(tmp_path):
    td = tree()
    with unchanged(td):
        out = td.memmap_like(tmp_path / "td.tdz")
    assert not out["a"].any()
    assert out["s"] == "text"
    out["a"][...] = 3
    assert (TensorDict.load_memmap(tmp_path / "td.tdz")["a"] == 3).all()
    td.memmap_like(tmp_path / "other", archive=True)
    assert lite.is_memmap_archive(tmp_path / "other")


def test_load_into_self(tmp_path):
    TensorDict({"a": np.arange(3)}, [3]).memmap(tmp_path / "td")
    td = TensorDict({"stale": np.zeros(3)}, [3])
    assert td.load_(tmp_path / "td") is td
    assert list(td.keys()) == ["a"]
    mapped = td.save()
    assert mapped.is_memmap()
    assert mapped["a"].tolist() == [0, 1, 2]
    again = TensorDict.load_memmap(tmp_path / "td")
    (tmp_path / "td" / "left.memmap").write_bytes(b"x")
    with pytest.raises(RuntimeError, match=r"left\.memmap already exists"):
        again.make_memmap_from_tensor("left", np.ones(3), existsok=False)
    assert again.make_memmap_from_tensor("left", np.ones(3)).sum() == 3


def test_without_a_folder():
    td = TensorDict({"a": np.arange(3), "empty": np.zeros((3, 0)), "c": np.ones(3, complex)}, [3])
    out = td.memmap()
    assert out.is_memmap()
    np.testing.assert_array_equal(out["a"], td["a"])
    with pytest.raises(AttributeError):
        out.saved_path  # noqa: B018
    with pytest.raises(RuntimeError, match="no path"):
        out.memmap_refresh_()
    out.make_memmap("new", (3, 2))[...] = 1
    assert out["new"].sum() == 6
    assert td.memmap_like()["a"].tolist() == [0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_shared_with_forked_processes():
    out = TensorDict({"a": np.zeros(3)}, [3]).memmap()
    child = multiprocessing.get_context("fork").Process(target=lambda: out["a"].fill(5))
    child.start()
    child.join()
    assert out["a"].tolist() == [5, 5, 5]


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
    with pytest.raises(RuntimeError, match="memory-mapped"):
        td[1:].lock_().make_memmap("x", (3,))


def test_mapped_leaves_elsewhere(tmp_path):
    td = TensorDict({"a": np.arange(3)}, [3]).memmap(tmp_path / "one")
    with pytest.raises(RuntimeError, match="copy_existing=True"):
        td.memmap(tmp_path / "two")
    assert not (tmp_path / "two").exists()
    copy = td.memmap(tmp_path / "two", copy_existing=True)
    copy["a"][0] = 5
    assert td["a"][0] == 0
    inode = os.stat(tmp_path / "one" / "a.memmap").st_ino
    same = td.memmap(tmp_path / "one")
    assert same["a"] is td["a"]
    assert os.stat(tmp_path / "one" / "a.memmap").st_ino == inode
    half = td[:2].memmap(tmp_path / "one", copy_existing=True)
    assert half["a"].tolist() == [0, 1]
    assert TensorDict.load_memmap(tmp_path / "one").batch_size == (2,)
    assert td["a"].tolist() == [0, 1, 2]
    td.memmap(tmp_path / "one", copy_existing=True)
    assert TensorDict.load_memmap(tmp_path / "one")["a"].tolist() == [0, 1, 2]


def test_existing_files(tmp_path):
    td = TensorDict({"a": np.arange(3), "old": np.zeros(3)}, [3])
    td.memmap(tmp_path / "td", existsok=False)
    with pytest.raises(RuntimeError, match="already exists"):
        td.memmap(tmp_path / "td", existsok=False)
    td.exclude("old").memmap(tmp_path / "td")
    assert sorted(os.listdir(tmp_path / "td")) == ["a.memmap", "meta.json", "old.memmap"]
    assert list(TensorDict.load_memmap(tmp_path / "td").keys()) == ["a"]


def test_threads_and_futures(tmp_path):
    td = TensorDict({f"k{i}": np.full((50, 3), i) for i in range(40)}, [50])
    same_content(td.memmap(tmp_path / "threads", num_threads=4), td)
    future = td.memmap(tmp_path / "later", return_early=True)
    assert isinstance(future, Future)
    same_content(future.result(timeout=60), td)
    same_content(TensorDict.load_memmap(tmp_path / "later"), td)


def test_many_leaves_and_levels(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        wide = TensorDict({f"k{i}": np.full(2, i) for i in range(1000)}, [2])
        kept = wide.memmap(tmp_path / "wide"), TensorDict.load_memmap(tmp_path / "wide")
        assert kept[1]["k999"].tolist() == [999, 999]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    deep = TensorDict({"leaf": np.ones(2)}, [2])
    for _ in range(50):
        deep = TensorDict({"n": deep}, [2])
    deep.memmap(tmp_path / "deep")
    assert TensorDict.load_memmap(tmp_path / "deep")[(*("n",) * 50, "leaf")].tolist() == [1, 1]


def test_memory_is_returned(tmp_path):
    status = Path("/proc/self/maps")
    if not status.exists():
        pytest.skip("needs /proc")
    TensorDict({"a": np.zeros(5000)}).memmap(tmp_path / "td")
    for _ in range(3):
        loaded = TensorDict.load_memmap(tmp_path / "td")
        part = loaded["a"][10:20]
        del loaded
        assert status.read_text().count(str(tmp_path)) == 1
        assert part.sum() == 0
        del part
        assert status.read_text().count(str(tmp_path)) == 0


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
    td = TensorDict.load_memmap(tmp_path / "td")
    td["a"][0] = 9
    assert td["a"].tolist() == [9, 1, 2]
    assert (tmp_path / "td" / "a.memmap").read_bytes()[:8] == bytes(8)


def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        TensorDict({"a": np.arange(3)}).memmap(tmp_path / "td")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "td" / "a.memmap").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(tmp_path / "td").st_mode) == 0o750


def test_subpath_and_out(tmp_path):
    TensorDict({"n": {"m/x": {"b": np.arange(3)}}, "a": np.ones(3)}, [3]).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td", subpath=("n", ("m/x",)))["b"].tolist() == [0, 1, 2]
    assert "m/x" in TensorDict.load_memmap(tmp_path / "td", subpath="n").keys()  # noqa: SIM118
    with pytest.raises(ValueError, match="no tensordict under"):
        TensorDict.load_memmap(tmp_path / "td", subpath="n/x")
    with pytest.raises(ValueError, match="subpath"):
        TensorDict.load_memmap(tmp_path / "td", subpath=())
    with pytest.raises(ValueError, match="mode"):
        TensorDict.load_memmap(tmp_path / "td", mode="w")
    out = TensorDict({"stale": np.zeros(3), "n": {"m/x": {"old": np.zeros(3)}}}, [3])
    node = out["n", "m/x"]
    assert TensorDict.load_memmap(tmp_path / "td", out=out) is out
    assert out["n", "m/x"] is node
    assert set(out.keys(True, True)) == {"a", ("n", "m/x", "b")}
    locked = TensorDict({"stale": np.zeros(3)}, [3], lock=True)
    with pytest.raises(RuntimeError, match="locked"):
        TensorDict.load_memmap(tmp_path / "td", out=locked)
    locked.load_memmap_(tmp_path / "td")
    assert locked.is_locked
    assert locked["a"].sum() == 3
    other = TensorDict({"stale": np.zeros(4)}, [4])
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        other.load_memmap_(tmp_path / "td")
    assert list(other.keys()) == ["stale"]


def test_adding_entries(tmp_path):
    td = TensorDict({"a": np.arange(3), "device": np.ones(3)}, [3], names=["t"]).memmap(tmp_path / "td")
    assert td.make_memmap("b", (3, 2)).dtype == np.float32
    td.make_memmap(("n", "m", "c"), [3], dtype="int8")[...] = 1
    source = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(td.make_memmap_from_tensor(("n", "d"), source), source)
    assert not td.make_memmap_from_tensor("zeros", source, copy_data=False).any()
    td.make_memmap("none", (3, 0))
    loaded = TensorDict.load_memmap(tmp_path / "td")
    assert loaded.names == ["t"]
    same_content(loaded, td)
    with pytest.raises(RuntimeError, match="The key a already exists"):
        td.make_memmap("a", (3,))
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        td.make_memmap("bad", (2,))
    with pytest.raises(RuntimeError, match="memory-mapped"):
        TensorDict().make_memmap("a", (3,))
    assert td.is_locked
    assert td["n"].is_locked


def test_refresh_sees_what_others_add(tmp_path):
    first = TensorDict({"a": np.arange(3)}, [3]).memmap(tmp_path / "td")
    second = TensorDict.load_memmap(tmp_path / "td")
    second.make_memmap("b", (3,))[...] = 2
    first.make_memmap("c", (3,))
    assert sorted(first.memmap_refresh_().keys()) == ["a", "b", "c"]
    assert first.is_locked
    assert first["b"].tolist() == [2, 2, 2]
