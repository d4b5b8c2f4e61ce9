"""`pad`, `pad_sequence` and back, `collate`."""

from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.tensorclasses import Point
from helpers.trees import tree, unchanged

import lite
from lite import (
    LazyStackedTensorDict,
    NonTensorStack,
    TensorDict,
    collate,
    lazy_stack,
    pad_sequence,
    stack,
    unpad_sequence,
)


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


def test_names_stay():
    """As measured on tensordict 0.15.3; 0.14 drops them."""
    node = TensorDict({"b": np.ones((2, 3))}, [2, 3], names=["x", "y"])
    td = TensorDict({"n": node}, [2], names=["x"])
    rows = lazy_stack([td, td.clone()], stack_dim_name="s")
    for padded, names in ((td.pad([1, 0]), ["x"]), (rows.pad([1, 0, 0, 1]), ["s", "x"])):
        assert padded.names == names
        assert padded["n"].names == [*names, "y"]
    rows.pad([0, 1], inplace=True)
    assert rows.names == ["s", "x"]


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
        wanted = td.flatten().roll(2, 0).reshape(td.batch_size)["x"]
        np.testing.assert_array_equal(td.roll(2, inplace=True)["x"], wanted)
        td.lock_()
        raises(RuntimeError, "locked", td.roll, 2, inplace=True)


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


def sequences(inside):
    """Of one and three elements, along the batch or the last dimension."""
    if inside:
        return [
            TensorDict({"a": np.arange(n) + 1, "n": {"b": np.ones((n, 2))}, "r": [*"xyz"[:n]], "s": "q"}, [n])
            for n in (1, 3)
        ]
    return [TensorDict({"a": np.arange(n) + 1, "n": {"b": np.ones((2, n))}, "s": "q"}) for n in (1, 3)]


@each_case("inside", [False, True])
def test_values_and_sides_of_padding(inside):
    """As measured on tensordict 0.15.3."""
    tds = sequences(inside)
    dim = 0 if inside else -1
    out = pad_sequence(tds, dim, {("n", "b"): 7, "a": -1})
    assert out["a"].tolist() == [[1, -1, -1], [1, 2, 3]]
    rows = [[1, 1], [7, 7], [7, 7]] if inside else [[1, 7, 7], [1, 7, 7]]
    assert out["n", "b"][0].tolist() == rows
    left = pad_sequence(tds, dim, {"a": 9}, return_mask="m", padding_side="left")
    assert left["a"].tolist() == [[9, 9, 1], [1, 2, 3]]
    assert left["n", "b"][0].tolist() == ([[0, 0], [0, 0], [1, 1]] if inside else [[0, 0, 1], [0, 0, 1]])
    if inside:
        assert left["r"][0] == [None, None, "x"]
    for key in ("a", ("n", "b")):
        assert left[("m", key)].tolist() == [[False, False, True], [True, True, True]]
    raises(KeyError, "zz", pad_sequence, tds, dim, {"zz": 7, "a": 1})
    raises(KeyError, "n", pad_sequence, tds, dim, {"n": 7})
    raises(ValueError, "padding_side must be", pad_sequence, tds, padding_side="both")


@each_case("inside", [False, True])
@each_case("side", ["left", "right"])
def test_what_was_padded_comes_back(inside, side):
    tds = sequences(inside)
    dim = 0 if inside else -1
    out = pad_sequence(tds, dim, return_mask=True, padding_side=side).lock_()
    with unchanged(out):
        rows = unpad_sequence(out, pad_dim=dim)
    assert isinstance(rows, LazyStackedTensorDict)
    for row, td in zip(rows.tensordicts, tds, strict=True):
        assert row.batch_size == td.batch_size
        assert set(row.keys(True, True)) == set(td.keys(True, True))
        assert np.shares_memory(row["a"], out["a"])
        for key in ("a", ("n", "b")):
            np.testing.assert_array_equal(row[key], td[key])
        assert not inside or row["r"] == td["r"]


