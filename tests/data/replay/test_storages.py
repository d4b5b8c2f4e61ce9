import gc
import pickle
import weakref

import numpy as np
import pytest
from helpers.cases import raises

from lite import LazyStackedTensorDict, TensorDict, enable_grad, lazy_stack, nn
from lite.data import LazyStackStorage, ListStorage, ReplayBuffer, SamplerWithoutReplacement
from lite.data.replay.storages import read_json, write_json


def test_elements_are_any_objects() -> None:
    storage = ListStorage(4)
    storage.set(range(3), ["a", None, 3])
    assert storage.get(0) == "a"
    assert storage.get(slice(1, None)) == [None, 3]
    assert storage.get(np.array([2, 2, 0])) == [3, 3, "a"]
    assert storage.get(np.array([True, False, True])) == ["a", 3]
    assert (storage.get((0,)), storage.get(np.array(2)), storage.shape) == ("a", 3, (3,))
    raises(RuntimeError, "ListStorage has one dimension, got an index of 2", lambda: storage.get((0, 1)))
    raises(NotImplementedError, "a ListStorage holds any object", lambda: storage.loads("folder"))
    storage[1] = "b"
    assert list(storage) == ["a", "b", 3]
    assert storage.contains([0, 2, 3]).tolist() == [True, True, False]
    assert 2 in storage
    assert 3 not in storage


def test_no_element_is_left_out() -> None:
    for cursor in (3, [0, 1, 3], -1, 9):
        storage = ListStorage(4)
        storage.set(0, "a")
        before = list(storage)
        with pytest.raises(RuntimeError, match="Cannot write the element"):
            storage.set(cursor, "b" if isinstance(cursor, int) else ["x", "y", "z"])
        assert list(storage) == before


def test_as_many_elements_as_places() -> None:
    storage = ListStorage(4)
    raises(ValueError, "2 elements do not fit 3 places", lambda: storage.set(range(3), ["a", "b"]))
    assert len(storage) == 0


def test_state_and_pickles() -> None:
    storage, other = ListStorage(4), ListStorage(4)
    storage.set(range(2), ["a", {"b": 1}])
    other.load_state_dict(storage.state_dict())
    assert other.get(slice(None)) == ["a", {"b": 1}]
    assert pickle.loads(pickle.dumps(storage)).get(1) == {"b": 1}
    raises(RuntimeError, "cannot hold 2 elements", ListStorage(1).load_state_dict, storage.state_dict())
    raises(NotImplementedError, "LazyTensorStorage", lambda: storage.dumps("anywhere"))


def ragged() -> LazyStackedTensorDict:
    return lazy_stack([TensorDict(x=np.arange(n), n={"s": f"row {n}"}) for n in (1, 3, 2)])


def test_ragged_rows_are_dumped(tmp_path) -> None:
    def buffer(size: int = 4) -> ReplayBuffer:
        sampler = SamplerWithoutReplacement(shuffle=False)
        return ReplayBuffer(storage=LazyStackStorage(size), sampler=sampler, batch_size=2)

    first, other = buffer(), buffer()
    first.dumps(tmp_path)  # as after `empty`
    other.extend(ragged())
    other.loads(tmp_path, verify=True)
    assert len(other) == 0
    first.extend(ragged())
    first.extend(ragged())  # the ring has begun anew
    first.sample()
    first.dumps(tmp_path)
    other.loads(tmp_path, verify=True)
    for _ in range(2):
        for a, b in zip(first[:].unbind(0), other[:].unbind(0), strict=True):
            assert (a["x"].tolist(), a["n", "s"]) == (b["x"].tolist(), b["n", "s"])
        a, b = first.sample(), other.sample()
        assert a["n", "s"] == b["n", "s"]
        assert first.extend(ragged()[:2]).tolist() == other.extend(ragged()[:2]).tolist()
    raises(RuntimeError, "cannot hold 4 elements", lambda: buffer(3).loads(tmp_path))
    bad = buffer()
    bad.extend([1, 2])
    raises(NotImplementedError, "any object", lambda: bad.dumps(tmp_path))
    assert len(other) == 4


LISTS = [ListStorage, LazyStackStorage]


def test_other_elements_make_batches_as_in_a_list() -> None:
    for kind in LISTS:
        for items, wanted in ((np.ones((3, 2)), np.ndarray), ([1, 2.5], np.ndarray), (["a", None], list)):
            buffer = ReplayBuffer(storage=kind(5))
            buffer.extend(items)
            assert isinstance(buffer[:], wanted)
            assert len(buffer[:]) == len(items)
        buffer = ReplayBuffer(storage=kind(5))
        buffer.extend([np.ones(2), np.ones(3)])
        with pytest.raises(RuntimeError, match=r"different shapes \[\(2,\), \(3,\)\]"):
            buffer[:]


def test_a_state_is_a_copy() -> None:
    for kind in LISTS:
        storage, other = kind(5), kind(5)
        storage.set(range(3), ragged())
        state = storage.state_dict()
        storage.get(1)["x"][:] = 9
        other.load_state_dict(state)
        other.get(1)["x"][:] += 5
        assert state["_storage"][1]["x"].tolist() == [0, 1, 2]
        assert other.get(1)["x"].tolist() == [5, 6, 7]


@pytest.mark.usefixtures("only_new_garbage")
def test_nothing_that_was_computed_from_is_kept() -> None:
    p = nn.Parameter(np.ones(2, np.float32))
    with enable_grad():
        traced = p * 2
        rows = [TensorDict(x=traced), TensorDict(n={"x": traced}), traced, p]
    buffer = ReplayBuffer(storage=LazyStackStorage(9))
    buffer.extend(rows)
    buffer.add(rows[0])
    buffer[0] = rows[0]
    buffer.extend(lazy_stack(rows[:1]))
    found = [buffer[0]["x"], buffer[1]["n", "x"], buffer[2], buffer[3], buffer[4]["x"], buffer[5]["x"]]
    assert [type(x) for x in found] == [np.ndarray] * 6
    np.testing.assert_array_equal(np.stack(found).mean(1), [2, 2, 2, 1, 2, 2])
    alive = weakref.ref(traced)
    del traced, rows
    gc.collect()
    assert alive() is None


def test_sizes() -> None:
    for size in (0, -3):
        raises(ValueError, f"max_size must be at least 1, got {size}", ListStorage, size)


def test_damaged_descriptions(tmp_path) -> None:
    for content in ("", "[1]", "{", "nonsense", "[" * 100_000):
        (tmp_path / "x").write_text(content)
        raises(ValueError, "is damaged or foreign", lambda: read_json(tmp_path / "x"))
        write_json(tmp_path / "y", {"a": 1})
        assert read_json(tmp_path / "y") == {"a": 1}


def test_the_device_is_the_cpu() -> None:
    for kind in (ListStorage, LazyStackStorage):
        assert kind(3, device="cpu").max_size == 3
        raises(ValueError, "device must be None or 'cpu', got 'cuda'", kind, 3, device="cuda")
