"""SFTLoss and its functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.token_actors import PROMPTS, ROWS, Scorer, batch

from lite import TensorClass, TensorDict, lazy_stack
from lite.nn.losses import SFTLoss, minor_sft_loss, sft_loss


class Conversations(TensorClass):
    """What renders itself, as a `History` does."""

    content: Any

    def apply_chat_template(self, *, tokenizer: Any, **options: Any) -> Any:
        assert tokenizer == "tokenizer"
        assert options["return_assistant_tokens_mask"]
        assert options["add_generation_prompt"] is False
        assert options["chat_template_name"] == "qwen"
        said = [np.arange(len(ids)) >= start for ids, start in zip(ROWS, PROMPTS, strict=True)]
        return lazy_stack(
            [
                TensorDict(assistant_masks=mask.astype(int), attention_mask=np.ones(len(mask), int))
                for mask in said
            ]
        )


REFERENCE = [np.linspace(-2, -1, len(ids)) for ids in ROWS]


def log_probs_of_responses() -> list[Any]:
    actor = Scorer()
    return [actor.of_row(np.array(ids))[start:] for ids, start in zip(ROWS, PROMPTS, strict=True)]


@each_case(("written", "layout"), (("left", "ragged"), ("ragged", "left"), ("left", "generated")))
def test_by_hand(written: Any, layout: Any) -> None:
    td = batch(layout, reference=REFERENCE)
    rows, others = (
        log_probs_of_responses(),
        [ref[n:] for ref, n in zip(REFERENCE, PROMPTS, strict=True)],
    )
    sums, means = ([f(row) for row in rows] for f in (np.sum, np.mean))
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, -np.mean(means)),
        ({"normalize_by_seq_length": False, "reduction": "sum"}, -np.sum(sums)),
        ({"reduction": "none"}, -np.array(means)),
        (
            {"loss_function": "minor_sft", "beta": 0.5},
            np.log1p(np.exp(-0.5 * (np.array(means) - [row.mean() for row in others]))).mean(),
        ),
    ]
    for options, expected in cases:
        loss = SFTLoss(Scorer(written), **options)
        loss.set_keys(ref_log_prob="reference")
        np.testing.assert_allclose(loss(td).loss_sft, expected)
    loss = SFTLoss(Scorer(written), kl_to_ref_coeff=0.5)
    loss.set_keys(ref_log_prob="reference")
    assert [key if isinstance(key, str) else key[-1] for key in loss.in_keys][1:] == ["reference"]
    assert len(SFTLoss(Scorer(written)).in_keys) == 1
    out = loss(td)
    d = np.concatenate(others) - np.concatenate(rows)
    np.testing.assert_allclose(
        [out.kl_to_ref, out.loss_kl_to_ref], (np.exp(d) - 1 - d).mean() * np.array([1, 0.5])
    )


def test_without_a_mask_the_prompt_does_not_count() -> None:
    td = batch("left")
    expected = SFTLoss(Scorer())(td).loss_sft
    del td["masks", "all_assistant_mask"]
    assert SFTLoss(Scorer())(td).loss_sft == expected
    del td["tokens", "prompt"]
    with pytest.raises(
        ValueError, match=r"needs .*all_assistant_mask.*which the actor did not write, or .*prompt"
    ):
        SFTLoss(Scorer())(td)


def test_the_mask_is_made_with_a_tokenizer() -> None:
    """Where there is a history, its template tells what assistants said."""

    td = batch("ragged")
    expected = SFTLoss(Scorer("ragged"))(td).loss_sft
    td = td.exclude("masks", ("tokens", "prompt"))
    loss = SFTLoss(Scorer("ragged"), "tokenizer", {"chat_template_name": "qwen"})
    loss.set_keys(history="history")

    td["history"] = Conversations(content=np.arange(3), batch_size=[3])
    assert loss(td).loss_sft == expected
    assert {*loss._with_mask(td)["masks"].keys()} == {"all_assistant_mask", "all_attention_mask"}
    assert "masks" not in td.keys()  # noqa: SIM118


def test_functions() -> None:
    now, before = np.array([-1.0, -3.0]), np.array([-2.0, -2.0])
    np.testing.assert_array_equal(sft_loss(now, "none"), [1, 3])
    expected = -np.log(1 / (1 + np.exp(-0.5 * (now - before))))
    np.testing.assert_allclose(minor_sft_loss(now, before, 0.5, "sum"), expected.sum())
    raises(ValueError, r"must have one shape, got \(2,\) and \(1,\)", lambda: minor_sft_loss(now, before[:1]))


def test_errors() -> None:
    with pytest.raises(ValueError, match="loss_function must be 'sft' or 'minor_sft', got 'dpo'"):
        SFTLoss(Scorer(), loss_function="dpo")
    with pytest.warns(UserWarning, match="kl_to_ref_coeff has no use"):
        loss = SFTLoss(Scorer(), loss_function="minor_sft", kl_to_ref_coeff=0.1)
    td = batch("left")
    raises(ValueError, "Reference log probs not found", lambda: loss(td))
    td["masks", "all_assistant_mask"][:] = False
    raises(ValueError, "no valid assistant masks", lambda: SFTLoss(Scorer())(td))
