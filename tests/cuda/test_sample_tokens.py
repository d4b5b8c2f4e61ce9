"""Tokens drawn on a device are those that the CPU draws, whatever the filters, up to rounding."""

from typing import Any

import numpy as np
import pytest
from helpers import reference
from helpers.kernels_under_test import SIMULATED, Foreign

from lite.kernels import DrawDetails, SamplingPlan, sample_tokens, token_log_probs, token_scores
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


@pytest.mark.parametrize("case", range(8 if SIMULATED else 60))
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
    options = {"top_k": top_k, "details": True, "kept_ids": True, "top_n": 3, "temperature": 0.7}
    expected, _, details = sample_tokens(logits, np.arange(rows), **options)
    tokens, _ = sample_tokens(cuda.to_device(logits), np.arange(rows), top_k=top_k, temperature=0.7)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)
    tokens, _, there = sample_tokens(cuda.to_device(logits), np.arange(rows), **options)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)
    same_details(there, details)


def test_views_are_read_where_they_lie(rng: Any) -> None:
    logits = rng.normal(size=(6, 30)).astype(np.float32)[::2, 3:20]
    mask = (rng.random((6, 40)) < 0.7)[::2, 5:22] | (np.arange(17) == 2)
    expected, _ = sample_tokens(logits, np.arange(3), mask=mask)
    tokens, _ = sample_tokens(Foreign(logits), np.arange(3), mask=Foreign(mask))
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)


def test_small_arguments_may_lie_on_either_side(rng: Any) -> None:
    for place in ("host", "device"):
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


def same_details(got: DrawDetails, want: DrawDetails) -> None:
    for name in ("sampled_log_probs", "kept_log_mass", "entropy", "top_log_probs"):
        one, other = getattr(got, name), getattr(want, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert (type(one), one.dtype, one.shape) == (np.ndarray, np.float64, other.shape)
            finite = np.isfinite(other)  # of several +inf the CPU says NaN, a GPU -inf
            np.testing.assert_array_equal(np.isfinite(one), finite, err_msg=name)
            np.testing.assert_allclose(one[finite], other[finite], rtol=1e-6, atol=2e-6, err_msg=name)
    for name in ("kept_offsets", "kept_ids", "top_ids"):
        one, other = getattr(got, name), getattr(want, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("case", range(10 if SIMULATED else 60))
def test_the_same_details_as_on_the_cpu(case: int) -> None:
    rng = np.random.default_rng([case, 12])
    size = int(rng.choice([1, 2, 5, 31, 64, 150] if SIMULATED else [1, 7, 100, 5000, 50257]))
    rows = 3 if SIMULATED else 8
    logits, options = random_call(rng, rows, size)
    wanted = {"kept_ids": bool(rng.random() < 0.7), "top_n": min(size, int(rng.choice([0, 1, 3, size])))}
    seeds = rng.integers(0, 2**62, rows)
    expected, scores, details = sample_tokens(logits, seeds, step=case, details=True, **options, **wanted)
    on_device = {
        name: cuda.to_device(value) if name in ("mask", "previous", "scores") else value
        for name, value in options.items()
    }
    tokens, log_probs, there = sample_tokens(
        cuda.to_device(logits), seeds, step=case, details=True, **on_device, **wanted
    )
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)
    np.testing.assert_allclose(log_probs.copy_to_host(), scores, rtol=1e-5, atol=1e-6)
    same_details(there, details)


@pytest.mark.parametrize("temperature", [0.3, 1.4])
def test_sampled_is_the_raw_log_prob_at_that_temperature_less_the_mass(rng: Any, temperature: float) -> None:
    rows, size = (6, 300) if SIMULATED else (500, 30000)
    logits = (rng.normal(size=(rows, size)) * rng.uniform(0.5, 8, (rows, 1))).astype(np.float32)
    there = cuda.to_device(logits)
    tokens, _, details = sample_tokens(
        there, np.arange(rows), temperature=temperature, top_p=rng.choice([0.5, 0.95, 1.0], rows),
        top_k=rng.choice([0, 40], rows), details=True, kept_ids=True,
    )  # fmt: skip
    raw = reference.log_softmax(logits, temperature)[np.arange(rows), tokens.copy_to_host()]
    np.testing.assert_allclose(details.sampled_log_probs, raw - details.kept_log_mass, rtol=0, atol=1e-6)
    support = details.kept_offsets, details.kept_ids
    again = token_log_probs(there, tokens, temperature=temperature, support=support).copy_to_host()
    np.testing.assert_allclose(again, details.sampled_log_probs, rtol=1e-6, atol=1e-6)
    scores = token_scores(there, tokens, temperature=temperature, support=support)
    for name in ("sampled_log_probs", "kept_log_mass", "entropy"):
        one, other = getattr(scores, name).copy_to_host(), getattr(details, name)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=2e-6, err_msg=name)


