"""Losses on log-probs of tokens against torchrl's GRPOLoss."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensordict
import torch
from parity.losses import default_dtype
from torchrl.objectives import llm

import lite
from lite.nn.losses import grpo_loss, kl_penalty

SHAPE = (4, 5)


class Scores:
    """A model of the reference whose log-probs are given."""

    in_keys: tuple[str, ...] = ()

    def __init__(self, log_probs, mask):
        self.log_probs, self.mask = log_probs, mask

    def get_dist(self, tensordict, logits_key=None):
        return SimpleNamespace(mask=self.mask, log_prob=lambda action: self.log_probs)


def tokens(padded):
    rng = np.random.default_rng(8)
    now, before, reference = (-rng.random(SHAPE) * 2 for _ in range(3))
    mask = np.ones(SHAPE, bool)
    if padded:
        mask = np.arange(5) < np.array([5, 3, 1, 4])[:, None]
    return now, before, reference, rng.normal(size=4), mask


@pytest.mark.parametrize("aggregation", ["token_mean", "prompt_mean", "none"])
@pytest.mark.parametrize("clip_epsilon", [0.2, (0.1, 0.4)])
@pytest.mark.parametrize("threshold", [None, 0.3])
@pytest.mark.parametrize("padded", [False, True])
def test_values_and_gradients(aggregation, clip_epsilon, threshold, padded):
    now, before, reference, advantage, mask = tokens(padded)
    with default_dtype("float64"):
        scores = torch.from_numpy(now.copy()).requires_grad_()
        loss = llm.GRPOLoss(
            Scores(scores, torch.from_numpy(mask)), clip_epsilon=clip_epsilon, aggregation=aggregation,
            kl_mask_threshold=threshold, entropy_bonus=False, kl_to_ref_coeff=0.1,
        )  # fmt: skip
        td = tensordict.TensorDict(
            {
                ("tokens", "full"): torch.zeros(SHAPE, dtype=torch.int64),
                ("log_probs", "full"): torch.from_numpy(before),
                ("next", "ref_log_probs", "full"): torch.from_numpy(reference),
                "advantage": torch.from_numpy(np.broadcast_to(advantage[:, None, None], (*SHAPE, 1)).copy()),
            },
            batch_size=[4],
        )
        theirs = loss(td)
        mine = grpo_loss(
            now, before, advantage, mask, clip_epsilon=clip_epsilon, aggregation=aggregation,
            kl_mask_threshold=threshold, ref_log_probs=reference, kl_to_ref_coeff=0.1,
        )  # fmt: skip
        weights = torch.from_numpy(np.random.default_rng(1).normal(size=tuple(theirs.loss_objective.shape)))
        (theirs.loss_objective * weights).sum().backward()

        def function(now):
            out = grpo_loss(
                now, before, advantage, mask, clip_epsilon=clip_epsilon, aggregation=aggregation,
                kl_mask_threshold=threshold,
            )["loss_objective"]  # fmt: skip
            return (out * weights.numpy().reshape(out.shape)).sum()

        np.testing.assert_allclose(lite.grad(function)(now), scores.grad.numpy(), 1e-10, 1e-12)
    expected = theirs.loss_objective.detach().numpy()
    np.testing.assert_allclose(mine["loss_objective"], expected.reshape(mine["loss_objective"].shape), 1e-12)
    np.testing.assert_allclose(mine["ESS"], theirs.ESS.numpy(), 1e-12)
    if not padded and threshold is None:  # the reference counts padding in these means
        np.testing.assert_allclose(mine["clip_fraction"], theirs.clip_fraction.numpy(), 1e-12)
        np.testing.assert_allclose(mine["kl_approx"], theirs.kl_approx.numpy(), 1e-12)
        if aggregation == "token_mean":
            np.testing.assert_allclose(mine["kl_to_ref"], theirs.kl_to_ref.numpy(), 1e-12)
            np.testing.assert_allclose(mine["loss_kl_to_ref"], theirs.loss_kl_to_ref.detach().numpy(), 1e-12)


def test_gradient_of_the_penalty():
    now, _, reference, _, _ = tokens(False)
    scores = torch.from_numpy(now.copy()).requires_grad_()
    d = torch.from_numpy(reference) - scores
    (d.exp() - 1 - d).sum().backward()
    found = lite.grad(lambda x: kl_penalty(x, reference).sum())(now)
    np.testing.assert_allclose(found, scores.grad.numpy(), 1e-12)
