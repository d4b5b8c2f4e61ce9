"""Seeds of rows."""

import numpy as np
import pytest
from helpers.cases import raises

from lite.data import row_seeds


def test_a_seed_follows_from_run_and_row_alone() -> None:
    ids = list(range(50)) + [f"row {i}" for i in range(50)]
    whole = row_seeds(3, ids, samples=5)
    assert (whole.dtype, whole.shape) == (np.uint64, (100, 5))
    for start in range(0, 100, 7):
        np.testing.assert_array_equal(
            row_seeds(3, ids[start : start + 7], samples=5), whole[start : start + 7]
        )
    np.testing.assert_array_equal(row_seeds(3, ids, samples=2), whole[:, :2])
    np.testing.assert_array_equal(row_seeds(3, np.arange(50, dtype=np.int32), samples=5), whole[:50])


STORED = np.array(
    [[17891356363130574149, 16085231725378533362], [10459884377796457270, 1613812797103148784]], np.uint64
)


def test_all_seeds_differ() -> None:
    seeds = [row_seeds(run, range(1000), samples=3) for run in range(3)] + [
        row_seeds(0, map(str, range(1000)), samples=3)
    ]
    flat = np.concatenate(seeds).ravel()
    assert len(np.unique(flat)) == len(flat)
    bits = np.unpackbits(flat.view(np.uint8)).reshape(len(flat), 64)
    np.testing.assert_allclose(bits.mean(0), 0.5, atol=0.03)


def test_seeds_stay_what_they_are() -> None:
    """Jobs that were begun with an earlier version go on with the same draws."""
    np.testing.assert_array_equal(row_seeds(0, [0, "a"], samples=2), STORED)


def test_no_rows() -> None:
    assert row_seeds(0, []).shape == (0, 1)


def test_ids_that_are_none() -> None:
    for name in (1.0, None, True, b"a", np.float64(1)):
        raises(TypeError, "ids of rows must be integers or texts, got", row_seeds, 0, [name])


def test_numbers_are_checked() -> None:
    raises(ValueError, "samples must be at least 1, got 0", row_seeds, 0, [1], samples=0)
    with pytest.raises(TypeError, match="seed"):
        row_seeds(0.5, [1])  # type: ignore[arg-type]
