"""Functions that NumPy lacks, against the standard library's."""

import math

import numpy as np
from helpers.cases import each_case, raises

from lite import TensorDict, default_dtype, lazy_stack
from lite._arrays import formulas

X = np.concatenate([np.linspace(-9, 9, 20001), [0.0, 1e-300, 0.5, np.nextafter(0.5, 0), np.inf, -np.inf]])


TINY = np.finfo(np.float64).tiny


def test_erf():
    expected = np.array([math.erf(x) for x in X])
    np.testing.assert_allclose(formulas.erf(X), expected, rtol=1e-15)
    np.testing.assert_allclose(formulas.erf(X.astype(np.float32)), expected, rtol=5e-7, atol=1e-37)
    assert math.isnan(formulas.erf(np.array([np.nan]))[0])
    assert math.copysign(1, formulas.erf(np.array([-0.0]))[0]) == -1


def test_erfc_of_large_numbers_keeps_its_digits():
    x = np.concatenate([X, np.linspace(0.9, 28, 20001)])
    expected = np.array([math.erfc(v) for v in x])
    np.testing.assert_allclose(formulas.erfc(x), expected, rtol=3e-15, atol=TINY * 2e-15)
    assert math.isnan(formulas.erfc(np.array([np.nan]))[0])


def test_log_gamma():
    x = np.concatenate([np.linspace(-40.3137, 200, 24031), np.logspace(-300, 300, 1001), [1.0, 2.0]])
    expected = np.array([math.lgamma(v) for v in x])
    np.testing.assert_allclose(formulas.log_gamma(x), expected, rtol=1e-14, atol=1e-14)
    # near 1 and 2 the results are small, and have all digits: log(gamma(1 + x)) is -0.577 x + 0.822 x² ...
    small = np.array([1e-9, -1e-9])
    series = -0.5772156649015329 * small + 0.8224670334241132 * small**2
    np.testing.assert_allclose(formulas.log_gamma(1 + small), series, rtol=2e-7)  # of 1 + x itself
    poles = np.array([0.0, -0.0, -1.0, -7.0, -1e20, np.inf, -np.inf])
    np.testing.assert_array_equal(formulas.log_gamma(poles), np.inf)
    assert math.isnan(formulas.log_gamma(np.array([np.nan]))[0])


@each_case("name", ["erf", "erfc", "lgamma"])
@each_case("size", [0, 7, 20000])
def test_special_functions_of_tensordicts(name, size):
    x = np.linspace(-3.05, 3, size)
    for dtype, rtol in ((np.float64, 1e-13), (np.float32, 1e-6), (np.float16, 2e-3), (np.int32, 1e-13)):
        given = x.astype(dtype)
        td = TensorDict({"a": given, "t": np.asfortranarray(given.reshape(1, -1)).T}, [size])
        out = getattr(td, name)()
        poles = (given <= 0) & (given % 1 == 0) & (name == "lgamma")
        expected = [np.inf if p else getattr(math, name)(v) for p, v in zip(poles, given, strict=True)]
        np.testing.assert_allclose(out["a"], expected, rtol=rtol, atol=rtol)
        np.testing.assert_array_equal(out["t"][:, 0], out["a"])
        assert out["a"].dtype == (np.float64 if dtype is np.int32 else dtype)
    raises(TypeError, "", lambda: getattr(TensorDict(a=1j), name)())


def test_the_normal_quantile_inverts_the_distribution_function() -> None:
    p = np.concatenate([10.0 ** -np.arange(1, 300, 7), np.linspace(0.001, 0.999, 999)])
    np.testing.assert_allclose(formulas.normal_cdf(formulas.normal_quantile(p)), p, rtol=1e-12)
    np.testing.assert_allclose(
        formulas.normal_quantile(1 - p[-999:]), -formulas.normal_quantile(p[-999:]), atol=1e-12
    )
    np.testing.assert_array_equal(
        formulas.normal_quantile(np.array([0.0, 0.5, 1.0, -0.1, 1.1, np.nan])),
        [-np.inf, 0, np.inf, np.nan, np.nan, np.nan],
    )
    assert formulas.normal_quantile(np.float32(0.9)).dtype == np.float32