def test_masks_of_sequences():
    """As measured on tensordict 0.15.3."""
    out = pad_sequence(sequences(True), return_mask="m")
    for mask in (np.array([[1, 0, 0], [1, 1, 1]], bool), out["m"]):
        rows = unpad_sequence(out, mask)
        assert [row.batch_size for row in rows.tensordicts] == [(1,), (3,)]
        assert rows[1]["m", "a"].shape == (3,)
    middle = unpad_sequence(out, np.array([[0, 0, 0], [0, 1, 0]], bool))
    assert [row["a"].tolist() for row in middle.tensordicts] == [[], [2]]
    assert [len(row["a"]) for row in unpad_sequence(out, np.array([[2, 0, 0], [3, 3, 0]])).tensordicts] == [
        1,
        2,
    ]
    for dim in (-3, 3):
        raises(IndexError, "pad_dim", unpad_sequence, out, out["m"], pad_dim=dim)
    raises(ValueError, "mask must be given", unpad_sequence, out)
    raises(ValueError, "batch dimension", unpad_sequence, TensorDict(a=1))
    for shape in ((2, 4), (3,), (1, 3)):
        raises(ValueError, r"shape \(N, length\)", unpad_sequence, out, np.ones(shape, bool))
    raises(ValueError, "holes", unpad_sequence, out, np.array([[1, 0, 1], [1, 1, 1]], bool))
    features = pad_sequence(sequences(False), -1, return_mask="m").exclude("m")
    raises(
        KeyError,
        "no entry for the key",
        unpad_sequence,
        features,
        TensorDict(a=np.ones((2, 3), bool)),
        pad_dim=-1,
    )


Pair = namedtuple("Pair", "td label")


def samples():
    return [
        TensorDict({"ids": np.ones(n, int), "score": float(n), "n": {"z": np.ones((n, 2))}, "s": f"t{n}"})
        for n in (2, 3)
    ]


def test_collate():
    """As measured on tensordict 0.15.3."""
    tds = samples()
    assert isinstance(collate(tds), LazyStackedTensorDict)
    assert type(collate([td.select("score", "s") for td in tds])) is TensorDict
    pair = collate([Pair(td, i) for i, td in enumerate(tds)], pad_keys={"ids": 7})
    assert type(pair) is Pair
    assert (pair.label.tolist(), pair.td["ids"].tolist()) == ([0, 1], [[1, 1, 7], [1, 1, 1]])
    found = collate([{"td": td, "x": [0.5, i], "t": "x"} for i, td in enumerate(tds)])
    assert (found["td"].batch_size, found["x"][0].tolist(), found["t"]) == ((2,), [0.5, 0.5], ["x", "x"])
    assert collate([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    assert collate([True, False]).dtype == bool
    assert collate([np.float32(1), np.float32(2)]).dtype == np.float32
    for whole in (tds[0], (1, 2), []):
        assert collate(whole) is whole
    out = collate(tds, pad_keys={"ids": 7, ("n", "z"): 0}, mask_key="mask")
    assert type(out) is TensorDict
    assert (out["ids"].tolist(), out["score"].tolist(), out["s"]) == (
        [[1, 1, 7], [1, 1, 1]],
        [2, 3],
        ["t2", "t3"],
    )
    for key in ("ids", ("n", "z")):
        assert out[("mask", key)].tolist() == [[True, True, False], [True, True, True]]
    points = collate([Point(xy=np.ones(n)) for n in (1, 2)], pad_keys={"xy": 5})
    assert type(points) is Point
    assert points.xy.tolist() == [[1, 5], [1, 1]]


@each_case(
    ("call", "error"),
    [
        (partial(collate, pad_keys={"zz": 1}), KeyError),
        (partial(collate, pad_keys={"n": 1}), KeyError),
        (partial(collate, mask_key="m"), ValueError),
        (partial(collate, pad_keys={"ids": 1}, mask_key="score"), ValueError),
        (partial(collate, pad_keys={"score": 1}), RuntimeError),
        (partial(collate, nested_keys=["ids"]), NotImplementedError),
        (lambda tds: collate([[td] * n for n, td in enumerate(tds)]), RuntimeError),
        (lambda tds: collate([stack(tds[:1])] * 2, pad_keys={"ids": 1}), ValueError),
        (lambda _: collate([None, None]), TypeError),
    ],
)
def test_what_cannot_be_collated(call, error):
    raises(error, "", call, samples())


def test_the_last_dimension_of_features() -> None:
    tds = [TensorDict(a=np.ones((2, n)), batch_size=[2]) for n in (2, 3)]
    out = pad_sequence(tds, pad_dim=-1)
    assert (out.batch_size, out["a"].shape) == ((2, 2), (2, 2, 3))
    np.testing.assert_array_equal(out["a"][0], [[1, 1, 0]] * 2)
    inner = [TensorDict(a=np.ones(n), batch_size=[n]) for n in (2, 3)]
    assert pad_sequence(inner, pad_dim=-1).batch_size == (2, 3)
