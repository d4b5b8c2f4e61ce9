"""Rules of functions of single numbers that are no ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, b, c, f, i, nan

CASES: list[Case] = [
    ("np.where", lambda m, x, y: np.where(m, x, y), (b(3), f(2, 3), f())),
    ("clip", lambda x, low: np.clip(x, low, 1), (f(2, 3), f(3))),
    ("clip method", lambda x: x.clip(min=0), (f(3),)),
    ("clip above", lambda x: np.clip(x, None, 0.5), (f(3),)),
    ("round", lambda x: x.round(1), (f(3),)),
    ("nan_to_num", lambda x: np.nan_to_num(x), (nan(5),)),
    ("real and imag", lambda x: (x.real, x.imag, np.conj(x), np.angle(x)), (c(3),)),
    ("isclose", lambda x, y: np.isclose(x, y, rtol=2), (f(3), f(2, 3))),
    ("isclose with nan", lambda x, y: np.isclose(x, y, equal_nan=True), (nan(9), nan(9))),
    ("allclose", lambda x, y: np.allclose(x, y, atol=1.0), (f(2), f(2))),
    ("array_equal", lambda x, y: np.array_equal(x, y), (i(1), i(1))),
    ("select", lambda x: np.select([x > 0.5, x > 0], [x, x * 2], -1.0), (f(5),)),
    ("sinc", lambda x: np.sinc(x), (f(3),)),
    ("isposinf", lambda x: np.isposinf(x), (f(3),)),
    ("astype", lambda x: x.astype(np.float32), (f(3),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
