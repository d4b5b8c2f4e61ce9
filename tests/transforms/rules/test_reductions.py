"""Rules of reductions."""

import functools
import warnings
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.central_differences import Case, check_central, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import b, check_mapped, f, for_each, i, nan

import lite

QUANTILES = (
    *("linear", "lower", "higher", "nearest", "midpoint", "hazen", "weibull"),
    *("median_unbiased", "normal_unbiased", "interpolated_inverted_cdf"),
)
AXES = (None, 0, -1, (0, 2))
NAMES = ("sum", "prod", "max", "min", "mean", "std", "var", "median", "ptp")
OF_NAN = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanstd", "nanvar", "nanmedian")


def along(name: str, *axes: Any) -> Any:
    """The function along each of the axes, which stay behind one of them."""
    function = getattr(np, name)
    return lambda x: [*(function(x, axis) for axis in axes), function(x, axes[-1], keepdims=True)]


CASES: list[Case] = [
    *((name, along(name, *AXES), (f(2, 3, 4),)) for name in NAMES),
    *((name, along(name, None, 0, -1), (nan(9, 8),)) for name in OF_NAN),
    *(
        (f"{name} of all", lambda x, name=name: getattr(np, name)(x, keepdims=True), (f(2, 3),))
        for name in NAMES
    ),
    *(
        (
            f"{name}, where",
            lambda x, m, name=name: getattr(np, name)(x, 0, where=m | ~m.any(0)),
            (f(4, 3), b(4, 3)),
        )
        for name in ("sum", "prod", "mean", "std", "var", "nansum", "nanmean", "nanvar")
    ),
    *(
        (
            f"{name}, where and initial",
            lambda x, m, name=name, s=s: getattr(np, name)(x, 1, where=m, initial=s),
            (f(2, 3), b(3)),
        )
        for name, s in (("sum", 2.0), ("prod", 3.0), ("max", -0.5), ("min", 0.5))
    ),
    ("sum without dimensions", lambda x: x.sum(), (f(),)),
    ("sum, positions", lambda x: np.sum(x, 0, None, None, True), (f(2, 3),)),
    ("mean method", lambda x: x.mean((0, 1)), (f(2, 3),)),
    ("std, ddof", lambda x: x.std(ddof=1), (f(2, 3),)),
    ("var, correction", lambda x: np.var(x, 0, correction=1), (f(4, 3),)),
    ("reduce", lambda x: np.add.reduce(x) + np.multiply.reduce(x, axis=0) + np.maximum.reduce(x), (f(4, 3),)),
    ("logaddexp.reduce", lambda x: np.logaddexp.reduce(x, 1) + np.logaddexp.reduce(x, (0, 1)), (f(4, 3),)),
    (
        "quantile",
        lambda x: [np.quantile(x, [0.2, 0.71], 1, method=method) for method in QUANTILES],
        (f(3, 6),),
    ),
    ("quantile, ends", lambda x: np.quantile(x, [0.0, 1.0], (0, 2), keepdims=True), (f(2, 3, 4),)),
    ("percentile of all", lambda x: np.percentile(x, 30), (f(3, 4),)),
    ("nanquantile", lambda x: np.nanquantile(x, [[0.1], [0.7]], 1), (nan(3, 9),)),
    ("nanpercentile", lambda x: np.nanpercentile(x, 45, 0), (nan(9, 2),)),
    ("average", lambda x, w: np.average(x, 1, w * w), (f(3, 4), f(3, 4))),
    ("average without weights", lambda x: np.average(x, 1), (f(3, 4),)),
    ("average, weights of an axis", lambda x, w: np.average(x, 0, w * w + 1, True), (f(3, 4), f(3))),
    ("cov", lambda x: np.cov(x), (f(3, 8),)),
    ("cov of two", lambda x, y: np.cov(x, y, rowvar=False, ddof=0), (f(8, 2), f(8))),
    ("corrcoef", lambda x: np.corrcoef(x), (f(3, 8),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_initial_values_with_a_derivative() -> None:
    check_central("initial", lambda x, y, m: np.sum(x, 0, initial=y, where=m), (f(2, 3), f(), b(3)))
    check_central("initial of nanmax", lambda x, m: np.nanmax(x, 0, initial=0.1, where=m), (nan(4, 3), b(3)))


def test_ties_share_equally() -> None:
    for function in (np.max, np.nanmax):
        got = grad_of(lambda x, of=function: of(x, -1), [[1.0, 2.0, 2.0, 0.0], [3.0, 1.0, 0.0, 0.0]])
        np.testing.assert_array_equal(got, [[0, 0.5, 0.5, 0], [1, 0, 0, 0]])


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:Degrees of freedom")
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_rows_without_an_element_have_no_share(name: str) -> None:
    """Their means are NaN, their gradient is not, and the other rows have what they have alone."""
    x, mask = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]), np.array([[False] * 3, [True, True, False]])
    options = {"initial": 1.0} if name in ("max", "min") else {}

    def chosen(x: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return getattr(np, name)(x, 1, where=mask, **options)

    got = grad_of(chosen, x)
    np.testing.assert_array_equal(got[0], np.zeros(3))
    np.testing.assert_allclose(got[1, :2], grad_of(lambda x: getattr(np, name)(x, **options), x[1, :2]))
    assert got[1, 2] == 0


def test_products_with_zeros() -> None:
    for values in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [2.0], []):
        x = np.array(values)
        wanted = [np.prod(np.delete(x, i)) for i in range(len(x))]
        np.testing.assert_array_equal(grad_of(np.prod, x), wanted)


def test_deviations_of_equal_elements_have_no_slope() -> None:
    np.testing.assert_array_equal(grad_of(np.std, [2.0, 2.0, 2.0]), [0, 0, 0])


@each_case("name", ["sum", "mean", "max", "prod", "var", "std", "median"])
def test_derivatives_have_the_dtype_of_the_argument(name: str) -> None:
    for dtype in (np.float16, np.float32):
        x = np.arange(1, 7, dtype=dtype).reshape(2, 3) / 4
        got = grad_of(lambda x: getattr(np, name)(x, 1), x)
        assert got.dtype == dtype
        np.testing.assert_allclose(
            got, grad_of(lambda x: getattr(np, name)(x, 1), x.astype(float)), rtol=4e-3
        )


@pytest.mark.parametrize(
    ("function", "options"), [(np.cov, {"dtype": np.float32}), (np.corrcoef, {})], ids=["cov", "corrcoef"]
)
def test_covariances_have_the_dtype_of_numpys(function: Any, options: dict[str, Any]) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4) ** 2
    expected = function(x, **options)
    mapped = lite.vmap(lambda x: function(x, **options))(x[None])[0]
    value, pull = lite.vjp(lambda x: function(x, **options), x)
    for found in (mapped, value):
        np.testing.assert_equal(found.dtype, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_equal(pull(np.ones_like(expected))[0].dtype, np.float32)
    check_graph(lambda x: function(x, **options), x, axes={})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_covariances_of_too_few_observations_are_not_finite() -> None:
    for x in (np.ones((2, 1)), np.ones((2, 0))):
        expected = np.cov(x, ddof=1)
        for found in (lite.vmap(np.cov)(x[None])[0], lite.jit(np.cov)(x)):
            np.testing.assert_array_equal(found, expected)
    row, square = np.arange(3.0).reshape(1, 3), np.arange(9.0).reshape(3, 3) ** 2
    for given in ((row,), (square, row), (row[0], square[:, 0])):  # NumPy turns a row that comes first
        expected = np.cov(*given, rowvar=False)
        found = lite.jit(lambda *given: np.cov(*given, rowvar=False))(*given)
        np.testing.assert_allclose(found, expected)


def test_sums_in_another_dtype() -> None:
    check_central("sum in double", lambda x: np.sum(x, 0, np.float64), (f(3),))
    raises(NotImplementedError, r"numpy\.sum", lambda: grad_of(lambda x: np.sum(x, dtype=np.int64), [1.5]))


@each_case(
    ("name", "call"),
    [
        ("var", lambda x: np.var(x, mean=np.mean(x, keepdims=True))),
        ("quantile", lambda x: np.quantile(x, 0.5, method="inverted_cdf", weights=x)),
        ("quantile", lambda x: np.quantile(np.arange(3.0), x[0])),
        ("max", lambda x: np.max(x, initial=x[0])),
        ("cov", lambda x: np.cov(x, fweights=[1, 2, 1])),
    ],
)
def test_what_is_not_covered_names_the_function(name: str, call: Any) -> None:
    raises(NotImplementedError, rf"no gradient through numpy\.{name}", lambda: grad_of(call, [0.3, 0.2, 0.9]))


VMAP_CASES: list[Case] = [
    *(
        (
            name,
            lambda x, name=name: tuple(getattr(np, name)(x, axis) for axis in (None, 1, -1)),
            (f(2, 3, 4),),
        )
        for name in ("argmax", "argmin", "cumsum", "cumprod", "nancumsum", "nanargmax")
    ),
    ("sum, initial and dtype", lambda x: np.sum(x, 0, dtype=np.float32, initial=2), (f(2, 3),)),
    ("any and all", lambda x: (x.any(), x.all(0)), (b(2, 3),)),
    ("count_nonzero", lambda x: np.count_nonzero(x, 1), (i(3, 4),)),
    ("diff of booleans", lambda x: np.diff(x), (b(5),)),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


FUNCTIONS = (
    *(np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std),
    *(np.all, np.any, np.ptp, np.count_nonzero),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_along_axes(function) -> None:
    options = [{}] if function is np.ptp else [{}, {"keepdims": True}]
    every = [(axis, given) for axis in AXES for given in options]
    check_graph(lambda x: [function(x, axis=axis, **o) for axis, o in every], numbers(5, 3, 4), rtol=1e-4)


def test_dtypes() -> None:
    for dtype in (np.int64, np.int32, np.bool_, np.float64, np.uint8):
        check_graph(lambda x: (x.sum(1), x.max(1), x.mean(1), x.all(1), x.any(1)), numbers(5, 3, dtype=dtype))


def test_some_elements_only() -> None:
    x, mask = numbers(5, 3), numbers(5, 3, dtype=np.bool_, seed=1)
    check_graph(lambda x, m: np.sum(x, 1, where=m, initial=2.0), x, mask)
    check_graph(lambda x, m: np.max(x, 1, where=m, initial=-9.0), x, mask)
    check_graph(lambda x, m: np.mean(x, 1, where=m | (x > x.min(1, keepdims=True))), x, mask)


def test_variance_with_fewer_degrees() -> None:
    check_graph(lambda x: np.var(x, 1, ddof=1), numbers(5, 3))
    check_graph(lambda x: np.var(x, 0, ddof=1), numbers(5, 3), sizes=(3, 4))


def test_positions() -> None:
    x = numbers(5, 3)
    x[:, 0] = x[:, 1]
    check_graph(lambda x: (x.argmax(1), x.argmin(-1), x.argmax(1, keepdims=True), x.argmax()), x)


def test_norms() -> None:
    x, orders = numbers(5, 3), (None, 1, 2, 3, np.inf, -np.inf, 0)
    check_graph(lambda x: [np.linalg.norm(x, order, axis=-1, keepdims=True) for order in orders], x)
    check_graph(lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=(0, 1)), np.linalg.norm(x[0], 3)), x)
    check_graph(lambda x: np.linalg.vector_norm(x, axis=-1), x)


def test_without_nan_and_weighted() -> None:
    x = numbers(5, 3)
    x[0, 1] = x[3, 2] = np.nan
    check_graph(lambda x: (np.nansum(x, 1), np.nanprod(x, 1), np.nanmean(x, 1, keepdims=True)), x)
    check_graph(lambda x: (np.average(x, 1), np.average(x, 1, np.float32([1, 2, 3]))), numbers(5, 3))
    check_graph(lambda x: np.cumulative_sum(x, axis=1, include_initial=True), numbers(5, 3))


@each_case(
    ("function", "match"),
    [
        (lambda x: np.linalg.norm(x, 2), r"numpy\.linalg\.svdvals, which has no rule"),
        (lambda x: np.max(x, 1, where=x > 0), r"numpy\.a?max .*where needs initial"),
        (lambda x: np.min(x, 1, initial=None, where=x > 0), r"numpy\.a?min .*where needs initial"),
        (lambda x: np.argmax(x, keepdims=True), r"numpy\.argmax"),
    ],
)
def test_what_has_no_operator_is_refused(function: Any, match: str) -> None:
    raises(NotImplementedError, match, lambda: check_graph(function, numbers(5, 3)))


def test_extremes_with_an_initial_value() -> None:
    for dtype in (np.float32, np.bool_):
        x = numbers(5, 3, dtype=dtype)
        check_graph(lambda x: (np.max(x, 1, initial=1), np.min(x, 1, initial=0)), x)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, 2)])
