import json
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, TensorStorage
from lite.data.replay.trees import Tree

Step = namedtuple("Step", "obs reward")


def rows(start: int, count: int) -> Any:
    numbers = np.arange(start, start + count)
    obs = np.stack([numbers, numbers], -1).astype(np.float32)
    return {
        "obs": obs,
        "more": (numbers, [TensorDict({"x": numbers * 2}, [count])]),
        7: Step(obs * 3, numbers % 2 == 0),
    }


def check(found: Any, numbers: Any) -> None:
    assert list(found) == ["obs", "more", 7]
    assert type(found["more"]) is tuple
    assert type(found["more"][1]) is list
    assert type(found[7]) is Step
    np.testing.assert_array_equal(found["obs"], np.stack([numbers, numbers], -1))
    np.testing.assert_array_equal(found["more"][0], numbers)
    np.testing.assert_array_equal(found["more"][1][0]["x"], np.asarray(numbers) * 2)
    np.testing.assert_array_equal(found[7].obs, 3 * found["obs"])
    np.testing.assert_array_equal(found[7].reward, np.asarray(numbers) % 2 == 0)
    assert (found["obs"].dtype, found[7].reward.dtype) == (np.float32, np.bool_)


def filled() -> ReplayBuffer:
    buffer = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4, generator=0)
    np.testing.assert_array_equal(buffer.extend(rows(0, 7)), np.arange(7))
    return buffer


def test_what_goes_in_comes_out():
    buffer = filled()
    check(buffer[:], np.arange(7))
    check(buffer[3], 3)
    check(buffer[np.array([5, 1])], [5, 1])
    batch = buffer.sample()
    check(batch, batch["more"][0])
    buffer.extend(rows(7, 6))
    check(buffer[:], [10, 11, 12, 3, 4, 5, 6, 7, 8, 9])
    assert buffer.add({key: _first(value) for key, value in rows(90, 1).items()}) == 3
    check(buffer[3], 90)
    buffer[:2] = rows(40, 2)
    check(buffer[:2], [40, 41])


def _first(value: Any) -> Any:
    if isinstance(value, tuple | list):
        items = [_first(item) for item in value]
        return type(value)(*items) if isinstance(value, Step) else type(value)(items)
    return value[0]


def test_a_list_of_rows_and_a_tuple_of_arrays():
    buffer = ReplayBuffer(storage=LazyTensorStorage(10))
    buffer.extend([(np.full(3, i), {"r": float(i)}) for i in range(4)])
    obs, info = buffer[:]
    np.testing.assert_array_equal(obs, np.repeat(np.arange(4)[:, None], 3, 1))
    np.testing.assert_array_equal(info["r"], np.arange(4))
    buffer = ReplayBuffer(storage=LazyTensorStorage(10, ndim=2))
    index = buffer.extend((np.zeros((2, 5, 3)), np.ones((2, 5))))
    assert index.shape == (10, 2)
    assert [leaf.shape for leaf in buffer.sample(6)] == [(6, 3), (6,)]


def test_rows_that_differ_change_nothing():
    buffer = filled()
    for data, error, message in [
        ((np.zeros((2, 2)),), TypeError,
            r"holds rows like \{'obs': \*, 'more': tuple\(\*, list\(\*\)\), 7: Step"),
        (TensorDict({"obs": np.zeros((2, 2))}, [2]), TypeError, "got rows that are arrays or TensorDicts"),
        ({**rows(0, 2), "obs": np.zeros((3, 2))}, RuntimeError,
            r"must have one first dimension, got \[2, 3\]"),
        ({**rows(0, 2), "obs": np.zeros((2, 3), np.float32)}, RuntimeError, "rows of shape"),
        ({**rows(0, 2), "obs": np.float32(1)}, TypeError, "a first dimension of each array"),
        ({**rows(0, 2), "obs": np.array(["a", None])}, TypeError, "needs arrays and numbers"),
        ({"obs": np.zeros(2), b"x": np.zeros(2)}, TypeError, "strings or integers, got b'x'"),
        ({"7": np.zeros(2), 7: np.zeros(2)}, KeyError, "written '7'"),
    ]:  # fmt: skip
        raises(error, message, buffer.extend, data)
    raises(TypeError, "must be nested alike", lambda: buffer.extend([(np.zeros(2),), {"a": np.zeros(2)}]))
    check(buffer[:], np.arange(7))
    with pytest.raises(TypeError, match="holds rows that are arrays or TensorDicts, got rows like tuple"):
        ReplayBuffer(storage=TensorStorage(np.zeros((5, 2)))).extend((np.zeros((1, 2)),))
    with pytest.raises(TypeError, match="mapped files hold a TensorDict or one array, got a tuple or dict"):
        ReplayBuffer(storage=LazyMemmapStorage(5)).extend((np.zeros((1, 2)),))


