"""`isin` and `remove_duplicates`."""

from __future__ import annotations

import numpy as np
import pytest

from lite import TensorDict, isin, remove_duplicates


def rows(values: list[list[int]]) -> TensorDict:
    return TensorDict({"n": {"a": np.array(values)}, "i": np.arange(len(values))}, [len(values)])


def test_isin_compares_whole_rows() -> None:
    found = isin(rows([[1, 2], [2, 1], [3, 4]]), rows([[2, 1], [3, 9]]), ("n", "a"))
    assert found.tolist() == [False, True, False]


def test_isin_along_another_dimension() -> None:
    left = TensorDict({"a": np.array([[1, 2, 3], [4, 5, 6]])}, [2, 3])
    right = TensorDict({"a": np.array([[3, 9], [6, 9]])}, [2, 2])
    assert isin(left, right, "a", -1).tolist() == [False, False, True]


def test_duplicates_of_one_entry_go_from_all() -> None:
    td = rows([[5, 5], [1, 1], [5, 5], [1, 1], [0, 7]])
    out, groups = remove_duplicates(td, ("n", "a"), return_indices=True)
    assert out["n", "a"].tolist() == [[0, 7], [1, 1], [5, 5]]
    assert out["i"].tolist() == [4, 1, 0]
    np.testing.assert_array_equal(out["n", "a"][groups], td["n", "a"])
    wide = TensorDict({"a": np.array([[2, 1, 2]]), "b": np.array([[0, 1, 2]])}, [1, 3])
    assert remove_duplicates(wide, "a", -1)["b"].tolist() == [[1, 0]]


def test_nothing_in_nothing() -> None:
    none = TensorDict({"a": np.zeros((0, 2))}, [0])
    assert isin(none, none, "a").shape == (0,)
    assert remove_duplicates(none, "a").batch_size == (0,)


def test_errors() -> None:
    td = rows([[1, 2]])
    for key in ("q", "n"):
        with pytest.raises(KeyError, match="input has no array"):
            remove_duplicates(td, key)
    with pytest.raises(KeyError, match="reference has no array"):
        isin(td, TensorDict({}, [1]), "i")
    with pytest.raises(ValueError, match="no batch dimension"):
        remove_duplicates(td, "i", 1)
    with pytest.raises(ValueError, match="as many batch dims"):
        isin(td, td[0], "i")
    with pytest.raises(ValueError, match="differ in shape"):
        isin(td, TensorDict({"n": {"a": np.zeros((1, 3))}}, [1]), ("n", "a"))
