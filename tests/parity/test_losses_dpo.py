"""DPO's losses against the formulas that TRL's DPOTrainer (1.16) computes with torch, and their gradients."""

import numpy as np
import torch
from helpers.cases import each_case
from torch.nn.functional import logsigmoid

import lite
from lite.nn.losses import dpo_loss

BETA, SMOOTHING, TAU = 0.3, 0.2, 0.05
COUNTS = np.array([3, 8, 5, 1]), np.array([4, 2, 9, 6])


def formulas(chosen, rejected, ref_chosen, ref_rejected):
    """What each `loss_type` is for a pair."""
    first, second = chosen - ref_chosen, rejected - ref_rejected
    delta = first - second
    score = BETA * delta
    lengths = [torch.from_numpy(count) for count in COUNTS]
    of_tokens = first / lengths[0] - second / lengths[1]
    share = torch.sigmoid(score / TAU)
    mix = torch.log(torch.tensor(SMOOTHING, dtype=torch.float64))

    def smoothed(x):
        return -logsigmoid(BETA * x) * (1 - SMOOTHING) - logsigmoid(-BETA * x) * SMOOTHING

    def ordered(x):
        return torch.sort(x, dim=0).values

    return {
        "sigmoid": smoothed(delta),
        "hinge": torch.relu(1 - score),
        "ipo": (of_tokens - 1 / (2 * BETA)) ** 2,
        "exo_pair": torch.sigmoid(score) * (logsigmoid(score) - np.log1p(-SMOOTHING))
        + torch.sigmoid(-score) * (logsigmoid(-score) - mix),
        "nca_pair": -logsigmoid(BETA * first)
        - 0.5 * logsigmoid(-BETA * first)
        - 0.5 * logsigmoid(-BETA * second),
        "robust": (-(1 - SMOOTHING) * logsigmoid(score) + SMOOTHING * logsigmoid(-score))
        / (1 - 2 * SMOOTHING),
        "bco_pair": -logsigmoid(BETA * first) - logsigmoid(-BETA * second),
        "sppo_hard": (first - 0.5 / BETA) ** 2 + (second + 0.5 / BETA) ** 2,
        "aot": smoothed(ordered(chosen - rejected) - ordered(ref_chosen - ref_rejected)),
        "aot_unpaired": smoothed(ordered(first) - ordered(second)),
        "apo_zero": 1 - torch.sigmoid(BETA * first) + torch.sigmoid(BETA * second),
        "apo_down": torch.sigmoid(BETA * first) + 1 - torch.sigmoid(score),
        "discopop": -logsigmoid(score) * (1 - share) + torch.exp(-score) * share,
        "sigmoid_norm": -logsigmoid(BETA * of_tokens),
    }


NAMES = sorted(formulas(*torch.zeros(4, 4)))


@each_case("name", NAMES)
def test_values_and_gradients(name):
    given = -np.random.default_rng(0).random((4, 4)) * 6
    leaves = [torch.from_numpy(row.copy()).requires_grad_(i < 2) for i, row in enumerate(given)]
    expected = formulas(*leaves)[name]
    expected.mean().backward()
    options = {
        "beta": BETA, "label_smoothing": SMOOTHING, "loss_type": name, "discopop_tau": TAU,
        "chosen_lengths": COUNTS[0], "rejected_lengths": COUNTS[1],
    }  # fmt: skip
    each = dpo_loss(*given, reduction="none", **options)["loss_dpo"]
    np.testing.assert_allclose(each, expected.detach().numpy(), 1e-12)

    def function(chosen, rejected):
        return dpo_loss(chosen, rejected, *given[2:], **options)["loss_dpo"]

    found = lite.grad(function, (0, 1))(*given[:2])
    for mine, leaf in zip(found, leaves, strict=False):
        np.testing.assert_allclose(mine, leaf.grad.numpy(), 1e-10, 1e-12)


def test_without_smoothing():
    """TRL's "sigmoid" of today knows no smoothing: with 0 they are the same."""
    chosen, rejected, *others = -np.random.default_rng(0).random((4, 4)) * 6
    score = BETA * torch.from_numpy((chosen - others[0]) - (rejected - others[1]))
    expected = -logsigmoid(score).mean().numpy()
    np.testing.assert_allclose(dpo_loss(chosen, rejected, *others, beta=BETA)["loss_dpo"], expected, 1e-12)