def test_means_of_arrays_of_any_length_are_one_graph(axis: Any) -> None:

    def gradient(x: Any) -> Any:
        return lite.grad(lambda x: (np.tanh(x).mean(axis) ** 2).sum())(x)

    found = lite.jit(gradient, dynamic_axes={"x": {0: "n"}}, threads=1)  # raises where it is not one
    for n in (2, 5, 3):
        x = np.random.default_rng(n).normal(size=(n, 3, 4))
        np.testing.assert_allclose(found(x), gradient(x), rtol=1e-10)


def test_reductions_of_nothing() -> None:
    for name in ("mean", "var", "std", "sum", "prod", "any", "all"):
        for axis in (None, 0, 1):
            function = functools.partial(getattr(np, name), axis=axis)
            found = lite.jit(lambda x, function=function: function(x), threads=1)
            for n in (4, 0, 3):
                x = np.ones((n, 2), np.float32)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy's, of an empty mean
                    np.testing.assert_array_equal(found(x), function(x), strict=True)
            assert len(found._kept) == 2
    for name in ("max", "min"):
        initial = lite.jit(functools.partial(getattr(np, name), axis=0, initial=7), threads=1)
        for dtype in (float, int):
            for rows in (3, 0):
                x = np.full((rows, 2), 7, dtype)
                np.testing.assert_array_equal(initial(x), [7, 7])
        found = lite.jit(functools.partial(getattr(np, name), axis=0), threads=1)
        found(np.ones((4, 2)))
        raises(ValueError, "zero-size array", found, np.ones((0, 2)))


