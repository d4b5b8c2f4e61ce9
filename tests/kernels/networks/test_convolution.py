"""Convolutions of any geometry and their derivatives, against windows of NumPy."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from lite.kernels.networks.convolution import Convolution


def by_windows(x: Any, weight: Any, how: Convolution) -> Any:
    """In float64."""
    dims, axes = len(how.stride), tuple(range(2, x.ndim))
    x = np.pad(x.astype(float), ((0, 0), (0, 0), *zip(how.before, how.after, strict=True)))
    extents = [d * (k - 1) + 1 for d, k in zip(how.dilation, weight.shape[2:], strict=True)]
    steps = [slice(None, None, s) for s in (*how.stride, *how.dilation)]
    seen = sliding_window_view(x, extents, axes)[(..., *steps)]
    seen = seen.reshape(len(x), how.groups, -1, *seen.shape[2:])
    apart = weight.reshape(how.groups, -1, *weight.shape[1:])
    letters = "yx"[:dims], "hw"[:dims]
    out = np.einsum(f"ngc{letters[0]}{letters[1]},goc{letters[1]}->ngo{letters[0]}", seen, apart)
    return out.reshape(len(x), -1, *out.shape[3:])


# x, weight, stride, dilation, before, after, groups
CASES: list[Any] = [
    ((2, 3, 9, 20), (9, 3, 3, 2), (1, 1), (1, 1), (1, 0), (0, 2), 1),
    ((3, 2, 40, 13), (4, 2, 8, 5), (4, 2), (1, 1), (0, 1), (1, 3), 1),
    ((1, 4, 11, 12), (2, 2, 3, 1), (2, 3), (3, 2), (2, 0), (0, 0), 2),  # residues without taps
    ((2, 5, 8, 8), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 5),
    ((2, 3, 12, 16), (4, 3, 4, 4), (2, 4), (1, 1), (0, 0), (0, 0), 1),  # whole groups of residues
    ((1, 70, 32, 32), (2, 70, 3, 3), (2, 2), (1, 1), (1, 1), (2, 1), 1),  # bands, the last one beyond the end
    ((2, 2, 50), (40, 2, 4), (3,), (2,), (2,), (1,), 1),
    ((1, 2, 10, 9), (3, 2, 3, 2), (3, 2), (1, 1), (0, 0), (0, 0), 1),  # a last column that no window has
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "dilation", "before", "after", "groups"), CASES)
def test_values_and_derivatives(rng, shape, kernel, stride, dilation, before, after, groups):
    how = Convolution(stride, dilation, before, after, groups)
    x, weight, bias, dx, dw = (
        rng.normal(size=size).astype(np.float32) for size in (shape, kernel, kernel[:1], shape, kernel)
    )
    expected = by_windows(x, weight, how)
    np.testing.assert_allclose(how.values(x, weight, None), expected, rtol=1e-4, atol=1e-5)
    shifted = expected + bias.reshape(-1, *(1,) * len(stride))
    np.testing.assert_allclose(how.values(x, weight, bias), shifted, rtol=1e-4, atol=1e-5)
    # A convolution is linear in both: its derivatives by them are its transposes.
    g = rng.normal(size=expected.shape).astype(np.float32)
    by_x, by_weight = how.by_input(g, weight, shape), how.by_weight(g, x, kernel)
    np.testing.assert_allclose(np.vdot(by_x, dx), np.vdot(g, by_windows(dx, weight, how)), rtol=1e-4)
    np.testing.assert_allclose(np.vdot(by_weight, dw), np.vdot(g, by_windows(x, dw, how)), rtol=1e-4)
