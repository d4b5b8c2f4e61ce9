"""Rules of functions that sort, search and choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import CHECKS, Case, b, f, i, ordered, written

CASES: list[Case] = [
    ("sort", lambda x: np.sort(x), (f(2, 5),)),
    ("sort of all", lambda x: np.sort(x, None), (f(2, 5),)),
    ("sort method", written(lambda x: x.sort(0)), (f(5, 2),)),
    ("argsort", lambda x: x.argsort(0), (f(5, 2),)),
    ("partition", lambda x: np.partition(x, 2)[..., 2], (f(5, 5),)),
    ("argpartition", lambda x: np.take_along_axis(x, np.argpartition(x, 2), -1)[..., 2], (f(2, 5),)),
    ("take_along_axis", lambda x, k: np.take_along_axis(x, k, 1), (f(2, 5), i(2, 3))),
    ("put_along_axis", written(lambda x, k, y: np.put_along_axis(x, k, y, 1)), (f(2, 5), i(2, 1), f(2, 1))),
    ("take", lambda x, k: np.take(x, k), (f(2, 5), i(3))),
    ("take, axis", lambda x, k: x.take(k, 1), (f(2, 5), i(3, 2))),
    ("take, clip", lambda x, k: np.take(x, k, 0, mode="clip"), (f(5), i(3, high=9))),
    ("searchsorted", lambda x, y: np.searchsorted(x, y), (ordered(5), f(3, 2))),
    ("searchsorted, right", lambda x, y: np.searchsorted(x, y, "right"), (ordered(5), f())),
    ("choose", lambda k, x, y: np.choose(k, [x, y], mode="wrap"), (i(3), f(3), f(2, 3))),
    ("lexsort", lambda x, y: np.lexsort((x, y)), (f(5), i(5))),
    ("nonzero of as many", lambda x: np.nonzero(x > np.median(x))[0], (f(5),)),
    ("flatnonzero", lambda x: np.flatnonzero(x > np.median(x)), (f(5),)),
    ("copyto", written(lambda x, y, m: np.copyto(x, y, where=m)), (f(2, 3), f(3), b(2, 1))),
    ("putmask", written(lambda x, m: np.putmask(x, m, 3.0)), (f(2, 3), b(2, 3))),
    ("interp", lambda x: np.interp(x, [0.0, 1.0], [2.0, 3.0]), (f(3),)),
    ("digitize", lambda x: np.digitize(x, [0.0, 1.0]), (f(3),)),
    ("isin", lambda x, y: np.isin(x, y), (i(2, 3), i(2))),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule_equals_loop(case: Case, check: Any) -> None:
    check(*case)
