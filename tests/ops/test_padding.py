"""`pad` and `pad_sequence`."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.trees import tree, unchanged

import lite
from lite import NonTensorStack, TensorDict, lazy_stack, pad_sequence


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_pairs_start_at_the_first_dimension(value):
    td = tree()
    with unchanged(td):
        out = td.pad([1, 2, 0, 1], value)
    assert (out.batch_size, out["n"].batch_size, out.names) == ((7, 4), (7, 4, 5), [None, None])
    expected = np.pad(td["a"], [(1, 2), (0, 1), (0, 0)], constant_values=value)
    np.testing.assert_array_equal(out["a"], expected)
    assert out["i"].dtype == td["i"].dtype
    assert out["r"][0] == [None] * 4
    assert out["r"][1] == ["00", "01", "02", None]
    assert out["s"] == [[None] * 4] + [["text"] * 3 + [None]] * 4 + [[None] * 4] * 2
    assert td.pad([-1, 0])["s"] == "text"


def test_negative_counts_crop():
    td = tree()
    np.testing.assert_array_equal(td.pad([-1, 1])["i"], np.pad(td["i"][1:], [(0, 1), (0, 0)]))
    np.testing.assert_array_equal(td.pad([0, -2, -1, -1])["a"], td["a"][:2, 1:2])
    with pytest.raises(RuntimeError, match="crops more"):
        td.pad([-3, -2])


@pytest.mark.parametrize("size", [[1], [1, 2, 3], [0] * 6])
def test_bad_sizes_are_found_before_anything_changes(size):
    td = tree()
    with unchanged(td), pytest.raises(RuntimeError, match="pad_size"):
        td.pad(size, inplace=True)


def test_in_place():
    td = TensorDict({"a": np.arange(2), "n": {"b": np.ones(2)}}, batch_size=[2])
    assert td.pad([0, 1], inplace=True) is td
    assert (td.batch_size, td["n"].batch_size, td["a"].tolist()) == ((3,), (3,), [0, 1, 0])
    with pytest.raises(RuntimeError, match="locked"):
        td.lock_().pad([1, 0], inplace=True)
    stack = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    np.testing.assert_array_equal(lite.pad(stack, [1, 0])["a"], [0, 1, 2])
    with pytest.raises(NotImplementedError, match="LazyStackedTensorDict"):
        stack.pad([1, 0], inplace=True)


def test_sequences_beyond_the_batch():
    tds = [
        TensorDict({"a": np.ones((2, n, 3)), "n": {"b": np.ones((2, n + 1))}, "s": f"{n}"}, batch_size=[2])
        for n in (1, 3)
    ]
    out = pad_sequence(tds, pad_dim=1, padding_value=-1, return_mask=True)
    assert (out.batch_size, out["a"].shape, out["n", "b"].shape) == ((2, 2), (2, 2, 3, 3), (2, 2, 4))
    np.testing.assert_array_equal(out["a"][0, 0], [[1] * 3, [-1] * 3, [-1] * 3])
    np.testing.assert_array_equal(out["masks", "n", "b"][0, 0], [True, True, False, False])
    assert out["s"] == [["1", "1"], ["3", "3"]]


def test_sequences_along_the_batch():
    tds = [
        TensorDict({"a": np.arange(n), "r": NonTensorStack(*"abc"[:n]), "s": "x"}, batch_size=[n])
        for n in (2, 3)
    ]
    out = pad_sequence(tds, return_mask=("mask", "of"))
    assert out.batch_size == (2, 3)
    np.testing.assert_array_equal(out["a"], [[0, 1, 0], [0, 1, 2]])
    np.testing.assert_array_equal(out["mask", "of", "a"], [[True, True, False], [True] * 3])
    assert out["r"] == [["a", "b", None], ["a", "b", "c"]]


def test_sequences_keep_shared_keys_and_fill_out():
    tds = [TensorDict(a=np.ones(1), only=1), TensorDict(a=np.ones(2))]
    assert list(pad_sequence(tds).keys()) == ["a"]
    out = TensorDict({"a": np.zeros((2, 2))}, batch_size=[2])
    array = out["a"]
    assert pad_sequence(tds, out=out) is out
    np.testing.assert_array_equal(array, [[1, 0], [1, 1]])


@pytest.mark.parametrize(
    "tds",
    [
        [],
        [TensorDict(a=1), TensorDict(a=2)],
        [TensorDict(a=np.ones((1, 2))), TensorDict(a=np.ones((2, 3)))],
        [TensorDict({}, [2]), TensorDict({}, [2, 3])],
    ],
)
def test_what_cannot_be_padded(tds):
    with pytest.raises(RuntimeError):
        pad_sequence(tds)
