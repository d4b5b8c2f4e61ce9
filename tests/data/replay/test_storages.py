import pickle

import numpy as np
import pytest

from lite.data import ListStorage
from lite.data.replay.storages import read_json, write_json


def test_elements_are_any_objects() -> None:
    storage = ListStorage(4)
    storage.set(range(3), ["a", None, 3])
    assert storage.get(0) == "a"
    assert storage.get(slice(1, None)) == [None, 3]
    assert storage.get(np.array([2, 2, 0])) == [3, 3, "a"]
    assert storage.get(np.array([True, False, True])) == ["a", 3]
    storage[1] = "b"
    assert list(storage) == ["a", "b", 3]
    assert storage.contains([0, 2, 3]).tolist() == [True, True, False]
    assert 2 in storage
    assert 3 not in storage


@pytest.mark.parametrize("cursor", [3, [0, 1, 3], -1, 9])
def test_no_element_is_left_out(cursor: object) -> None:
    storage = ListStorage(4)
    storage.set(0, "a")
    before = list(storage)
    with pytest.raises(RuntimeError, match="Cannot write the element"):
        storage.set(cursor, "b" if isinstance(cursor, int) else ["x", "y", "z"])
    assert list(storage) == before


def test_as_many_elements_as_places() -> None:
    storage = ListStorage(4)
    with pytest.raises(ValueError, match="2 elements do not fit 3 places"):
        storage.set(range(3), ["a", "b"])
    assert len(storage) == 0


def test_state_and_pickles() -> None:
    storage, other = ListStorage(4), ListStorage(4)
    storage.set(range(2), ["a", {"b": 1}])
    other.load_state_dict(storage.state_dict())
    assert other.get(slice(None)) == ["a", {"b": 1}]
    assert pickle.loads(pickle.dumps(storage)).get(1) == {"b": 1}
    with pytest.raises(RuntimeError, match="cannot hold 2 elements"):
        ListStorage(1).load_state_dict(storage.state_dict())
    with pytest.raises(NotImplementedError, match="LazyTensorStorage"):
        storage.dumps("anywhere")


@pytest.mark.parametrize("size", [0, -3])
def test_sizes(size: int) -> None:
    with pytest.raises(ValueError, match=f"max_size must be at least 1, got {size}"):
        ListStorage(size)


@pytest.mark.parametrize("content", ["", "[1]", "{", "nonsense", "[" * 100_000])
def test_damaged_descriptions(tmp_path, content: str) -> None:
    (tmp_path / "x").write_text(content)
    with pytest.raises(ValueError, match="is damaged or foreign"):
        read_json(tmp_path / "x")
    write_json(tmp_path / "y", {"a": 1})
    assert read_json(tmp_path / "y") == {"a": 1}