@each_case("dtype", [np.float32, np.float64])
def test_normal_cdf(dtype):
    x = X.astype(dtype)
    expected = np.array([0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x])
    got = formulas.normal_cdf(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, rtol=np.finfo(dtype).eps * 100, atol=1e-44)


def test_sigmoid_and_softplus_do_not_overflow():
    x = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(formulas.sigmoid(x), [0, 1 / (1 + math.e), 0.5, math.e / (1 + math.e), 1])
        np.testing.assert_allclose(
            formulas.softplus(x), [0, math.log1p(1 / math.e), math.log(2), math.log1p(math.e), 1e4]
        )


@each_case("axis", [0, 1, -1])
def test_softmax(axis, rng):
    x = rng.normal(size=(4, 5)) * 100
    expected = np.exp(x - x.max(axis, keepdims=True))
    expected /= expected.sum(axis, keepdims=True)
    np.testing.assert_allclose(formulas.softmax(x, axis), expected)
    np.testing.assert_allclose(np.exp(formulas.log_softmax(x, axis)), expected, atol=1e-15)


def test_sums_of_exponentials():
    x = np.array([[1e4, 1e4], [-np.inf, -np.inf], [0, np.inf]])
    np.testing.assert_allclose(formulas.log_sum_exp(x, 1, False), [1e4 + math.log(2), -np.inf, np.inf])
    assert formulas.log_sum_exp(x, None, True).shape == (1, 1)
    np.testing.assert_array_equal(formulas.softmax(x, 1), [[0.5, 0.5], [np.nan, np.nan], [np.nan, np.nan]])
    assert formulas.softmax(np.zeros((2, 0), int), 1).shape == (2, 0)


FLOATING = (
    *("exp", "expm1", "log", "log10", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "sigmoid"),
    *(
        "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
        "erf", "erfc",
    ),
    *("erf", "erfc", "lgamma", "round"),
)  # fmt: skip
FLAGS = np.array([True, False])


@each_case("name", FLOATING)
def test_functions_of_bools_that_give_floats_give_default_floats(name):
    """As torch has it; NumPy computes them in float16."""
    td = TensorDict({"a": FLAGS, "n": {"b": FLAGS}}, [2])
    single = TensorDict({"a": np.array(True)}, [])
    with np.errstate(all="ignore"):
        expected = getattr(TensorDict({"a": FLAGS.astype(np.float32)}, [2]), name)()["a"]
        outs = [getattr(td, name)(), getattr(td, name)()["n"], getattr(lazy_stack([td, td]), name)()[0]]
        for out in (*outs, getattr(single, name)()):
            got = out["a"] if "a" in out else out["b"]
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, expected if got.ndim else expected[0])
        with default_dtype(np.float64):
            assert getattr(td, name)()["a"].dtype == np.float64


@each_case(
    "calls",
    [
        lambda td: (td / 2, 2 / (td | True), td / 2.0, td / (td | True), td.div(True), td.atan2(td)),
        lambda td: (np.exp(td), np.exp2(td), np.hypot(td, td), np.frexp(td)[0]),
        lambda td: (np.true_divide(FLAGS, td | True),),
    ],
)
def test_quotients_and_numpys_functions_of_bools_give_default_floats(calls):
    nested = TensorDict({"a": FLAGS, "n": {"b": FLAGS}}, [2])
    for td in (TensorDict({"a": FLAGS}, [2]), nested, lazy_stack([TensorDict(a=True), TensorDict(a=False)])):
        assert {found["a"].dtype for found in calls(td)} == {np.dtype(np.float32)}


def test_other_numbers_beside_bools_decide_as_in_numpy():
    td = TensorDict({"a": FLAGS}, [2])
    for dtype in (np.int8, np.float16, np.float32, np.int64):
        other = np.array([1, 2], dtype)
        assert (td / other)["a"].dtype == (FLAGS / other).dtype
    assert (td + 1.0)["a"].dtype == np.float64
    assert td.abs()["a"].dtype == bool
    assert np.exp(TensorDict(a=np.int8(1)))["a"].dtype == np.float16
