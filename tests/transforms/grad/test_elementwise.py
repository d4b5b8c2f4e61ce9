"""Rules of functions of single numbers that are no ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import CHECKS, Case, assert_gradients
from helpers.vmap_cases import f, i, nan

import lite

CASES: list[Case] = [
    ("nan_to_num", lambda x: np.nan_to_num(x, nan=2.0) * 3, (nan(9),)),
    ("sinc", np.sinc, (f(4),)),
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


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule(case: Case, check: Any) -> None:
    check(*case)


def grad_of(fn: Any, *args: Any) -> Any:
    return lite.grad(lambda x: np.sum(fn(x)))(*map(np.asarray, args))


def test_sinc_at_zero() -> None:
    np.testing.assert_array_equal(grad_of(np.sinc, [0.0]), [0])


def test_numbers_that_replace_nan_have_no_share() -> None:
    np.testing.assert_array_equal(grad_of(np.nan_to_num, [1.0, np.nan, np.inf]), [1, 0, 0])


def test_weights_of_counts() -> None:
    assert_gradients(lambda w: np.bincount([0, 2, 2, 1], w, 5) ** 2, np.arange(4.0))


def test_extract() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(grad_of(lambda x: np.extract(x > 1.5, x) ** 2, x), [[0, 4], [6, 8]])


@pytest.mark.parametrize(
    "name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfft2", "fftn", "rfftn"]
)
def test_fourier_transforms_are_refused_by_name(name: str) -> None:
    reason = "there are no derivatives of complex numbers"
    with pytest.raises(NotImplementedError, match=rf"numpy\.fft\.{name}: {reason}"):
        grad_of(getattr(np.fft, name), [[1.0, 2.0]])


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_functions_without_slope_are_constants() -> None:
    def fn(x: Any) -> Any:
        assert np.histogram(x, [0, 1, 3])[0].tolist() == [0, 2]
        parts = (np.round(x), np.fix(x), np.around(x, 1), np.isreal(x), np.iscomplex(x), np.isposinf(x))
        assert all(type(part) is np.ndarray for part in parts)
        return x + sum(parts)

    np.testing.assert_array_equal(grad_of(fn, [1.3, 2.7]), [1, 1])


def test_what_is_not_covered_names_the_function() -> None:
    with pytest.raises(NotImplementedError, match=r"numpy\.nan_to_num"):
        grad_of(lambda x: np.nan_to_num(x, copy=False), [1.0])
    for call in (
        lambda x: np.histogram(x)[0],
        lambda x: np.histogram([1.0], [0, 2, 3], weights=x)[0],
        lambda x: np.histogram(x, x)[0],
        lambda x: np.bincount(x),
    ):
        with pytest.raises(NotImplementedError, match=r"numpy\.(histogram|bincount)"):
            grad_of(call, [1.0])
