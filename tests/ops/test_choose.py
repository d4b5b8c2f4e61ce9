"""Elements chosen by a mask, by a condition with fewer dims than the batch, or by the values of one entry."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

import lite
from lite import NonTensorStack, TensorDict, UnbatchedTensor, group_by, isin, lazy_stack, remove_duplicates


def test_where() -> None:
    td = TensorDict({"a": np.arange(6.0).reshape(3, 2), "s": ["x", "y", "z"]}, batch_size=[3])
    other = TensorDict({"a": -np.ones((3, 2)), "s": ["p", "q", "z"]}, batch_size=[3])
    mask = np.array([True, False, True])
    with unchanged(td, other):
        got = td.where(mask, other)
    np.testing.assert_array_equal(got["a"], [[0, 1], [-1, -1], [4, 5]])
    assert got["s"] == ["x", "q", "z"]
    np.testing.assert_array_equal(np.where(mask, td, 0)["a"], [[0, 1], [0, 0], [4, 5]])
    np.testing.assert_array_equal(lite.where(mask, 0, td)["a"], [[0, 0], [2, 3], [0, 0]])
    out = td.clone()
    assert td.where(mask, other, out=out) is out
    raises(RuntimeError, "more dims", lambda: td.where(np.ones((3, 2), bool), 0))
    raises(TypeError, "where", lambda: td.where(mask, object()))


def test_where_with_missing_keys() -> None:
    first, second = TensorDict({"a": [1, 2]}, batch_size=[2]), TensorDict({"b": [3, 4]}, batch_size=[2])
    raises(KeyError, "", lambda: first.where(np.array([True, False]), second))
    got = first.where(np.array([True, False]), second, pad=9)
    assert (got["a"].tolist(), got["b"].tolist()) == ([1, 9], [9, 4])
    ends, mask = TensorDict({"done": np.array([True, False])}, batch_size=[2]), np.array([True, False])
    for got in (ends.where(mask, first, pad=0), first.where(~mask, ends, pad=1.5)):
        assert got["done"].dtype == bool  # a pad has the dtype of the entry
    assert got["done"].tolist() == [True, True]
    raises(ValueError, "NaN", lambda: first.where(mask, second, pad=np.nan))


def texts_as_rows(*texts: str, node: bool = True) -> Any:
    """Rows as long as their texts, as a stack, or in a node of a TensorDict."""
    each = [
        TensorDict({"a": np.arange(len(text)), "n": TensorDict({"s": list(text)}, [len(text)])})
        for text in texts
    ]
    stack = lazy_stack(each) if len({*map(len, texts)}) > 1 else lite.stack(each)
    return TensorDict({"h": stack}, [len(texts)]) if node else stack


@each_case(
    ("mine", "theirs"),
    [(("ab", "c"), ("d", "efg")), (("ab", "cd"), ("e", "fgh")), (("a", "bcd"), ("ef", "gh"))],
)
@each_case("node", [True, False])
def test_where_of_rows_of_other_lengths_takes_whole_rows(mine, theirs, node) -> None:
    """A row of one element is not spread over a longer one; either side may be a stack or dense."""
    for mask in ([True, False], [False, True]):
        first, second = (texts_as_rows(*texts, node=node) for texts in (mine, theirs))
        with unchanged(first, second):
            got = first.where(np.array(mask), second)
        found = [got["h"] if node else got]
        if node:  # a TensorDict itself cannot become a stack
            first.where(np.array(mask), second, out=first, update_batch_size=True, pad=False)
            found.append(first["h"])
        for out in found:
            for row, own, a, b in zip(out.unbind(0), mask, mine, theirs, strict=True):
                text = a if own else b
                assert (row["a"].tolist(), row["n", "s"]) == ([*range(len(text))], list(text))


def test_where_pads_rows_of_other_lengths() -> None:
    first, second = (texts_as_rows(*x, node=False) for x in (("ab", "c"), ("d", "efg")))
    first[1]["b"] = np.arange(4)
    raises(KeyError, "'b'", first.where, np.array([True, False]), second)
    got = first.where(np.array([True, False]), second, pad=7)
    assert (got[1]["a"].tolist(), got[1]["b"].tolist()) == ([0, 1, 2], [7, 7, 7, 7])
    assert not np.shares_memory(got[0]["a"], first[0]["a"])


def test_where_that_cannot_replace_its_own_entries_leaves_them() -> None:
    td = TensorDict({"a": np.ones(2), "n": {"b": 1}})
    other = lazy_stack([TensorDict({"a": np.zeros(n), "n": {"b": 2}}) for n in (2, 3)])
    with unchanged(td, other):
        raises(
            RuntimeError, "'a'", lambda: td.where(np.zeros(2, bool), other, out=td, update_batch_size=True)
        )


def test_where_of_objects_takes_whole_rows_of_dense_nodes_and_arrays_are_broadcast() -> None:
    def node(*rows: str) -> TensorDict:
        size = [len(rows), len(rows[0])]
        inner = TensorDict({"s": [list(row) for row in rows]}, size, names=["row", "step"])
        return TensorDict({"n": inner}, [len(rows)])

    got = node("ab", "cd").where(np.array([False, True]), node("x", "y"))
    assert [row["n", "s"] for row in got.unbind(0)] == [["x"], ["c", "d"]]
    assert got["n"].names == ["row", "step"]
    one = node("ab", "cd")[0].where(np.array(False), node("xyz")[0])
    assert (one["n"].batch_size, one["n", "s"]) == ((3,), ["x", "y", "z"])
    assert TensorDict(s="a").where(np.array(False), TensorDict(s="b"))["s"] == "b"  # no list of it
    locked = node("ab", "cd").lock_()
    raises(
        RuntimeError,
        "lock",
        lambda: locked.where([False, True], node("x", "y"), out=locked, update_batch_size=True),
    )
    assert locked["n", "s"] == [["a", "b"], ["c", "d"]]
    wide, thin = (TensorDict({"n": TensorDict({"a": np.ones((2, k))}, [2, k])}, [2]) for k in (3, 1))
    assert wide.where(np.array([False, True]), thin)["n"].batch_size == (2, 3)


def test_masks() -> None:
    td = tree()
    mask = td["i"] % 2 == 0
    with unchanged(td):
        filled = td.masked_fill(mask, 9)
        selected = td.masked_select(mask[..., None])
    np.testing.assert_array_equal(filled["i"], np.where(mask, 9, td["i"]))
    np.testing.assert_array_equal(filled["n", "b"][mask], 9.0)
    np.testing.assert_array_equal(selected["i"], td["i"][mask])
    assert selected.get("r").tolist() == ["00", "02", "11", "20", "22", "31"]
    own = td.clone()
    assert own.masked_select(mask, inplace=True) is own
    assert (own.batch_size, own["i"].tolist()) == ((6,), selected["i"].tolist())
    raises(RuntimeError, "locked", td.clone().lock_().masked_select, mask, inplace=True)
    with unchanged(td), pytest.raises(TypeError, match="array of bools"):
        td.masked_select([1, 2])
    with unchanged(td), pytest.raises(IndexError, match="mask has shape"):
        td.masked_fill_(np.ones(3, bool), 1)


# -- conditions with fewer dims than the batch ---------------------------------------------------------


def square() -> TensorDict:
    return TensorDict({"a": np.arange(9.0).reshape(3, 3), "b": np.ones((3, 3, 2))}, [3, 3])


@each_case("other", [0, "td"])
@each_case("lazy", [False, True])
def test_a_condition_is_over_the_leading_dims(other: Any, lazy: bool) -> None:
    td: Any = square()
    rows = np.array([True, False, True])
    expected = td["a"] * rows[:, None]
    td = lazy_stack(list(td.unbind(1)), 1) if lazy else td
    zeros = td * 0 if other == "td" else 0
    for result in (
        td.where(rows, zeros),
        lite.where(rows, td, zeros),
        np.where(rows, td, zeros),
        lite.where(~rows, zeros, td),
        td.where(rows[:, None], zeros),
    ):
        np.testing.assert_array_equal(result["a"], expected)
        np.testing.assert_array_equal(result["b"][1], np.zeros((3, 2)))
    np.testing.assert_array_equal(td.where(rows[None], zeros)["a"], square()["a"] * rows)
    np.testing.assert_array_equal(td.where(np.True_, zeros)["a"], square()["a"])


@each_case("shape", [(2,), (1, 2), (3, 3, 1)])
def test_a_condition_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    raises(RuntimeError, "", lambda: square().where(np.ones(shape, bool), 0))


# -- rows by the values of one entry -------------------------------------------------------------------


def rows(values: list[list[int]]) -> TensorDict:
    return TensorDict({"n": {"a": np.array(values)}, "i": np.arange(len(values))}, [len(values)])


def test_duplicates_of_one_entry_go_from_all() -> None:
    td = rows([[5, 5], [1, 1], [5, 5], [1, 1], [0, 7]])
    out, groups = remove_duplicates(td, ("n", "a"), return_indices=True)
    assert out["n", "a"].tolist() == [[0, 7], [1, 1], [5, 5]]
    assert out["i"].tolist() == [4, 1, 0]
    np.testing.assert_array_equal(out["n", "a"][groups], td["n", "a"])
    wide = TensorDict({"a": np.array([[2, 1, 2]]), "b": np.array([[0, 1, 2]])}, [1, 3])
    assert remove_duplicates(wide, "a", -1)["b"].tolist() == [[1, 0]]


def test_nothing_in_nothing() -> None:
    none = TensorDict({"a": np.zeros((0, 2))}, [0])
    assert isin(none, none, "a").shape == (0,)
    assert remove_duplicates(none, "a").batch_size == (0,)


def test_errors() -> None:
    td = rows([[1, 2]])
    for key in ("q", "n"):
        raises(KeyError, "input has no array", remove_duplicates, td, key)
    raises(KeyError, "reference has no array", lambda: isin(td, TensorDict({}, [1]), "i"))
    raises(ValueError, "not a batch dimension", lambda: remove_duplicates(td, "i", 1))
    raises(ValueError, "as many batch dims", lambda: isin(td, td[0], "i"))
    with pytest.raises(ValueError, match="differ in shape"):
        isin(td, TensorDict({"n": {"a": np.zeros((1, 3))}}, [1]), ("n", "a"))


@each_case(
    ("key", "values", "groups"),
    [
        ("uid", [0, 1, 2], [[1, 4], [3], [0, 2]]),
        ("bits", [[0, 1], [1, 0]], [[0, 2, 4], [1, 3]]),
        ("text", ["a", "b", "c"], [[1, 4], [0, 2], [3]]),
        (("n", "v"), [[[0]], [[2]]], [[0, 1, 2, 3], [4]]),
        ("one", ["q"], [[0, 1, 2, 3, 4]]),
    ],
)
def test_groups(key: Any, values: list[Any], groups: list[list[int]]) -> None:
    """As measured on tensordict 0.15.3."""
    td = TensorDict(
        {
            "uid": np.array([2, 0, 2, 1, 0]),
            "bits": np.array([[0, 1], [1, 0], [0, 1], [1, 0], [0, 1]]),
            "text": ["b", "a", "b", "c", "a"],
            "n": {"v": np.array([0, 0, 0, 0, 2]).reshape(5, 1, 1)},
            "one": "q",
            "i": np.arange(5),
        },
        [5],
        names=["row"],
    ).lock_()
    with unchanged(td):
        found, parts = group_by(td, key)
    np.testing.assert_array_equal(found, values)
    assert isinstance(found, list) is (key in ("text", "one"))
    assert [part["i"].tolist() for part in parts] == groups
    assert {(part.is_locked, *part.names) for part in parts} == {(False, "row")}


def test_groups_of_nothing_and_of_what_has_none() -> None:
    """As measured on tensordict 0.15.3."""
    for entry in (np.zeros(0), np.zeros((0, 2)), "x"):
        values, groups = group_by(TensorDict({"a": entry}, [0]), "a")
        assert (len(values), groups) == (0, ())
    np.testing.assert_array_equal(
        group_by(TensorDict({"a": [np.nan, 1, np.nan]}, [3]), "a")[0], [1, np.nan, np.nan]
    )
    objects = TensorDict({"s": NonTensorStack([1], [0]), "mixed": NonTensorStack("a", 1), "n": {}}, [2])
    assert group_by(objects, "s")[0] == [(0,), (1,)]
    raises(TypeError, "sortable", group_by, objects, "mixed")
    raises(TypeError, "array or of objects", group_by, objects, "n")
    raises(TypeError, "UnbatchedTensor", group_by, TensorDict({"u": UnbatchedTensor([1, 2])}, [4]), "u")
    raises(KeyError, "no entry 'zz'", group_by, objects, "zz")
    raises(ValueError, "batch dimension", group_by, TensorDict(a=1), "a")
    stack = lazy_stack([TensorDict(a=np.ones(n), u=n % 2) for n in (1, 2, 3)])
    values, groups = group_by(stack, "u")
    assert [[len(row["a"]) for row in group.tensordicts] for group in groups] == [[2], [1, 3]]
