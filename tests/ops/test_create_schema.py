"""TensorDicts from a description and from other data, and the names that lite leaves out."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.trees import tree, unchanged

from lite import TensorDict

SCHEMA = {"a": ((3,), "float32"), ("n", "b"): ([], np.int64)}


def test_from_schema_in_files(tmp_path):
    td = TensorDict.from_schema(SCHEMA, batch_size=[2], storage="memmap", prefix=tmp_path)
    td["a"][0] = 5
    np.testing.assert_array_equal(TensorDict.load_memmap(tmp_path)["a"][0], [5, 5, 5])


def test_from_schema_takes_no_space_until_written_to(tmp_path):
    schema = {"a": ((1 << 20,), "uint8")}
    td = TensorDict.from_schema(schema, batch_size=[64], storage="memmap", prefix=tmp_path)
    assert td["a"].shape == (64, 1 << 20)
    status = (tmp_path / "a.memmap").stat()
    assert getattr(status, "st_blocks", 0) * 512 < 1 << 20  # Windows does not say


def test_from_schema_in_shared_memory():
    td = TensorDict.from_schema(SCHEMA, batch_size=[2], storage="shared")
    assert (td.is_shared(), td.is_locked, td["a"].shape) == (True, True, (2, 3))
    td["a"][0] = 5
    np.testing.assert_array_equal(td["a"], [[5] * 3, [0] * 3])


def test_storages():
    raises(ValueError, "Unknown storage", lambda: TensorDict.from_schema(SCHEMA, storage="tape"))
    raises(NotImplementedError, "memmap", lambda: TensorDict.from_schema(SCHEMA, storage="redis"))
    for storage in (None, "shared"):
        raises(TypeError, "prefix", TensorDict.from_schema, SCHEMA, storage=storage, prefix="x")


def test_new_tensor():
    td = tree()
    out = td.new_tensor(np.arange(5.0))
    assert (out.batch_size, out["i"].dtype, out["n"].batch_size, out["s"]) == ((5,), np.int64, (5,), "text")
    np.testing.assert_array_equal(out["n", "m", "c"], np.arange(5) > 0)
    assert not np.shares_memory(out["a"], out["n", "b"])
    other = td.filter_non_tensor_data()[:1] + 0.5
    same = td.filter_non_tensor_data().new_tensor(other)
    assert (same.batch_size, same["i"].dtype) == ((1, 3), np.int64)
    raises(KeyError, "", lambda: td.new_tensor(TensorDict(a=1)))


def test_copy_at():
    td = TensorDict({"a": np.zeros((3, 2)), "n": {"b": np.zeros(3)}}, batch_size=[3]).lock_()
    assert td.copy_at_(TensorDict({"a": np.ones(2), "n": {"b": 1}}), 1) is td
    np.testing.assert_array_equal(td["n", "b"], [0, 1, 0])
    td.copy_at_(TensorDict({"a": np.ones((2, 2))}, [2]), slice(1, 3))
    np.testing.assert_array_equal(td["a"][:, 0], [0, 1, 1])
    with unchanged(td), pytest.raises(RuntimeError, match="fast"):
        td.copy_at_(TensorDict({"a": np.ones((1, 2))}, [1]), slice(0, 2))
    objects = TensorDict({"s": "x"}, batch_size=[2])
    raises(RuntimeError, "fast", lambda: objects.copy_at_(TensorDict(s="y"), 0))
    objects.copy_at_(TensorDict(s="y"), 0, fast=False)
    assert objects["s"] == ["y", "x"]
