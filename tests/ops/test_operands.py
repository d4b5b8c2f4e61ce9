"""What the other arguments of a pointwise operation may be, and how they meet the leaves."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import tree, unchanged

from lite import NonTensorData, TensorDict, lazy_stack
from lite._ops.operands import leaf_shapes_match


def test_arrays_meet_the_batch_from_the_left() -> None:
    td = TensorDict({"a": np.ones((2, 2)), "b": np.zeros(2)}, batch_size=[2])
    got = td + np.array([1, 2])
    assert got["a"].tolist() == [[2, 2], [3, 3]]
    assert got["b"].tolist() == [1, 2]
    wider = td + np.array([[1.0], [2.0], [3.0]])
    assert (wider.batch_size, wider["a"].shape) == ((3, 2), (3, 2, 2))
    assert wider["b"].tolist() == [[1, 1], [2, 2], [3, 3]]
    with unchanged(td), pytest.raises(RuntimeError, match="cannot broadcast"):
        td + np.zeros(3)


def test_operands_are_matched_by_key_not_by_position() -> None:
    first = TensorDict({"a": 1.0, "b": 2.0})
    swapped = TensorDict({"b": 20.0, "a": 10.0})
    assert (first + swapped).to_dict(convert_tensors=True) == {"a": 11, "b": 22}
    assert first.lerp(swapped, 0.5).to_dict(convert_tensors=True) == {"a": 5.5, "b": 11}
    assert first.addcmul(swapped, swapped, value=2).to_dict(convert_tensors=True) == {"a": 201, "b": 802}
    assert first.addcdiv(swapped, first).to_dict(convert_tensors=True) == {"a": 11, "b": 12}
    assert (first + {"b": 1.0, "a": 0.0}).to_dict(convert_tensors=True) == {"a": 1, "b": 3}
    first.lerp_(swapped, 1.0).addcmul_(swapped, 1).addcdiv_(swapped, 1, value=-1)
    assert first.to_dict(convert_tensors=True) == {"a": 10, "b": 20}


@each_case("operand", [None, "text", object(), np.array(["x"]), {1, 2}])
def test_foreign_operands(operand: Any) -> None:
    td = tree()
    with unchanged(td):
        raises(TypeError, "", lambda: td + operand)
        raises(TypeError, "operands must be", lambda: td.add(operand))
        if not isinstance(operand, np.ndarray):
            assert (td == operand) is False
            assert (td != operand) is True


@each_case(
    ("first", "second", "features"),
    [((3,), (), ((2, 2), ())), ((4,), (3, 4), ((), (2,))), ((1,), (1, 3, 1), ((), (2,)))],
)
def test_features_meet_features_when_batch_sizes_differ(first, second, features):
    a = TensorDict({"n": {"a": np.arange(np.prod(first + features[0])).reshape(first + features[0])}}, first)
    b = TensorDict({"n": {"a": np.full(second + features[1], 2)}}, second)
    for left, right in ((a, b), (b, a)):
        out = left + right
        size = np.broadcast_shapes(first, second)
        assert out.batch_size == size
        rows = a["n", "a"].reshape(first + (features[0] or (1,) * len(features[1])))
        expected = np.broadcast_to(rows + 2, size + (features[0] or features[1]))
        np.testing.assert_array_equal(out["n", "a"], expected)


@each_case("size", [(2, 1), (2, 2), (3,)])
def test_features_meet_features_when_batch_sizes_are_equal(size: tuple[int, ...]) -> None:
    rows, more = np.arange(np.prod(size)).reshape(size), np.arange(np.prod(size) * 2).reshape((*size, 2)) * 10
    for stack in (lambda td: td, lambda td: lazy_stack(list(td.unbind(0)))):
        a, b = (stack(TensorDict({"a": x.copy(), "n": {"a": x}}, size)) for x in (rows, more))
        whole = np.ones(size, bool)
        for key in ("a", ("n", "a")):
            np.testing.assert_array_equal((a + b)[key], rows[..., None] + more)
            np.testing.assert_array_equal((b - a)[key], more - rows[..., None])
            np.testing.assert_array_equal((a == b)[key], rows[..., None] == more)
            np.testing.assert_array_equal(
                a.where(whole, b)[key], np.broadcast_to(rows[..., None], more.shape)
            )
            np.testing.assert_array_equal(a.where(~whole, b)[key], more)
            np.testing.assert_array_equal(a.clamp(b, b)[key], more)
        with pytest.raises(RuntimeError, match="features"):
            a += b
        np.testing.assert_array_equal(a["a"], rows)
        b.exclude("n").add_(a.exclude("n"))
        np.testing.assert_array_equal(b["a"], rows[..., None] + more)


# -- leaves of equal shape, whatever the batch sizes ---------------------------------------------------------


def drawn(line: tuple[int, int, int], offset: float = 0.0) -> TensorDict:
    """Arrays of the same shapes, with the line between batch and features drawn as given, for each node."""
    root, node, inner = ((3, 2, 3)[:n] for n in line)
    rng = np.random.default_rng(int(offset))
    a, b, c, d = (rng.normal(size=shape) for shape in ((3, 2), (3, 2, 3), (3, 2, 3, 1), (3, 2, 3)))
    deep = TensorDict({"c": c, "d": d}, inner)
    return TensorDict({"a": a, "n": TensorDict({"b": b, "m": deep, "s": "x"}, node)}, root)


LINES = [(0, 0, 0), (0, 1, 2), (1, 1, 1), (1, 2, 3), (2, 2, 2), (2, 3, 3)]
OPERATIONS: dict[str, Any] = {
    "+": lambda x, y: x + y,
    "<": lambda x, y: x < y,
    "==": lambda x, y: x == y,
    "maximum": lambda x, y: x.maximum(y),
    "lerp": lambda x, y: x.lerp(y, 0.25),
    "lerp of three": lambda x, y: x.lerp(y, drawn((0, 0, 0), 5)),
    "clamp": lambda x, y: x.clamp(y, drawn((1, 1, 1), 5)),
    "addcmul": lambda x, y: x.addcmul(y, y),
    "where": lambda x, y: x.where(np.array([True, False, True]) if max(x.ndim, y.ndim) else True, y),
    "isclose": lambda x, y: x.isclose(y),
    "np.add": np.add,
    "default": lambda x, y: x.add(y, default=0.0),
}


# Twelve pairs for what has further operands; of the others, which go one way, three each.
PAIRS = list(itertools.product(LINES, LINES))
SOME_PAIRS = [*PAIRS[::5], *PAIRS[1::9]]
FURTHER = ("+", "lerp of three", "clamp", "where")
LINED = [(name, *pair) for name in FURTHER for pair in SOME_PAIRS]
LINED += [
    (name, *PAIRS[(7 * i + 13 * k) % len(PAIRS)])
    for i, name in enumerate(OPERATIONS)
    for k in range(3)
    if name not in FURTHER
]


@each_case(("name", "first", "second"), LINED)
def test_the_line_between_batch_and_features_does_not_matter(name, first, second):
    op = OPERATIONS[name]
    x, y = drawn(first), drawn(second, 1)
    if name == "where" and not max(x.ndim, y.ndim):
        return
    expected = op(drawn((1, 1, 1)), drawn((1, 1, 1), 1))
    with unchanged(x, y):
        out = op(x, y)
    assert out.batch_size == (3, 2, 3)[: max(first[0], second[0], name == "clamp")]
    for key in ("a", ("n", "b"), ("n", "m", "c"), ("n", "m", "d")):
        np.testing.assert_array_equal(out[key], expected[key])
    assert out["n"].batch_size[: out.ndim] == out.batch_size
    out.auto_batch_size_()  # checks every node


@each_case("line", LINES)
def test_lazy_stacks_meet_leaves_of_their_shape(line: tuple[int, int, int]) -> None:
    x, y = drawn((1, 1, 1)), drawn(line, 1)
    stack = lazy_stack(list(x.unbind(0)))
    expected = x + drawn((1, 1, 1), 1)
    for out in (stack + y, y + stack, np.add(stack, y)):
        assert out.batch_size == (3, 2, 3)[: max(1, line[0])]
        for key in ("a", ("n", "b"), ("n", "m", "c")):
            np.testing.assert_array_equal(out[key], expected[key])
    stack += y
    np.testing.assert_array_equal(stack["n", "m", "c"], expected["n", "m", "c"])


def test_of_some_leaves_of_equal_shape_the_others_meet_by_rows() -> None:
    td = TensorDict({"a": np.ones((3, 2)), "b": np.ones(3), "n": {"c": np.ones((3, 3))}}, [3])
    stats = TensorDict({"a": np.full((3, 2), 2.0), "b": np.array(5.0), "n": {"c": np.arange(3.0)}}, [])
    for out in (td + stats, stats + td):
        assert out.batch_size == (3,)
        np.testing.assert_array_equal(out["a"], np.full((3, 2), 3.0))
        np.testing.assert_array_equal(out["b"], np.full(3, 6.0))
        np.testing.assert_array_equal(out["n", "c"], np.tile(np.arange(3.0) + 1, (3, 1)))
    with unchanged(td, stats), pytest.raises(RuntimeError):
        stats += td
    td += stats
    np.testing.assert_array_equal(td["a"], np.full((3, 2), 3.0))


def test_batch_sizes_that_do_not_broadcast_need_leaves_of_equal_shape() -> None:
    one = TensorDict({"a": np.ones((2, 3)), "b": np.ones(2)}, [2])
    two = TensorDict({"a": np.ones((2, 3)), "b": np.ones((2, 3))}, [2, 3])
    assert (one.select("a") + two.select("a")).batch_size == (2, 3)
    with unchanged(one, two), pytest.raises(RuntimeError, match="cannot broadcast operands of batch size"):
        one + two


def test_a_nested_batch_size_does_not_grow_with_the_features_of_the_other_side() -> None:
    one = TensorDict({"n": TensorDict({"a": np.ones((3, 1))}, [3, 1])}, [3])
    two = TensorDict({"n": TensorDict({"a": np.ones((3, 4))}, [3])}, [3])
    with unchanged(one, two), pytest.raises(RuntimeError, match="batch size"):
        one + two
    assert (two + one)["n", "a"].shape == (3, 4)


@each_case("auto", [None, False, True])
@each_case("payload", [1, "x", None, [1, 2]])
def test_what_comes_back_from_a_dict_is_equal(payload: Any, auto: bool | None) -> None:
    td = TensorDict({"a": np.ones((3, 2)), "n": TensorDict({"b": np.arange(3)}, [3])}, [3])
    td["s"] = NonTensorData(payload, batch_size=[3])
    back = TensorDict.from_dict(td.to_dict(), auto_batch_size=auto)
    for out in (back == td, td == back):
        assert out.batch_size == (3,)
        assert (out["a"].shape, out["n", "b"].shape) == ((3, 2), (3,))
        assert out["a"].all()
        assert out["n", "b"].all()


@each_case("op", ["__eq__", "__ne__", "__lt__", "__ge__"])
def test_arrays_compared_with_objects_give_an_empty_node(op: str) -> None:
    array, payload = TensorDict(a=1.0, s=np.ones(2)), TensorDict(a=1.0, s="x")
    for left, right in ((array, payload), (payload, array)):
        out = getattr(left, op)(right)
        assert out["s"].is_empty()
        assert isinstance(out["s"], TensorDict)
        assert not np.array_equal(left, right)
    with unchanged(array, payload), pytest.raises(KeyError):
        array + payload


@each_case(
    ("trees", "expected"),
    [
        ([{"a": 2}, {"a": 2}], True),
        ([{"a": 2}, {"a": 3}], False),
        ([{"a": 2}, {"b": 2}], False),  # none meet
        ([{"a": 2, "b": 2}, {"a": 2}], True),
        ([{"a": 2, "b": 2}, {"b": 2}], True),
        ([{"a": 2, "b": 2}, {"a": 2, "b": 3}], False),
        ([{"a": 2}, {"a": 2}, {"a": 3}], False),
        ([{"a": 2}, {"a": 2}, {"b": 3}], True),
        ([{"n": {"a": 2}}, {"n": {"a": 2}}], True),
        ([{"n": {"a": 2}, "b": 2}, {"n": {"a": 3}, "b": 2}], False),
        ([{"n": {"a": 2}}, {"n": 2}], False),
        ([{"a": 2, "n": {"b": 2}}, {"a": 2}], True),
    ],
)
def test_which_trees_agree_in_the_shapes_that_meet(trees: list[dict[str, Any]], expected: bool) -> None:
    """Of each array the length is given."""

    def grown(tree: dict[str, Any]) -> TensorDict:
        return TensorDict({k: grown(v) if isinstance(v, dict) else np.zeros(v) for k, v in tree.items()})

    assert leaf_shapes_match([grown(tree) for tree in trees]) is expected
