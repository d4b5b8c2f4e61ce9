"""Rows of which too much may be kept for a list, drawn where the code for other rows ends."""

import numpy as np
import pytest

pytest.importorskip("numba")
from lite.kernels.cpu import sample_tokens
from lite.kernels.cpu.flat_rows import flat_row


def test_a_flat_row_is_left_to_code_of_its_own(rng):
    """Later rows are not begun: they use the same memory."""
    size = 5000
    x = np.stack([rng.normal(size=size) * 9, np.zeros(size), rng.normal(size=size) * 9]).astype(np.float32)
    options = np.tile([1.0, 0.0, 0.5, 0.0, 1.0, 1.0, 0.25], 3)
    tokens, log_probs, status = np.full(3, -7), np.zeros(3, np.float32), np.full(3, -7)
    memory, begins = sample_tokens.work_memory(size), np.arange(3) * size
    seeds, absent = np.empty(0, np.uint64), (None,) * 8
    args = (
        x.reshape(-1), begins, size, *absent, options, seeds, tokens, log_probs, status, *absent[:6], *memory,
    )  # fmt: skip
    assert sample_tokens.rows(*args, 0, 3) == 1
    assert tokens[0] >= 0
    assert tokens[1:].tolist() == [-7, -7]
    flat_row(x.reshape(-1), begins, size, options, seeds, tokens, log_probs, None, None, None, *memory, 1)
    assert abs(tokens[1] - 0.625 * size) <= 2  # the last half of equal scores stays; a quarter of that
    np.testing.assert_allclose(log_probs[1], -np.log(size), rtol=1e-6)
    assert sample_tokens.rows(*args, 2, 3) == 3
    assert tokens[2] >= 0
