"""Reductions as operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

FUNCTIONS = [
    np.sum,
    np.prod,
    np.max,
    np.min,
    np.mean,
    np.var,
    np.std,
    np.all,
    np.any,
    np.ptp,
    np.count_nonzero,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_along_axes(function, axis) -> None:
    x = numbers(5, 3, 4)
    check(lambda x: function(x, axis=axis), x, rtol=1e-4)
    if function is not np.ptp:
        check(lambda x: function(x, axis=axis, keepdims=True), x, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_, np.float64, np.uint8])
def test_dtypes(dtype) -> None:
    x = numbers(5, 3, dtype=dtype)
    check(lambda x: (x.sum(1), x.max(1), x.mean(1), x.all(1), x.any(1)), x)


def test_some_elements_only() -> None:
    x, mask = numbers(5, 3), numbers(5, 3, dtype=np.bool_, seed=1)
    check(lambda x, m: np.sum(x, 1, where=m, initial=2.0), x, mask)
    check(lambda x, m: np.max(x, 1, where=m, initial=-9.0), x, mask)
    check(lambda x, m: np.mean(x, 1, where=m | (x > x.min(1, keepdims=True))), x, mask)


def test_variance_with_fewer_degrees() -> None:
    check(lambda x: np.var(x, 1, ddof=1), numbers(5, 3))
    with pytest.raises(NotImplementedError, match=r"numpy\.var .*ddof along a dynamic dimension"):
        check(lambda x: np.var(x, 0, ddof=1), numbers(5, 3))


def test_positions() -> None:
    x = numbers(5, 3)
    x[:, 0] = x[:, 1]
    check(lambda x: (x.argmax(1), x.argmin(-1), x.argmax(1, keepdims=True), x.argmax()), x)


def test_running_sums_and_differences() -> None:
    x = numbers(5, 3)
    check(
        lambda x: (np.cumsum(x, 1), np.cumsum(x, 0), np.diff(x, axis=1), np.diff(x, axis=0)), x, sizes=(2, 7)
    )


@pytest.mark.parametrize("order", [None, 1, 2, 3, np.inf, -np.inf, 0])
def test_norms(order) -> None:
    check(lambda x: np.linalg.norm(x, order, axis=-1, keepdims=True), numbers(5, 3))
    check(lambda x: np.linalg.vector_norm(x, axis=-1), numbers(5, 3))


def test_without_nan_and_weighted() -> None:
    x = numbers(5, 3)
    x[0, 1] = x[3, 2] = np.nan
    check(lambda x: (np.nansum(x, 1), np.nanprod(x, 1), np.nanmean(x, 1, keepdims=True)), x)
    check(lambda x: (np.average(x, 1), np.average(x, 1, np.float32([1, 2, 3]))), numbers(5, 3))
    check(lambda x: np.cumulative_sum(x, axis=1, include_initial=True), numbers(5, 3))


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: np.linalg.norm(x, 2), r"numpy\.linalg\.norm .*norms of matrices"),
        (lambda x: np.linalg.norm(x, 2, axis=(0, 1)), r"numpy\.linalg\.norm .*norms of matrices"),
        (lambda x: np.max(x, 1, where=x > 0), r"numpy\.a?max .*where needs initial"),
        (lambda x: np.min(x, 1, initial=None, where=x > 0), r"numpy\.a?min .*where needs initial"),
        (lambda x: np.var(x, 1, where=x > 0), r"numpy\.var"),
        (lambda x: np.argmax(x, keepdims=True), r"numpy\.argmax"),
    ],
)
def test_what_has_no_operator_is_refused(function, match) -> None:
    with pytest.raises(NotImplementedError, match=match):
        check(function, numbers(5, 3))


def test_norms_of_all_elements() -> None:
    check(
        lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=(0, 1)), np.linalg.norm(x[0], 3)), numbers(5, 3)
    )


def test_extremes_with_an_initial_value() -> None:
    for dtype in (np.float32, np.bool_):
        x = numbers(5, 3, dtype=dtype)
        check(lambda x: (np.max(x, 1, initial=1), np.min(x, 1, initial=0)), x)
