"""Log-probs among recorded supports, of logits in CUDA memory: those of the CPU, up to rounding."""

from typing import Any

import numpy as np
import pytest
from helpers.kernels_under_test import SIMULATED, Foreign, to_device

from lite.kernels import TokenScores, token_log_probs, token_scores
from lite.kernels.cuda._jit import cuda

if not cuda.is_available():
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

INF = np.inf
SIZES = [1, 3, 17, 130, 300] if SIMULATED else [1, 100, 5000, 152_000]


def make(rng: Any, rows: int, size: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Logits, tokens that are mostly in their supports, temperatures, and supports: some rows have none."""
    logits = (rng.normal(size=(rows, size)) * 3).astype(dtype)
    tokens = rng.integers(0, size, rows)
    parts = []
    for row in range(rows):
        chosen = rng.permutation(size)[: rng.integers(1, size + 1)]
        if row != 1:
            chosen = np.union1d(chosen, tokens[row])
        parts.append(rng.permutation(chosen) if row % 3 else np.empty(0, int))
    support = np.cumsum([0, *map(len, parts)]), np.concatenate(parts).astype(np.int32)
    return logits, tokens, rng.uniform(0.3, 2.0, rows), support


def same(got: TokenScores, want: TokenScores, tolerance: float = 2e-6) -> None:
    for name, there, here in zip(TokenScores._fields, got, want, strict=True):
        assert there.dtype == np.float64
        np.testing.assert_allclose(there.copy_to_host(), here, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_the_same_as_on_the_cpu(rng: Any, dtype: str) -> None:
    for size in SIZES if dtype == "float32" else SIZES[2:3]:
        kind = getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype
        logits, tokens, temperatures, support = make(rng, 5, size, kind)
        there, ids = to_device(logits), cuda.to_device(tokens)
        for temperature in (temperatures, 1.0, 0.5):
            options = {"temperature": temperature, "support": support}
            same(token_scores(there, ids, **options), token_scores(logits, tokens, **options))
            alone = token_log_probs(there, ids, **options)
            assert alone.dtype == (np.float64 if dtype == "float64" else np.float32)
            want = token_log_probs(logits, tokens, **options)
            np.testing.assert_allclose(alone.copy_to_host(), want, rtol=2e-6, atol=2e-6)
        same(token_scores(there, ids, temperature=0.5), token_scores(logits, tokens, temperature=0.5))
        same(token_scores(there, ids), token_scores(logits, tokens))


def test_extreme_logits() -> None:
    logits = np.array(
        [[0, -INF, -INF], [INF, 1, INF], [np.nan, 0, 0], [-INF] * 3, [0, 1, np.nan], [1, 2, INF]], np.float32
    )
    support = np.arange(7) * 2, np.array([1, 2, 1, 2, 1, 2, 0, 1, 0, 1, 0, 1])
    tokens = np.array([1, 2, 1, 0, 0, 1])
    for options in ({"support": support}, {"support": support, "temperature": 0.5}, {"temperature": 2.0}):
        there = token_scores(cuda.to_device(logits), cuda.to_device(tokens), **options)
        same(there, token_scores(logits, tokens, **options))


def test_positions_that_do_not_count_and_views(rng: Any) -> None:
    logits, _, temperatures, _ = make(rng, 8, 40, np.float32)
    logits = logits[::2, 5:30]
    tokens = np.array([3, -100, 99, 7])
    mask, support = np.array([True, True, False, True]), ([0, 0, 3, 4, 6], [0, 1, 2, 5, 7, 8])
    options = {"temperature": temperatures[:4], "support": support}
    got = token_scores(Foreign(logits), cuda.to_device(tokens), cuda.to_device(mask), **options)
    same(got, token_scores(logits, tokens, mask, **options))
    for part in got:
        assert not part.copy_to_host()[1:3].any()


def test_batches_of_any_shape(rng: Any) -> None:
    logits = rng.normal(size=(2, 3, 6)).astype(np.float32)
    tokens = rng.integers(0, 6, (2, 3))
    support = np.arange(7), tokens.reshape(-1)
    got = token_scores(cuda.to_device(logits), cuda.to_device(tokens), support=support)
    assert {part.shape for part in got} == {(2, 3)}
    same(got, token_scores(logits, tokens, support=support))
    one = token_scores(cuda.to_device(logits[0, 0]), tokens[0, 0], support=([0, 2], [1, tokens[0, 0]]))
    same(one, token_scores(logits[0, 0], tokens[0, 0], support=([0, 2], [1, tokens[0, 0]])))
    none = token_scores(cuda.to_device(logits[:0]), cuda.to_device(tokens[:0]), support=([0], []))
    assert {part.shape for part in none} == {(0, 3)}


def test_errors(rng: Any) -> None:
    logits, tokens, _, support = make(rng, 3, 4, np.float32)
    there = cuda.to_device(logits)
    with pytest.raises(ValueError, match="mask must have the shape of the positions"):
        token_scores(there, cuda.to_device(tokens), cuda.to_device(np.ones((3, 4), bool)), support=support)
    for function in (token_log_probs, token_scores):
        with pytest.raises(IndexError, match=r"tokens\[1\] is 4, which is outside the vocabulary of 4"):
            function(there, cuda.to_device(np.array([0, 4, 0])), support=support)
        with pytest.raises(IndexError, match="ids of support has 4 for row 1"):
            function(there, cuda.to_device(tokens), support=([0, 0, 1, 1], [4]))
