"""What the compiled half is handed, and what it says of it."""

import numpy as np
import pytest
from helpers.cases import each_case

from lite.kernels import sum_tree
from lite.kernels.cpu import sum_tree as cpu
from lite.kernels.cpu.sum_tree import search, update


@each_case("count", [1, 3, 64, 500])
def test_every_level_is_right_whatever_share_of_the_leaves_changes(count):
    """Few leaves are followed up one by one; levels that are no longer than the batch are done whole."""
    rng = np.random.default_rng(count)
    tree = sum_tree(256, np.float64)
    for _ in range(4):
        index, values = rng.integers(0, 256, count), rng.integers(0, 9, count).astype(np.float64)
        assert update(tree, index, values, np.empty(count, np.int64), False) == -1
        np.testing.assert_array_equal(tree[1:256], tree[2::2] + tree[3::2])


@pytest.mark.parametrize(
    ("update", "search"),
    [(update, search), (cpu._plain_update, cpu._plain_search)],
    ids=["compiled", "plain"],
)
def test_the_first_wrong_member_is_told(update, search):
    tree, work = sum_tree(4, np.float64), np.empty(3, np.int64)
    assert update(tree, np.array([0, 4, 5]), np.ones(3), work, False) == 1
    assert update(tree, np.array([0, 1, 2]), np.array([1, 1, np.nan]), work, False) == -4
    assert update(tree, np.array([0, 1, 2]), np.array([1, np.inf, 1]), work, True) == -1
    assert search(tree, np.array([0.0, np.nan]), work[:2]) == 1


@pytest.mark.parametrize("least", [False, True])
def test_plain_numpy_does_the_same(least):
    rng = np.random.default_rng(0)
    trees = np.full((2, 16), np.inf if least else 0.0)
    index, values = rng.integers(0, 8, 6), rng.integers(0, 3, 6).astype(np.float64)
    for entry, tree in zip((update, cpu._plain_update), trees, strict=True):
        assert entry(tree, index, values, np.empty(6, np.int64), least) == -1
    np.testing.assert_array_equal(trees[0, 1:], trees[1, 1:])
    found = np.empty((2, 50), np.int64)
    for entry, nodes in zip((search, cpu._plain_search), found, strict=True):
        assert entry(trees[0], np.linspace(0, trees[0, 1], 50), nodes) == -1
    np.testing.assert_array_equal(*found)
