"""Folders: round trips, what is written in place, what is kept, what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from helpers.trees import same_content, tree, unchanged

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
