"""Entries whose rows differ in shape: as lists, padded, as values with offsets."""

import numpy as np
from helpers.cases import raises
from helpers.lazy_stacks import ragged

from lite import TensorDict, lazy_stack


def test_ragged_leaf_in_every_form():
    ls = ragged(2, 3)
    for read in (lambda: ls["a"], lambda: ls.get("a"), lambda: dict(ls.items()), ls.contiguous):
        raises(RuntimeError, "Failed to stack tensors within a tensordict", read)
    assert "a" in ls
    assert list(ls.keys()) == ["a", "b", "n", "s"]
    rows = ls.get("a", as_list=True)
    assert [row.tolist() for row in rows] == [[0, 1], [10, 11, 12]]
    assert rows[0] is ls[0]["a"]
    np.testing.assert_array_equal(ls.get("a", as_padded_tensor=True), [[0, 1, 0], [10, 11, 12]])
    left = ls.get("a", as_padded_tensor=True, padding_side="left", padding_value=-1)
    np.testing.assert_array_equal(left, [[-1, 0, 1], [10, 11, 12]])
    assert left.dtype == np.int64
    values, offsets = ls.get("a", as_nested_tensor=True)
    np.testing.assert_array_equal(values, [0, 1, 10, 11, 12])
    np.testing.assert_array_equal(offsets, [0, 2, 5])
    assert [row.tolist() for row in ls.get(("n", "c"), as_list=True)] == [[1, 1], [1, 1, 1]]
    assert ls.get("missing", "default", as_list=True) == "default"
    assert ls.get_item_shape("a") == (2, -1)
    assert ls.get_item_shape(("n", "c")) == (2, -1)
    assert ls.get("s", as_list=True) == ["s0", "s1"]


def test_ragged_leaf_below_dense_nodes_and_nested_stacks():
    outer = lazy_stack([ragged(1, 2), ragged(3, 1)])
    td = TensorDict({"rows": outer}, batch_size=[2])
    lists = td.get(("rows", "a"), as_list=True)
    assert [[leaf.tolist() for leaf in row] for row in lists] == [[[0], [10, 11]], [[0, 1, 2], [10]]]
    padded = td.get(("rows", "a"), as_padded_tensor=True, padding_value=9)
    np.testing.assert_array_equal(padded, [[[0, 9, 9], [10, 11, 9]], [[0, 1, 2], [10, 9, 9]]])
    assert td.get_item_shape(("rows", "a")) == (2, 2, -1)
    below = [("a",), ("b",), ("n", "c"), ("n",), ("s",)]
    assert list(td.keys(True)) == [*(("rows", *path) for path in below), "rows"]


def test_ragged_forms_are_checked():
    ls = ragged(1, 2)
    raises(TypeError, "exclusive", lambda: ls.get("a", as_list=True, as_padded_tensor=True))
    raises(ValueError, "padding_side", lambda: ls.get("a", as_padded_tensor=True, padding_side="middle"))
    wide = lazy_stack([TensorDict(a=np.zeros((1, 2))), TensorDict(a=np.zeros((1, 3)))])
    raises(RuntimeError, "cannot pad 'a': only the first dim", lambda: wide.get("a", as_padded_tensor=True))
    raises(RuntimeError, "cannot join 'a': only the first dim", lambda: wide.get("a", as_nested_tensor=True))
    raises(RuntimeError, r"Use get\('a', as_list=True\)\.$", lambda: wide["a"])
    assert lazy_stack([TensorDict(a=np.zeros(1)), TensorDict(a=np.zeros((1, 1)))]).get_item_shape("a") == (
        -1,
    )


def test_ragged_objects_come_as_lists():
    rows = [TensorDict({"role": list("ab")}, batch_size=[2]), TensorDict({"role": ["c"]}, batch_size=[1])]
    ls = lazy_stack(rows)
    assert ls.batch_size == (2, -1)
    assert ls["role"] == [["a", "b"], ["c"]]
    raises(RuntimeError, "Failed to stack", lambda: lazy_stack(rows, 1)["role"])
    assert "role: NonTensorStack(batch_size=(-1, 2), device=None)" in repr(lazy_stack(rows, 1))
    pairs = [row.expand(3, *row.batch_size) for row in rows]
    assert lazy_stack(pairs, 1)["role"] == [[["a", "b"], ["c"]]] * 3
