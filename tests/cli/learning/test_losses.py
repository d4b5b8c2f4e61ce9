"""The losses of `lite learn`."""

from argparse import Namespace
from typing import Any

import numpy as np
from helpers.cases import each_case

from lite import TensorDict
from lite.cli.learning.losses import LOSS_TYPES, LOSSES, weights_of

RNG = np.random.default_rng(0)
SAID = np.arange(7) < np.array([7, 2, 5, 0, 3, 6])[:, None]
BEFORE, NOW = (-RNG.random(SAID.shape) for _ in range(2))
ADVANTAGE = RNG.normal(size=len(SAID))
ARGS = {"kl": 0.3, "clip": 0.1, "clip_high": 0.2, "max_new_tokens": 9, "label_smoothing": 0.0}


def of_trl(loss_type: str, reference: Any) -> float:
    """The loss of TRL's GRPOTrainer for a whole batch."""
    ratio = np.exp(NOW - BEFORE)
    gain = np.minimum(ratio * ADVANTAGE[:, None], np.clip(ratio, 0.9, 1.2) * ADVANTAGE[:, None])
    tokens = -gain
    if reference is not None:
        tokens = tokens + 0.3 * (np.exp(reference - NOW) - (reference - NOW) - 1)
    tokens = np.where(SAID, tokens, 0)
    if loss_type == "grpo":
        return float((tokens.sum(1) / np.maximum(SAID.sum(1), 1)).mean())
    if loss_type == "dr_grpo":
        return float(tokens.sum() / (len(SAID) * 9))
    return float(tokens.sum() / SAID.sum())


@each_case("loss_type", ["grpo", "dr_grpo", "dapo", "bnpo"])
def test_parts_of_a_batch_have_the_loss_of_the_whole(loss_type: str) -> None:
    """Rows that no part has, which teach nothing, count as well."""
    args = Namespace(method="grpo", loss_type=loss_type, **ARGS)
    weights = weights_of(SAID, args)
    shares = weights / weights.sum()
    for reference in (None, RNG.random(SAID.shape) - 1):
        total = 0.0
        parts = (slice(0, 6),) if loss_type == "bnpo" else (slice(0, 2), slice(2, 6))  # it is of each part
        for own in parts:
            part: dict[str, Any] = {"before": BEFORE[own], "advantage": ADVANTAGE[own]}
            part |= {} if reference is None else {"reference": reference[own]}
            loss, told = LOSSES["grpo"](NOW[own], part, SAID[own], args)
            total += float(loss) * shares[own].sum()
            assert told.keys() == {"kl", "clip_fraction"}
        np.testing.assert_allclose(total, of_trl(loss_type, reference), rtol=1e-12)


def test_the_types_of_a_loss() -> None:
    """The default is the first."""
    assert LOSS_TYPES["grpo"] == ("dapo", "bnpo", "grpo", "dr_grpo")
    assert LOSS_TYPES["dpo"][:3] == ("sigmoid", "hinge", "ipo")
    assert LOSS_TYPES["sft"] == ()


def test_pairs_are_compared_by_the_tokens_that_learn() -> None:
    said = np.stack([SAID, SAID[::-1]], 1) & (np.arange(7) > 0)
    log_probs, reference = (-RNG.random(said.shape) for _ in range(2))
    ratios = np.where(said, log_probs - reference, 0).sum(-1)
    counts = np.maximum(said.sum(-1), 1)
    margin, per_token = np.diff(-ratios)[:, 0], np.diff(-ratios / counts)[:, 0]
    wanted = {
        "sigmoid": np.log1p(np.exp(-0.3 * margin)),
        "hinge": np.maximum(0, 1 - 0.3 * margin),
        "ipo": (per_token - 1 / 0.6) ** 2,
    }
    for name, losses in wanted.items():
        args = Namespace(method="dpo", loss_type=name, **ARGS)
        part: Any = TensorDict(reference=reference, batch_size=[6])
        loss, told = LOSSES["dpo"](log_probs, part, said, args)
        np.testing.assert_allclose(loss, losses.mean(), rtol=1e-12)
        np.testing.assert_allclose(told["rewards_margins"], 0.3 * margin.mean(), rtol=1e-12)
        assert told["rewards_accuracies"] == (margin > 0).mean()
        np.testing.assert_array_equal(weights_of(said, args), np.ones(6))
