"""Reductions of single arrays: their dtypes, and their values in wide ones."""

import tracemalloc
from typing import Any

import numpy as np
from helpers.cases import each_case

from lite._arrays import reductions

X = np.array([[3, 1, 2], [1, 5, 0]])


@each_case(
    ("dtype", "total", "mean"),
    [
        (bool, np.int64, np.float64),
        (np.int8, np.int64, np.float64),
        (np.uint64, np.uint64, np.float64),
        (np.float16, np.float16, np.float16),
        (np.float32, np.float32, np.float32),
    ],
)
@each_case("axis", [None, 0, (0, 1)])
@each_case("order", ["<", ">"])  # > is that of FITS files
def test_dtypes_of_sums_and_means(dtype: Any, total: Any, mean: Any, axis: Any, order: str) -> None:
    x = X.astype(np.dtype(dtype).newbyteorder(order))  # type: ignore[call-overload]
    for fn, expected, exact in (
        (reductions.total(np.add), total, np.sum),
        (reductions.mean(), mean, np.mean),
    ):
        out = fn(x, axis, False)
        assert out.dtype.newbyteorder("=") == expected
        np.testing.assert_allclose(out, exact(x.astype(float), axis), rtol=1e-3)


def test_a_mean_of_bytes_takes_no_floats_of_their_number() -> None:
    x = np.full((1000, 1000), 3, np.uint8)
    tracemalloc.start()
    try:
        assert (reductions.mean()(x, 0, False) == 3).all()
        assert tracemalloc.get_traced_memory()[1] < x.nbytes  # eight times as many, as float64
    finally:
        tracemalloc.stop()


def test_narrow_floats_are_summed_in_wide_ones() -> None:
    x = np.full(4096, 1.0, np.float16)  # each step beyond 2048 would be lost
    assert reductions.total(np.add)(x, None, False) == 4096
    assert reductions.variance(1, True)(x, None, False) == 0


def test_nan_is_left_out() -> None:
    x = np.array([[1.0, np.nan], [3.0, np.nan]])
    np.testing.assert_array_equal(reductions.nan_total()(x, 0, False), [4, 0])
    np.testing.assert_array_equal(reductions.nan_mean()(x, 0, False), [2, np.nan])
    np.testing.assert_array_equal(reductions.mean()(np.zeros((0, 2)), 0, False), [np.nan, np.nan])


@each_case("axes", [(0,), (1, 0), (2, 0), (0, 1, 2)])
@each_case("keepdims", [False, True])
def test_positions_over_many_axes(axes: tuple[int, ...], keepdims: bool) -> None:
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4)
    got = reductions.position(np.argmax)(x, axes, keepdims)
    kept = [a for a in range(3) if a not in axes]
    flat = x.transpose((*kept, *sorted(axes))).reshape((*(x.shape[a] for a in kept), -1))
    expected = flat.argmax(-1)
    np.testing.assert_array_equal(got, np.expand_dims(expected, axes) if keepdims else expected)


def test_norms_extremes_and_quantiles() -> None:
    assert reductions.vector_norm()(np.array([3, 4j]), None, False) == 5
    assert reductions.extreme(np.maximum)(np.array([1, np.nan]), 0, False) != 1
    assert reductions.quantile([0.5], "linear")(X, 1, False).tolist() == [[2, 1]]
    assert reductions.every(X, 0, False).tolist() == [True, True, False]
    assert reductions.some(X, None, True).shape == (1, 1)


def test_variances_of_complex_numbers() -> None:
    z = X + 1j * X[::-1, ::-1]
    for root, numpy in ((False, np.var), (True, np.std)):
        found = reductions.variance(1, root)(z, 1, True)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, numpy(z, 1, ddof=1, keepdims=True))
