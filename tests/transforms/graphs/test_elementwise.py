"""Functions of elements as operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from lite._arrays import formulas


def test_where_and_clip() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check(lambda x, y: np.where(x > y, x, 0), x, y)
    check(lambda x, y: np.where(x, np.float64(1), y), x, y)
    check(lambda x, y: (np.clip(x, -0.5, None), np.clip(x, y, 1.0), x.clip(max=0)), x, y)
    check(lambda x: np.where(x > 0, 1, 0), x)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # from NumPy 2.5 on
def test_rounding() -> None:
    check(lambda x: (np.round(x), np.round(x, 1), np.fix(x), x.round()), numbers(5, 3) * 5, rtol=1e-6)


def test_what_is_not_finite() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1.0])
    check(lambda x: (np.nan_to_num(x), np.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-3.0)), x)
    check(lambda x: (np.isposinf(x), np.isneginf(x), np.isclose(x, 1.0), np.isclose(x, x, equal_nan=True)), x)


def test_select_and_dtypes() -> None:
    x = numbers(5, 3)
    check(lambda x: np.allclose(x, x), x)
    check(lambda x: np.select([x > 1, x > 0], [x, -x], 2.0), x)
    check(lambda x: np.astype(x, np.float64) + np.ones(3, np.result_type(x, np.float32)), x)
    check(lambda x: (np.real(x), np.copy(x), x.astype(np.int32)), x)


def test_functions_of_lite() -> None:
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    check(lambda x: (formulas.erf(x), formulas.softplus(x), formulas.sigmoid(x), formulas.silu(x)), x)
    check(lambda x: (formulas.erf(x), formulas.erfc(x), formulas.softplus(x)), x.astype(np.float64))


def test_a_function_without_a_rule_is_named() -> None:
    with pytest.raises(NotImplementedError, match="log_gamma, which has no rule"):
        check(formulas.log_gamma, numbers(3, dtype=np.float64))
    with pytest.raises(NotImplementedError, match=r"calls numpy\.where with arguments .*depends on numbers"):
        check(np.where, numbers(3))
    with pytest.raises(NotImplementedError, match=r"numpy\.nan_to_num .*copy=False"):
        check(lambda x: np.nan_to_num(x, copy=False), numbers(3))
