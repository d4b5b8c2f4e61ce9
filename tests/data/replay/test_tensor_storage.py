import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict
from lite.data import LazyTensorStorage, ReplayBuffer, TensorStorage
from lite.data.replay.tensor_storage import as_rows, rows_at


def rows(count: int, start: int = 0) -> TensorDict:
    step = np.arange(start, start + count)
    return TensorDict({"step": step, "n": {"x": step[:, None] / 2}}, [count])


def filled(size: int = 6, count: int = 4) -> LazyTensorStorage:
    storage = LazyTensorStorage(size)
    storage.set(range(count), rows(count))
    return storage


def test_rows_of_arrays_that_are_there() -> None:
    held = rows(5)
    storage = TensorStorage(held)
    assert (len(storage), storage.max_size, storage.shape) == (5, 5, (5,))
    storage.set([1, 3], rows(2, 50))
    assert held["step"].tolist() == [0, 50, 2, 51, 4]
    assert storage.get(0)["n", "x"].tolist() == [0.0]
    assert TensorStorage(np.arange(4)).get([1, 2]).tolist() == [1, 2]


def test_the_length_counts_all_of_a_row() -> None:
    storage = LazyTensorStorage(8, ndim=2)
    for index, length in ((np.arange(2), 4), (np.array([2]), 6), (np.array([0]), 6)):
        size = (len(index), 2)
        storage.set(index, TensorDict({"a": np.full(size, length)}, size))
        assert len(storage) == length
    storage[np.array([1, 2]), np.array([0, 1])] = TensorDict({"a": np.array([7, 8])}, [2])  # elements
    np.testing.assert_array_equal(storage[:]["a"], [[6, 6], [7, 4], [6, 8]])


def test_rows_that_nobody_wrote_do_not_count() -> None:
    buffer = ReplayBuffer(storage=filled())  # its ring stands at the first row
    buffer.extend(rows(3, 50))
    assert buffer[:]["step"].tolist() == [50, 51, 52, 3]
    buffer.extend(rows(2, 60))
    assert buffer[:]["step"].tolist() == [50, 51, 52, 60, 61]


def test_views_and_copies() -> None:
    storage = filled()
    assert np.shares_memory(storage.get(slice(1, 3))["step"], storage.entry("step"))
    assert not np.shares_memory(storage.get([1, 2])["step"], storage.entry("step"))
    assert storage.entry(("n", "x")).shape == (6, 1)
    assert storage.entry("nothing") is None


def test_rows_that_are_not_filled() -> None:
    for index in (4, -5, [0, 4], np.array([9])):
        raises(IndexError, "", filled().get, index)
        raises(IndexError, "in the 4 rows that are filled", rows_at, index, 4)
        np.testing.assert_array_equal(rows_at([3, -4], 4), [3, 0])


def test_places_that_there_are_not() -> None:
    for cursor in (6, -1, [0, 6], [0.5], np.zeros((1, 1), int)):
        storage = filled()
        before = storage.get(slice(None)).clone()
        data = rows(1)[0] if isinstance(cursor, int) else rows(len(cursor))
        raises(IndexError, "cursor must be", storage.set, cursor, data)
        assert (storage.get(slice(None)) == before).all()


def test_nothing_is_written_by_what_fails() -> None:
    storage = filled()
    before = storage.get(slice(None)).clone()
    bad = rows(2).set(("n", "x"), np.zeros((2, 3)))
    raises(RuntimeError, r"\('n', 'x'\)", lambda: storage._append(bad, 2))
    assert (storage.get(slice(None)) == before).all()
    assert len(storage) == 4


def test_entries_of_other_numbers_of_rows() -> None:
    for other in (np.ones(3), np.ones(())):
        storage = LazyTensorStorage(6)
        storage.set(range(4), TensorDict({"a": np.zeros(4), "b": np.zeros(4)}, [4]))
        with pytest.raises(RuntimeError, match=r"(3|no) rows do not fit 4 places"):
            storage.set(range(4), TensorDict({"a": np.ones(4), "b": other}))
        assert storage.get(slice(None))["a"].tolist() == [0.0] * 4