def test_a_first_failure_leaves_the_storage_open():
    buffer = ReplayBuffer(storage=LazyTensorStorage(5))
    raises(TypeError, "", lambda: buffer.extend((np.zeros(2), np.array([None, 1]))))
    buffer.extend(np.zeros((2, 3)))
    assert buffer[:].shape == (2, 3)


def test_state_dicts_and_folders(tmp_path):
    buffer = filled()
    other = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    other.load_state_dict(buffer.state_dict())
    assert other[:]["more"][0].tolist() == list(range(7))
    buffer.dumps(tmp_path / "b", checksums=True)
    for fresh in (ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4), other, filled()):
        fresh.loads(tmp_path / "b", verify=True)
        assert fresh[:]["more"][1][0]["x"].tolist() == list(range(0, 14, 2))
        assert type(fresh[:][7]) in (tuple, Step)  # a named tuple's class is no data
        if type(fresh[:][7]) is Step:
            fresh.extend(rows(7, 3))
            check(fresh[:], np.arange(10))
    plain = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    plain.extend(np.zeros((2, 3)))
    with pytest.raises(RuntimeError, match="holds rows that are arrays or TensorDicts, what is loaded like"):
        plain.loads(tmp_path / "b")
    nested = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    nested.extend({"obs": np.zeros((2, 2))})
    raises(RuntimeError, r"holds rows like \{'obs': \*\}, what is loaded like", nested.loads, tmp_path / "b")


def test_hostile_folders(tmp_path):
    filled().dumps(tmp_path / "b")
    file = tmp_path / "b" / "storage" / "storage_metadata.json"
    found = json.loads(file.read_text())
    found.pop("tree")
    for name, about in (
        ("..", {}),
        ("a/../../b", {"dtype": "torch.int64", "shape": [10]}),
        ("obs", {"dtype": "torch.float32", "shape": [10**9]}),
        ("obs", {"dtype": "torch.float32", "shape": []}),
        ("nowhere", {"dtype": "torch.float32", "shape": [10]}),
        ("obs", None),
    ):
        file.write_text(json.dumps(found | {"metadata": {name: about}}))
        raises(ValueError, "storage", lambda: filled().loads(tmp_path / "b"))
    (tmp_path / "outside").mkdir()
    np.arange(10).tofile(tmp_path / "outside" / "x.memmap")
    (tmp_path / "b" / "storage" / "n").symlink_to(tmp_path / "outside")
    file.write_text(json.dumps(found | {"metadata": {"n.x": {"dtype": "torch.int64", "shape": [10]}}}))
    raises(ValueError, "refusing to follow a symbolic link", lambda: filled().loads(tmp_path / "b"))
    file.write_text(json.dumps(found))
    with pytest.raises(RuntimeError, match="does not say how its rows are nested"):
        ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4).loads(tmp_path / "b")


def test_hostile_trees():
    deep: Any = None
    for _ in range(40):
        deep = ["list", [[0, deep]]]
    for bad in (None, ["set", []], ["dict", [[None, None]]], ["tuple", [1]], ["tuple", None], deep):
        raises(ValueError, "cannot be nested as", Tree.from_json, bad)
