"""Entries added to mapped TensorDicts and their files."""

import numpy as np
from helpers.cases import raises
from helpers.trees import same_content
from helpers.versions import tree, version

from lite import TensorDict


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
    raises(RuntimeError, "The key a already exists", lambda: td.make_memmap("a", (3,)))
    raises(RuntimeError, "batch dimension mismatch", lambda: td.make_memmap("bad", (2,)))
    raises(RuntimeError, "memory-mapped", lambda: TensorDict().make_memmap("a", (3,)))
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


def test_files_that_have_changed_since(tmp_path):
    path = tmp_path / "td"
    td = tree(1).memmap(path)
    tree(2).memmap(path)
    raises(RuntimeError, r"replaced.*memmap_refresh_", lambda: td.make_memmap("late", (4,)))
    other = TensorDict.load_memmap(path)
    TensorDict.load_memmap(path).make_memmap("late", (5,))
    raises(RuntimeError, "late already exists", lambda: other.make_memmap("late", (5, 2)))
    raises(RuntimeError, r"'s' is a NonTensorData; nothing", lambda: other.make_memmap(("n", "s", "x"), (5,)))
    assert version(path, "late") == 2