def test_before_the_first_data() -> None:
    storage = LazyTensorStorage(5, ndim=2)
    assert (len(storage), storage.shape, storage.initialized) == (0, None, False)
    raises(RuntimeError, "no data yet", lambda: storage.get(0))
    raises(RuntimeError, "no data yet", lambda: storage.dumps("anywhere"))
    raises(RuntimeError, "at least one", lambda: storage._append(rows(0), 0))


@pytest.mark.parametrize(
    "make", [filled, lambda: TensorStorage(np.arange(6.0)), lambda: LazyTensorStorage(6)]
)
def test_state_folder_and_pickle(make, tmp_path) -> None:
    storage = make()
    ways = [pickle.loads(pickle.dumps(storage))]
    other = type(storage)(np.zeros(6)) if type(storage) is TensorStorage else LazyTensorStorage(6)
    other.load_state_dict(storage.state_dict())
    ways.append(other)
    if storage.initialized:
        storage.dumps(tmp_path / "s")
        other = type(storage)(np.zeros(6)) if type(storage) is TensorStorage else LazyTensorStorage(6)
        other.loads(tmp_path / "s")
        ways.append(other)
    for way in ways:
        assert len(way) == len(storage)
        if storage.initialized:
            same = way.get(slice(None)) == storage.get(slice(None))
            assert same.all()


def test_folders_that_are_damaged(tmp_path) -> None:
    storage = filled()
    storage.dumps(tmp_path / "s")
    for text in ("{}", '{"len": "4"}', '{"len": -1}', '{"len": 7}', "nonsense"):
        (tmp_path / "s" / "storage_metadata.json").write_text(text)
        other = LazyTensorStorage(6)
        raises(ValueError, r"damaged|cannot be filled", other.loads, tmp_path / "s")
    (tmp_path / "s" / "storage_metadata.json").write_text('{"len": 4}')
    with pytest.raises(RuntimeError, match="shape"):
        filled(9).loads(tmp_path / "s")
    filled(4).dumps(tmp_path / "plain")
    with pytest.raises(RuntimeError, match=r"compress_next must be False, .* got True"):
        LazyTensorStorage(4, compress_next=True).loads(tmp_path / "plain")


def test_what_no_array_holds() -> None:
    for data in ("text", object(), {"a": 1}):
        raises(TypeError, "ListStorage holds any object", LazyTensorStorage(3).set, 0, data)


def test_arguments() -> None:
    raises(ValueError, "device must be 'cpu'", lambda: LazyTensorStorage(3, device="cuda"))
    raises(ValueError, "compress_next needs ndim=1", lambda: LazyTensorStorage(3, ndim=2, compress_next=True))
    raises(TypeError, "must be a TensorDict or an array", lambda: TensorStorage("text"))


@each_case(
    ("index", "expected"),
    [
        (..., [0, 1, 2, 3, 4]),
        (slice(3, None), [3, 4]),
        (np.arange(5) % 2 == 1, [1, 3]),
        ((2,), 2),
        ([-5, -1, 4], [0, 4, 4]),
        ([], []),
        ((1, 2), "one dimension, got an index of 2"),
        ([5], "in the 5 rows that are filled"),
        ([-6], "in the 5 rows that are filled"),
        (1.0, "must be of ints, a slice or a mask"),
    ],
)
def test_numbers_of_rows(index: Any, expected: Any) -> None:
    if isinstance(expected, str):
        raises(IndexError, expected, lambda: rows_at(index, 5))
    else:
        np.testing.assert_array_equal(rows_at(index, 5), np.array(expected, np.int64), strict=True)


def test_data_as_rows() -> None:
    stacked = as_rows([TensorDict(a=np.full(2, i)) for i in range(3)])
    np.testing.assert_array_equal(stacked["a"], [[0, 0], [1, 1], [2, 2]])
    for data in ([np.float64(1), np.float64(2)], (1.0, 2.0), np.array([1.0, 2.0])):
        np.testing.assert_array_equal(as_rows(data), np.array([1.0, 2.0]), strict=True)
    for wrong, message in (([{}, {}], "TensorDict or numbers"), ("ab", "got str"), ({1}, "got set")):
        raises(TypeError, message, as_rows, wrong)
