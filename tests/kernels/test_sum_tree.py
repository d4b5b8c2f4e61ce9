"""Trees of priorities against NumPy's cumsum and searchsorted."""

import numpy as np
import pytest
from helpers.cases import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.kernels import min_tree, search_sum_tree, sum_tree, update_min_tree, update_sum_tree

CAPACITIES = st.sampled_from([1, 2, 3, 7, 8, 9, 33, 1000])
DTYPES = st.sampled_from([np.float32, np.float64])


@st.composite
def batches(draw):
    """A capacity, and batches of leaves with whole numbers, whose sums are exact."""
    capacity = draw(CAPACITIES)
    sizes = draw(st.lists(st.integers(0, 40), max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    made = []
    for size in sizes:
        index = rng.integers(0, capacity, size)
        if draw(st.booleans()):  # neighbours, round the end
            index = (int(rng.integers(capacity)) + np.arange(size)) % capacity
        made.append((index, rng.integers(0, 4, size)))
    return capacity, made


@pytest.mark.depth
@settings(max_examples=60)
@given(batches(), DTYPES)
def test_equal_cumulative_sums(case, dtype):
    capacity, made = case
    sums, least = sum_tree(capacity, dtype), min_tree(capacity, dtype)
    leaves, lows = np.zeros(capacity), np.full(capacity, np.inf)
    for index, values in made:
        update_sum_tree(sums, index, values)
        update_min_tree(least, index, values)
        leaves[index] = lows[index] = values  # the last of several counts, as in NumPy
    size = sums.size // 2
    assert sums.dtype == least.dtype == dtype
    np.testing.assert_array_equal(sums[size : size + capacity], leaves)
    np.testing.assert_array_equal(sums[1:size], sums[2::2] + sums[3::2])
    np.testing.assert_array_equal(least[1:size], np.minimum(least[2::2], least[3::2]))
    assert sums[1] == leaves.sum()
    assert least[1] == lows.min()
    if leaves.any():
        mass = np.arange(0, leaves.sum(), 0.25)
        expected = np.searchsorted(np.cumsum(leaves), mass, side="right")
        np.testing.assert_array_equal(search_sum_tree(sums, mass), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_leaves(dtype):
    rng = np.random.default_rng(0)
    leaves = rng.random(100_000).astype(dtype)
    tree = sum_tree(leaves.size, dtype)
    update_sum_tree(tree, np.arange(leaves.size), leaves)
    index = rng.integers(0, leaves.size, 5000)
    leaves[index] = 3.0
    update_sum_tree(tree, index, 3.0)
    np.testing.assert_allclose(
        tree[1], leaves.sum(dtype=np.float64), rtol=1e-5 if dtype == np.float32 else 1e-12
    )
    mass = rng.random(5000) * tree[1]
    got = search_sum_tree(tree, mass)
    runs = np.cumsum(leaves, dtype=np.float64)
    if dtype == np.float64:
        np.testing.assert_array_equal(got, np.searchsorted(runs, mass, side="right"))
    else:  # the sums are rounded to 24 bits
        np.testing.assert_allclose(runs[got], mass, atol=3.0 + 1e-6 * runs[-1])


@settings(max_examples=40)
@given(st.integers(0, 2**32), CAPACITIES, st.floats(1e-30, 1e30))
def test_a_leaf_of_zero_is_never_drawn(seed, capacity, scale):
    """Also where sums are rounded so that more mass is left than the leaves hold."""
    rng = np.random.default_rng(seed)
    leaves = (rng.random(capacity) * scale * (rng.random(capacity) < 0.3)).astype(np.float32)
    leaves[rng.integers(capacity)] = scale
    tree = sum_tree(capacity)
    update_sum_tree(tree, np.arange(capacity), leaves)
    top = np.float64(tree[1])
    mass = np.concatenate([rng.random(200) * top, [0.0, np.nextafter(top, 0), top, 2 * top, np.inf]])
    assert (leaves[search_sum_tree(tree, mass)] > 0).all()
    assert search_sum_tree(tree, 2 * top) == np.flatnonzero(leaves)[-1]


def test_any_shape_and_layout():
    tree = sum_tree(10, np.float64)
    index, values = np.arange(12, dtype=np.uint8).reshape(3, 4)[:, ::2], np.arange(6.0).reshape(2, 3).T
    values.flags.writeable = False
    update_sum_tree(tree, index, values)
    np.testing.assert_array_equal(tree[16:][index], values)
    update_sum_tree(tree, 3, 7)
    assert tree[19] == 7
    update_sum_tree(tree, [], [])
    assert search_sum_tree(tree, np.float32(0)).shape == ()
    assert search_sum_tree(tree, np.zeros((2, 3))).shape == (2, 3)
    assert search_sum_tree(tree, np.zeros((0, 3))).shape == (0, 3)


def test_values_that_are_no_priorities_change_nothing():
    for bad in (np.nan, -1.0, np.inf, 1e39):
        tree = sum_tree(4)
        update_sum_tree(tree, [0, 1], [1.0, 2.0])
        before = tree.copy()
        raises(ValueError, "values must be finite and at least 0", update_sum_tree, tree, [0, 2], [5.0, bad])
        np.testing.assert_array_equal(tree, before)


def test_wrong_arguments_are_named():
    tree, least = sum_tree(4), min_tree(4)
    raises(IndexError, "index must be from 0 to 3, got 4", lambda: update_sum_tree(tree, [0, 4], 1.0))
    raises(IndexError, "got -1", lambda: update_min_tree(least, [-1], 1.0))
    raises(TypeError, "index must be integers", lambda: update_sum_tree(tree, [0.5], 1.0))
    raises(ValueError, "shape of index", lambda: update_sum_tree(tree, [0, 1], [1.0, 2.0, 3.0]))
    raises(ValueError, "values must be at least 0 and not NaN", lambda: update_min_tree(least, [0], np.nan))
    for mass in (-0.1, np.nan):
        raises(ValueError, "mass must be at least 0", search_sum_tree, tree, [0.0, mass])
    for wrong in (np.zeros(3, np.float32), np.zeros(8, np.int64), np.zeros((2, 2)), [0.0, 0.0], np.zeros(1)):
        raises(ValueError, "tree must be", search_sum_tree, wrong, [0.0])
    tree.flags.writeable = False
    raises(ValueError, "tree must be", lambda: update_sum_tree(tree, [0], 1.0))
    raises(ValueError, "capacity must be at least 1", lambda: sum_tree(0))
    with pytest.raises(TypeError, match="capacity must be an integer"):
        min_tree(1.5)  # type: ignore[arg-type]
    raises(TypeError, "dtype must be float32 or float64", lambda: sum_tree(3, np.float16))
    assert not tree.any()
    assert np.isinf(least).all()
