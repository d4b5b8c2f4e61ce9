"""The walks: which entries they visit, in which order, and what they make of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from helpers.tensorclasses import Point
from helpers.trees import tree, unchanged

from lite import TensorDict, lazy_stack
from lite._tree.walks import leaves, map_kept, map_tree, nodes, zip_tree


def ragged() -> Any:
    """Parts with leaves of different lengths; one has a key of its own."""
    return lazy_stack([TensorDict(a=np.ones(1)), TensorDict(a=np.ones(2), own=np.zeros(3))])


def test_leaves_are_the_arrays_in_order_also_of_ragged_parts() -> None:
    td = tree()
    assert [leaf.shape for leaf in leaves(td)] == [(4, 3, 2), (4, 3), (4, 3, 5), (4, 3, 5)]
    assert [leaf.shape for leaf in leaves(TensorDict(r=ragged(), z=1))] == [(1,), (2,), (3,), ()]


def test_nodes_come_before_what_is_in_them() -> None:
    td = tree()
    found = list(nodes(td))
    assert [id(node) for node in found] == [id(td), id(td["n"]), id(td["n", "m"])]
    stack = ragged()
    assert [id(node) for node in nodes(stack)] == [id(stack), *map(id, stack.tensordicts)]


def test_map_kept_keeps_everything_but_the_arrays() -> None:
    td = tree(lock=True)
    td.names = ["x", "y"]
    with unchanged(td):
        out = map_kept(td, np.zeros_like)
    assert (out.names, out.is_locked, out["s"]) == (["x", "y"], True, "text")
    assert not out["n", "b"].any()


def test_map_tree_leaves_out_what_becomes_none() -> None:
    td = tree()
    with unchanged(td):
        out = map_tree(td, lambda leaf, node: leaf if node is td else None, lambda payload, node: None)
    assert list(out.keys(True, True)) == ["a", "i"]
    assert list(out.keys()) == ["a", "i", "n"]
    assert out["a"] is td["a"]


def test_map_tree_keeps_the_classes_of_nodes() -> None:
    td = TensorDict(p=Point(xy=np.zeros(2), tags=["p", "q"], batch_size=[2]))
    out = map_tree(td, lambda leaf, _: leaf + 1)
    assert type(out["p"]) is Point
    np.testing.assert_array_equal(out["p"].xy, [1, 1])


def test_map_tree_goes_through_parts_or_through_the_dense_form() -> None:
    stack = ragged()
    out = map_tree(stack, lambda leaf, _: -leaf)
    assert [part["a"].tolist() for part in out.tensordicts] == [[-1], [-1, -1]]
    assert out.tensordicts[1]["own"].shape == (3,)
    even = lazy_stack([TensorDict(a=1), TensorDict(a=2)])
    dense = map_tree(even, lambda leaf, _: leaf, dense=lambda stack: stack.contiguous())
    assert (type(dense), dense["a"].tolist()) == (TensorDict, [1, 2])


class Other:
    """A tree of dicts as counterpart."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def leaf(self, key: str, entry: Any) -> Any:
        return self.values.get(key)

    def child(self, key: str) -> Other:
        return Other(self.values[key])

    def parts(self, count: int, dim: int) -> list[Other]:
        return [Other(value) for value in self.values]


def test_zip_tree_meets_entries_at_the_same_places() -> None:
    checked = []

    def zipped(td: Any, values: Any) -> Any:
        return zip_tree(
            td,
            [Other(values)],
            lambda td, key, leaf, others: None if (v := others[0].leaf(key, leaf)) is None else leaf * v,
            lambda td, key, payload, others: payload,
            lambda td, others: checked.append(sorted(others[0].values)),
            lambda td, entries, others: td._with(entries),
        )

    td = TensorDict({"a": 1, "n": {"b": 2, "c": 3}, "s": "x"})
    out = zipped(td, {"a": 10, "n": {"b": 100}})
    assert (out["a"], out["n", "b"], out["s"], list(out["n"].keys())) == (10, 200, "x", ["b"])
    assert checked == [["a", "n"], ["b"]]
    parts = zipped(ragged(), [{"a": 2}, {"a": 3, "own": 1}]).tensordicts
    assert [part["a"].tolist() for part in parts] == [[2], [3, 3]]


def test_lifted_operations_are_documented_as_the_operation() -> None:
    assert type(ragged()).select.__doc__ == TensorDict.select.__doc__


def test_copies_share_what_the_originals_share() -> None:
    td = TensorDict({"a": np.zeros(3), "n": {"b": np.ones((3, 2))}, "tied": np.zeros(3)}, batch_size=[3])
    td["also"] = td["a"]
    stacked = lazy_stack([td, td.copy()])
    every = [td, td["a"], td["n"], td.exclude("n"), stacked, {"b": td["n", "b"]}, td["tied"].copy()]
    for order in (1, -1):
        copies = copy.deepcopy(every[::order])[::order]
        first, a, n, rest, stack, inside, apart = copies
        assert first["a"] is a is first["also"] is rest["a"]
        assert first["n"] is n
        assert inside["b"] is n["b"] is stack[0]["n", "b"] is stack[1]["n", "b"]
        assert not np.shares_memory(first["tied"], apart)
        assert not any(np.shares_memory(first[key], td[key]) for key in ("a", "tied"))
    assert copy.deepcopy(stacked).batch_size == (2, 3)
