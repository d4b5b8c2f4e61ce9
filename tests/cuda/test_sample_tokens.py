"""Tokens drawn on a device are those that the CPU draws, whatever the filters, up to rounding.

Up to now only the simulator has run it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.kernels_under_test import SIMULATED, Foreign

from lite.kernels import SamplingPlan, sample_tokens
from lite.kernels.cuda._jit import cuda

if not cuda.is_available():
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)


def random_call(rng: Any, rows: int, size: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Logits, some rounded so that scores are equal, and options of which each is often left out."""
    logits = rng.normal(size=(rows, size)) * rng.choice([0.5, 3, 10])
    logits = (np.round(logits) if rng.random() < 0.3 else logits).astype(rng.choice(["e", "f", "d"]))
    if size > 3 and rng.random() < 0.2:
        logits[0, [1, 3]] = np.inf
    options: dict[str, Any] = {
        "temperature": rng.choice([0.0, 0.5, 1.0, 2.0, 1e-30], rows),
        "top_k": rng.integers(0, 12, rows),
        "top_p": float(rng.choice([0.0, 0.3, 0.9, 0.999, 1.0])),
        "min_p": float(rng.choice([0.05, 0.5, 1.0])),
        "previous": rng.integers(-1, size + 2, (rows, 4)),
        "repetition_penalty": rng.choice([0.7, 1.3], rows),
        "mask": (rng.random((rows, size)) < 0.7) | (np.arange(size) == 0),
        "typical_p": rng.choice([0.0, 0.4, 0.95, 1.0], rows),
        "bias": (np.arange(rows + 1), rng.integers(0, size, rows), rng.choice([2.0, -1.0], rows)),
        "scores": (logits * 0.5).astype("f"),
    }
    return logits, {name: value for name, value in options.items() if rng.random() < 0.5}


@pytest.mark.parametrize("case", range(16 if SIMULATED else 300))
def test_the_same_draws_as_on_the_cpu(case: int) -> None:
    rng = np.random.default_rng(case)
    size = int(rng.choice([1, 2, 5, 31, 64, 200] if SIMULATED else [1, 7, 100, 5000, 50257]))
    rows = 3 if SIMULATED else 8
    logits, options = random_call(rng, rows, size)
    seeds = rng.integers(0, 2**62, rows)
    expected, scores = sample_tokens(logits, seeds, step=case, **options)
    on_device = {
        name: cuda.to_device(value) if name in ("mask", "previous", "scores") else value
        for name, value in options.items()
    }
    tokens, log_probs = sample_tokens(cuda.to_device(logits), seeds, step=case, **on_device)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)
    np.testing.assert_allclose(log_probs.copy_to_host(), scores, rtol=1e-5, atol=1e-6)
    assert (tokens.dtype, log_probs.dtype) == (np.int64, np.float32)


def test_more_rows_than_blocks_and_more_kept_than_threads(rng: Any) -> None:
    """Blocks take several rows each; top-k beyond the threads of a block has no bound from their maxima."""
    rows, size, top_k = (7, 20, 5) if SIMULATED else (1000, 2000, 800)
    logits = rng.normal(size=(rows, size)).astype(np.float32)
    expected, _ = sample_tokens(logits, np.arange(rows), top_k=top_k)
    tokens, _ = sample_tokens(cuda.to_device(logits), np.arange(rows), top_k=top_k)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)


def test_views_are_read_where_they_lie(rng: Any) -> None:
    logits = rng.normal(size=(6, 30)).astype(np.float32)[::2, 3:20]
    mask = (rng.random((6, 40)) < 0.7)[::2, 5:22] | (np.arange(17) == 2)
    expected, _ = sample_tokens(logits, np.arange(3), mask=mask)
    tokens, _ = sample_tokens(Foreign(logits), np.arange(3), mask=Foreign(mask))
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)


@pytest.mark.parametrize("place", ["host", "device"])
def test_small_arguments_may_lie_on_either_side(rng: Any, place: str) -> None:
    logits = rng.normal(size=(3, 9)).astype(np.float32)
    options = {
        "seeds": np.arange(3), "step": np.array([4, 0, 2]), "temperature": np.array([0.5, 1, 2]),
        "top_k": np.array([3, 0, 9], np.uint16), "repetition_penalty": np.array([1.3, 1.0, 0.9]),
    }  # fmt: skip
    expected, _ = sample_tokens(logits, previous=[[1], [2, 2], []], **options)
    if place == "device":
        options = {name: cuda.to_device(value) for name, value in options.items()}
    tokens, _ = sample_tokens(cuda.to_device(logits), previous=[[1], [2, 2], []], **options)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)


def test_streams_and_devices() -> None:
    logits = cuda.to_device(np.zeros((2, 4), np.float32))
    tokens, _ = sample_tokens(logits, np.arange(2), temperature=0, stream=cuda.stream())
    np.testing.assert_array_equal(tokens.copy_to_host(), [0, 0])
    with pytest.raises(TypeError, match=r"mixed devices: logits is an array in CUDA memory .*mask is not"):
        sample_tokens(logits, np.arange(2), mask=np.ones((2, 4), bool))
    plan = SamplingPlan((2, 4), np.arange(2))
    for name, value in (("mask", np.ones((2, 4), bool)), ("scores", np.ones((2, 4), np.float32))):
        with pytest.raises(TypeError, match=f"mixed devices: {name} is an array in CUDA memory"):
            plan.draw(np.zeros((2, 4), np.float32), **{name: cuda.to_device(value)})
    with pytest.raises(TypeError, match="seeds is an array in CUDA memory"):
        sample_tokens(np.zeros((2, 4), np.float32), cuda.to_device(np.arange(2)))
    with pytest.raises(TypeError, match="previous is an array in CUDA memory"):
        sample_tokens(logits, np.arange(2), previous=[cuda.to_device(np.arange(2)), [1]])


def test_what_is_not_there_yet_is_named() -> None:
    logits = cuda.to_device(np.zeros((2, 4), np.float32))
    with pytest.raises(NotImplementedError, match="details of draws from logits in CUDA memory"):
        sample_tokens(logits, np.arange(2), details=True)
