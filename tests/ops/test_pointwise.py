"""Arithmetic, comparison, logic, and NumPy's ufuncs."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.trees import read_only, unchanged

from lite import TensorDict
from lite._ops.pointwise import OPS

X = np.array([[0.25, 0.5, 0.75], [0.1, 0.2, 0.9]])


def floats(array: Any = X, **kwargs: Any) -> TensorDict:
    entries = {"a": read_only(array), "n": {"b": read_only(array[:, 0])}, "s": "text", "r": ["p", "q"]}
    return TensorDict(entries, batch_size=[2], names=["t"], **kwargs)


def check(got: TensorDict, fn: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(got["a"], fn(X))
    np.testing.assert_allclose(got["n", "b"], fn(X)[:, 0])
    assert (got["s"], got["r"], got.names) == ("text", ["p", "q"], ["t"])


UNARY = {name: op.fn for name, op in OPS.items() if not op.operands and op.inplace}
PREDICATES = {name: op.fn for name, op in OPS.items() if name.startswith("is")}
BINARY = {name: op.fn for name, op in OPS.items() if op.operands == 1 and op.inplace}
REFERENCE: dict[str, Callable[[Any], Any]] = {
    "reciprocal": lambda x: 1 / x, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: x * (x > 0),
    "rsqrt": lambda x: x**-0.5, "frac": lambda x: x - np.trunc(x), "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc), "lgamma": np.vectorize(math.lgamma),
}  # fmt: skip


@each_case("name", sorted(set(UNARY) - {"logical_not", "bitwise_not", "acosh"}))
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


@each_case("name", PREDICATES)
def test_predicates(name: str) -> None:
    values = np.array([0.0, np.nan, np.inf, -np.inf])
    got = getattr(TensorDict(a=values), name)()["a"]
    assert got.dtype == np.bool_
    np.testing.assert_array_equal(got, PREDICATES[name](values))


@each_case("name", sorted(BINARY))
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


@each_case("op", OPERATORS)
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


@each_case("op", LOGICAL)
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


def test_alpha() -> None:
    td = TensorDict(a=[1.0, 2.0])
    assert td.add(td, alpha=3)["a"].tolist() == [4, 8]
    assert td.sub(1, alpha=2)["a"].tolist() == [-1, 0]
    assert td.rsub(1)["a"].tolist() == [0, -1]
    assert td.rsub(td * 10, alpha=3)["a"].tolist() == [7, 14]  # as on tensordict 0.15.3; 0.14: 29, 58
    assert td.add_(td, alpha=2)["a"].tolist() == [3, 6]


def test_clamp() -> None:
    td = TensorDict(a=np.arange(5.0))
    assert td.clamp(1, 3)["a"].tolist() == [1, 1, 2, 3, 3]
    assert td.clamp(max=2)["a"].tolist() == [0, 1, 2, 2, 2]
    assert td.clip(min=TensorDict(a=np.full(5, 3.0)))["a"].tolist() == [3, 3, 3, 3, 4]
    out = td.clone()
    assert td.clamp(1, 2, out=out) is out
    assert out["a"].tolist() == [1, 1, 2, 2, 2]
    assert out.clamp_(1, 1)["a"].tolist() == [1] * 5
    raises(ValueError, "needs a bound", lambda: td.clamp())


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
    raises(TypeError, "", lambda: np.add.reduce(td))
    raises(TypeError, "", lambda: np.add(td, 1, where=np.ones(2, bool)))


@each_case("name", OPS)
def test_every_row_has_its_methods(name: str) -> None:
    if OPS[name].symbol and not OPS[name].inplace:  # operators only
        return
    assert getattr(TensorDict, name).__name__ == name
    assert hasattr(TensorDict, f"{name}_") == OPS[name].inplace


def test_a_tensordict_takes_no_result_of_arrays() -> None:
    td = TensorDict(a=np.zeros(2))
    with unchanged(td), pytest.raises(TypeError):
        np.add(np.ones(2), np.ones(2), out=td)  # type: ignore[call-overload]
