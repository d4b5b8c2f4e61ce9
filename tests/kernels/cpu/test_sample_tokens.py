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
    none, scores, starts = np.empty(0, np.int64), np.empty(0, np.float32), np.zeros(5, np.int64)
    options = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.5], 4)
    tokens, log_probs, status = np.full(4, -7), np.zeros(4, np.float32), np.full(4, -7)
    memory = sample_tokens.work_memory(size)
    sample_tokens.rows(
        x.reshape(-1), np.arange(4) * size, size, scores, np.empty(0, np.bool_), np.empty(0, np.int32), none,
        starts, none, scores, starts, options, np.empty(0, np.uint64), tokens, log_probs, status, np.empty(0),
        0, none, np.empty(0), np.empty(0, np.int32), none, *memory, 0, 4,
    )  # fmt: skip
    assert status.tolist() == [DRAWN, NOTHING, UNKNOWN, DRAWN]
    assert tokens[1:].tolist() == [-7, -7, 42]
    assert abs(log_probs[3]) < 1e-20
    p = np.exp(x[0].astype(np.float64))
    below = np.cumsum(p) / p.sum()
    assert tokens[0] == np.searchsorted(below, 0.5)
