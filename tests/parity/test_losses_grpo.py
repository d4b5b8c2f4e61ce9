"""GRPO's losses, on log-probs of tokens and as modules, against torchrl's."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from parity.losses import batches, default_dtype
from torchrl.modules.distributions import LLMMaskedCategorical
from torchrl.objectives import llm

import lite
from lite import TensorDict, nn
from lite.nn import losses
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


@each_case(
    ("aggregation", "clip_epsilon", "threshold", "padded"),
    [
        ("token_mean", 0.2, None, False), ("token_mean", (0.1, 0.4), 0.3, True),
        ("prompt_mean", 0.2, 0.3, False), ("prompt_mean", (0.1, 0.4), None, True),
        ("none", 0.2, 0.3, True), ("none", (0.1, 0.4), None, False),
    ],
)  # fmt: skip
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


# -- the modules ---------------------------------------------------------------------------------------------

WORDS, ROWS, LENGTH, PROMPT = 7, 4, 6, 2
MASKS = "all_attention_mask", "all_assistant_mask"


class Scorer(nn.Module):
    """Scores each token by the one before it."""

    in_keys = (("tokens", "full"),)

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 3), nn.Linear(3, WORDS)

    def logits(self, td):
        out = self.head(self.words(td["tokens", "full"][..., :-1]))
        return np.concatenate([out[..., :1, :] * 0, out], -2)

    def forward(self, td):
        shares = nn.functional.log_softmax(self.logits(td), -1)
        scores = np.take_along_axis(shares, td["tokens", "full"][..., None], -1)[..., 0]
        return td.set("log_probs", TensorDict(full=scores, batch_size=td.batch_size))


class TorchActor(torch.nn.Module):
    """The same of the reference, as distributions."""

    in_keys = (("tokens", "full"),)

    def __init__(self):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(WORDS, 3), torch.nn.Linear(3, WORDS)

    def logits(self, td):
        out = self.head(self.words(td["tokens", "full"][..., :-1]))
        return torch.cat([out[..., :1, :] * 0, out], -2)

    def dist(self, td, mask):
        return LLMMaskedCategorical(self.logits(td), mask)

    def _get_sft_dist(self, td):
        return self.dist(td, td["masks", MASKS[0]] & (torch.arange(LENGTH) >= PROMPT))

    def _get_rlhf_dist(self, td):
        return self.dist(td, td["masks", MASKS[1]])

    def _get_generic_dist(self, td):
        return self.dist(td, td["masks", MASKS[0]])

    get_dist = _get_generic_dist


class Distributor(Scorer):
    """`TorchActor` on this side."""

    def dist(self, td, mask):
        return nn.distributions.LLMMaskedCategorical(self.logits(td), mask)

    def _get_sft_dist(self, td):
        return self.dist(td, td["masks", MASKS[0]] & (np.arange(LENGTH) >= PROMPT))

    _get_rlhf_dist, get_dist = TorchActor._get_rlhf_dist, TorchActor._get_generic_dist
    _get_generic_dist = TorchActor._get_generic_dist


def batch_of_rows(padded):
    rng = np.random.default_rng(3)
    real, said = np.ones((ROWS, LENGTH), bool), rng.random((ROWS, LENGTH)) < 0.5
    if padded:
        real = np.arange(LENGTH) < np.array([6, 5, 3, 4])[:, None]
    before = -rng.random((ROWS, LENGTH)) * 3
    before[0, 3] = np.nan  # of a token of an earlier turn
    entries = {
        ("tokens", "full"): rng.integers(0, WORDS, (ROWS, LENGTH)),
        ("masks", MASKS[0]): real,
        ("masks", MASKS[1]): said & real,
        ("log_probs", "full"): before,
        ("next", "ref_log_probs", "full"): -rng.random((ROWS, LENGTH)) * 3,
        "advantage": np.broadcast_to(rng.normal(size=(ROWS, 1, 1)), (ROWS, LENGTH, 1)).copy(),
    }
    entries["tokens", "prompt"] = entries["tokens", "full"][:, :PROMPT].copy()
    counts = {"sft": real & (np.arange(LENGTH) >= PROMPT), "rlhf": said & real, "generic": real}
    return batches(entries, (ROWS,)), {key: mask & ~np.isnan(before) for key, mask in counts.items()}


@each_case(
    ("strategy", "aggregation", "padded"),
    [
        ("sft", "token_mean", True), ("rlhf", "prompt_mean", False), ("generic", "none", True),
        ("sft", "none", False), ("rlhf", "token_mean", True), ("generic", "prompt_mean", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "entropy_bonus"), [("GRPOLoss", False), ("GRPOLoss", True), ("DAPO", False), ("CISPOLoss", True)]
)
def test_modules(name, entropy_bonus, strategy, aggregation, padded):
    """All outputs, and gradients by every parameter, whether the actor distributes or scores."""
    options = {
        "clip_epsilon": (0.2, 0.28), "aggregation": aggregation, "masking_strategy": strategy,
        "entropy_bonus": entropy_bonus, "kl_to_ref_coeff": 0.1, "kl_to_inference_coeff": 0.3,
    }  # fmt: skip
    (td, other), counts = batch_of_rows(padded)
    share = counts[strategy].mean()
    with default_dtype("float64"):
        torch.manual_seed(0)
        torch_actor = TorchActor()
        theirs = getattr(llm, name)(torch_actor, **options)
        expected = theirs(other)
        actor = Distributor() if entropy_bonus else Scorer()
        weights = {key: value.detach().numpy() for key, value in torch_actor.state_dict().items()}
        actor.load_state_dict(weights)
        ours = getattr(losses, name)(actor, **options)
        before = td.clone()
        found = ours(td)
        assert set(td.keys(True, True)) == set(before.keys(True, True))
        for key, value in before.items(True, True):
            np.testing.assert_array_equal(td[key], value)
        assert type(found).__name__ == type(expected).__name__
        assert ours.out_keys == theirs.out_keys
        assert ours.in_keys == theirs.in_keys
        of_losses = {key: value for key, value in expected.items() if key.startswith("loss")}
        for key, value in expected.items():
            mine, wanted = np.asarray(found.get(key)), value.detach().numpy()
            if key in ("clip_fraction", "kl_approx") or "_to_" in key:
                wanted = wanted / share  # the reference counts what is masked in these means
            if key == "entropy" or ("_to_" in key and key.startswith("loss") and aggregation != "token_mean"):
                continue  # the reference has the entropy of what is masked, and means of tokens alone
            np.testing.assert_allclose(mine, wanted.reshape(mine.shape), 1e-10, 1e-12, err_msg=key)
        if entropy_bonus and aggregation == "token_mean":
            np.testing.assert_allclose(found.entropy, -100 * found.loss_entropy, 1e-12)
        own = [key for key in of_losses if "_to_" not in key]
        total = sum(expected.get(key).sum() for key in own)
        if aggregation == "token_mean":
            total = total + (expected.loss_kl_to_ref + expected.loss_kl_to_inference) / share
        total.backward()

        def function(params):
            with params.to_module(ours):
                out = ours(td)
            kept = [*own, *([k for k in of_losses if "_to_" in k] if aggregation == "token_mean" else [])]
            return sum(out.get(key).sum() for key in kept)

        params = TensorDict.from_module(ours).select("actor_network").data
        grads = lite.grad(lambda params: function(params))(params)
        for key, parameter in theirs.actor_network.named_parameters():
            mine = grads["actor_network", *key.split(".")]
            np.testing.assert_allclose(mine, parameter.grad.numpy(), 1e-9, 1e-11, err_msg=key)
