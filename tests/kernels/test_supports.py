"""Checks of the tokens that rows were drawn from."""

import numpy as np
import pytest

from lite.kernels._supports import checked_support


def test_what_is_right_stays_where_it_is():
    offsets, ids = np.array([0, 2, 2, 3]), np.array([1, 3, 0], np.int32)
    for array in (offsets, ids):
        got = checked_support((offsets, ids), 3, 4)[array is ids]
        np.testing.assert_array_equal(got, array)
        assert np.may_share_memory(got, array)
    offsets, ids = checked_support([[0, 1], np.array([2], np.uint8)], 1, 3)
    assert (offsets.dtype, ids.dtype) == (np.int64, np.int32)


def test_rows_may_be_in_any_order():
    offsets, ids = checked_support(([0, 3, 3, 5], [2, 0, 1, 1, 0]), 3, 3)
    assert (offsets.tolist(), ids.tolist()) == ([0, 3, 3, 5], [2, 0, 1, 1, 0])


@pytest.mark.parametrize("ids", [[2, 2], [2, 1, 2], [1, 2, 1, 0]])
def test_no_row_has_an_id_twice(ids):
    twice = max(ids, key=ids.count)
    with pytest.raises(ValueError, match=f"ids of kept has {twice} twice for row 1"):
        checked_support(([0, 0, len(ids)], ids), 2, 3, "kept")
    checked_support((np.arange(len(ids) + 1), ids), len(ids), 3)


def test_no_rows():
    offsets, ids = checked_support(([0], []), 0, 5)
    assert (offsets.tolist(), ids.tolist()) == ([0], [])
    with pytest.raises(ValueError, match="offsets of support must be 1"):
        checked_support(([], []), 0, 5)
