"""What rules of functions along axes have in common."""

from typing import Any

import numpy as np
from helpers.cases import raises

import lite
from lite._transforms.grad.along import Rows, given, kept_shape, masked, spread, wide
from lite._transforms.registry import NOT_GIVEN, NoRule


def test_options_that_were_given() -> None:
    assert given(axis=1, keepdims=NOT_GIVEN, dtype=None, where=False) == {"axis": 1, "where": False}

    def fn(x: Any) -> Any:
        raises(NoRule, "", given, initial=x)
        return x

    lite.grad(fn)(1.0)


def test_shapes_with_the_reduced_axes_kept() -> None:
    assert [kept_shape((2, 3, 4), axis) for axis in (None, 1, -1, (0, 2))] == [
        (1, 1, 1), (2, 1, 4), (2, 3, 1), (1, 3, 1),
    ]  # fmt: skip
    np.testing.assert_array_equal(spread(np.array([1.0, 2.0]), (2, 3), 1), [[1, 1, 1], [2, 2, 2]])
    np.testing.assert_array_equal(spread(np.float64(3.0), (2,), None), [3, 3])


def test_masks_keep_the_dtype() -> None:
    got = masked(np.ones(2, np.float32), [True, False])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [1, 0])


def test_sums_of_half_precision_keep_their_digits() -> None:
    assert wide(np.ones(2, np.float16)).dtype == np.float32
    assert wide(np.ones(2)).dtype == np.float64
    long = np.full((5000, 1), 1.0, np.float16)
    for fn in (
        lambda x: np.sum(long @ x),
        lambda x: np.sum(np.einsum("ij,jk->ik", long, x)),
        lambda x: np.sum(np.tile(x, (5000, 1))),
        lambda x: np.sum(np.repeat(x, 5000, 1)),
        lambda x: np.sum(np.broadcast_to(x, (5000, 1))),
    ):
        got = lite.grad(fn)(np.ones((1, 1), np.float16))
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, 5000)


def test_rows_and_back() -> None:
    for axis in [None, 0, -1, (0, 2), (2, 0), ()]:
        x = np.arange(24.0).reshape(2, 3, 4)
        rows = Rows(x.shape, axis)
        seen = rows.of(x)
        assert seen.shape == (*rows.outer, rows.length)
        np.testing.assert_array_equal(rows.undo(seen), x)
        np.testing.assert_array_equal(seen.sum(-1), x.sum(axis))
