"""Filters of beams: what the kernel keeps, and a few tokens more where the reference does."""

from typing import Any

import numpy as np

from lite.kernels import SamplingPlan, masked_log_softmax
from lite.models import GenerationConfig
from lite.models.generation.beams import filtered

OPTIONS: list[dict[str, Any]] = [
    {"temperature": 0.5}, {"top_k": 7}, {"top_p": 0.6}, {"min_p": 0.1}, {"typical_p": 0.4},
    {"temperature": 1.7, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.8},
]  # fmt: skip


def scores(rows: int = 20, size: int = 33) -> np.ndarray:
    logits = np.random.default_rng(3).normal(0, 2, (rows, size)).astype(np.float32)
    return np.asarray(masked_log_softmax(logits))


def of(**options: Any) -> GenerationConfig:
    return GenerationConfig.from_kwargs({"do_sample": True, **options})


def test_the_kernel_keeps_the_same() -> None:
    for options in OPTIONS:
        given = scores()
        given.flags.writeable = False
        plan = SamplingPlan(
            given.shape, np.arange(len(given)), details=True, kept_ids=True, **{"temperature": 1.0, **options}
        )
        _, _, details = plan.draw(given)
        assert details is not None, options
        left = filtered(given, of(**options), 1)
        for i, row in enumerate(left):
            kept = details.kept_ids[details.kept_offsets[i] : details.kept_offsets[i + 1]].tolist()
            assert np.flatnonzero(row > -np.inf).tolist() == (kept or list(range(33))), options
        some = left > -np.inf
        np.testing.assert_allclose(left[some], (given / options.get("temperature", 1.0))[some], rtol=1e-6)


def test_so_many_are_left_at_the_least() -> None:
    cases: list[dict[str, Any]] = [{"top_k": 1}, {"top_p": 0.01}, {"min_p": 1.0}, {"typical_p": 0.01}]
    for least in (1, 3, 99):
        for options in cases:
            kept = filtered(scores(), of(**options), least) > -np.inf
            assert (kept.sum(1) == min(least, 33)).all(), options
            if "typical_p" not in options:
                best = np.argsort(-scores(), 1)[:, : min(least, 33)]
                assert np.take_along_axis(kept, best, 1).all(), options


def test_greedy_options_leave_scores_alone() -> None:
    given = scores()
    assert filtered(given, GenerationConfig(top_k=1, top_p=0.1), 1) is given


def test_what_is_banned_stays_so() -> None:
    """Also where that is all there is."""
    given = scores(3)
    given[:, 5:] = -np.inf
    given[2] = -np.inf
    for options in OPTIONS:
        left = filtered(given, of(**options), 9)
        assert (left[:, 5:] == -np.inf).all()
        assert (left[:2, :5] > -np.inf).any(1).all()
        assert (left[2] == -np.inf).all()