def test_sums_and_products_of_64_bits_have_all_of_them() -> None:
    for dtype in (np.int64, np.uint64, np.int16):
        x = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (5, 3), dtype) | 1
        options = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": 0, "initial": 2**14 + 1}]
        calls = [functools.partial(f, **each) for f in (np.sum, np.prod) for each in options]
        for function in (*calls, functools.partial(np.cumprod, axis=1)):
            for y in (x, x[:0]):
                np.testing.assert_array_equal(lite.jit(function, threads=1)(y), function(y), strict=True)


def test_nan_is_the_largest_and_the_smallest() -> None:
    x = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    x[0, 1:4] = x[3, 7] = x[5] = np.nan
    x[0, 0], x[2, 2], x[6] = np.inf, -np.inf, np.inf
    for axis in (None, 0, 1):
        for function in (np.max, np.min, np.ptp, np.argmax, np.argmin, np.median):
            with np.errstate(all="ignore"):
                want = function(x[:6], axis)
                got = lite.jit(lambda x, f=function, axis=axis: f(x, axis), threads=1)(x[:6])
            np.testing.assert_array_equal(got, want, f"{function.__name__}, {axis}")
    check_graph(lambda x: (np.maximum.accumulate(x, 1), np.max(x, 1, initial=0, keepdims=True)), x)
    for rows in (np.float32([[np.inf, np.inf], [-np.inf, 1], [2, 3]]), np.int8([[100, 127], [1, 2], [3, 4]])):
        check_graph(lambda x: np.median(x, 1, keepdims=True), rows)
        got = lite.jit(lambda x: np.median(x, 0, keepdims=True), threads=1)(rows[:0])
        np.testing.assert_array_equal(got, np.median(rows[:1], 0, keepdims=True) * np.nan, strict=True)


