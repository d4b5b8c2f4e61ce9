"""Checks of logits and supports, and how compiled rows read them."""

import numpy as np
import pytest
from helpers.cases import raises

from lite.kernels._logits import Logits, checked_support, token_array

LOGITS = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


def test_the_vocabulary_comes_last():
    rows = Logits(LOGITS, None, 0.5, axis=1)
    assert (rows.shape, rows.size, rows.dtype, rows.inverse) == ((2, 4), 3, np.float32, 2.0)
    flat, bfloat16, starts, size, keep, keep_starts, counted, inverses = rows.operands()
    assert (bfloat16, size, inverses.tolist(), keep.size, keep_starts.size) == (False, 3, [2.0] * 8, 0, 0)
    assert counted.all()
    for start, row in zip(starts, np.moveaxis(LOGITS, 1, -1).reshape(-1, 3), strict=True):
        np.testing.assert_array_equal(flat[start : start + 3], row)


def test_masks_are_of_positions_or_of_tokens():
    positions = np.array([[True, False, True]] * 2)
    rows = Logits(LOGITS, positions, 1.0)
    assert rows.keep is None
    np.testing.assert_array_equal(rows.operands()[6], positions.reshape(-1))
    tokens = LOGITS > 5
    rows = Logits(LOGITS, tokens, 1.0)
    assert rows.counted is None
    keep, starts = rows.operands()[4:6]
    np.testing.assert_array_equal(keep[starts[:, None] + np.arange(4)], tokens.reshape(-1, 4))


def test_errors_name_the_argument():
    for arguments, error, words in [
        ((LOGITS.astype(int), None, 1.0), TypeError, "logits must be float16.*int64"),
        ((np.float32(1), None, 1.0), ValueError, "must have an axis for the vocabulary"),
        ((LOGITS, None, 1.0, 3), ValueError, "axis 3 is out of range"),
        ((LOGITS, None, 0.0), ValueError, "temperature must be positive.*0.0"),
        ((LOGITS, None, "1"), TypeError, "temperature must be a number, got str"),
        ((LOGITS, LOGITS, 1.0), TypeError, "mask must be boolean, got float32"),
        ((LOGITS, LOGITS[0] > 1, 1.0), ValueError, r"mask must have the shape.*\(2, 3\).*got \(3, 4\)"),
    ]:
        raises(error, words, Logits, *arguments)


def test_one_token_for_each_row():
    assert token_array([[1, 2, 3]] * 2, LOGITS.shape).shape == (2, 3)
    raises(ValueError, r"tokens \(3,\)", token_array, [1, 2, 3], LOGITS.shape)
    raises(TypeError, "tokens must be integers, got float64", token_array, np.ones((2, 3)), LOGITS.shape)


def test_a_support_stays_where_it_is():
    offsets, ids = np.array([0, 2, 2, 3]), np.array([1, 3, 0], np.int32)
    for array in (offsets, ids):
        got = checked_support((offsets, ids), 3, 4)[array is ids]
        np.testing.assert_array_equal(got, array)
        assert np.may_share_memory(got, array)
    offsets, ids = checked_support([[0, 1], np.array([2], np.uint8)], 1, 3)
    assert (offsets.dtype, ids.dtype) == (np.int64, np.int32)


def test_rows_of_a_support_may_be_in_any_order():
    offsets, ids = checked_support(([0, 3, 3, 5], [2, 0, 1, 1, 0]), 3, 3)
    assert (offsets.tolist(), ids.tolist()) == ([0, 3, 3, 5], [2, 0, 1, 1, 0])


def test_no_row_has_an_id_twice():
    for ids in [[2, 2], [2, 1, 2], [1, 2, 1, 0]]:
        twice = max(ids, key=ids.count)
        with pytest.raises(ValueError, match=f"ids of kept has {twice} twice for row 1"):
            checked_support(([0, 0, len(ids)], ids), 2, 3, "kept")
        checked_support((np.arange(len(ids) + 1), ids), len(ids), 3)


def test_no_rows():
    offsets, ids = checked_support(([0], []), 0, 5)
    assert (offsets.tolist(), ids.tolist()) == ([0], [])
    raises(ValueError, "offsets of support must be 1", checked_support, ([], []), 0, 5)
