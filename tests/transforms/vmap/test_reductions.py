"""Rules of reductions, and of functions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, b, f, i, nan

CASES: list[Case] = [
    *(
        (f"{name}, axis={axis}", lambda x, name=name, axis=axis: getattr(np, name)(x, axis), (f(2, 3, 4),))
        for name in ("sum", "prod", "max", "min", "mean", "std", "var", "median", "ptp", "nansum", "nanmax")
        for axis in (None, 0, -1, (0, 2))
    ),
    *(
        (f"{name}, axis={axis}", lambda x, name=name, axis=axis: getattr(np, name)(x, axis), (f(2, 3, 4),))
        for name in ("argmax", "argmin", "cumsum", "cumprod", "nancumsum", "nanargmax")
        for axis in (None, 1, -1)
    ),
    *(
        (f"{name} of nan", lambda x, name=name: getattr(np, name)(x, -1), (nan(2, 9),))
        for name in ("nanmean", "nanstd", "nanmedian", "nanmin", "nanprod", "nanvar")
    ),
    ("sum method", lambda x: x.sum(1, keepdims=True), (f(2, 3),)),
    ("sum of all, keepdims", lambda x: x.sum(keepdims=True), (f(2, 3),)),
    ("sum without dimensions", lambda x: x.sum(), (f(),)),
    ("sum, where", lambda x, m: np.sum(x, where=m), (f(2, 3), b(3))),
    ("sum, where and axis", lambda x, m: np.sum(x, 0, where=m), (f(2, 3), b(2, 1))),
    ("sum, initial and dtype", lambda x: np.sum(x, 0, dtype=np.float32, initial=2), (f(2, 3),)),
    ("mean method", lambda x: x.mean((0, 1)), (f(2, 3),)),
    ("std, ddof", lambda x: x.std(ddof=1), (f(2, 3),)),
    ("any and all", lambda x: (x.any(), x.all(0)), (b(2, 3),)),
    ("count_nonzero", lambda x: np.count_nonzero(x, 1), (i(3, 4),)),
    ("quantile", lambda x: np.quantile(x, [0.2, 0.7], axis=1), (f(3, 4),)),
    ("percentile of all", lambda x: np.percentile(x, 30), (f(3, 4),)),
    ("quantile, keepdims", lambda x: np.quantile(x, [0.2, 0.7], keepdims=True), (f(3, 4),)),
    ("average", lambda x, w: np.average(x, 1, w * w), (f(3, 4), f(3, 4))),
    ("average, weights of an axis", lambda x, w: np.average(x, 0, w * w + 1), (f(3, 4), f(3))),
    ("diff", lambda x: np.diff(x, 2, 0), (f(4, 2),)),
    ("diff, prepend", lambda x, y: np.diff(x, prepend=y), (f(2, 4), f(2, 1))),
    ("diff of booleans", lambda x: np.diff(x), (b(5),)),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), (f(2, 4), f(4))),
    ("trapezoid, dx", lambda y: np.trapezoid(y, dx=0.5, axis=0), (f(3, 4),)),
    ("gradient", lambda x: np.gradient(x, axis=1, edge_order=2), (f(2, 5),)),
    ("ediff1d", lambda x, y: np.ediff1d(x, y, 1.0), (f(2, 3), f(2))),
    ("cov", lambda x: np.cov(x), (f(3, 8),)),
    ("corrcoef", lambda x: np.corrcoef(x), (f(3, 8),)),
    ("cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True), (f(2, 3),)),
    ("unwrap", lambda x: np.unwrap(x * 4), (f(3, 8),)),
    ("polyval", lambda x: np.polyval([1.0, 2.0, 3.0], x), (f(3),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
