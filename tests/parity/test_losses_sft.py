"""SFTLoss and its functions against torchrl's."""

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case, raises
from parity.losses import batches, compare_gradients, default_dtype
from tensordict import nn as tnn
from torchrl.objectives import llm
from torchrl.objectives.llm import sft as reference

import lite
from lite import nn
from lite.nn import losses

WORDS, ROWS, LENGTH = 7, 4, 6


class Scores(nn.Module):
    """Log-probs of each token after the one before it."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 3), nn.Linear(3, WORDS)

    def forward(self, ids):
        shares = nn.functional.log_softmax(self.head(self.words(ids[:, :-1])), -1)
        scores = np.take_along_axis(shares, ids[:, 1:, None], -1)[..., 0]
        return np.concatenate([scores[:, :1] * 0, scores], -1)


class TorchScores(torch.nn.Module):
    """The same of the reference."""

    def __init__(self):
        super().__init__()
        self.words, self.head = torch.nn.Embedding(WORDS, 3), torch.nn.Linear(3, WORDS)

    def forward(self, ids):
        shares = torch.nn.functional.log_softmax(self.head(self.words(ids[:, :-1])), -1)
        scores = shares.gather(-1, ids[:, 1:, None])[..., 0]
        return torch.cat([scores[:, :1] * 0, scores], -1)


def rows():
    """Conversations, here their ids; the reference model's log-probs are 0 where assistants did not speak."""
    rng = np.random.default_rng(0)
    real = np.arange(LENGTH) < np.array([6, 5, 3, 4])[:, None]
    said = (rng.random((ROWS, LENGTH)) < 0.6) & real
    said[:, 1] = True
    return said, {
        ("history", "full"): rng.integers(0, WORDS, (ROWS, LENGTH)),
        ("masks", "all_attention_mask"): real,
        ("masks", "all_assistant_mask"): said,
        ("next", "ref_log_probs", "full"): -rng.random((ROWS, LENGTH)) * 3 * said,
    }


@pytest.mark.filterwarnings("ignore:kl_to_ref_coeff")
@each_case(
    ("reduction", "normalize", "kl_to_ref_coeff"),
    [("mean", True, 0.3), ("sum", False, None), ("none", True, None), ("mean", False, 0.3)],
)
@each_case("loss_function", ["sft", "minor_sft"])
def test_values_and_gradients(loss_function, reduction, normalize, kl_to_ref_coeff):
    options = {
        "loss_function": loss_function,
        "reduction": reduction,
        "beta": 0.7,
        "normalize_by_seq_length": normalize,
    }
    said, entries = rows()
    share = said.mean()
    keys = [("history", "full")], [("log_probs", "full")]
    with default_dtype("float64"):
        torch.manual_seed(0)
        torch_actor = tnn.TensorDictModule(TorchScores(), *keys)
        theirs = llm.SFTLoss(torch_actor, tokenizer=object(), kl_to_ref_coeff=kl_to_ref_coeff, **options)

        def made():
            actor = nn.TensorDictModule(Scores(), *keys)
            actor.load_state_dict({key: value.numpy() for key, value in torch_actor.state_dict().items()})
            # The reference's penalty is a mean over all tokens, with 0 for those that do not count.
            own = None if kl_to_ref_coeff is None else kl_to_ref_coeff * share
            return losses.SFTLoss(actor, kl_to_ref_coeff=own, **options), batches(entries, (ROWS,))[0]

        loss, td = made()
        stacked = tensordict.lazy_stack(batches(entries, (ROWS,))[1].unbind(0))  # others it cannot compare
        expected, found = theirs(stacked), loss(td)
        assert type(found).__name__ == type(expected).__name__
        assert loss.in_keys == theirs.in_keys
        np.testing.assert_allclose(found.loss_sft, expected.loss_sft.detach().numpy(), 1e-12)
        for name in ("loss_kl_to_ref", "kl_to_ref"):
            mine, other = found.get(name), expected.get(name)
            assert (mine is None) == (other is None)
            if mine is not None:
                scale = share if name == "kl_to_ref" else 1
                np.testing.assert_allclose(mine * scale, other.detach().numpy(), 1e-12)
        compare_gradients(made, theirs, expected, 1e-10)


@each_case("reduction", ["mean", "sum", "none"])
def test_functions(reduction):
    now, before = -np.random.default_rng(0).random((2, 5)) * 4
    given = [torch.from_numpy(x) for x in (now, before)]
    np.testing.assert_allclose(
        losses.sft_loss(now, reduction), reference.sft_loss(given[0], reduction), 1e-12
    )
    expected = reference.minor_sft_loss(*given, 0.5, reduction)
    np.testing.assert_allclose(losses.minor_sft_loss(now, before, 0.5, reduction), expected, 1e-12)
    raises(ValueError, r".", lambda: reference.sft_loss(given[0], "max"))
    raises(ValueError, "reduction must be", lambda: losses.sft_loss(now, "max"))


def test_ragged_rows():
    """Rows of different lengths, in lazy stacks on both sides."""
    said, entries = rows()
    real = entries["masks", "all_attention_mask"]
    options = {"kl_to_ref_coeff": 0.5}

    def stacked(lib, convert):
        parts = []
        for i in range(ROWS):
            part = lib.TensorDict({})
            for key, values in entries.items():
                part.set(key, convert(values[i][real[i]]))
            # which the reference cannot read if it is ragged
            part.set(("history", "full"), convert(np.array(i)))
            parts.append(part)
        return lib.lazy_stack(parts)

    def of_rows(lib, convert, scores, td):
        ids = [convert(entries["history", "full"][i][real[i]]) for i in td["history", "full"].tolist()]
        out = [scores(row[None])[0] for row in ids]
        return lib.lazy_stack([lib.TensorDict({"log_probs": lib.TensorDict({"full": row})}) for row in out])

    with default_dtype("float64"):
        torch.manual_seed(0)
        theirs, ours = TorchScores(), Scores()
        ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
        expected = llm.SFTLoss(
            lambda td: of_rows(tensordict, torch.from_numpy, theirs, td), tokenizer=object(), **options
        )(stacked(tensordict, torch.from_numpy))
        found = losses.SFTLoss(lambda td: of_rows(lite, np.copy, ours, td), **options)(stacked(lite, np.copy))
    np.testing.assert_allclose(found.loss_sft, expected.loss_sft.detach().numpy(), 1e-12)
    share = said.sum() / real.sum()
    np.testing.assert_allclose(found.kl_to_ref * share, expected.kl_to_ref.numpy(), 1e-12)
