"""Rows of logits as the compiled code is called: only what is given is written."""

import numpy as np
import pytest

pytest.importorskip("numba")
from lite.kernels._logits import Logits
from lite.kernels.cpu import log_softmax


def test_rows_outside_the_range_are_left_alone(rng):
    x = rng.normal(size=(4, 30)).astype(np.float32)
    nothing, bad = np.empty(0, np.float32), np.full(1, -1)
    scores = np.full(4, 7, np.float32)
    tokens = np.array([0, 5, 30, -1])
    operands = Logits(x, None, 1.0).operands()
    log_softmax.rows(*operands, tokens, bad, scores, None, nothing, nothing, 1, 2)
    total = np.log(np.exp(x[1].astype(np.float64)).sum())
    np.testing.assert_allclose(scores, [7, x[1, 5] - total, 7, 7], rtol=1e-6)
    assert bad[0] == -1
    log_softmax.rows(*operands, tokens, bad, scores, None, nothing, nothing, 2, 3)
    assert bad[0] == 2


def test_the_result_may_be_the_logits(rng):
    x = rng.normal(size=(3, 70)).astype(np.float32)
    wide = x.astype(np.float64)
    operands = Logits(x, None, 1.0).operands()
    log_softmax.log_softmax(*operands, False, x.reshape(-1), operands[2], 0, 3)
    np.testing.assert_allclose(x, wide - np.log(np.exp(wide).sum(1, keepdims=True)), rtol=1e-6, atol=1e-7)
