"""Rules of functions of single numbers that are no ufuncs."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import c, check_mapped, f, for_each, i, nan

from lite._arrays import formulas
from lite._arrays.special import bessel_ratio, digamma, log_beta, log_i0

CASES: list[Case] = [
    ("nan_to_num", lambda x: np.nan_to_num(x, nan=2.0) * 3, (nan(9),)),
    ("sinc", lambda x: np.sinc(x * (x > 0)), (f(9),)),
    ("i0", np.i0, (f(4),)),
    ("real", lambda x: np.real(x) * x.real * np.conjugate(x) * x.conj(), (f(4),)),
    ("angle and imag", lambda x: x + np.angle(x) + np.imag(x) + x.imag, (f(4),)),
    ("astype", lambda x: np.astype(x, np.float64), (f(4),)),
    ("clip", lambda x: np.clip(x, -0.5, 0.5) + x.clip(0.0), (f(9),)),
    ("clip between", lambda x, y, z: np.clip(x, y, z), (f(9), f(9), f())),
    ("select", lambda x, y: np.select([x > 0.5, x > 0], [x * y, y], 2.0), (f(9), f(9))),
    ("choose", lambda i, x, y: np.choose(i, [x, y, x * y], mode="clip"), (i(4), f(4), f())),
    ("choose, wrap", lambda i, x, y: np.choose(i, [x, y], mode="wrap"), (i(4), f(4), f())),
    ("compress", lambda x: np.compress([True, False, True], x, 1), (f(2, 3),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_sinc_at_zero() -> None:
    np.testing.assert_array_equal(grad_of(np.sinc, [0.0]), [0])


def test_numbers_that_replace_nan_have_no_share() -> None:
    np.testing.assert_array_equal(grad_of(np.nan_to_num, [1.0, np.nan, np.inf]), [1, 0, 0])


def test_weights_of_counts() -> None:
    assert_gradients(lambda w: np.bincount([0, 2, 2, 1], w, 5) ** 2, np.arange(4.0))


def test_extract() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(grad_of(lambda x: np.extract(x > 1.5, x) ** 2, x), [[0, 4], [6, 8]])


def test_counts_of_given_length() -> None:
    ids = np.array([0, 2, 2, 3])
    check_graph(lambda i, w: (np.bincount(i, minlength=5), np.bincount(i, w, 4)), ids, numbers(4))
    for refused in (np.bincount, lambda i: np.bincount(i, minlength=i[0])):
        with pytest.raises(NotImplementedError, match=r"bincount .* depends on numbers: give minlength"):
            check_graph(refused, ids)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_functions_without_slope_are_constants() -> None:
    def fn(x: Any) -> Any:
        assert np.histogram(x, [0, 1, 3])[0].tolist() == [0, 2]
        parts = (np.round(x), np.fix(x), np.around(x, 1), np.isreal(x), np.iscomplex(x), np.isposinf(x))
        assert all(type(part) is np.ndarray for part in parts)
        return x + sum(parts)

    np.testing.assert_array_equal(grad_of(fn, [1.3, 2.7]), [1, 1])


def test_what_is_not_covered_names_the_function() -> None:
    raises(NotImplementedError, r"numpy\.nan_to_num", grad_of, lambda x: np.nan_to_num(x, copy=False), [1.0])
    with pytest.raises(NotImplementedError, match=r"numpy\.nan_to_num .*copy=False"):
        check_graph(lambda x: np.nan_to_num(x, copy=False), numbers(3))
    for call in (
        lambda x: np.histogram(x)[0],
        lambda x: np.histogram([1.0], [0, 2, 3], weights=x)[0],
        lambda x: np.histogram(x, x)[0],
        lambda x: np.bincount(x),
    ):
        raises(NotImplementedError, r"numpy\.(histogram|bincount)", grad_of, call, [1.0])


VMAP_CASES: list[Case] = [
    ("clip", lambda x, low: np.clip(x, low, 1), (f(2, 3), f(3))),
    ("clip method", lambda x: x.clip(min=0), (f(3),)),
    ("clip above", lambda x: np.clip(x, None, 0.5), (f(3),)),
    ("round", lambda x: x.round(1), (f(3),)),
    ("real and imag", lambda x: (x.real, x.imag, np.conj(x), np.angle(x)), (c(3),)),
    ("isclose", lambda x, y: np.isclose(x, y, rtol=2), (f(3), f(2, 3))),
    ("isclose with nan", lambda x, y: np.isclose(x, y, equal_nan=True), (nan(9), nan(9))),
    ("allclose", lambda x, y: np.allclose(x, y, atol=1.0), (f(2), f(2))),
    ("array_equal", lambda x, y: np.array_equal(x, y), (i(1), i(1))),
    ("array_equal of other shapes", lambda x: np.array_equal(x, np.ones(3)), (f(2),)),
    (
        "questions",
        lambda x: (
            x
            * (
                8 * np.can_cast(x, np.float32, "same_kind")
                + 4 * np.can_cast(x, np.float32)
                + 2 * np.iscomplexobj(x)
                + np.isrealobj(x)
            )
        ),
        (f(2),),
    ),
    ("memory", lambda x: x * (2 * np.shares_memory(x, x[1:]) + np.may_share_memory(x, x + 1)), (f(2),)),
    ("isposinf", lambda x: np.isposinf(x), (f(3),)),
    ("astype", lambda x: x.astype(np.float32), (f(3),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_where_and_clip() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check_graph(lambda x, y: np.where(x > y, x, 0), x, y)
    check_graph(lambda x, y: np.where(x, np.float64(1), y), x, y)
    check_graph(lambda x, y: (np.clip(x, -0.5, None), np.clip(x, y, 1.0), x.clip(max=0)), x, y)
    check_graph(lambda x: np.where(x > 0, 1, 0), x)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_rounding() -> None:
    check_graph(lambda x: (np.round(x), np.round(x, 1), np.fix(x), x.round()), numbers(5, 3) * 5, rtol=1e-6)


def test_whole_numbers_stay() -> None:
    check_graph(lambda x: (np.round(x), np.nan_to_num(x)), np.arange(-2, 3))


def test_what_is_not_finite() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1.0])
    check_graph(lambda x: (np.nan_to_num(x), np.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-3.0)), x)
    check_graph(
        lambda x: (np.isposinf(x), np.isneginf(x), np.isclose(x, 1.0), np.isclose(x, x, equal_nan=True)), x
    )


def test_select_and_dtypes() -> None:
    x = numbers(5, 3)
    check_graph(lambda x: np.allclose(x, x), x)
    for dtype in (np.uint8, np.int8, np.int64):
        whole = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 3, 5], dtype)
        check_graph(lambda x: [np.isclose(x, y, atol=1) for y in (x[::-1], 4, [4] * len(x))], whole)
    check_graph(lambda x: np.select([x > 1, x > 0], [x, -x], 2.0), x)
    check_graph(lambda x: np.astype(x, np.float64) + np.ones(3, np.result_type(x, np.float32)), x)
    check_graph(lambda x: (np.real(x), np.copy(x), x.astype(np.int32)), x)


def test_functions_of_lite() -> None:
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    check_graph(lambda x: (formulas.erf(x), formulas.softplus(x), formulas.sigmoid(x), formulas.silu(x)), x)
    wide = np.linspace(-7, 7, 57)
    functions = (formulas.erf, formulas.erfc, formulas.softplus, formulas.log_gamma)
    check_graph(lambda x: tuple(f(x) for f in functions), wide, rtol=1e-13, atol=1e-15)
    positive = np.abs(wide) * 3 + 0.1
    check_graph(lambda x: (digamma(x), bessel_ratio(x), log_beta(x, x + 1)), positive, rtol=1e-12, atol=1e-14)


def test_a_function_without_a_rule_is_named() -> None:
    with pytest.raises(NotImplementedError, match="log_i0, which has no rule"):
        check_graph(log_i0, numbers(3, dtype=np.float64))
