"""Plans draw what `sample_tokens` does, again and again."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.kernels import SamplingPlan, get_num_threads, sample_tokens, sampling_plan, set_num_threads
from lite.kernels.backends.choice import backend

COMPILED = backend() != "numpy"


def test_a_plan_draws_what_sample_tokens_does(rng: Any) -> None:
    rows, size = 4, 200
    options = {
        "temperature": np.array([0, 0.5, 1, 2.0]), "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2,
    }  # fmt: skip
    plan = SamplingPlan((rows, size), np.arange(rows), **options)
    for step in range(6):
        logits = rng.normal(size=(rows, size)).astype(np.float32)
        given: dict[str, Any] = {}
        if step % 2:
            given = {
                "mask": rng.random((rows, size)) < 0.8,
                "previous": rng.integers(0, size, (rows, 5)),
                "bias": (np.array([0, 1, 1, 2, 3]), np.array([5, 6, 7]), np.array([2.0, -np.inf, 1.0])),
            }
        if step == 5:
            given["scores"] = logits * 2
        tokens, log_probs, details = plan.draw(logits, step, **given)
        expected, scores = sample_tokens(logits, np.arange(rows), step=step, **options, **given)
        np.testing.assert_array_equal(tokens, expected)
        np.testing.assert_array_equal(log_probs, scores)
        assert details is None


def test_steps_may_differ_by_row(rng: Any) -> None:
    logits = rng.normal(size=(3, 100)).astype(np.float32)
    plan = SamplingPlan((3, 100), [1, 2, 3])
    steps = np.array([5, 0, 7], np.int32)
    together = plan.draw(logits, steps)[0].copy()
    for row, step in enumerate(steps):
        assert plan.draw(logits, int(step))[0][row] == together[row]
        assert plan.draw(logits, step)[0][row] == together[row]


def test_the_next_draw_overwrites_the_arrays() -> None:
    plan = SamplingPlan((1, 3), [0], temperature=0, details=True, kept_ids=True, top_n=1)
    tokens, log_probs, details = plan.draw(np.array([[0, 1, 0]], np.float32))
    assert tokens.tolist() == [1]
    again = plan.draw(np.array([[0, 0, 1]], np.float32))
    assert tokens is again[0]
    assert log_probs is again[1]
    assert tokens.tolist() == [2]
    assert details is not None


def test_memory_of_one_draw_is_not_seen_by_the_next(rng: Any) -> None:
    """Rows of very different kinds, one after the other in one memory."""
    size = 2101
    kinds = [
        np.zeros((1, size)),
        rng.normal(size=(1, size)),
        np.full((1, size), -np.inf),
        rng.normal(size=(1, size)) * 9,
    ]
    kinds[2][0, 77] = np.inf
    plan = SamplingPlan((1, size), [4], top_p=0.9, typical_p=0.9, details=True, kept_ids=True, top_n=3)
    for step in range(12):
        logits = kinds[(step * 7) % 4].astype(np.float32)
        tokens, log_probs, details = plan.draw(logits, step)
        expected, scores, fresh = sample_tokens(
            logits, [4], step=step, top_p=0.9, typical_p=0.9, details=True, kept_ids=True, top_n=3
        )
        assert (tokens[0], log_probs[0]) == (expected[0], scores[0])
        assert details is not None
        for name in ("sampled_log_probs", "kept_log_mass", "entropy", "kept_ids", "top_ids", "top_log_probs"):
            np.testing.assert_array_equal(getattr(details, name), getattr(fresh, name))


def test_a_failed_draw_leaves_the_plan_usable() -> None:
    plan = SamplingPlan((2, 3), [0, 1], temperature=0)
    with pytest.raises(ValueError, match=r"logits\[1\] contains NaN"):
        plan.draw(np.array([[0, 1, 0], [0, np.nan, 0]], np.float32))
    assert plan.draw(np.array([[0, 1, 0], [0, 0, 1]], np.float32))[0].tolist() == [1, 2]


def test_views_are_read_where_they_lie(rng: Any) -> None:
    logits = rng.normal(size=(3, 4, 50)).astype(np.float32)
    for view in (logits[:, -1], logits[::-1, 1], logits[:, 2, ::2], logits[0, :, :20].T):
        plan = SamplingPlan(view.shape, np.arange(len(view)))
        expected, _ = sample_tokens(view.copy(), np.arange(len(view)))
        np.testing.assert_array_equal(plan.draw(view)[0], expected)


def test_generators_draw_anew(rng: Any) -> None:
    logits = rng.normal(size=(4, 30)).astype(np.float32)
    plan = SamplingPlan((4, 30), np.random.default_rng(5))
    generator = np.random.default_rng(5)
    for _ in range(5):
        np.testing.assert_array_equal(plan.draw(logits)[0], sample_tokens(logits, generator)[0])


def test_threads_that_find_no_memory_left_make_their_own(rng: Any, monkeypatch: Any) -> None:
    class Taken(list[Any]):  # as if another thread took the last one after this one looked
        def __bool__(self) -> bool:
            return True

    logits = rng.normal(size=(4, 50)).astype(np.float32)
    plan = SamplingPlan(logits.shape, [1, 2, 3, 4])
    expected = plan.draw(logits)[0].copy()
    monkeypatch.setattr(plan, "_memories", Taken())
    monkeypatch.setattr(sampling_plan, "_SERIAL", 0)
    monkeypatch.setattr(sampling_plan, "get_num_threads", lambda: 2)
    np.testing.assert_array_equal(plan.draw(logits)[0], expected)


def test_rows_on_several_threads(rng: Any) -> None:
    size = 20000 if COMPILED else 2100
    logits = (rng.normal(size=(8, size)) * 0.5).astype(np.float32)
    before = get_num_threads()
    results = []
    try:
        for threads in (1, 4):
            set_num_threads(threads)
            plan = SamplingPlan((8, size), np.arange(8), top_p=0.9, details=True, kept_ids=True)
            tokens, _, details = plan.draw(logits, 3)
            assert details is not None
            results.append((tokens, details.kept_ids, details.sampled_log_probs))
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)


def test_errors() -> None:
    raises(ValueError, r"seeds must have the shape \(2,\), got \(3,\)", SamplingPlan, (2, 5), np.arange(3))
    for shape in ((2, 5, 7), (2, 0)):
        with pytest.raises(ValueError, match=r"shape must be \(rows, vocabulary\), got"):
            SamplingPlan(shape, np.arange(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seeds and step must be integers, got seeds of float64"):
        SamplingPlan((2, 5), np.zeros(2))
    with pytest.raises(TypeError, match="top_n must be an integer"):
        SamplingPlan((2, 5), np.arange(2), details=True, top_n=1.5)  # type: ignore[arg-type]
    plan = SamplingPlan((2, 5), np.arange(2))
    with pytest.raises(ValueError, match=r"logits must have the shape \(2, 5\), got \(2, 4\)"):
        plan.draw(np.zeros((2, 4), np.float32))
    raises(TypeError, "logits must be float16", plan.draw, np.zeros((2, 5), np.int32))
    with pytest.raises(ValueError, match=r"step must have the shape \(\) or \(2,\), got \(3,\)"):
        plan.draw(np.zeros((2, 5), np.float32), np.arange(3))
    with pytest.raises(TypeError, match="seeds and step must be integers, got a step of float64"):
        plan.draw(np.zeros((2, 5), np.float32), 0.5)


def test_draws_from_one_memory_follow_what_it_holds(rng: np.random.Generator) -> None:
    logits = rng.normal(size=(3, 50)).astype(np.float32)
    plan = SamplingPlan((3, 50), [1, 2, 3], top_p=0.8)
    for step in range(6):
        logits[:] = rng.normal(size=logits.shape)
        bias = (np.array([0, 1, 1, 1]), np.array([7]), np.array([50.0])) if step in (2, 5) else None
        got = plan.draw(logits, np.array([step, 4, 9]) if step % 2 else step, bias=bias)
        steps = np.array([step, 4, 9]) if step % 2 else np.full(3, step)
        want = sample_tokens(logits.copy(), [1, 2, 3], step=steps, top_p=0.8, bias=bias)
        for mine, theirs in zip(got, want, strict=False):
            np.testing.assert_array_equal(mine, theirs)
    logits[1] = np.nan
    raises(ValueError, r"logits\[1\] contains NaN", plan.draw, logits, 0)
    logits[1] = 0
    other = logits[:, ::-1]
    np.testing.assert_array_equal(plan.draw(other)[0], sample_tokens(other, [1, 2, 3], top_p=0.8)[0])
