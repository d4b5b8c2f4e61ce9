import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models.text.rows import TokenRows, infer_mask, token_row

P = 9


def test_left_and_right() -> None:
    left = TokenRows.left_padded([[1, 2], [3, 4, 5]], P)
    np.testing.assert_array_equal(left.ids, [[P, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(left.mask, [[0, 1, 1], [1, 1, 1]])
    right = TokenRows.right_padded([np.array([1, 2], np.int32), []], P)
    np.testing.assert_array_equal(right.ids, [[1, 2], [P, P]])
    assert right.ids.dtype == np.int64
    full = left.join(right)
    np.testing.assert_array_equal(full.ids, [[P, 1, 2, 1, 2], [3, 4, 5, P, P]])
    np.testing.assert_equal(full.rows, [[1, 2, 1, 2], [3, 4, 5]])
    assert TokenRows.left_padded([[1]], P, width=3).ids.tolist() == [[P, P, 1]]
    assert TokenRows.left_padded([], P).ids.shape == (0, 0)


def test_repeat_is_prompt_major() -> None:
    rows = TokenRows.left_padded([[1], [2]], P).repeat(2)
    assert rows.ids.tolist() == [[1], [1], [2], [2]]


def test_spread_follows_the_mask() -> None:
    rows = TokenRows(np.zeros((2, 3), np.int64), np.array([[True, False, True], [False, True, False]]))
    out = rows.spread([np.array([1.0, 2.0]), np.array([3.0])], np.float32)
    np.testing.assert_array_equal(out, [[1, 0, 2], [0, 3, 0]])
    assert out.dtype == np.float32


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5))
def test_rows_survive_padding(rows: list[list[int]]) -> None:
    for padded in (TokenRows.left_padded(rows, P), TokenRows.right_padded(rows, P)):
        assert [row.tolist() for row in padded.rows] == rows


def test_token_row_refuses() -> None:
    with pytest.raises(
        ValueError, match=r"row 3 must be a row of token ids of shape \(L,\), got shape \(1, 2\)"
    ):
        token_row([[1, 2]], "row 3")
    with pytest.raises(TypeError, match="ids must hold integers, got dtype float64"):
        token_row([0.5])


MASKS: list[tuple[list[int], int | None, bool, list[int]]] = [
    ([P, P, 1, 2], P, False, [0, 0, 1, 1]), ([1, P, 2, P], P, False, [1, 0, 1, 0]),
    ([1, 2], None, False, [1, 1]), ([P, P, 1, 2], P, True, [0, 0, 1, 1]),
    ([P, 1, P, 2], P, True, [0, 1, 1, 1]), ([1, P], P, True, [1, 1]), ([1, P, P, P], P, True, [1, 1, 0, 0]),
    ([P, 1, P, 2, P, P], P, True, [0, 1, 1, 1, 1, 0]), ([P, P], P, True, [0, 0]), ([], P, True, []),
]  # fmt: skip


def test_infer_mask() -> None:
    for ids, pad, pad_is_eos, mask in MASKS:
        got = infer_mask(np.array([ids], np.int64), pad, pad_is_eos=pad_is_eos)
        np.testing.assert_array_equal(got, np.array([mask], bool), err_msg=str(ids))
