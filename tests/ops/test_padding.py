"""`pad` and `pad_sequence`."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

import lite
from lite import LazyStackedTensorDict, NonTensorStack, TensorDict, lazy_stack, pad_sequence


@each_case("value", [0.0, 7.0])
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
    raises(RuntimeError, "crops more", lambda: td.pad([-3, -2]))


@each_case("size", [[1], [1, 2, 3], [0] * 6])
def test_bad_sizes_are_found_before_anything_changes(size):
    td = tree()
    with unchanged(td), pytest.raises(RuntimeError, match="pad_size"):
        td.pad(size, inplace=True)


def test_in_place_nested_nodes_are_padded_and_not_replaced():
    td = tree()
    nodes = [td["n"], td["n", "m"]]
    expected = td.pad([1, 2, 0, 1], 7.0)
    td.pad([1, 2, 0, 1], 7.0, inplace=True)
    assert td["n"] is nodes[0]
    assert td["n", "m"] is nodes[1]
    assert [node.batch_size[:2] for node in nodes] == [(7, 4)] * 2
    for key in ("a", "i", ("n", "b")):
        np.testing.assert_array_equal(td[key], expected[key])
    locked = TensorDict({"a": np.ones(2), "n": {"b": np.ones(2)}}, [2])
    locked["n"].lock_()
    with unchanged(locked), pytest.raises(RuntimeError, match="locked"):
        locked.pad([0, 1], inplace=True)


def _rows(dim: int, ragged: bool = False) -> LazyStackedTensorDict:
    parts = [
        TensorDict(
            {"x": np.full((2, 1 + i * ragged), i + 1.0), "s": f"t{i}", "n": {"y": np.full(2, i + 1)}}, [2]
        )
        for i in range(3)
    ]
    return lazy_stack(parts, dim)


COUNTS = [
    [0, 1], [1, 0], [2, 1], [-1, 0], [0, -1], [-1, 2], [0, 0, 0, 1], [1, 0, -1, 2], [-3, 1], [-4, 3], [4, -5],
]  # fmt: skip


@each_case("inplace", [False, True])
@each_case("dim", [0, 1])
@each_case("counts", COUNTS, ids=str)
def test_lazy_stacks(counts, dim, inplace):
    td, dense = _rows(dim), _rows(dim).contiguous()
    expected = dense.pad(counts, 9)
    before = td.clone()
    parts = list(td.tensordicts)
    out = td.pad(counts, 9, inplace)
    assert isinstance(out, LazyStackedTensorDict)
    assert (out.stack_dim, out.batch_size) == (dim, expected.batch_size)
    for key in ("x", ("n", "y")):
        np.testing.assert_array_equal(out[key], expected[key])
    assert out.get("s").tolist() == expected.get("s").tolist()
    if not inplace:
        out.zero_()
        assert out is not td
        assert (td == before).all()
        return
    assert out is td
    first, last = (counts + [0, 0])[2 * dim : 2 * dim + 2]
    kept = parts[max(0, -first) : max(0, len(parts) - max(0, -last))]
    assert all(a is b for a, b in zip(td.tensordicts[max(0, first) :], kept, strict=False))


def test_ragged_stacks_and_stacks_in_nodes():
    ragged = _rows(0, ragged=True)
    node = ragged[1]["n"]
    out = ragged.pad([1, 1, 0, 1], 9)
    assert [part["x"].shape for part in out.tensordicts] == [(3, 1), (3, 1), (3, 2), (3, 3), (3, 3)]
    assert [part["s"] for part in out[:2].tensordicts] == [[None] * 3, ["t0", "t0", None]]
    ragged.pad([1, 1, 0, 1], 9, inplace=True)
    np.testing.assert_array_equal(ragged[2]["x"], [[2, 2], [2, 2], [9, 9]])
    assert ragged[2]["n"] is node
    td = TensorDict({"m": _rows(0, ragged=True)}, [3])
    stack = td["m"]
    assert td.pad([0, 1])["m"].batch_size == (4, 2)
    td.pad([0, 1], inplace=True)
    assert td["m"] is stack
    assert stack.batch_size == (4, 2)
    np.testing.assert_array_equal(stack[3]["x"], np.zeros((2, 3)))
    rows = lazy_stack([TensorDict({"x": np.ones(n)}, [n]) for n in (1, 2)])
    raises(RuntimeError, "ragged", lambda: rows.pad([0, 1]))
    one = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    np.testing.assert_array_equal(lite.pad(one, [1, 0], inplace=True)["a"], [0, 1, 2])


def test_a_locked_stack_or_part_is_not_padded_in_place():
    for lock in (lambda td: td.lock_(), lambda td: td.tensordicts[2].lock_()):
        td = _rows(1)
        lock(td)
        with unchanged(td), pytest.raises(RuntimeError, match="locked"):
            td.pad([0, 1], inplace=True)


def test_a_lazy_stack_rolls_in_place():
    for dim in (0, 1):
        td, other = _rows(dim), _rows(dim)
        assert td.roll(1, 0, inplace=True) is td
        np.testing.assert_array_equal(td["x"], np.roll(other["x"], 1, 0))
        td.roll(2, inplace=True)


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
        TensorDict({"a": np.arange(n), "r": NonTensorStack(*"abc"[:n]), "s": "x", "n": {}}, batch_size=[n])
        for n in (2, 3)
    ]
    out = pad_sequence(tds, return_mask=("mask", "of"))
    assert out.batch_size == (2, 3)
    np.testing.assert_array_equal(out["a"], [[0, 1, 0], [0, 1, 2]])
    np.testing.assert_array_equal(out["mask", "of", "a"], [[True, True, False], [True] * 3])
    assert out["r"] == [["a", "b", None], ["a", "b", "c"]]
    assert out["n"].batch_size == (2, 3)


@each_case(
    "tds",
    [
        [],
        [TensorDict(a=1), TensorDict(a=2)],
        [TensorDict(a=np.ones((1, 2))), TensorDict(a=np.ones((2, 3)))],
        [TensorDict({}, [2]), TensorDict({}, [2, 3])],
    ],
)
def test_what_cannot_be_padded(tds):
    raises(RuntimeError, "", lambda: pad_sequence(tds))


def test_the_last_dimension_of_features() -> None:
    tds = [TensorDict(a=np.ones((2, n)), batch_size=[2]) for n in (2, 3)]
    out = pad_sequence(tds, pad_dim=-1)
    assert (out.batch_size, out["a"].shape) == ((2, 2), (2, 2, 3))
    np.testing.assert_array_equal(out["a"][0], [[1, 1, 0]] * 2)
    inner = [TensorDict(a=np.ones(n), batch_size=[n]) for n in (2, 3)]
    assert pad_sequence(inner, pad_dim=-1).batch_size == (2, 3)
