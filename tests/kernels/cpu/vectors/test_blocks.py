"""What is said of blocks of logits, of every size and type, with and without a mask."""

import numpy as np
import pytest
from helpers.tiers import standing_for_all

from lite.kernels.backends.choice import backend

pytestmark = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
SIZES = [1, 15, 17, 64, 65, 200]


def compiled(name: str):
    import numba

    from lite.kernels.cpu.vectors import blocks

    function = getattr(blocks, name)
    if name in ("maximum", "odd"):
        return numba.njit(lambda x, bfloat16, keep: function(x, bfloat16, keep))
    return numba.njit(lambda x, a, b, bfloat16, keep: function(x, a, b, bfloat16, keep))


def read(values, bfloat16, keep):
    """The logits as float64."""
    x = values
    if values.dtype == np.uint16:
        x = (values.astype(np.uint32) << 16).view(np.float32) if bfloat16 else values.view(np.float16)
    return np.where(keep, x.astype(np.float64), -np.inf) if keep.size else x.astype(np.float64)


@pytest.mark.parametrize("kind", standing_for_all(["float32", "bfloat16", "float64"]))
def test_results_of_all_sizes(rng, kind):
    functions = {
        name: compiled(name) for name in ("maximum", "odd", "sum_of_exp", "sums_of_exp", "sums_apart")
    }
    for size in SIZES:
        for flags in (np.empty(0, np.bool_), rng.random(size) < 0.7):
            values = rng.normal(size=size).astype(kind if kind in ("float32", "float64") else np.float32)
            if kind == "float16":
                values = values.astype(np.float16).view(np.uint16)
            if kind == "bfloat16":
                values = (values.view(np.uint32) >> 16).astype(np.uint16)
            more = kind == "bfloat16", flags
            x = read(values, *more)
            top = x.max()
            assert functions["maximum"](values, *more) == top
            e, y = np.exp(x * 0.7), np.where(np.isfinite(x), x * 0.7 / np.log(2), 0.0)
            rtol = 1e-13 if kind == "float64" else 1e-6
            expected = e.sum(), (y * e).sum(), top
            got = functions["sums_of_exp"](values, 0.0, 0.7, *more)
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * size)
            got = functions["sum_of_exp"](values, 0.0, 0.7, *more)
            np.testing.assert_allclose(got, (e.sum(), top), rtol=rtol, atol=1e-30)
            if np.isfinite(top):
                d = np.where(np.isfinite(x), x - top, 0.0)
                e = np.where((x < top) & np.isfinite(x), np.exp(d * 0.7), 0.0)
                got = functions["sums_apart"](values, top, 0.7, *more)
                expected = (x == top).sum(), e.sum(), (d * e).sum()
                np.testing.assert_allclose(got, expected, rtol=5 * rtol, atol=1e-30)


def test_odd_numbers_are_counted_where_the_mask_shows_them():
    values = np.zeros(100, np.float32)
    values[[3, 70, 99]], values[[0, 98]] = np.nan, np.inf
    keep = np.ones(100, np.bool_)
    odd = compiled("odd")
    assert odd(values, False, keep) == (3, 2)
    keep[[70, 98]] = False
    assert odd(values, False, keep) == (2, 1)
    assert compiled("maximum")(np.full(20, np.nan, np.float32), False, keep[:0]) == -np.inf
