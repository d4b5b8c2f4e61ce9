"""Derivatives of the special functions of lite."""

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import Case
from helpers.rule_tests import of_derivatives
from helpers.vmap_cases import f

import lite
from lite._arrays import formulas, special
from lite._transforms.grad.special import _DERIVATIVES, trigamma


def positive(x: Any) -> Any:
    return np.abs(x) * 3 + 0.2


CASES: list[Case] = [
    *(
        (fn.__name__, lambda x, fn=fn: fn(x * 2), (f(2, 3),))
        for fn in (formulas.erf, formulas.erfc, special.log_i0)
    ),
    *(
        (fn.__name__, lambda x, fn=fn: fn(positive(x)), (f(2, 3),))
        for fn in (formulas.log_gamma, special.digamma, special.bessel_ratio)
    ),
    ("bessel_ratio", lambda x: special.bessel_ratio(x * 0.0 + x * [0, 1, 2]), (f(2, 3),)),
    ("log_beta", lambda x, y: special.log_beta(positive(x), positive(y)), (f(2, 3), f(3))),
    ("gamma_below", lambda x: special.gamma_below(np.array([0.5, 2.0, 9.0]), positive(x)), (f(2, 3),)),
]

test_derivatives, test_graphs_of_derivatives = of_derivatives(CASES)


def test_every_function_of_the_table_is_tested() -> None:
    assert {fn.__name__ for fn in _DERIVATIVES} == {name for name, *_ in CASES}


def test_trigamma() -> None:
    np.testing.assert_allclose(trigamma(np.array([1.0, 0.5])), [np.pi**2 / 6, np.pi**2 / 2], rtol=1e-13)
    x = np.array([1e-3, 0.7, 30.0, 1e4])
    np.testing.assert_allclose(trigamma(x) - trigamma(x + 1), 1 / x**2, rtol=1e-8)


def test_a_function_without_a_formula_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"gamma_below by its argument 0: detach it"):
        lite.grad(lambda a: special.gamma_below(a, np.array(1.0)))(np.array(2.0))
    with pytest.raises(NotImplementedError, match=r"_unknown by its argument 0"):
        lite.grad(lambda x: x.elementwise(_unknown))(np.array(2.0))


def _unknown(x: Any) -> Any:
    return x
