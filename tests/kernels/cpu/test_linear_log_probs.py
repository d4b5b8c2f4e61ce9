"""Blocks of logits as the compiled code is called: rows of a range alone, and those after other blocks."""

import numpy as np
import pytest

pytest.importorskip("numba")
from lite.kernels.cpu import linear_log_probs

NOTHING = np.empty(0, np.bool_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_join(rng, dtype):
    """Rows 1 and 2 of 4, whose highest logit is in the first, second or third block."""
    x = rng.normal(size=(4, 30)).astype(dtype)
    x[1, 25], x[2, 3] = 9, 9
    tokens, inverses = np.array([0, 14, 29, 0]), np.full(4, 0.5)
    highest, counts, rests, logits = np.full(4, -np.inf), np.zeros(4), np.zeros(4), np.full(4, 7.0)
    sums = np.zeros(4)
    for first in (0, 10, 20):
        block, factors = x[:, first : first + 10].copy(), np.full(4, 7.0)
        given = block.reshape(-1), 10, inverses, tokens, first, highest, counts, rests, logits
        linear_log_probs.merge(*given, factors, NOTHING, 1, 3)
        assert factors[[0, 3]].tolist() == [7, 7]
        np.testing.assert_array_equal(block[[0, 3]], x[[0, 3], first : first + 10])
        sums = sums * factors + block.sum(1)
    np.testing.assert_array_equal(highest, [-np.inf, 9, 9, -np.inf])
    np.testing.assert_array_equal(logits, [7, x[1, 14], x[2, 29], 7])
    expected = np.exp((x[1:3].astype(np.float64) - 9) / 2).sum(1)
    np.testing.assert_allclose((counts + rests)[1:3], expected, rtol=1e-6)
    np.testing.assert_allclose(sums[1:3], expected, rtol=1e-6)


def test_derivatives_by_logits(rng):
    x = rng.normal(size=(3, 10)).astype(np.float32)
    block, highest, inverses = x.copy(), x.max(1).astype(np.float64), np.full(3, 0.5)
    scales, gains = np.array([7.0, -0.25, -0.5]), np.array([7.0, 1.0, 2.0])
    given = block.reshape(-1), 10, inverses, np.array([20, 24, 30]), 20, highest, scales, gains
    linear_log_probs.shares(*given, NOTHING, 1, 3)
    expected = scales[:, None] * np.exp((x - highest[:, None]) / 2)
    expected[0], expected[1, 4] = x[0], expected[1, 4] + 1
    np.testing.assert_allclose(block, expected, rtol=1e-6, atol=1e-7)
