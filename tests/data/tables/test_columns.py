"""Batches of tables."""

import numpy as np
import pytest
from helpers.cases import raises

from lite.data.tables.columns import id_row, ids_of, passed_on, ragged, row_named, rows_of, taken


def test_rows_are_counted() -> None:
    assert rows_of({}) == 0
    assert rows_of({"a": [1, 2], "b": np.zeros((2, 3))}) == 2
    raises(ValueError, r"must have one length, got {'a': 1, 'b': 2}", rows_of, {"a": [1], "b": [1, 2]})
    with pytest.raises(TypeError, match="a batch must be a dict of columns by name, got list"):
        rows_of([1])  # type: ignore[arg-type]


def test_ids_are_pythons_own() -> None:
    ids = ids_of({"id": np.array([3, 4], np.int32)}, "id")
    assert ids == [3, 4]
    assert [type(i) for i in ids] == [int, int]
    assert ids_of({"id": np.array(["a"])}, "id") == ["a"]
    assert ids_of({"a": [1]}, "id") is None


def test_taken_rows() -> None:
    np.testing.assert_array_equal(taken({"a": np.arange(3)}, np.array([2, 2, 0]))["a"], [2, 2, 0])
    assert taken({"a": ["x", "y"]}, np.array([], int)) == {"a": []}


def test_lists_of_any_lengths_are_objects() -> None:
    column = ragged([np.array([1, 2]), np.array([], np.int64), np.ones((1, 2), np.float32)])
    assert column.dtype == object
    assert column.tolist() == [[1, 2], [], [[1.0, 1.0]]]
    assert [type(x) for x in column[0]] == [int, int]
    assert ragged([np.array([1]), np.array([2])]).shape == (2,)


def test_lists_that_a_reader_made_arrays_of_are_lists_again() -> None:
    turns, ids = np.empty(2, object), np.empty(2, object)
    turns[0], ids[0], ids[1] = np.array([{"role": "user"}], object), np.array([1, 2]), np.array([3])
    batch = {
        "turns": turns, "ids": ids, "text": np.array(["a", None], object), "x": np.arange(2),
        "list": [1, 2],
    }  # fmt: skip
    for column in (turns, ids):
        column.setflags(write=False)
    out = passed_on(batch)
    assert out["turns"].tolist() == [[{"role": "user"}], None]
    assert out["ids"].tolist() == [[1, 2], [3]]
    assert {type(row) for row in out["ids"]} == {list}
    for name in ("text", "x", "list"):
        assert out[name] is batch[name]


def test_token_ids_of_a_row() -> None:
    assert id_row([]).dtype == np.int64
    np.testing.assert_array_equal(id_row(np.array([1, 2], np.uint8)), [1, 2])
    for wrong in ([0.5], [[1]], ["a"], 3):
        raises(ValueError, "token ids must be integers in a row, got", id_row, wrong)


def test_errors_name_the_row() -> None:
    with pytest.raises(ValueError, match=r"^line b: no$"), row_named(["a", "b"], "line", 1):
        raise ValueError("no")
    with pytest.raises(ValueError, match=r"^row 1 of the batch: no$"), row_named(None, "line", 1):
        raise ValueError("no")
