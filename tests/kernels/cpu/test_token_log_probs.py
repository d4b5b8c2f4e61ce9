"""The compiled half of `token_scores`: what is not asked for is not written, nor are other rows."""

import numpy as np
import pytest

from lite.kernels import token_scores
from lite.kernels._logits import Logits
from lite.kernels.cpu import token_log_probs as cpu


@pytest.mark.depth
def test_only_what_is_wanted_is_written(rng):
    for wanted in range(8):
        x, tokens = rng.normal(size=(4, 30)).astype(np.float32), np.array([3, 1, 2, 29])
        support = np.array([0, 2, 2, 4, 5]), np.array([3, 4, 1, 5, 29], np.int32)
        expected = token_scores(x, tokens, temperature=0.5, support=support)
        flat, bfloat16, starts, size, keep, _, counted, inverses = Logits(x, None, 0.5).operands()
        bad, work = np.full(1, -1, np.int64), np.empty(2, np.float32)
        out = np.full((4, 4), 7.0)
        cpu.scores(
            flat, bfloat16, starts, size, keep, counted, inverses, tokens, bad, *support, wanted, *out,
            work, 1, 3,
        )  # fmt: skip
        log_probs, sampled, masses, entropies = expected
        bits = (cpu.MODEL, cpu.MODEL, cpu.SAMPLED, cpu.MASS)
        for got, all_of_it, bit in zip(out, (log_probs, entropies, sampled, masses), bits, strict=True):
            np.testing.assert_array_equal(got[1:3], all_of_it[1:3] if wanted & bit else 7.0)
            assert got[[0, 3]].tolist() == [7.0, 7.0]
        assert bad[0] == -1
