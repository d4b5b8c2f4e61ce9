"""Arithmetic, comparison, logic, and NumPy's ufuncs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trees import read_only, tree, unchanged

from lite import TensorDict, lazy_stack
from lite._arrays.formulas import BINARY, PREDICATES, UNARY

X = np.array([[0.25, 0.5, 0.75], [0.1, 0.2, 0.9]])
Y = np.array([[1.5, 2.0, 0.5], [3.0, 1.0, 2.0]])


def floats(array: Any = X, **kwargs: Any) -> TensorDict:
    entries = {"a": read_only(array), "n": {"b": read_only(array[:, 0])}, "s": "text", "r": ["p", "q"]}
    return TensorDict(entries, batch_size=[2], names=["t"], **kwargs)


def check(got: TensorDict, fn: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(got["a"], fn(X))
    np.testing.assert_allclose(got["n", "b"], fn(X)[:, 0])
    assert (got["s"], got["r"], got.names) == ("text", ["p", "q"], ["t"])


REFERENCE: dict[str, Callable[[Any], Any]] = {
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: x * (x > 0),
    "rsqrt": lambda x: x**-0.5,
    "frac": lambda x: x - np.trunc(x),
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "lgamma": np.vectorize(math.lgamma),
}


@pytest.mark.parametrize("name", sorted(set(UNARY) - {"logical_not", "bitwise_not", "acosh"}))
def test_unary_methods(name: str) -> None:
    fn = REFERENCE.get(name, UNARY[name])
    td = floats(lock=True)
    with unchanged(td):
        got = getattr(td, name)()
    check(got, fn)
    assert got.is_locked
    writable = td.clone()
    buffer = writable["a"]
    assert getattr(writable, f"{name}_")() is writable
    assert writable["a"] is buffer
    np.testing.assert_allclose(buffer, fn(X))


def test_unary_methods_at_the_edges() -> None:
    td = TensorDict(a=np.array([-1e4, 0.0, 1e4, np.nan], np.float32))
    np.testing.assert_array_equal(td.sigmoid()["a"], np.array([0, 0.5, 1, np.nan], np.float32))
    assert td.sigmoid().dtype == np.float32
    whole = TensorDict(a=np.array([2, 4]))
    np.testing.assert_array_equal(whole.reciprocal()["a"], [0.5, 0.25])
    assert whole.round().dtype == np.int64
    np.testing.assert_array_equal(TensorDict(a=[0.0, -1.0]).lgamma()["a"], [np.inf, np.inf])
    np.testing.assert_array_equal(TensorDict(a=[True, False]).logical_not()["a"], [False, True])
    np.testing.assert_array_equal(TensorDict(a=[0, 1]).bitwise_not()["a"], [-1, -2])
    np.testing.assert_allclose(TensorDict(a=[1.0, 2.0]).acosh()["a"], np.arccosh(np.float32([1, 2])))


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name: str) -> None:
    values = np.array([0.0, np.nan, np.inf, -np.inf])
    got = getattr(TensorDict(a=values), name)()["a"]
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, PREDICATES[name](values))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary_methods(name: str) -> None:
    fn = BINARY[name]
    whole = np.array([[1, 2, 3], [4, 5, 6]])
    td, other = floats(whole), floats(whole[::-1].copy())
    with unchanged(td, other):
        by_key, by_number = getattr(td, name)(other), getattr(td, name)(2)
    np.testing.assert_array_equal(by_key["a"], fn(whole, whole[::-1]))
    np.testing.assert_array_equal(by_number["n", "b"], fn(whole, 2)[:, 0])
    if fn(whole, 2).dtype == whole.dtype:
        writable = td.clone()
        buffer = writable["a"]
        assert getattr(writable, f"{name}_")(other) is writable
        assert writable["a"] is buffer
        np.testing.assert_array_equal(buffer, fn(whole, whole[::-1]))


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
]  # fmt: skip
LOGICAL = [operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("op", OPERATORS)
def test_arithmetic_operators(op: Callable[[Any, Any], Any]) -> None:
    td = floats(lock=True)
    with unchanged(td):
        check(op(td, 2), lambda x: op(x, 2))
        check(op(2, td), lambda x: op(2, x))
        check(op(td, td), lambda x: op(x, x))
        assert op(td, 2).is_locked
        rows = np.array([2.0, 3.0])
        np.testing.assert_allclose(op(td, rows)["a"], op(X, rows[:, None]))
        np.testing.assert_allclose(op(rows, td)["a"], op(rows[:, None], X))
        np.testing.assert_allclose(op(td, [2.0, 3.0])["n", "b"], op(X[:, 0], rows))
    writable = td.clone()
    buffer, same = writable["a"], writable
    writable = getattr(operator, f"i{op.__name__.strip('_')}")(writable, 2)
    assert writable is same
    assert writable["a"] is buffer
    np.testing.assert_allclose(buffer, op(X, 2))


@pytest.mark.parametrize("op", LOGICAL)
def test_logical_operators(op: Callable[[Any, Any], Any]) -> None:
    values, other = np.array([True, True, False, False]), np.array([True, False, True, False])
    td = TensorDict(a=values)
    np.testing.assert_array_equal(op(td, TensorDict(a=other))["a"], op(values, other))
    np.testing.assert_array_equal(op(True, td)["a"], op(True, values))


def test_unary_operators_and_divmod() -> None:
    td = TensorDict(a=np.array([-3, 5]))
    assert (-td)["a"].tolist() == [3, -5]
    assert (+td)["a"].tolist() == [-3, 5]
    assert (+td)["a"] is not td["a"]
    assert abs(td)["a"].tolist() == [3, 5]
    assert (~td)["a"].tolist() == [2, -6]
    quotient, rest = divmod(td, 2)
    assert (quotient["a"].tolist(), rest["a"].tolist()) == ([-2, 2], [1, 1])
    quotient, rest = divmod(7, td)
    assert (quotient["a"].tolist(), rest["a"].tolist()) == ([-3, 1], [-2, 2])


def test_matmul() -> None:
    td = TensorDict({"a": np.ones((2, 3, 4)), "n": {"b": np.ones((2, 4))}}, batch_size=[2])
    weight = np.arange(8.0).reshape(4, 2)
    got = td @ weight
    np.testing.assert_array_equal(got["n", "b"], np.ones((2, 4)) @ weight)
    other = TensorDict({"a": np.ones((2, 4, 1))}, batch_size=[2])
    np.testing.assert_array_equal((td.select("a") @ other)["a"], np.full((2, 3, 1), 4))
    square = TensorDict(a=np.ones((2, 2)))
    np.testing.assert_array_equal((weight @ square)["a"], weight @ np.ones((2, 2)))
    np.testing.assert_array_equal(np.matmul(square, square)["a"], np.full((2, 2), 2))


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


def test_tensordicts_of_other_batch_sizes_broadcast() -> None:
    column, row = TensorDict({"a": np.ones((2, 1, 3))}, [2, 1]), TensorDict({"a": np.full((4, 3), 2)}, [4])
    got = column * row
    assert got.batch_size == (2, 4)
    np.testing.assert_array_equal(got["a"], np.full((2, 4, 3), 2))


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


def test_key_sets_must_agree_unless_there_is_a_default() -> None:
    first = TensorDict({"a": 1, "n": {"x": 1, "y": 2}, "s": "x"})
    second = TensorDict({"b": 5, "n": {"y": 10, "z": 20}})
    with unchanged(first, second), pytest.raises(KeyError, match="mismatch"):
        first + second
    common = first.add(second, default="intersection")
    assert common.to_dict(convert_tensors=True) == {"n": {"y": 12}, "s": "x"}
    union = first.add(second, default=100)
    nested = {"x": 101, "y": 12, "z": 120}
    assert union.to_dict(convert_tensors=True) == {"a": 101, "n": nested, "s": "x", "b": 105}
    with pytest.raises(KeyError, match="array on one side"):
        TensorDict(a=1) + TensorDict({"a": {"b": 1}})


def test_alpha() -> None:
    td = TensorDict(a=[1.0, 2.0])
    assert td.add(td, alpha=3)["a"].tolist() == [4, 8]
    assert td.sub(1, alpha=2)["a"].tolist() == [-1, 0]
    assert td.rsub(1)["a"].tolist() == [0, -1]
    assert td.add_(td, alpha=2)["a"].tolist() == [3, 6]


@pytest.mark.parametrize("operand", [None, "text", object(), np.array(["x"]), {1, 2}])
def test_foreign_operands(operand: Any) -> None:
    td = tree()
    with unchanged(td):
        with pytest.raises(TypeError):
            td + operand
        with pytest.raises(TypeError, match="operands must be"):
            td.add(operand)
        if not isinstance(operand, np.ndarray):
            assert (td == operand) is False
            assert (td != operand) is True


def test_in_place_is_checked_before_anything_is_written() -> None:
    mixed = TensorDict({"a": np.zeros(3), "b": np.zeros(3, int)}, batch_size=[3])
    with unchanged(mixed), pytest.raises(TypeError, match="float64 result into a int64"):
        mixed.div_(2)
    with unchanged(mixed), pytest.raises(TypeError, match="float64 result into a int64"):
        mixed += 0.5
    with unchanged(mixed), pytest.raises(TypeError, match="in place"):
        mixed.sigmoid_()
    with unchanged(mixed), pytest.raises(RuntimeError, match="batch size"):
        mixed += np.zeros((2, 3))
    with unchanged(mixed), pytest.raises(RuntimeError, match="leaf's shape"):
        mixed += TensorDict({"a": np.zeros(3), "b": np.zeros((3, 2), int)}, batch_size=[3])
    frozen = TensorDict({"a": np.zeros(3), "b": read_only(np.zeros(3))})
    with unchanged(frozen), pytest.raises(ValueError, match="read-only"):
        frozen += 1


def test_clamp() -> None:
    td = TensorDict(a=np.arange(5.0))
    assert td.clamp(1, 3)["a"].tolist() == [1, 1, 2, 3, 3]
    assert td.clamp(max=2)["a"].tolist() == [0, 1, 2, 2, 2]
    assert td.clip(min=TensorDict(a=np.full(5, 3.0)))["a"].tolist() == [3, 3, 3, 3, 4]
    out = td.clone()
    assert td.clamp(1, 2, out=out) is out
    assert out["a"].tolist() == [1, 1, 2, 2, 2]
    assert out.clamp_(1, 1)["a"].tolist() == [1] * 5
    with pytest.raises(ValueError, match="needs a bound"):
        td.clamp()


@pytest.mark.parametrize("op", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons(op: Callable[[Any, Any], Any]) -> None:
    td = floats(lock=True).select("a", "n").lock_()
    for other, array in ((0.5, 0.5), (td, X), (X[:, 0], X[:, :1])):
        got = op(td, other)
        assert got["a"].dtype == np.bool_
        np.testing.assert_array_equal(got["a"], op(X, array))
        assert (got.names, got.is_locked) == ([None], False)
    np.testing.assert_array_equal(op(0.5, td)["a"], op(0.5, X))


def test_equality_of_trees() -> None:
    td = tree()
    assert (td == td.clone()).all()
    assert (td == td.to_dict()).all()
    other = td.clone()
    other.set("s", "other")
    assert not (td == other).all()
    assert (td != other)["s"].all()
    other = td.clone()
    other.get("r")._array[0, 0] = "changed"
    assert (td == other)["r"].sum() == 11
    with pytest.raises(KeyError, match="mismatch"):
        td == td.exclude("s")  # noqa: B015


def test_all_and_any() -> None:
    rows = np.array([[True, True], [True, False]])
    td = TensorDict({"a": rows, "n": {"b": [True, True]}, "s": "x"}, batch_size=[2])
    assert td.all() is False
    assert td.any() is True
    got = td.all(dim=0)
    assert (got.batch_size, got["a"].tolist(), got["n", "b"].item(), got["s"]) == (
        (),
        [True, False],
        True,
        "x",
    )
    assert td.any(-1)["a"].tolist() == [True, True]
    assert TensorDict().all() is True
    assert TensorDict().any() is False
    with pytest.raises(RuntimeError, match="dim=1"):
        td.all(dim=1)


def test_ufuncs() -> None:
    td = floats(lock=True)
    check(np.exp(td), np.exp)
    check(np.add(td, 1), lambda x: x + 1)
    np.testing.assert_allclose(np.subtract(np.array([1.0, 2.0]), td)["a"], np.array([[1.0], [2.0]]) - X)
    np.testing.assert_allclose(np.arctan2(td, td)["a"], np.arctan2(X, X))
    assert np.add(td, 1, dtype=np.float32)["a"].dtype == np.float32
    assert np.less(td, 0.5)["a"].dtype == np.bool_
    fraction, whole = np.modf(td)
    np.testing.assert_allclose(fraction["a"] + whole["a"], X)
    writable = td.clone()
    buffer = writable["a"]
    assert np.multiply(writable, 2, out=writable) is writable
    np.testing.assert_allclose(buffer, X * 2)
    assert np.exp(td, out=writable) is writable
    np.testing.assert_allclose(buffer, np.exp(X))
    with pytest.raises(TypeError):
        np.add.reduce(td)
    with pytest.raises(TypeError):
        np.add(td, 1, where=np.ones(2, bool))


@pytest.mark.parametrize(
    "operation", [lambda td: td + 1, lambda td: td - td, lambda td: td.exp(), lambda td: td**2]
)
def test_nothing_to_compute_gives_a_copy(operation: Callable[[Any], Any]) -> None:
    td = TensorDict({"n": {}, "s": "x"}, batch_size=[2])
    got = operation(td)
    assert got is not td
    assert (got.batch_size, list(got.keys()), got["s"]) == ((2,), ["n", "s"], "x")


def test_results_without_dimensions_are_arrays() -> None:
    td = TensorDict({"a": 1.0, "n": {"b": 2}})
    for got in (td + 1, td + td, td.exp(), -td, td == 1, td.sigmoid()):
        assert isinstance(got["a"], np.ndarray)
        assert isinstance(got["n", "b"], np.ndarray)


def test_lazy_stacks() -> None:
    parts = [TensorDict({"x": np.ones(2), "only": 1}), TensorDict({"x": np.ones(3)})]
    stack = lazy_stack(parts)
    assert (stack + 1)[1]["x"].tolist() == [2, 2, 2]
    assert (stack * stack)[0]["only"] == 1
    assert (stack + np.array([10, 20]))[1]["x"].tolist() == [21, 21, 21]
    assert (stack == stack).all()
    stack += 1
    assert parts[0]["x"].tolist() == [2, 2]
    even = lazy_stack([TensorDict(x=np.ones(2)), TensorDict(x=np.ones(2))])
    dense = even.to_tensordict()
    for got in (even + dense, dense + even):
        np.testing.assert_array_equal(got["x"], np.full((2, 2), 2))


@pytest.mark.parametrize(
    ("first", "second", "features"),
    [((3,), (), ((2, 2), ())), ((4,), (3, 4), ((), (2,))), ((1,), (1, 3, 1), ((), (2,)))],
)
def test_features_meet_features_when_batch_sizes_differ(
    first: tuple[int, ...], second: tuple[int, ...], features: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    a = TensorDict({"n": {"a": np.arange(np.prod(first + features[0])).reshape(first + features[0])}}, first)
    b = TensorDict({"n": {"a": np.full(second + features[1], 2)}}, second)
    for left, right in ((a, b), (b, a)):
        out = left + right
        size = np.broadcast_shapes(first, second)
        assert out.batch_size == size
        rows = a["n", "a"].reshape(first + (features[0] or (1,) * len(features[1])))
        expected = np.broadcast_to(rows + 2, size + (features[0] or features[1]))
        np.testing.assert_array_equal(out["n", "a"], expected)


@pytest.mark.parametrize("size", [(2, 1), (2, 2), (3,)])
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


def test_an_expanded_operand_may_have_more_features() -> None:
    td = TensorDict({"a": np.arange(8).reshape(4, 2)}, [4])
    out = td + TensorDict({"a": np.array([[10, 20], [30, 40], [50, 60]])}, [])
    assert out.batch_size == (4,)
    np.testing.assert_array_equal(out["a"], td["a"][:, None] + np.array([[10, 20], [30, 40], [50, 60]]))
