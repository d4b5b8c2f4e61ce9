"""LazyStackedTensorDict: what it shows of its parts, what it writes to them, what stays lazy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lite
from lite import LazyStackedTensorDict, NonTensorStack, TensorDict, cat, lazy_stack, stack


def ragged(*lengths: int) -> LazyStackedTensorDict:
    """Rows whose leaf `a` has these lengths, with a regular leaf, a text and a nested ragged leaf."""
    return lazy_stack(
        [
            TensorDict(a=np.arange(n) + 10 * i, b=np.full(2, i), s=f"s{i}", n={"c": np.ones(n)})
            for i, n in enumerate(lengths)
        ]
    )


def regular(shape: tuple[int, ...], dim: int, names: list[str | None] | None = None) -> LazyStackedTensorDict:
    """A stack that could be dense, of this batch size."""
    dense = TensorDict(
        {
            "a": np.arange(np.prod(shape) * 2).reshape(*shape, 2),
            "n": {"c": np.arange(np.prod(shape)).reshape(shape)},
            "s": NonTensorStack._wrap(
                np.array([f"s{i}" for i in range(int(np.prod(shape)))], object).reshape(shape)
            ),
        },
        batch_size=shape,
    )
    out = lazy_stack([row.clone() for row in dense.unbind(dim)], dim)
    out.names = names or [None] * len(shape)
    return out


def assert_same(got: Any, expected: Any) -> None:
    """Equal entries, batch size and names, whether lazy or dense."""
    assert got.batch_size == expected.batch_size
    assert got.names == expected.names
    assert sorted(got.keys(True), key=str) == sorted(expected.keys(True), key=str)
    for key in expected.keys(True, True):
        np.testing.assert_array_equal(got[key], expected[key])
    for key in ("s",):
        if key in expected:
            assert got.get(key).tolist() == expected.get(key).tolist()


# -- what it is -------------------------------------------------------------------------------


def test_parts_are_aliased():
    rows = [TensorDict(a=np.zeros(2)) for _ in range(3)]
    ls = lazy_stack(rows)
    assert ls[0] is rows[0]
    assert all(got is row for got, row in zip(ls.unbind(0), rows, strict=True))
    rows[1]["a"] = np.ones(2)
    np.testing.assert_array_equal(ls["a"], [[0, 0], [1, 1], [0, 0]])


def test_keys_are_the_sorted_intersection():
    ls = lazy_stack([TensorDict(z=1, a=1, n={"x": 1, "y": 1}), TensorDict(a=1, q=1, z=1, n={"y": 1})])
    assert list(ls.keys()) == ["a", "n", "z"]
    assert list(ls.keys(True, True)) == ["a", ("n", "y"), "z"]
    assert "q" not in ls
    assert ls.get("q") is None
    assert ls.get("q", 3) == 3
    with pytest.raises(KeyError, match='key "q" not found'):
        ls["q"]
    assert ls[1]["q"] == 1
    ls[0]["q"] = 5
    np.testing.assert_array_equal(ls["q"], [5, 1])


def test_batch_size_has_minus_one_where_parts_differ():
    parts = [TensorDict(a=np.zeros((n, 3)), batch_size=[n, 3]) for n in (1, 2)]
    assert lazy_stack(parts).batch_size == (2, -1, 3)
    assert lazy_stack(parts, 1).batch_size == (-1, 2, 3)
    assert lazy_stack(parts, -1).batch_size == (-1, 3, 2)
    assert lazy_stack(parts).numel() == 9
    with pytest.raises(RuntimeError, match="batch sizes in tensordicts differs"):
        LazyStackedTensorDict(*parts, strict_shape=True)


def test_parts_that_changed_their_number_of_dims_are_named():
    parts = [TensorDict({"a": np.zeros((2, 3))}, [2]) for _ in range(2)]
    stack = LazyStackedTensorDict(*parts)
    parts[0].batch_size = (2, 3)
    with pytest.raises(RuntimeError, match=r"different numbers of batch dimensions: \[\(2,\), \(2, 3\)\]"):
        stack.batch_size  # noqa: B018


@pytest.mark.parametrize("dim", [2, -3])
def test_stack_dim_out_of_range(dim):
    with pytest.raises(IndexError, match="stack_dim"):
        lazy_stack([TensorDict(batch_size=[3])], dim)


def test_what_cannot_be_stacked():
    with pytest.raises(RuntimeError, match="items cannot be empty"):
        lazy_stack([])
    with pytest.raises(RuntimeError, match="batch sizes in tensordicts differs"):
        lazy_stack([TensorDict(), TensorDict(batch_size=[1])])
    with pytest.raises(RuntimeError, match="devices differ, got None and cpu"):
        lazy_stack([TensorDict(), TensorDict(device="cpu")])
    with pytest.raises(TypeError, match="must be TensorDicts"):
        LazyStackedTensorDict(3)
    assert LazyStackedTensorDict().batch_size == (0,)


def test_arrays_and_objects_stack_at_once():
    np.testing.assert_array_equal(lazy_stack([np.zeros(2), np.ones(2)]), [[0, 0], [1, 1]])
    objects = lazy_stack([lite.NonTensorData("a"), lite.NonTensorData("b")])
    assert isinstance(objects, NonTensorStack)
    assert objects.tolist() == ["a", "b"]


def test_batch_size_cannot_be_set():
    ls = ragged(1, 2)
    ls.batch_size = (2,)
    with pytest.raises(RuntimeError, match="lazy representation"):
        ls.batch_size = (1,)


def test_repr_shows_ragged_shapes_and_exclusive_fields():
    ls = lazy_stack([TensorDict(a=np.zeros(1), only=1), TensorDict(a=np.zeros(2))])
    text = repr(ls)
    assert "a: Array(shape=(2, -1), device=cpu, dtype=float64, is_shared=False)" in text
    assert "0 ->\n            only: Array(shape=(), device=cpu, dtype=int64" in text
    assert repr(lazy_stack([ls, ls])).count("shape=(2, 2, -1)") == 1


# -- reading ----------------------------------------------------------------------------------


def test_ragged_leaf_in_every_form():
    ls = ragged(2, 3)
    for read in (lambda: ls["a"], lambda: ls.get("a"), lambda: dict(ls.items()), ls.contiguous):
        with pytest.raises(RuntimeError, match="Failed to stack tensors within a tensordict"):
            read()
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
    assert list(td.keys(True)) == [
        ("rows", "a"),
        ("rows", "b"),
        ("rows", "n", "c"),
        ("rows", "n"),
        ("rows", "s"),
        "rows",
    ]


def test_ragged_forms_are_checked():
    ls = ragged(1, 2)
    with pytest.raises(TypeError, match="exclusive"):
        ls.get("a", as_list=True, as_padded_tensor=True)
    with pytest.raises(ValueError, match="padding_side"):
        ls.get("a", as_padded_tensor=True, padding_side="middle")
    wide = lazy_stack([TensorDict(a=np.zeros((1, 2))), TensorDict(a=np.zeros((1, 3)))])
    with pytest.raises(RuntimeError, match="only the first dimension"):
        wide.get("a", as_padded_tensor=True)
    assert lazy_stack([TensorDict(a=np.zeros(1)), TensorDict(a=np.zeros((1, 1)))]).get_item_shape("a") == (
        -1,
    )


def test_a_single_row_gives_its_leaf_itself():
    td = TensorDict(a=np.arange(3), s="text")
    assert td.get("a", as_list=True) is td["a"]


def test_dtypes_promote():
    ls = lazy_stack([TensorDict(a=np.zeros(2, np.float32)), TensorDict(a=np.zeros(2, np.float64))])
    assert ls["a"].dtype == np.float64
    assert lazy_stack([TensorDict(a=1), TensorDict(a=2)])["a"].tolist() == [1, 2]


def test_ragged_objects_come_as_lists():
    rows = [TensorDict({"role": list("ab")}, batch_size=[2]), TensorDict({"role": ["c"]}, batch_size=[1])]
    ls = lazy_stack(rows)
    assert ls.batch_size == (2, -1)
    assert ls["role"] == [["a", "b"], ["c"]]
    with pytest.raises(RuntimeError, match="Failed to stack"):
        lazy_stack(rows, 1)["role"]
    assert "role: NonTensorStack(batch_size=(-1, 2), device=None)" in repr(lazy_stack(rows, 1))
    pairs = [row.expand(3, *row.batch_size) for row in rows]
    assert lazy_stack(pairs, 1)["role"] == [[["a", "b"], ["c"]]] * 3


# -- writing ----------------------------------------------------------------------------------


def test_objects_of_different_numbers_of_dims_have_no_stack():
    parts = [TensorDict({"s": NonTensorStack("x", "y")}, batch_size=size) for size in [[], [2]]]
    parts[0].set("s", "x")
    parts[1].batch_size = ()
    with pytest.raises(RuntimeError, match="different kinds"):
        LazyStackedTensorDict(*parts).get("s")


def test_set_cuts_the_value_up():
    ls = lazy_stack([TensorDict(batch_size=[3]) for _ in range(2)], 1)
    value = np.arange(12).reshape(3, 2, 2)
    ls["a"] = value
    np.testing.assert_array_equal(ls[:, 1]["a"], value[:, 1])
    ls["n", "deep", "b"] = value
    np.testing.assert_array_equal(ls[:, 0]["n", "deep", "b"], value[:, 0])
    ls["td"] = TensorDict({"x": value}, batch_size=[3, 2])
    np.testing.assert_array_equal(ls.tensordicts[0]["td", "x"], value[:, 0])
    ls["s"] = "text"
    assert ls[0, 0]["s"] == "text"
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        ls["bad"] = np.zeros((2, 3))
    assert "bad" not in ls.tensordicts[0]


def test_set_takes_a_list_of_ragged_items():
    ls = lazy_stack([TensorDict(), TensorDict()])
    ls["a"] = [np.zeros(2), np.zeros(3)]
    assert ls.get_item_shape("a") == (2, -1)
    ls["s"] = ["x", "y"]
    assert ls["s"] == ["x", "y"]
    ls["n"] = {"c": [np.ones(1), np.ones(4)]}
    assert ls.get_item_shape(("n", "c")) == (2, -1)
    ls.update({"n": {"d": [np.ones(2), np.ones(5)]}})
    assert [len(row) for row in ls.get(("n", "d"), as_list=True)] == [2, 5]
    outer = lazy_stack([lazy_stack([TensorDict(), TensorDict()]) for _ in range(2)])
    outer["a"] = [[np.zeros(1), np.zeros(2)], [np.zeros(3), np.zeros(4)]]
    assert [[len(leaf) for leaf in row] for row in outer.get("a", as_list=True)] == [[1, 2], [3, 4]]


def test_writes_through_nested_nodes_reach_the_parts():
    ls = ragged(1, 2)
    ls["n"]["new"] = np.arange(2)
    assert ls[1]["n", "new"] == 1
    ls.get("n").set_("c", [np.zeros(1), np.zeros(2)])
    assert ls[1]["n", "c"].tolist() == [0, 0]


def test_set_in_place_keeps_the_buffers():
    ls = lazy_stack([TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(2))])
    buffer = ls[1]["a"]
    ls.lock_()
    ls.set_("a", np.arange(4).reshape(2, 2))
    np.testing.assert_array_equal(buffer, [2, 3])
    ls.set_at_("a", 7, (slice(None), 0))
    np.testing.assert_array_equal(buffer, [7, 3])
    with pytest.raises(KeyError, match="missing"):
        ls.set_("missing", 1)


def test_set_in_place_broadcasts():
    ls = ragged(1, 2)
    ls.set_("a", 5)
    assert [row.tolist() for row in ls.get("a", as_list=True)] == [[5], [5, 5]]
    ls.set_("b", np.array([7, 8]))
    np.testing.assert_array_equal(ls["b"], [[7, 8], [7, 8]])
    with pytest.raises(ValueError, match="Failed to update 'b'"):
        ls.set_("b", np.zeros(3))
    ls.set_("s", "text")
    assert ls["s"] == ["text", "text"]


def test_entries_of_different_kinds_fail_only_when_read():
    for left, right in [(1, "text"), ("text", 1), ({"x": 1}, 1), (1, {"x": 1})]:
        ls = lazy_stack([TensorDict(a=left, b=1), TensorDict(a=right, b=2)])
        assert list(ls.keys(True)) == ["a", "b"]
        assert "a: " in repr(ls)
        with pytest.raises(RuntimeError, match="'a' of a lazy stack are of different kinds"):
            ls["a"]
        assert ls["b"].tolist() == [1, 2]
        assert len(ls.get("b", as_list=True)) == 2


def test_exclusive_keys_cannot_be_set_in_place_or_selected():
    ls = lazy_stack([TensorDict(a=1, only=1), TensorDict(a=2)])
    for call in (lambda: ls.set_("only", [1, 2]), lambda: ls.select("only"), lambda: ls.pop("only")):
        with pytest.raises(KeyError, match="only"):
            call()
    with pytest.raises(KeyError, match="only"):
        ls.rename_key_("only", "x")
    assert list(ls.select("a", "only", strict=False).keys()) == ["a"]
    ls.del_("only")
    assert "only" not in ls[0]
    with pytest.raises(KeyError, match="only"):
        ls.del_("only")


@pytest.mark.parametrize("method", ["to_dict", "flatten_keys", "unflatten_keys"])
def test_methods_that_need_common_keys(method):
    ls = lazy_stack([TensorDict(a=1, only=1), TensorDict(a=2)])
    with pytest.raises(RuntimeError, match=f"{method} cannot complete when there are exclusive keys"):
        getattr(ls, method)()


def test_keys_of_ragged_stacks_are_rearranged_part_by_part():
    ls = ragged(1, 2)
    assert list(ls.select("a", ("n", "c")).keys(True, True)) == ["a", ("n", "c")]
    assert list(ls.exclude("a", ("n", "c")).keys(True)) == ["b", "n", "s"]
    assert list(ls.flatten_keys().keys()) == ["a", "b", "n.c", "s"]
    assert list(ls.flatten_keys().unflatten_keys().keys(True)) == ["a", "b", ("n", "c"), "n", "s"]
    taken, rest = ls.split_keys(["a"])
    assert list(taken.keys()) == ["a"]
    assert list(rest.keys()) == ["b", "n", "s"]
    ls.rename_key_("a", ("n", "a"))
    assert ls.get_item_shape(("n", "a")) == (2, -1)
    td = TensorDict({"rows": ls}, batch_size=[2])
    assert list(td.select(("rows", "n", "a")).keys(True, True)) == [("rows", "n", "a")]
    assert list(td.exclude(("rows", "n")).keys(True)) == [("rows", "b"), ("rows", "s"), "rows"]


def test_update_goes_part_by_part():
    ls, other = ragged(1, 2), ragged(3, 4)
    ls.update(other)
    assert [len(row) for row in ls.get("a", as_list=True)] == [3, 4]
    ls.update_(ragged(3, 4).select("a"))
    with pytest.raises(RuntimeError, match="update_batch_size"):
        ls.update(ragged(1, 2, 3))
    with pytest.raises(ValueError, match="different shapes"):
        ls.update_(ragged(1, 2, 3))
    ls.update({"b": np.zeros((2, 5))})
    assert ls["b"].shape == (2, 5)
    ls.update_(other := ragged(3, 4).select("a"))
    assert ls[1]["a"].tolist() == other[1]["a"].tolist()
    td = TensorDict({"rows": ragged(1, 2)}, batch_size=[2])
    td.update_(td.clone() * 2)
    assert td["rows"][1]["a"].tolist() == [20, 22]
    with pytest.raises(ValueError, match="Failed to update 'a'"):
        td.update_({"rows": ragged(2, 1)})
    assert td["rows"][1]["a"].tolist() == [20, 22]
    td.update({"rows": {"z": np.arange(2)}})
    assert td["rows"][1]["z"] == 1


# -- indexing ---------------------------------------------------------------------------------

INDICES: list[Any] = [
    0,
    -1,
    slice(1, None),
    slice(None, None, -1),
    None,
    True,
    False,
    [1, 0, 1],
    np.array([[0, 1], [1, 0]]),
    np.array([True, False]),
    np.array([], dtype=np.int64),
    (slice(None), 1),
    (0, slice(1, 3)),
    (Ellipsis, -1),
    (slice(None), [2, 0]),
    (slice(None), np.array([[0], [2]])),
    ([1, 0], slice(0, 2)),
    ([0, 1, 1], [2, 1, 0]),
    (None, slice(None), 1),
    (slice(None), np.array([True, False, True])),
    (1, np.array([True, False, True])),
    (slice(None), None, [0, 0]),
    ([1], None, 0),
    np.array([[True, False, True], [False, False, True]]),
    (slice(None), slice(None), [1, 0]),
    ([1, 0], slice(None), 1),
    (0, slice(None), np.array([[1], [0]])),
    (0, slice(None), [1, 0]),
    (slice(None), np.ones((3, 2), dtype=bool)),
    np.zeros((2, 3), dtype=bool),
    np.arange(12).reshape(2, 3, 2) % 3 == 0,
]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_index_is_that_of_the_dense_stack(index, dim):
    ls = regular((2, 3, 2), dim, None if isinstance(index, bool) else ["x", None, "z"])
    expected = ls.contiguous()[index]
    got = ls[index]
    assert got.batch_size == expected.batch_size
    if 0 not in got.batch_size:  # an empty stack has no part that knows the keys
        assert_same(got, expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_assignment_is_that_of_the_dense_stack(index, dim):
    ls = regular((2, 3, 2), dim).exclude("s")
    dense = ls.contiguous().clone()
    shape = dense[index].batch_size
    value = TensorDict({"a": -np.arange(np.prod(shape) * 2).reshape(*shape, 2)}, batch_size=shape)
    dense[index] = value
    ls[index] = value
    assert_same(ls, dense)
    dense[index] = 5
    ls[index] = 5
    assert_same(ls, dense)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (2, IndexError),
        ((0, 0, 0, 0), IndexError),
        ([5], IndexError),
        (np.ones(3, bool), IndexError),
        ("q", KeyError),
    ],
)
def test_bad_index(index, error):
    with pytest.raises(error):
        regular((2, 3, 2), 0)[index]


def test_index_of_ragged_stacks():
    ls = ragged(1, 2, 3)
    assert [len(row) for row in ls[[2, 0]].get("a", as_list=True)] == [3, 1]
    assert [len(row) for row in ls[np.array([True, False, True])].get("a", as_list=True)] == [1, 3]
    assert [len(row) for row in ls[::2].get("a", as_list=True)] == [1, 3]
    assert ls[...] is ls
    assert ls[:] is ls
    nested = lazy_stack([ls, ls])
    picked = nested[np.array([[True, False, True], [False, True, False]])]
    assert [len(row) for row in picked.get("a", as_list=True)] == [1, 3, 2]
    batch = lazy_stack([TensorDict(a=np.arange(n), batch_size=[n]) for n in (2, 3)])
    np.testing.assert_array_equal(batch[:, 1]["a"], [1, 1])
    assert batch[1, 2]["a"] == 2
    with pytest.raises(IndexError, match="out of bounds"):
        batch[:, 2]
    with pytest.raises(IndexError, match="ragged batch"):
        batch[[0, 1], [0, 1]]


def test_assignment_to_ragged_stacks():
    ls = ragged(1, 2, 3)
    ls[1] = {"a": np.array([7, 8])}
    assert ls[1]["a"].tolist() == [7, 8]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        ls[1] = {"a": np.zeros(4)}
    ls[[0, 2]] = {"new": np.array([4, 5])}
    assert "new" not in ls[1]
    assert ls[2]["new"] == 5
    ls[:2] = {"a": [np.array([1]), np.array([2, 3])]}
    assert ls[1]["a"].tolist() == [2, 3]
    ls.select("a")[1:] = 0
    assert [row.tolist() for row in ls.get("a", as_list=True)] == [[1], [0, 0], [0, 0, 0]]


def test_failing_assignment_changes_nothing():
    ls = ragged(2, 3)
    with pytest.raises(RuntimeError):
        ls[:] = TensorDict({"a": np.full((2, 2), -1)}, batch_size=[2])
    assert [row.tolist() for row in ls.get("a", as_list=True)] == [[0, 1], [10, 11, 12]]
    ls.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        ls[0] = {"new": 1}


def test_objects_are_assigned_by_element():
    ls = regular((2, 2), 0)
    ls[:, 1] = TensorDict({"s": "new"}, batch_size=[2])
    assert ls["s"] == [["s0", "new"], ["s2", "new"]]


# -- shape ------------------------------------------------------------------------------------

SHAPES: list[Any] = [
    lambda td: td.unsqueeze(0),
    lambda td: td.unsqueeze(-1),
    lambda td: td.unsqueeze(2),
    lambda td: td.unsqueeze(1).squeeze(),
    lambda td: td.squeeze(),
    lambda td: td.squeeze(1),
    lambda td: td.permute(2, 0, 1, 3),
    lambda td: td.transpose(0, 3),
    lambda td: td.movedim(0, 2),
    lambda td: td.flatten(),
    lambda td: td.flatten(1, 2),
    lambda td: td.flatten(0, 1),
    lambda td: td.flatten(2, 3),
    lambda td: td.unflatten(0, (2, -1)),
    lambda td: td.unflatten(2, (3, 1)),
    lambda td: td.unflatten(3, (1, 2)),
    lambda td: td.reshape(-1),
    lambda td: td.reshape(24),
    lambda td: td.reshape(4, 6),
    lambda td: td.reshape(2, 2, 3, 2),
    lambda td: td.reshape(6, 4),
    lambda td: td.reshape(4, 1, 3, 2),
    lambda td: td.expand(3, 4, 1, 3, 2),
    lambda td: td.expand(4, 5, -1, 2),
    lambda td: td.unbind(2)[1],
    lambda td: td.split([1, 2], 2)[1],
    lambda td: td.chunk(2, 0)[1],
    lambda td: td.clone(),
    lambda td: td.flatten_keys(),
    lambda td: td.view(24),
    lambda td: td.view(2, 2, 1, 3, 2),
]


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("op", range(len(SHAPES)))
@pytest.mark.parametrize("names", [None, ["x", "y", None, "z"]], ids=["unnamed", "named"])
def test_shape_is_that_of_the_dense_stack(op, dim, names):
    ls = regular((4, 1, 3, 2), dim, names)
    dense = ls.contiguous()
    assert_same(SHAPES[op](ls), SHAPES[op](dense))
    assert_same(ls, dense)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_reshape_is_that_of_the_dense_stack(data):
    old = data.draw(st.permutations([1, 2, 3, 4]).map(tuple))
    factors = data.draw(st.permutations([1, 2, 2, 2, 3]))
    cuts = data.draw(st.sets(st.integers(1, 4)))
    new = [int(np.prod(part)) for part in np.split(factors, sorted(cuts))]
    ls = regular(old, data.draw(st.integers(0, 3)))
    assert_same(ls.reshape(*new), ls.contiguous().reshape(*new))


def test_shapes_of_ragged_stacks_stay_lazy():
    ls = ragged(1, 2, 3, 4)
    grid = ls.unflatten(0, (2, 2))
    assert grid.batch_size == (2, 2)
    assert grid[1, 0] is ls[2]
    for flat in (grid.flatten(), grid.reshape(-1), grid.view(4), grid.reshape(4)):
        assert all(got is row for got, row in zip(flat.tensordicts, ls.tensordicts, strict=True))
    again = grid.reshape(1, 4)
    assert [len(leaf) for leaf in again.get("a", as_list=True)[0]] == [1, 2, 3, 4]
    turned = grid.transpose(0, 1)
    assert turned[0, 1] is ls[2]
    assert ls.unsqueeze(0).squeeze(0)[1]["a"].tolist() == [10, 11]
    assert ls.expand(2, 4).batch_size == (2, 4)
    assert [len(row) for row in lite.lazy_stack([ls, ls]).expand(2, 4)[1].get("a", as_list=True)] == [
        1,
        2,
        3,
        4,
    ]
    parts = lazy_stack([ls, ls], 1).split(2, 0)
    assert parts[1][0, 1] is ls[2]
    rows = lazy_stack([TensorDict(a=np.zeros((2, n)), batch_size=[2]) for n in (1, 2, 3)])
    assert [len(row) for row in rows.reshape(2, 3).flatten().get("a", as_list=True)] == [1, 1, 2, 2, 3, 3]
    assert rows.permute(1, 0).get_item_shape("a") == (2, 3, -1)


def test_flatten_of_a_ragged_batch():
    ls = lazy_stack([TensorDict(a=np.arange(n) + 10 * n, batch_size=[n]) for n in (1, 3)])
    np.testing.assert_array_equal(ls.flatten()["a"], [10, 30, 31, 32])
    np.testing.assert_array_equal(ls.reshape(-1)["a"], [10, 30, 31, 32])
    assert ls.unsqueeze(0).batch_size == (1, 2, -1)
    for method in ("unbind", "split"):
        with pytest.raises(ValueError, match=f"cannot {method} dim 1 of batch size"):
            getattr(ls, method)(1, dim=1) if method == "split" else ls.unbind(1)
    with pytest.raises(RuntimeError, match="no row-major order"):
        ls.transpose(0, 1).flatten()
    with pytest.raises(RuntimeError, match="ragged batch"):
        ls.contiguous()


def test_view_refuses_what_is_not_lazy():
    ls = regular((2, 3, 2), 0)
    with pytest.raises(RuntimeError, match="Cannot call `view` on a lazy stacked tensordict"):
        ls.view(3, 2, 2)


def test_exclusive_keys_survive_a_reshape():
    ls = lazy_stack(
        [
            TensorDict(a=np.zeros((3, 1)), only=np.ones(3), batch_size=[3]),
            TensorDict(a=np.zeros((3, 1)), batch_size=[3]),
        ]
    )
    out = ls.reshape(3, 2)
    assert out[0, 0]["only"] == 1
    assert "only" not in out[2, 1]


def test_as_a_nested_entry():
    td = TensorDict({"rows": ragged(1, 2, 3, 4), "x": np.arange(4)}, batch_size=[4])
    assert td.reshape(2, 2)["rows"].batch_size == (2, 2)
    assert td[1:3]["rows"].get("a", as_list=True)[1].tolist() == [20, 21, 22]
    assert td[2]["rows"] is td["rows"][2]
    back = td.reshape(2, 2).flatten()
    assert back["rows"][3] is td["rows"][3]
    td[0] = td[0].clone()
    both = stack([td, td])
    assert both["rows"].batch_size == (2, 4)
    joined = cat([td, td])
    assert len(joined["rows"].tensordicts) == 8
    copied = td.clone()
    assert copied["rows"][0]["a"] is not td["rows"][0]["a"]
    td["rows", "y"] = np.arange(4)
    assert td["rows"][3]["y"] == 3


# -- the stack itself, locks, copies ----------------------------------------------------------


def test_insert_append_extend():
    ls = ragged(1, 2)
    ls.append(TensorDict(a=np.zeros(5)))
    ls.insert(0, TensorDict(a=np.zeros(6)))
    ls.extend([TensorDict(a=np.zeros(7))])
    ls.extend(ragged(8, 9))
    assert [len(row) for row in ls.get("a", as_list=True)] == [6, 1, 2, 5, 7, 8, 9]
    with pytest.raises(ValueError, match="Batch sizes"):
        ls.append(TensorDict(batch_size=[2]))
    with pytest.raises(ValueError, match="Devices differ"):
        ls.append(TensorDict(device="cpu"))
    with pytest.raises(TypeError, match="TensorDict"):
        ls.append(3)
    ls.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        ls.append(TensorDict())


def test_lock_reaches_the_parts():
    ls = ragged(1, 2)
    ls.lock_()
    assert ls[0].is_locked
    assert ls["n"].is_locked
    for write in (lambda: ls.set("q", [1, 2]), lambda: ls[0].set("q", 1), lambda: ls["n"].set("q", [1, 2])):
        with pytest.raises(RuntimeError, match="Cannot modify locked TensorDict"):
            write()
    with pytest.raises(RuntimeError, match="Cannot unlock"):
        ls[0].unlock_()
    ls.unlock_()
    ls.set("q", [1, 2])
    for part in ls.tensordicts:
        part.lock_()
    assert ls.is_locked
    assert ls.clone().is_locked is False


def test_clone_copies_and_copy_shares():
    ls = ragged(1, 2)
    deep, shallow = ls.clone(), ls.copy()
    shallow["new"] = [1, 2]
    assert "new" not in ls
    ls[1]["a"][:] = -1
    assert deep[1]["a"].tolist() == [10, 11]
    assert shallow[1]["a"].tolist() == [-1, -1]
    assert copy.deepcopy(ls)[1]["a"].tolist() == [-1, -1]


def test_empty_and_clear():
    ls = ragged(1, 2)
    assert ls.empty().batch_size == (2,)
    assert list(ls.empty(True).keys()) == ["n"]
    assert regular((2, 3), 0).empty(batch_size=[5]).batch_size == (5,)
    assert not ls.is_empty()
    assert ls.clear().is_empty()


def test_names():
    ls = regular((2, 3), 1, ["x", "y"])
    assert ls.tensordicts[0].names == ["x"]
    assert ls[0].names == ["y"]
    assert ls["n"].names == ["x", "y"]
    ls.tensordicts[1].names = ["z"]
    with pytest.raises(ValueError, match="names of the stacked tensordicts differ"):
        _ = ls.names


def test_a_part_that_was_renamed_takes_part_in_everything():
    ls = lazy_stack([TensorDict({"x": np.full((2, 3), i)}, [2, 3], names=["p", "q"]) for i in (0, 1)])
    ls.tensordicts[0].names = ["p", "z"]
    x = ls["x"]
    assert ls.reshape(4, 3).names == [None, None]
    np.testing.assert_array_equal(ls.reshape(4, 3)["x"], x.reshape(4, 3))
    assert ls[:, 0].tensordicts[1].names == ["q"]
    assert ls[np.ones((2, 2), bool)].names == [None, None]
    assert ls.contiguous().names == [None, "p", None]
    assert ls.sum(0).names == ["p", None]
    assert "names=[None, &#x27;p&#x27;, None]" in ls._repr_html_()
    assert TensorDict({"n": ls}, [2], names=["z"])["n"].names[:1] == ["z"]
    assert ls.rename_("a", "b", "c").tensordicts[0].names == ["b", "c"]


def test_a_part_may_be_named_as_the_stack_dimension():
    ls = lazy_stack([TensorDict({"x": np.zeros(2)}, [2])], stack_dim_name="t")
    ls.tensordicts[0].names = ["t"]
    assert ls.names == ["t", None]
    assert ls.reshape(-1).batch_size == (2,)


def test_dense_forms():
    ls = ragged(1, 3)
    with pytest.raises(RuntimeError, match="Failed to stack"):
        ls.to_tensordict()
    dense = ls.densify(padding_value=-1)
    assert type(dense) is TensorDict
    np.testing.assert_array_equal(dense["a"], [[0, -1, -1], [10, 11, 12]])
    np.testing.assert_array_equal(dense["n", "c"], [[1, -1, -1], [1, 1, 1]])
    assert dense["s"] == ["s0", "s1"]
    regular_ = regular((2, 3), 1)
    assert type(regular_.contiguous()) is TensorDict
    assert_same(regular_.contiguous(), regular_)
    assert type(regular_.to_tensordict()["n"]) is TensorDict


def test_work_on_leaves_goes_part_by_part():
    ls = ragged(1, 2)
    doubled = ls.apply(lambda x: x * 2)
    assert doubled[1]["a"].tolist() == [20, 22]
    assert doubled["s"] == ["s0", "s1"]
    assert (ls.select("a") + 1)[1]["a"].tolist() == [11, 12]
    assert (ls.select("a") + ls.select("a"))[1]["a"].tolist() == [20, 22]


def test_padding_of_no_objects_is_the_entry():
    part = TensorDict({"s": np.array(["text"], dtype=object)}, [1])[:0]
    assert lazy_stack([part], 0).get("s", as_padded_tensor=True).tolist() == [[]]
