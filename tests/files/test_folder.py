"""Folders: round trips, what is written in place, what is kept, what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import same_content, tree, unchanged

import lite
from lite import LazyStackedTensorDict, NonTensorStack, TensorClass, TensorDict, lazy_stack
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
        assert Path(out["n"].saved_path) == tmp_path / "td" / "n"
        assert Path(source_of(out["n", "m", "c"]).path) == tmp_path / "td" / "n" / "m" / "c.memmap"
    assert not td.is_memmap()
    raises(AttributeError, "no saved path", lambda: td.saved_path)
    loaded["i"][0, 0] = 77
    assert mapped["i"][0, 0] == 77
    with pytest.raises(RuntimeError, match="locked"):
        loaded["new"] = 1


@each_case("dim", [0, 1, 2])
def test_lazy_stacks(dim, tmp_path):
    parts = [
        TensorDict({"a": np.full((2, 3, i + 1), i), f"own{i}": np.ones((2, 3))}, [2, 3]) for i in range(3)
    ]
    stack = LazyStackedTensorDict(*parts, stack_dim=dim)
    mapped = stack.memmap(tmp_path / "td")
    for out in (mapped, TensorDict.load_memmap(tmp_path / "td")):
        assert isinstance(out, LazyStackedTensorDict)
        assert (out.stack_dim, out.batch_size, out.is_memmap(), out.is_locked) == (
            dim, stack.batch_size, True, True,
        )  # fmt: skip
        for part, other in zip(out.tensordicts, parts, strict=True):
            same_content(part, other)
    raises(RuntimeError, "lazy stack", lambda: mapped.make_memmap("x", (2,)))
    raises(ValueError, "empty lazy stack", lambda: LazyStackedTensorDict().memmap(tmp_path / "empty"))


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


def test_mapped_leaves_elsewhere(tmp_path):
    td = TensorDict({"a": np.arange(3)}, [3]).memmap(tmp_path / "one")
    raises(RuntimeError, "copy_existing=True", lambda: td.memmap(tmp_path / "two"))
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
    raises(RuntimeError, "already exists", lambda: td.memmap(tmp_path / "td", existsok=False))
    (tmp_path / "td" / "notes").touch()
    td.exclude("old").memmap(tmp_path / "td")
    assert sorted(os.listdir(tmp_path / "td")) == ["a.memmap", "meta.json", "notes"]
    assert list(TensorDict.load_memmap(tmp_path / "td").keys()) == ["a"]


def test_many_leaves_and_levels(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
    try:
        wide = TensorDict({f"k{i}": np.full(2, i) for i in range(300)}, [2])
        kept = wide.memmap(tmp_path / "wide"), TensorDict.load_memmap(tmp_path / "wide")
        assert kept[1]["k299"].tolist() == [299, 299]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    deep = TensorDict({"leaf": np.ones(2)}, [2])
    for _ in range(50):
        deep = TensorDict({"n": deep}, [2])
    deep.memmap(tmp_path / "deep")
    assert TensorDict.load_memmap(tmp_path / "deep")[(*("n",) * 50, "leaf")].tolist() == [1, 1]


def _mapped(folder: Any) -> TensorDict:
    nested = TensorDict({"s": NonTensorStack("p", "q")}, [2])
    return TensorDict(
        {"s": NonTensorStack("a", "b"), "one": "k", "x": np.zeros(2), "n": nested}, [2]
    ).memmap_(folder)


_NEW = TensorDict(
    {"s": NonTensorStack("z", "y"), "one": "l", "x": np.ones(2), "n": TensorDict({"s": ["w", "v"]}, [2])}, [2]
)
_WRITES: dict[str, Callable[[Any], Any]] = {
    "td[0]": lambda td: td.__setitem__(0, _NEW[0]),
    "td[:]": lambda td: td.__setitem__(slice(None), _NEW),
    "td[mask]": lambda td: td.__setitem__(np.array([True, False]), _NEW[:1]),
    "set_": lambda td: td.set_("s", NonTensorStack("z", "y")),
    "set_ nested": lambda td: td.set_(("n", "s"), NonTensorStack("z", "y")),
    "set_ one": lambda td: td.set_("one", "l"),
    "set inplace": lambda td: td.set("s", "z", inplace=True),
    "set_at_": lambda td: td.set_at_("s", "z", 0),
    "update_": lambda td: td.update_(_NEW),
    "update inplace": lambda td: td.update(_NEW.to_dict(), inplace=True),
    "update_at_": lambda td: td.update_at_(_NEW[0], 0),
    "copy_": lambda td: td.copy_(_NEW),
    "get.update_": lambda td: td.get("s").update_(NonTensorStack("z", "y")),
    "get[0]": lambda td: td.get("s").__setitem__(0, "z"),
    "list": lambda td: td["s"].__setitem__(0, "z"),
    "nested[0]": lambda td: td["n"].__setitem__(0, _NEW["n"][0]),
}


@each_case(("name", "load"), [(name, number % 2 == 0) for number, name in enumerate(_WRITES)])
def test_objects_written_in_place_reach_the_files(name: str, load: bool, tmp_path: Path) -> None:
    before = _mapped(tmp_path / "td").to_dict()
    td = TensorDict.load_memmap(tmp_path / "td") if load else _mapped(tmp_path / "td")
    _WRITES[name](td)
    after = TensorDict.load_memmap(tmp_path / "td")
    assert after.get("s").tolist() == td.get("s").tolist()
    assert after.get("one").tolist() == td.get("one").tolist()
    assert after["n"].get("s").tolist() == td["n"].get("s").tolist()
    np.testing.assert_array_equal(after["x"], td["x"])
    assert str(after.to_dict()) != str(before)


def test_objects_of_lazy_stacks_written_in_place(tmp_path: Path) -> None:
    stack = lite.lazy_stack([TensorDict(s="a", x=1.0), TensorDict(s="b", x=2.0)]).memmap_(tmp_path / "td")
    stack[0] = TensorDict(s="z", x=5.0)
    assert TensorDict.load_memmap(tmp_path / "td").get("s").tolist() == ["z", "b"]
    stack.set_("s", NonTensorStack("u", "v"))
    assert TensorDict.load_memmap(tmp_path / "td").get("s").tolist() == ["u", "v"]


def test_objects_that_the_files_cannot_hold(tmp_path: Path) -> None:
    td = _mapped(tmp_path / "td")
    for write in (
        lambda: td.__setitem__(0, TensorDict(s=object(), x=7.0)),
        lambda: td.set_("s", object()),
        lambda: td.get("s").__setitem__(0, object()),
        lambda: td["s"].__setitem__(0, object()),
    ):
        raises(TypeError, "JSON cannot hold", write)
        assert td.get("s").tolist() == ["a", "b"]
        np.testing.assert_array_equal(td["x"], 0)


def test_copies_of_mapped_objects_are_written_alone(tmp_path: Path) -> None:
    source = TensorDict({"s": NonTensorStack("a", "b")}, [2])
    td = source.memmap(tmp_path / "td")
    source.set_("s", NonTensorStack("1", "2"))
    td.clone().set_("s", NonTensorStack("3", "4"))
    td.get("s").clone()[0] = "5"
    td.get("s")[:1][0] = "6"
    assert TensorDict.load_memmap(tmp_path / "td").get("s").tolist() == ["a", "b"]
    assert td.get("s").is_memmap()
