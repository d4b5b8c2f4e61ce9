"""Paths through lazy stacks, which go down in each part: kinds of parts, what is missing, what differs."""

import numpy as np
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, TensorDict, lazy_stack, tensorclass

DEEP = ("n", "m", "x")


def rows(*sizes, batch=(2,)):
    """Parts with a leaf `(*batch, size)` two nodes down."""
    return [
        TensorDict({"n": {"m": {"x": np.full((*batch, size), i)}}, "a": np.full(batch, i)}, batch)
        for i, size in enumerate(sizes)
    ]


def stacked(dim=0, n=3):
    return lazy_stack(rows(*[4] * n), dim)


@each_case("dim", [0, 1])
def test_node_at_a_path_is_a_lazy_stack_of_the_nodes(dim):
    stack = LazyStackedTensorDict(*rows(4, 4, 4), stack_dim=dim, stack_dim_name="part")
    node = stack["n", "m"]
    assert isinstance(node, LazyStackedTensorDict)
    assert node.stack_dim == dim
    assert node.batch_size == stack.batch_size
    assert node.names[dim] == "part"
    for part, inner in zip(stack.tensordicts, node.tensordicts, strict=True):
        assert part["n", "m"] is inner
    assert all(
        a is b for at in (dim, dim - 2) for a, b in zip(stack.unbind(at), stack.tensordicts, strict=True)
    )


@each_case("lacking", range(3))
@each_case("cut", range(1, 4))
def test_what_one_part_lacks_is_missing(lacking, cut):
    stack = stacked()
    stack.tensordicts[lacking].del_(DEEP[:cut])
    assert DEEP not in stack.keys(True)
    assert DEEP not in stack.keys(True, True)
    assert DEEP not in stack
    assert stack.get(DEEP, "none") == "none"
    raises(KeyError, DEEP[cut - 1], lambda: stack[DEEP])
    raises(KeyError, "", lambda: stack.set_(DEEP, np.zeros((3, 2, 4))))


@each_case("other", range(3))
def test_array_in_one_part_where_others_hold_a_node(other):
    stack = stacked()
    stack.tensordicts[other].set(("n", "m"), np.zeros(2))
    assert DEEP not in stack.keys(True)
    assert stack.get(DEEP) is None
    assert ("n", "m") in stack.keys(True)
    assert ("n", "m") in stack.keys(True, True)
    assert list(stack.keys(True, True)) == ["a", ("n", "m")]
    raises(RuntimeError, "different kinds", lambda: stack["n", "m"])
    before = [part.clone() for part in stack.tensordicts]
    raises(KeyError, "already present", lambda: stack.set(DEEP, np.zeros((3, 2, 4))))
    assert all((old == part).all() for old, part in zip(before, stack.tensordicts, strict=True))


def test_nodes_with_different_numbers_of_batch_dims_are_passed_but_not_stacked():
    parts = rows(4, 4)
    parts[1]["n"].batch_size = (2, 4)
    parts[1]["n", "m"].batch_size = (2, 4)
    stack = lazy_stack(parts)
    np.testing.assert_array_equal(stack[DEEP], np.stack([part[DEEP] for part in parts]))
    assert DEEP in stack.keys(True)
    raises(RuntimeError, "different kinds", lambda: stack["n", "m"])


@each_case("dims", [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 0)])
def test_lazy_stacks_of_lazy_stacks(dims):
    inner = [lazy_stack(rows(4, 4), dims[0]) if dims[0] < 2 else lazy_stack(rows(4, 4), 1) for _ in range(3)]
    stack = lazy_stack(inner, dims[1])
    expected = np.stack([np.stack([td[DEEP] for td in s.tensordicts], s.stack_dim) for s in inner], dims[1])
    np.testing.assert_array_equal(stack[DEEP], expected)
    np.testing.assert_array_equal(stack["n", "m"]["x"], expected)
    assert list(stack.keys(True)) == ["a", DEEP, ("n", "m"), "n"]
    stack.set(DEEP, expected + 1)
    np.testing.assert_array_equal(stack[DEEP], expected + 1)
    leaf = inner[0].tensordicts[1][DEEP]
    stack.set_(DEEP, expected + 2)
    assert inner[0].tensordicts[1][DEEP] is leaf
    np.testing.assert_array_equal(leaf, np.full((2, 4), 3))


@tensorclass
class Point:
    x: np.ndarray
    below: TensorDict


def test_tensorclasses_on_the_way_and_at_the_end():
    points = [Point(np.full(2, i), TensorDict({"y": np.full(2, i)}, [2]), batch_size=[2]) for i in range(3)]
    stack = lazy_stack([TensorDict({"p": point}, [2]) for point in points])
    assert isinstance(stack["p"], Point)
    assert isinstance(stack["p"].below, LazyStackedTensorDict)
    np.testing.assert_array_equal(stack["p", "below", "y"], [[0, 0], [1, 1], [2, 2]])
    assert list(stack.keys(True)) == [("p", "below", "y"), ("p", "below"), ("p", "x"), "p"]
    assert len(stack.keys(True)) == 4
    assert len(stack.keys(True, True)) == 2
    stack.set(("p", "below", "y"), np.zeros((3, 2)))
    np.testing.assert_array_equal(points[2].below["y"], [0, 0])
    stack.tensordicts[0].set("p", TensorDict({"x": np.ones(2)}, [2]))
    assert isinstance(stack["p"], LazyStackedTensorDict)
    stack.tensordicts.reverse()
    assert isinstance(stack["p"], LazyStackedTensorDict)
    np.testing.assert_array_equal(stack["p", "x"], [[2, 2], [1, 1], [1, 1]])


def test_keys_without_parts():
    stack = lazy_stack(rows(4))[:0]
    assert list(stack.keys(True)) == []
    assert list(stack.items()) == []
    assert len(stack.keys(True)) == 0
    assert DEEP not in stack.keys(True)
    assert stack.get(DEEP) is None
    assert stack.get("a") is None


@each_case("dim", [0, 1])
def test_set_by_path_gives_each_part_its_rows(dim):
    stack = stacked(dim)
    value = np.arange(24).reshape((3, 2, 4) if dim == 0 else (2, 3, 4))
    stack.set(DEEP, value)
    np.testing.assert_array_equal(stack[DEEP], value)
    assert np.shares_memory(stack.tensordicts[1][DEEP], value)
    leaves = [part[DEEP] for part in stack.tensordicts]
    reverse = value[..., ::-1].copy()
    stack.set(DEEP, reverse, inplace=True)
    assert all(part[DEEP] is leaf for part, leaf in zip(stack.tensordicts, leaves, strict=True))
    np.testing.assert_array_equal(leaves[2], reverse.take(2, dim))


def test_set_by_path_that_fails_for_a_part_changes_none():
    stack = lazy_stack(rows(4, 4, 4))
    stack.tensordicts[2]["n", "m"].set("x", np.zeros((2, 5)))
    before = [part[DEEP].copy() for part in stack.tensordicts]
    raises(ValueError, "Failed to update", lambda: stack.set_(DEEP, np.ones((3, 2, 4))))
    stack.tensordicts[2]["n", "m"].lock_()
    raises(RuntimeError, "locked", lambda: stack.set(DEEP, np.ones((3, 2, 4))))
    raises(RuntimeError, "batch dimension", lambda: stack.set(DEEP, np.ones((2, 2, 4))))
    for part, old in zip(stack.tensordicts, before, strict=True):
        np.testing.assert_array_equal(part[DEEP], old)
