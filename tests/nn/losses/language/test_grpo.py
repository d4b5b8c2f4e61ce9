"""Losses on log-probs of tokens."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case

from lite import grad
from lite.nn import functional as F
from lite.nn.losses import aggregate_tokens, grpo_loss, kl_penalty
from lite.nn.values.entries import detached

MASK = np.array([[1, 1, 1], [1, 0, 0]], bool)


def log_probs(seed: int = 0) -> Any:
    return -np.random.default_rng(seed).random((2, 3))


def test_penalties() -> None:
    now, other = log_probs(), log_probs(1)
    d = now - other
    np.testing.assert_array_equal(kl_penalty(now, other, estimator="k1"), d)
    np.testing.assert_array_equal(kl_penalty(now, other, estimator="k2"), d**2 / 2)
    np.testing.assert_allclose(kl_penalty(now, other), np.exp(-d) - 1 + d)
    assert (kl_penalty(now, other) >= 0).all()
    assert kl_penalty(now.astype(np.float32), other.astype(np.float32)).dtype == np.float32
    # The gradients: of k1 that of the log-prob, of k2 that of the divergence.
    np.testing.assert_array_equal(grad(lambda x: kl_penalty(x, other, estimator="k1").sum())(now), 1.0)
    np.testing.assert_allclose(grad(lambda x: kl_penalty(x, other, estimator="k2").sum())(now), d)
    np.testing.assert_allclose(grad(lambda x: kl_penalty(x, other).sum())(now), 1 - np.exp(-d))


def test_a_divergence_times_the_ratio_has_the_gradient_of_the_exact_one() -> None:
    """In the mean over tokens that another model draws, of which there is one of each, weighted."""
    logits, drew, ref = np.random.default_rng(0).normal(size=(3, 1, 4))
    p = np.exp(F.log_softmax(drew, -1))

    def estimate(x: Any) -> Any:
        now, before, other = (F.log_softmax(a, -1).T for a in (x, drew, ref))
        options = {"kl_to_ref_coeff": 0.5, "aggregation": "none", "use_bias_correction_kl": True}
        out = grpo_loss(now, before, np.zeros(4), ref_log_probs=other, kl_to_inference_coeff=0.5, **options)
        penalty = 0.5 * detached(kl_penalty(now, before))  # as without
        np.testing.assert_allclose(detached(out["loss_kl_to_inference"]), penalty)
        return (out["loss_kl_to_ref"] * p.T).sum()

    def exact(x: Any) -> Any:
        now = F.log_softmax(x, -1)
        return 0.5 * (np.exp(now) * (now - F.log_softmax(ref, -1))).sum()

    np.testing.assert_allclose(estimate(logits), exact(logits))
    np.testing.assert_allclose(grad(estimate)(logits), grad(exact)(logits))


def test_masked_tokens_may_hold_anything() -> None:
    now, before, advantage = log_probs(), log_probs(1), np.array([1.0, -1.0])
    expected = grpo_loss(now, before, advantage, MASK, ref_log_probs=before, kl_to_ref_coeff=0.1)
    weights = np.exp(now - before)[MASK]
    np.testing.assert_allclose(expected["ESS"], weights.sum() ** 2 / (weights**2).sum() / MASK.sum())
    np.testing.assert_allclose(expected["loss_kl_to_ref"], 0.1 * expected["kl_to_ref"])
    out = grpo_loss(now, before, advantage, MASK, entropy=-now, entropy_coeff=0.1)
    np.testing.assert_allclose([out["loss_entropy"], out["entropy"]], now[MASK].mean() * np.array([0.1, -1]))
    np.testing.assert_allclose(expected["kl_to_ref"], kl_penalty(now, before, MASK)[MASK].mean())
    for array, value in ((now, np.nan), (before, -np.inf)):
        array[~MASK] = value
    found = grpo_loss(now, before, advantage, MASK, ref_log_probs=before, kl_to_ref_coeff=0.1)
    for key in expected.keys():  # noqa: SIM118
        np.testing.assert_array_equal(found[key], expected[key])
    derivative = grad(lambda x: grpo_loss(x, before, advantage, MASK)["loss_objective"])(now)
    assert np.isfinite(derivative).all()
    assert not derivative[~MASK].any()


@each_case(("aggregation", "expected"), [("token_mean", 7 / 4), ("prompt_mean", 5 / 2), ("constant", 7 / 8)])
def test_aggregations(aggregation: str, expected: float) -> None:
    loss = np.array([[1.0, 1, 1], [4, 9, 9]])
    assert aggregate_tokens(loss, MASK, aggregation=aggregation, max_tokens=4) == expected
    assert aggregate_tokens(loss, np.zeros((2, 3), bool), aggregation=aggregation) == 0


@each_case("shape", [(2,), (2, 1), (2, 3), (2, 3, 1)])
def test_shapes_of_advantages(shape: tuple[int, ...]) -> None:
    out = grpo_loss(log_probs(), log_probs(1), np.ones(shape))
    np.testing.assert_array_equal(
        out["loss_objective"], grpo_loss(log_probs(), log_probs(1), np.ones(2))["loss_objective"]
    )


@each_case("shape", [(3,), (1, 3), (2, 2), (), (2, 1, 3)])
def test_other_shapes_do_not_broadcast(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the advantage must have the shape"):
        grpo_loss(log_probs(), log_probs(1), np.ones(shape))


def test_ratios_of_responses() -> None:
    now, before = log_probs(), log_probs(1)
    weight = [(now - before)[0].mean(), (now - before)[1, 0]]
    out = grpo_loss(
        now, before, np.array([1.0, 2.0]), MASK, importance_sampling_level="sequence",
        clip_epsilon=(0.9, 9.0), aggregation="prompt_mean",
    )  # fmt: skip
    np.testing.assert_allclose(out["loss_objective"], -np.mean(np.exp(weight) * [1, 2]))


@each_case(
    ("options", "message"),
    [
        ({"aggregation": "max"}, "aggregation must be one of"),
        ({"importance_sampling_level": "word"}, "importance_sampling_level must be 'token' or 'sequence'"),
        ({"kl_to_ref_coeff": 0.1}, "kl_to_ref_coeff needs ref_log_probs"),
        ({"kl_to_ref_coeff": 0.1, "ref_log_probs": log_probs(), "kl_estimator": "k4"}, "'k1', 'k2' or 'k3'"),
        ({"clip_epsilon": -1.0}, "clip_epsilon must not be negative"),
        ({"mask": np.ones((2, 2), bool)}, r"the mask must have the shape \(2, 3\)"),
        ({"sample_log_probs": np.zeros((2, 1))}, r"sample_log_probs must have the tokens' shape \(2, 3\)"),
        ({"log_probs": np.full((2, 3), np.nan)}, r"log_probs is NaN at \[0, 0\]"),
    ],
)
def test_errors(options: Any, message: str) -> None:
    arguments = {
        "log_probs": log_probs(), "sample_log_probs": log_probs(1), "advantage": np.ones(2), **options,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        grpo_loss(**arguments)
