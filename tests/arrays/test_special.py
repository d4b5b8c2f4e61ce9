"""Special functions of probability against values of 40 digits, which mpmath gave; their ends, and vmap."""

from typing import Any

import numpy as np
from helpers.cases import each_case

from lite import vmap
from lite._arrays import special

# fmt: off
DIGAMMA = [
    (1e-300, -9.999999999999999e+299), (1e-05, -100000.57719921567), (0.25, -4.2274535333762655),
    (1.0, -0.5772156649015329), (1.4616321449683622, -9.241265521729427e-17), (3.5, 1.103156640645243),
    (9.75, 2.225109535044576), (10.5, 2.3030010342976865), (10000.0, 9.210290371142849),
    (1e+300, 690.7755278982137),
]
LOG_BETA = [
    (1e-300, 2.0, 690.7755278982137), (0.5, 0.5, 1.1447298858494002), (3.0, 7.5, -5.713113802085085),
    (0.25, 40.0, 0.3681512477369046), (7.75, 1000000000.0, -152.57985186617495),
    (9.0, 9.0, -12.295867644646389), (50.0, 200000.0, -465.7440128249138),
    (1000000000000.0, 1000000000000.0, -1386294361132.4407),
]
GAMMA_BELOW = [
    (0.001, 1e-08, 0.9823139793538469), (0.5, 0.1, 0.345279153981423), (0.5, 3.0, 0.9856941215645704),
    (2.0, 2.9, 0.7854094417800118), (10.0, 2.0, 4.6498075017263805e-05), (30.0, 33.0, 0.7226986290685928),
    (59.0, 58.0, 0.46515435862068055), (61.0, 40.0, 0.001200979348830932), (61.0, 75.0, 0.9566601987500956),
    (10000.0, 9700.0, 0.001234175584468492), (10000.0, 10000.0, 0.5013298083399552),
    (10000.0, 10300.0, 0.9985295051036143), (1000000.0, 999000.0, 0.15865521357430365),
]
LOG_I0 = [
    (0.0001, 2.4999999984375e-09), (0.5, 0.06154971918548131), (3.0, 1.585307621813421),
    (20.0, 17.589610428244274), (49.9, 47.02858161680337), (50.5, 47.622575075384816),
    (800.0, 795.738911950745), (1000000.0, 999992.1733063128),
]
BESSEL_RATIO = [
    (0.0001, 4.99999999375e-05), (0.5, 0.24249961258080194), (3.0, 0.8099852939565045),
    (20.0, 0.9746705078898071), (49.9, 0.9899287204074461), (50.5, 0.9900489931735169),
    (800.0, 0.9993748044428813), (1000000.0, 0.999999499999875),
]
# fmt: on
CASES = {
    "digamma": (DIGAMMA, 1e-14, 1e-15),
    "log_beta": (LOG_BETA, 1e-14, 0),
    "gamma_below": (GAMMA_BELOW, 3e-13, 0),
    "log_i0": (LOG_I0, 1e-14, 4e-16),
    "bessel_ratio": (BESSEL_RATIO, 1e-15, 0),
}


@each_case("name", CASES)
def test_values(name: str) -> None:
    rows, rtol, atol = CASES[name]
    *arguments, expected = np.array(rows).T
    got = getattr(special, name)(*arguments)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    # the same of one number, and of a matrix
    np.testing.assert_array_equal(getattr(special, name)(*[np.float64(a[0]) for a in arguments]), got[0])
    matrix = getattr(special, name)(*[a[None, :] for a in arguments])
    np.testing.assert_allclose(matrix, got[None], rtol=1e-15)


@each_case("name", CASES)
def test_mapped_arguments(name: str) -> None:
    *arguments, _ = np.array(CASES[name][0]).T
    function = getattr(special, name)
    expected = function(*arguments)
    np.testing.assert_allclose(vmap(function)(*arguments), expected, rtol=1e-15)
    if len(arguments) == 2:  # one mapped, the other not; both, of different levels
        a, b = arguments
        np.testing.assert_allclose(
            vmap(lambda x: function(a, x))(b[:2]), function(a, b[:2, None]), rtol=1e-14
        )
        inner = vmap(lambda x: vmap(lambda y: function(x, y))(b[:3]))(a[:2])
        np.testing.assert_allclose(inner, function(a[:2, None], b[:3]), rtol=1e-14)


@each_case("edge", [8.0, 10.0, 50.0, 60.0])
def test_formulas_meet_where_they_change(edge: float) -> None:
    x = np.array([np.nextafter(edge, 0), edge])
    for values in (
        special.digamma(x),
        special.log_beta(x, np.full(2, 100.0)),
        special.log_beta(x, np.full(2, 0.5)),
        special.gamma_below(x, x - 2),
        special.gamma_below(x, x + 2),
        special.log_i0(x),
        special.bessel_ratio(x),
    ):
        np.testing.assert_allclose(values[0], values[1], rtol=2e-13)


@each_case(
    ("got", "expected"),
    [
        (special.digamma(np.array([0.0, -1.5, np.nan, np.inf])), [-np.inf, np.nan, np.nan, np.inf]),
        (special.log_beta(np.array([0.0, np.nan]), np.ones(2)), [np.inf, np.nan]),
        (special.gamma_below(np.array([0, 1, 1, 1, 2, -1, np.nan]),
            np.array([1, 0, np.inf, -1, np.nan, 1, 1.0])), [1, 0, 1, np.nan, np.nan, np.nan, np.nan]),
        (special.gamma_below(np.array([]), np.array([])), []),
        (special.bessel_ratio(np.zeros(1)), [0]),
        (special.log_i0(np.array([0.0, -2.0, 2.0])), [0, *np.log(np.i0([2.0, 2.0]))]),
        (special.xlogy(np.array([0, 0, 1, np.nan]), np.array([0, np.nan, 0, 1])),
            [0, np.nan, -np.inf, np.nan]),
        (special.xlog1py(np.array([0, 0, 1.0]), np.array([-1, np.nan, -1.0])), [0, np.nan, -np.inf]),
    ],
)  # fmt: skip
def test_ends(got: Any, expected: Any) -> None:
    np.testing.assert_array_equal(got, expected)
