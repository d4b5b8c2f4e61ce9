"""Rows as the compiled code draws from them, and what it reports of each."""

import numpy as np
import pytest

pytest.importorskip("numba")
from lite.kernels._outcomes import DRAWN, NOTHING, UNKNOWN
from lite.kernels.cpu import sample_tokens


def test_rows_report_what_became_of_them(rng):
    size = 100
    x = rng.normal(size=(4, size)).astype(np.float32)
    x[1], x[2, 5], x[3] = -np.inf, np.nan, -5.0
    x[3, 42] = 50.0
    options = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5], 4)
    tokens, log_probs, status = np.full(4, -7), np.zeros(4, np.float32), np.full(4, -7)
    memory = sample_tokens.work_memory(size)
    begins, seeds, absent = np.arange(4) * size, np.empty(0, np.uint64), (None,) * 8
    ended = sample_tokens.rows(
        x.reshape(-1), begins, size, *absent, options, seeds, tokens, log_probs, status, *absent[:6],
        *memory, 0, 4,
    )  # fmt: skip
    assert ended == 4
    assert status.tolist() == [DRAWN, NOTHING, UNKNOWN, DRAWN]
    assert tokens[1:].tolist() == [-7, -7, 42]
    assert abs(log_probs[3]) < 1e-20
    p = np.exp(x[0].astype(np.float64))
    below = np.cumsum(p) / p.sum()
    assert tokens[0] == np.searchsorted(below, 0.5)