def test_details_of_logits_that_are_hidden_infinite_or_equal() -> None:
    """NaN behind a mask, +inf, rows of equal logits, and -inf among the best: as on the CPU."""
    nan, inf = np.nan, np.inf
    logits = np.array(
        [[nan, 1, 2, 0, -inf], [inf, 1, inf, 0, 0], [3, 3, 3, 3, 3], [-inf, 2, -inf, -inf, 1]], np.float32
    )
    mask = np.ones((4, 5), bool)
    mask[0, 0] = False
    options = {"details": True, "kept_ids": True, "top_n": 4, "temperature": 0.7}
    expected, _, details = sample_tokens(logits[1:], np.arange(3), **options)
    tokens, _, there = sample_tokens(cuda.to_device(logits[1:]), np.arange(3), **options)
    np.testing.assert_array_equal(tokens.copy_to_host(), expected)
    same_details(there, details)
    _, _, there = sample_tokens(
        cuda.to_device(logits), np.arange(4), mask=cuda.to_device(mask), top_p=0.9, **options
    )
    assert np.isnan(there.entropy[0])
    assert np.isfinite(there.entropy[1:]).all()
    assert (there.top_ids >= 0).all()


def test_details_of_no_rows() -> None:
    logits = cuda.to_device(np.zeros((0, 4), np.float32))
    tokens, log_probs, details = sample_tokens(logits, np.zeros(0, int), details=True, kept_ids=True, top_n=2)
    assert (tokens.shape, log_probs.shape) == ((0,), (0,))
    assert details.sampled_log_probs.shape == (0,)
    assert (details.top_ids.shape, details.kept_offsets.tolist(), details.kept_ids.size) == ((0, 2), [0], 0)


def test_a_plan_draws_again_in_the_same_memory(rng: Any) -> None:
    plan = SamplingPlan((3, 20), np.arange(3), top_p=0.9, details=True, kept_ids=True, top_n=2)
    for step in range(3):
        logits = rng.normal(size=(3, 20)).astype(np.float32)
        bias = (np.array([0, 0, step, step]), np.arange(step), np.ones(step)) if step else None
        options = {"previous": [[1] * step, [2], []], "bias": bias}
        tokens, log_probs, there = plan.draw(cuda.to_device(logits), step, **options)
        expected, scores, details = sample_tokens(
            logits, np.arange(3), step=step, top_p=0.9, details=True, kept_ids=True, top_n=2, **options
        )
        np.testing.assert_array_equal(tokens.copy_to_host(), expected)
        np.testing.assert_allclose(log_probs.copy_to_host(), scores, rtol=1e-5, atol=1e-6)
        same_details(there, details)
    with pytest.raises(ValueError, match=r"logits must have the shape \(3, 20\), got \(3, 19\)"):
        plan.draw(cuda.to_device(logits[:, :19].copy()))
    with pytest.raises(TypeError, match="logits must be float16"):
        plan.draw(cuda.to_device(np.zeros((3, 20), int)))


def test_rows_that_cannot_be_drawn_from_are_named() -> None:
    logits = np.zeros((3, 4), np.float32)
    logits[1] = -np.inf
    with pytest.raises(ValueError, match=r"logits\[1\] has no token left"):
        sample_tokens(cuda.to_device(logits), np.arange(3), details=True, top_n=2)
    logits[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"logits\[1\] contains NaN"):
        sample_tokens(cuda.to_device(logits), np.arange(3), details=True, kept_ids=True)
