"""Folders: round trips, what is mapped, locks, paths, entries added later."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import stat
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import snapshot, tree, unchanged

import lite
from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorClass, TensorDict, lazy_stack
from lite._files.keys import decode_key, encode_key
from lite._files.mapping import source_of


class Step(TensorClass):
    obs: np.ndarray
    label: str | None = None
    extra: object = None


def equal(a, b):
    """Same content, without the lock and the device, which saving changes."""
    one, other = a.clone(), b.clone()
    assert snapshot(one.cpu()) == snapshot(other.cpu())


def test_round_trip(tmp_path):
    td = tree()
    with unchanged(td):
        mapped = td.memmap(tmp_path / "td")
    equal(mapped, td)
    loaded = TensorDict.load_memmap(tmp_path / "td")
    equal(loaded, td)
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
            equal(part, other)
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


PAYLOADS = [
    None, True, 3, -1.5, "", "text", "é\ud800", [], [1, [2]], {}, {"a": {"b": None}}, (), (1, "x"), {1, 2},
    frozenset({"a"}), {"k": (1, {2})}, [[1, 2], [3, 4]], 2**70, -(2**200), math.inf, {"data": 1},
    {"tuple": [1]},
]  # fmt: skip


@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
def test_objects(payload, tmp_path):
    td = TensorDict({"a": np.zeros((2, 2))}, [2, 2])
    td.set("one", NonTensorData(payload, batch_size=[2, 2]))
    array = np.empty((2, 2), object)
    for i in range(4):
        array.reshape(-1)[i] = payload
    td.set("each", NonTensorStack._wrap(array))
    td.memmap(tmp_path / "td")
    out = TensorDict.load_memmap(tmp_path / "td")
    assert out["one"] == payload
    assert type(out["one"]) is type(payload)
    assert out.get("each").batch_size == (2, 2)
    assert out.get("each").tolist() == [[payload] * 2] * 2
    for suffix in ("npz", "safetensors"):
        if suffix == "safetensors":
            pytest.importorskip("safetensors")
            if isinstance(payload, str) and "\ud800" in payload:
                continue
        td.save(tmp_path / f"td.{suffix}")
        again = TensorDict.load(tmp_path / f"td.{suffix}")
        assert again["one"] == payload
        assert again.get("each").tolist() == [[payload] * 2] * 2


def test_not_a_number(tmp_path):
    TensorDict({"x": NonTensorData(math.nan), "y": NonTensorData([math.nan, -math.inf])}).memmap(
        tmp_path / "td"
    )
    out = TensorDict.load_memmap(tmp_path / "td")
    assert math.isnan(out["x"])
    assert math.isnan(out["y"][0])
    assert out["y"][1] == -math.inf


@pytest.mark.parametrize("payload", [b"bytes", {1: 2}, object, np.arange(2), 1j, {"a": b"x"}], ids=repr)
def test_objects_that_need_a_pickle(payload, tmp_path):
    td = TensorDict({"n": {"bad": NonTensorData(payload)}})
    for write in (td.memmap, lambda path: td.save(f"{path}.tdz")):
        with pytest.raises(TypeError, match=r"'bad'.*allow_pickle=True \(the default is False\)"):
            write(tmp_path / "td")
    assert not list(tmp_path.iterdir())
    td.memmap(tmp_path / "td", allow_pickle=True)
    with pytest.raises(RuntimeError, match="allow_pickle=True"):
        TensorDict.load_memmap(tmp_path / "td")
    out = TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)
    np.testing.assert_array_equal(out["n", "bad"], payload)
    TensorDict({"n": {"bad": "now text"}}).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["n", "bad"] == "now text"
    assert not list((tmp_path / "td").rglob("*pickle*"))


def test_a_stack_that_needs_a_pickle(tmp_path):
    td = TensorDict({"r": NonTensorStack(b"x", b"y")}, [2])
    td.memmap(tmp_path / "td", allow_pickle=True)
    assert TensorDict.load_memmap(tmp_path / "td", allow_pickle=True)["r"] == [b"x", b"y"]
    TensorDict({"r": ["a", "b"]}, [2]).memmap(tmp_path / "td")
    assert TensorDict.load_memmap(tmp_path / "td")["r"] == ["a", "b"]
    assert not list((tmp_path / "td").rglob("*.pkl"))


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
    equal(td.memmap(tmp_path / "threads", num_threads=4), td)
    future = td.memmap(tmp_path / "later", return_early=True)
    assert isinstance(future, Future)
    equal(future.result(timeout=60), td)
    equal(TensorDict.load_memmap(tmp_path / "later"), td)


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
    equal(loaded, td)
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


def test_byte_orders_and_layouts(tmp_path):
    big = np.arange(6, dtype=">i4").reshape(2, 3)
    td = TensorDict(
        {"big": big, "turned": big.T[::-1].astype("<f4"), "part": np.arange(20).reshape(4, 5)[::2, 1::2]}
    )
    out = td.memmap(tmp_path / "td")
    for found in (out, TensorDict.load_memmap(tmp_path / "td")):
        for key in td.keys():  # noqa: SIM118
            np.testing.assert_array_equal(found[key], td[key])
            assert found[key].flags.c_contiguous
    assert out["big"].dtype == np.dtype("<i4")


def test_extension_floats(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        td = TensorDict({"x": np.array([1.0, -2.0], dtype)})
        path = tmp_path / np.dtype(dtype).name
        td.memmap(path)
        found = TensorDict.load_memmap(path)["x"]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, td["x"])
        td.save(path.with_suffix(".npz"))
        np.testing.assert_array_equal(TensorDict.load(path.with_suffix(".npz"))["x"], td["x"])


def test_dtypes_without_a_name(tmp_path):
    with pytest.raises(ValueError, match="cannot be saved"):
        TensorDict({"x": np.zeros(2, np.longdouble)}).memmap(tmp_path / "td")


@given(st.text(), st.text())
def test_key_codec(a, b):
    assert decode_key(encode_key(a)) == a
    assert (encode_key(a) == encode_key(b)) == (a == b)
    assert encode_key(a) not in ("", ".", "..")
    assert not set(encode_key(a)) & set('/<>:"|?*\\ \0')


def test_keys_that_cannot_be_files(tmp_path):
    for key in ("x" * 250, "é" * 130, "\ud800"):
        with pytest.raises(ValueError, match=r"too long|no form"):
            TensorDict({key: np.zeros(1)}).memmap(tmp_path / "td")
    with pytest.raises(ValueError, match=r"'meta\.json'"):
        TensorDict({"meta.json": {"a": 1}}).memmap(tmp_path / "td")
    assert not (tmp_path / "td").exists()


def test_raw_names(tmp_path):
    td = TensorDict({"a b": np.arange(2), "n>": {"c?": np.ones(2)}})
    td.memmap(tmp_path / "td", robust_key=False)
    assert (tmp_path / "td" / "n>" / "c?.memmap").exists()
    equal(TensorDict.load_memmap(tmp_path / "td"), td)
    equal(TensorDict.load_memmap(tmp_path / "td", robust_key=False), td)


class OnDevice:
    """What tells a device array: it speaks the CUDA array interface."""

    def __init__(self) -> None:
        self.shape, self.dtype, self.ndim, self.size = (2,), np.dtype("f4"), 1, 2
        self.__cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (0, False), "version": 3}


def test_device_arrays_are_refused(tmp_path):
    td = TensorDict({"n": {"x": OnDevice()}})
    for write in (
        td.memmap,
        td.consolidate,
        lambda path: td.save(f"{path}.tdz"),
        lambda path: td.save(f"{path}.npz"),
    ):
        with pytest.raises(TypeError, match="on a device"):
            write(tmp_path / "td")
    with pytest.raises(TypeError, match="on a device"):
        td.memmap()
    assert not list(tmp_path.iterdir())
    assert not td.is_memmap()
