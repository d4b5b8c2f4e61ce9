"""Derivatives of ufuncs, of their methods, and of changes of the dtype."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, assert_gradients
from helpers.rule_tests import of_derivatives
from helpers.vmap_cases import add_in_place, b, f

import lite

CASES: list[Case] = [
    ("operators", lambda x, y: -x + 2 * y - x / y + (1 - x) * (3 / y) + x**2 + abs(x) ** 1.5,
        (f(2, 3), f(3))),
    ("powers", lambda x: [x**0, x**1, x**3, (x * x + 1) ** -1, 2.0**x, np.power(x, 2)], (f(3),)),
    ("power of integers", lambda x: x ** np.array([0, 1, 2]), (f(3),)),
    ("numbers of the left", lambda x: [np.float64(2.0) - x, 1 / (x * x + 1), np.ones(3) * x], (f(3),)),
    ("lists", lambda x: [x * [1.0, 2.0], np.maximum((0.1, 0.2), x), np.power(np.abs(x), [2, 3])],
        (f(3, 2),)),
    ("without dimensions", lambda x, y: x * y + np.exp(x), (f(), f(2, 3))),
    ("divmod", lambda x, y: np.divmod(x, np.abs(y) + 0.7), (f(3), f(3))),
    ("modf", lambda x: np.modf(x), (f(3),)),
    ("out of both results", lambda x: np.modf(x * x, out=(0 * x, 0 * x)), (f(3),)),
    ("out of one result", lambda x: np.divmod(x, 0.7, out=(None, 0 * x)), (f(3),)),
    ("out of a sum", lambda x: np.add.reduce(x * x, 0, out=0 * x[0]), (f(3, 2),)),
    ("frexp", lambda x: np.frexp(x), (f(3),)),
    ("flat ones", lambda x: x * np.floor(x) + x * (x > 0) + x * np.sign(x) + x * np.rint(x), (f(5),)),
    ("in place", lambda x, y: add_in_place(x + 0 * y, y), (f(2, 3), f(3))),
    ("out", lambda x, y: np.multiply(x, y, out=np.empty_like(x + y)), (f(2, 3), f(3))),
    ("where", lambda x, m: np.exp(x, where=m, out=x * x + 0 * m), (f(3), b(3))),
    ("where of two", lambda x, y, m: np.multiply(x, y, where=m, out=np.zeros_like(x + y + m)),
        (f(3), f(3), b(3))),
    ("dtype", lambda x: np.exp(x, dtype=np.float64) + np.add(x, 1, dtype=np.float64), (f(3),)),
    ("outer", lambda x, y: np.subtract.outer(x, y) ** 2, (f(2), f(3, 2))),
    ("add.at", lambda x, y: added(x, np.array([0, 2, 0]), y), (f(4), f(3))),
    ("add.at of one", lambda x, y: added(x, np.array([0, 2, 0]), y), (f(4, 2), f(2))),
    ("maximum.at", lambda x, y: extreme(x, np.array([0, 2, 0]), y), (f(4), f(3))),
    ("maximum.at of one", lambda x, y: extreme(x, np.array([0, 2, 0]), y), (f(4, 2), f(2))),
    ("add.reduce", lambda x: [np.add.reduce(x), np.add.reduce(x, axis=None), np.add.reduce(x, 1)],
        (f(2, 3),)),
    ("multiply.reduce", lambda x: np.multiply.reduce(x, -1, keepdims=True), (f(2, 3),)),
    ("maximum.reduce", lambda x: np.maximum.reduce(x) + np.minimum.reduce(x, initial=0.1), (f(2, 3),)),
    ("accumulate", lambda x: np.add.accumulate(x, 1) * np.multiply.accumulate(x), (f(2, 3),)),
]  # fmt: skip


def added(x: Any, places: Any, y: Any) -> Any:
    out = np.zeros_like(x + y[..., :1]) + x
    np.add.at(out, places, y)
    np.subtract.at(out, (places + 1,), 2 * y)
    return out


def extreme(x: Any, places: Any, y: Any) -> Any:
    out = np.zeros_like(x + y[..., :1]) + x
    np.maximum.at(out, places, y)
    np.minimum.at(out, (places + 1,), 2 * y)
    return out


test_derivatives, test_graphs_of_derivatives = of_derivatives(CASES)


def highest_of_two(x: Any, y: Any) -> Any:
    out = x.reshape(1) + 0 * y
    np.maximum.at(out, np.array([0, 0]), y)
    return out[0]


def test_edges_of_two_numbers() -> None:
    for fn, at, wanted in [
        (np.maximum, (1.0, 1.0), (0.5, 0.5)),  # as torch.maximum
        (highest_of_two, (1.0, 1.0), (1 / 3, 2 / 3)),  # as torch.scatter_reduce
        (np.minimum, (1.0, 1.0), (0.5, 0.5)),
        *(
            (fn, at, (1.0, 0.0))
            for fn in (np.fmax, np.fmin)
            for at in ((1, 1), (2, np.nan), (np.nan, np.nan))
        ),
        (np.fmax, (np.nan, 1.0), (0.0, 1.0)),
        (np.fmin, (np.nan, 1.0), (0.0, 1.0)),
        (np.power, (0.0, 2.0), (0.0, 0.0)),
        (np.power, (0.0, 0.0), (0.0, 0.0)),
        (np.power, (-2.0, 3.0), (12.0, np.nan)),  # whose power is no number beside 3
    ]:
        got = lite.grad(fn, (0, 1))(*np.asarray(at, float))
        np.testing.assert_array_equal(got, wanted)


def test_numbers_too_large_for_exp() -> None:
    got = lite.grad(np.logaddexp, (0, 1))(np.array(800.0), np.array(800.0))
    np.testing.assert_allclose(got, 0.5, rtol=1e-12)


def test_dtypes_stay() -> None:
    wide = np.array([2.0, 3.0])

    def loss(x: Any) -> Any:
        assert (2.0 * x).dtype == x.dtype
        return ((2.0 * x) ** 3 * wide).sum()

    for dtype in (np.float16, np.float32):
        x = np.array([0.5, 0.25], dtype)
        got = lite.grad(loss)(x)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, 24 * x * x * wide, rtol=1e-3)


def test_half_precision_adds_up_in_float32() -> None:
    bias = np.zeros(1, np.float16)
    got = lite.grad(lambda bias: (bias + np.ones(5000, np.float16)).sum())(bias)
    np.testing.assert_array_equal(got, 5000)  # in float16, 2048 + 1 is 2048
    np.testing.assert_array_equal(lite.grad(lambda b: sum(b[0] for _ in range(3000)))(bias), 3000)
    many = lite.grad(lambda x: (x * 1000).mean())(np.ones(70_000, np.float16))
    np.testing.assert_allclose(many, 1 / 70, rtol=2e-2)


def test_what_has_no_rule_is_named() -> None:
    for call, message in [
        (lambda x: np.nextafter.reduce(x), r"no gradient through numpy.nextafter.reduce: there is no rule"),
        (lambda x: np.hypot.accumulate(x), r"numpy.hypot.accumulate"),
        (lambda x: np.multiply.at(x, 0, 2.0), r"numpy.multiply.at"),
        (lambda x: np.exp(x, where=np.array([True, False])), r"with where it needs out"),
    ]:
        raises(NotImplementedError, message, lite.grad(call), np.ones(2))


def test_arguments_are_real() -> None:
    with pytest.raises(TypeError, match=r"argument 0 of <lambda> is complex \(complex128\)"):
        lite.grad(lambda x: x)(np.ones(2) * 1j)


def test_a_result_is_not_written_into_an_ndarray() -> None:
    target = np.zeros(2)
    for call in (
        lambda x: np.add(x, 1, out=target),
        lambda x: target.__iadd__(x),
        lambda x: np.sum(np.stack([x, x]), 0, out=target),
        lambda x: np.add.reduce(np.stack([x, x]), out=target),
    ):
        raises(TypeError, "which an ndarray as out= would lose", lite.grad(call), np.ones(2))
    np.testing.assert_array_equal(target, 0)


def test_results_fit_into_what_they_are_written_to() -> None:
    with pytest.raises(ValueError, match=r"gives the shape \(2, 2\), which does not fit into \(2,\)"):
        lite.grad(lambda x: np.add(x, np.ones((2, 2)), out=x))(np.ones(2))
    with pytest.raises(TypeError, match="gives float64, which no casting does not put into float32"):
        lite.grad(lambda x: np.copyto(x, np.ones(2), casting="no"))(np.ones(2, np.float32))


def test_results_take_the_dtype_of_what_they_are_written_to() -> None:
    def fn(x: Any) -> Any:
        out = np.zeros_like(x)
        np.copyto(out, np.float64([1 / 3, 2]), casting="same_kind")
        assert out.dtype == np.float32
        return (x * out).sum()

    np.testing.assert_array_equal(lite.grad(fn)(np.ones(2, np.float32)), np.float32([1 / 3, 2]))


def test_numbers_without_dimensions_are_not_written() -> None:
    def loss(x: Any) -> Any:
        total = x.sum()
        before = total
        total += 1.0  # a new number, as NumPy's scalars
        return before * total

    assert_gradients(loss, np.array([1.0, 2.0]))


def test_plain_results_are_written_into_traced_arrays() -> None:
    def fn(x: Any) -> Any:
        out, odd = np.zeros_like(x), np.zeros_like(x)
        np.exp(np.ones(3), out=out)
        np.add(np.ones(3), 1, out=odd, where=np.array([True, False, True]))
        np.add(x, 1, out=odd, where=np.array([False, True, False]))
        whole = np.zeros_like(x)
        np.modf(np.full(3, 1.5), out=(whole, None))
        return ((out + odd + whole) * x).sum()

    plain = np.e + 0.5
    np.testing.assert_allclose(lite.grad(fn)(np.ones(3)), [plain + 2, plain + 3, plain + 2])