def test_the_logarithm_of_a_sum_of_exponentials() -> None:
    check_graph(lambda x: (np.quantile(x, [0.1, 0.9], 1), np.quantile(x, 0.3, 1)), numbers(4, 3))
    check_graph(lambda x: np.quantile(x, 0.3, 1), np.float32([[-np.inf, 1, 2], [2, 1, 0]]))
    x = np.array([[-np.inf, -np.inf, -np.inf], [1e4, 1e4, -1e4], [-np.inf, 2, 1], [np.inf, 1, 0]], np.float32)
    check_graph(lambda x: (np.logaddexp.reduce(x, axis=-1), np.logaddexp.reduce(x[1:3])), x)
    gradient = lite.grad(lambda x: np.logaddexp.reduce(x, -1, keepdims=True).sum())(x[:3])
    np.testing.assert_allclose(gradient, [[0, 0, 0], [0.5, 0.5, 0], [0, 0.731059, 0.268941]], 1e-3)


def test_small_integers_do_not_wrap_around() -> None:
    x = np.uint8([[200, 3, 7], [90, 255, 0]])
    check_graph(lambda x: (np.linalg.norm(x), np.linalg.norm(x, 1, 1), np.gradient(x, axis=1)), x)
    check_graph(lambda x: (np.var(x > 5, where=x > 4), np.nanvar(x > 100)), x)
    check_graph(lambda x: np.var(x[:1], 1, where=x[:1] > 3), x)
    check_graph(lambda x: (np.average(x, 1, weights=x + 1), np.average(x, 0, weights=x[:, 0])), x)
    check_graph(lambda x: (np.linspace(x[:, 0], x[:, 1], 3), np.gradient(1.0 * x[0], x[0])), x)
    check_graph(lambda x: (np.ravel_multi_index((x, x), (256, 256)), np.unravel_index(x > 5, 2)[0]), x)
    check_graph(lambda x: np.mean(x << 55, where=x > 5), x.astype(np.uint64))
    lower = lite.jit(lambda x: np.quantile(x, 0.5, method="lower"), threads=1)(x)
    assert lower == 7
    assert lower.dtype == x.dtype
    for function in (lambda x: np.linspace(0, x, 3), lambda y: np.average(y, 1, weights=x)):
        assert lite.jit(function, threads=1)(x.astype(np.float32)).dtype == np.float32
