"""Rules of functions that sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.central_differences import CHECKS, Case, assert_gradients
from helpers.vmap_cases import f

import lite

CASES: list[Case] = [
    *((f"sort, axis={axis}", lambda x, axis=axis: np.sort(x, axis), (f(3, 4),)) for axis in (None, 0, -1)),
    ("sort, kind", lambda x: np.sort(x, kind="heapsort") * np.sort(x, stable=True), (f(5),)),
    ("partition", lambda x: np.sum(np.partition(x, 2, 1)[:, :2], 1), (f(3, 5),)),
    ("partition, several", lambda x: np.partition(x, (1, 3), None)[1:4:2], (f(5),)),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_rule(case: Case, check: Any) -> None:
    check(*case)


def grad_of(fn: Any, *args: Any) -> Any:
    return lite.grad(lambda x: np.sum(fn(x)))(*map(np.asarray, args))


def test_sorting_in_place() -> None:
    def fn(x: Any) -> Any:
        x = x * 2.0
        x.sort(0)
        return x

    assert_gradients(fn, np.random.default_rng(0).standard_normal((4, 3)))


def test_equal_elements_stay_in_their_order() -> None:
    got = grad_of(lambda x: np.sort(x) * np.arange(1.0, 5.0), [2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(got, [3, 2, 4, 1])


def test_nan_is_sorted_to_the_end() -> None:
    got = grad_of(lambda x: np.sort(x)[:2], [2.0, np.nan, 1.0])
    np.testing.assert_array_equal(got, [1, 0, 1])
