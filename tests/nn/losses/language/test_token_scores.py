"""What actors score, in all layouts of rows."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.nn.token_actors import PROMPTS, ROWS, Scorer, batch, padded

from lite import NonTensorStack, TensorDict, nn, value_and_grad
from lite.nn.losses import GRPOLoss, grpo_loss

ADVANTAGE = np.array([1.0, -0.5, 2.0])


def loss_of(actor: Any, td: Any, **options: Any) -> Any:
    return GRPOLoss(actor, entropy_bonus=False, **options)(td).loss_objective


def check_layouts(layout: str, written: str, strategy: str) -> None:
    """Rows may be ragged or padded in the batch, and in another way by the actor."""
    actor = Scorer(written)
    of_tokens = [np.full(len(ids), value) for ids, value in zip(ROWS, ADVANTAGE, strict=True)]
    td = batch(layout, advantage=ADVANTAGE, of_tokens=of_tokens)
    if strategy == "rlhf":
        td = td.exclude(("tokens", "prompt"))
    starts = [0] * 3 if strategy == "generic" else PROMPTS
    counts = padded([np.arange(len(ids)) >= n for ids, n in zip(ROWS, starts, strict=True)], None, "left")
    before = batch("left")["log_probs", "full"]

    def by_hand(table: Any) -> Any:
        with TensorDict(table=table).to_module(actor):
            rows = [actor.of_row(np.array(ids)) for ids in ROWS]
        now = np.stack([np.concatenate([np.zeros(6 - len(row)), row]) for row in rows])
        return grpo_loss(now, before, ADVANTAGE, counts)["loss_objective"]

    expected, wanted = value_and_grad(by_hand)(actor.table.data)
    for key in ("advantage", "of_tokens"):

        def function(table: Any, key: str = key) -> Any:
            with TensorDict(table=table).to_module(actor):
                loss = GRPOLoss(actor, entropy_bonus=False, masking_strategy=strategy)
                loss.set_keys(advantage=key)
                return loss(td).loss_objective

        value, slope = value_and_grad(function)(actor.table.data)
        np.testing.assert_allclose(value, expected, rtol=1e-7)  # the limits are float32
        np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-12)


@each_case(
    ("strategy", "written", "layout"),
    (
        *(("sft", "same", "left"), ("rlhf", "left", "ragged"), ("generic", "ragged", "generated")),
        *(("sft", "ragged", "ragged"), ("rlhf", "same", "generated"), ("generic", "left", "left")),
    ),
)
def test_layouts(strategy: Any, written: Any, layout: Any) -> None:
    check_layouts(layout, written, strategy)


def test_prompts_without_the_padding_of_rows() -> None:
    """A prompt that is given as ids alone has as many tokens as it is long."""
    td = batch("left", advantage=ADVANTAGE)[:1]
    expected = loss_of(Scorer(), td)
    td["tokens", "prompt"] = np.array([ROWS[0][: PROMPTS[0]]])
    assert loss_of(Scorer(), td) == expected


def test_a_prompt_of_another_row() -> None:
    td = batch("left", advantage=ADVANTAGE)
    td["tokens", "prompt"] = td["tokens", "prompt"][::-1].copy()
    with pytest.raises(
        ValueError, match=r"a prompt \[2, 2, 4\] is not at the start of its row \[1, 2, 3, 4\]"
    ):
        loss_of(Scorer(), td)


def test_without_prompts_assistants_count() -> None:
    td = batch("left", advantage=ADVANTAGE)
    expected = loss_of(Scorer(), td)
    del td["tokens", "prompt"]
    assert loss_of(Scorer(), td) == expected
    del td["masks", "all_assistant_mask"]
    for strategy in ("sft", "rlhf"):
        with pytest.raises(ValueError, match=f"masking '{strategy}' needs .'masks', 'all_assistant"):
            loss_of(Scorer(), td, masking_strategy=strategy)


def test_other_tokens_than_those_of_the_batch() -> None:
    def changed(change: Any) -> Any:
        def actor(td: Any) -> Any:
            ids, mask = change(td["tokens", "full"]), np.ones((3, 6), bool)
            inner = {"tokens": TensorDict(full=ids), "masks": TensorDict(all_attention_mask=mask)}
            return TensorDict({**inner, "log_probs": TensorDict(full=np.zeros(ids.shape))}, [3])

        return actor

    td = batch("left", advantage=ADVANTAGE)
    with pytest.raises(ValueError, match=r"has rows of \[4, 3, 6\] tokens, the actor scored \[6, 6, 6\]"):
        loss_of(changed(lambda ids: ids), td)
    td["masks", "all_attention_mask"][:] = True
    del td["tokens", "prompt"]
    assert np.isfinite(loss_of(changed(lambda ids: ids), td))
    with pytest.raises(ValueError, match=r"scored other tokens than those of the batch\. Texts"):
        loss_of(changed(lambda ids: ids + 1), td)


def test_padded_log_probs_without_tokens_or_masks_lie_as_the_actor_has_the_tokens() -> None:
    """As those that `RetrieveLogProb` writes of conversations, which an actor reads by itself."""
    td, actor = batch("left", advantage=ADVANTAGE), Scorer("same")

    def reads(conversations: Any) -> Any:
        return td.exclude("log_probs").update(actor(td.exclude("log_probs")))

    conversations = td.select("advantage", ("log_probs", "full"))
    expected = loss_of(actor, td, masking_strategy="rlhf")
    assert loss_of(reads, conversations, masking_strategy="rlhf") == expected
    conversations["log_probs", "full"][~td["masks", "all_attention_mask"]] = np.nan
    assert loss_of(reads, conversations, masking_strategy="rlhf") == expected
    rows = batch("ragged").get(("log_probs", "full"), as_list=True)
    conversations["log_probs", "full"] = padded(rows, None, "right")
    with pytest.raises(ValueError, match="has values where the rows that the actor scored have padding"):
        loss_of(reads, conversations, masking_strategy="rlhf")


def test_an_actor_that_scores_nothing() -> None:
    silent = nn.TensorDictModule(lambda ids: ids, [("tokens", "full")], ["ids"])
    with pytest.raises(KeyError, match=r"the actor must write .*; it wrote .*ids"):
        loss_of(silent, batch("left", advantage=ADVANTAGE))


def test_the_batch_stays_as_it_is() -> None:
    td = batch("left", advantage=ADVANTAGE, query=[0, 1, 2])
    td["text"] = NonTensorStack("a", "b", "c")
    before = td.clone()
    loss_of(Scorer(), td.lock_())
    assert set(td.keys(True, True)) == set(before.keys(True, True))
    assert (td.exclude("text") == before.exclude("text")).all()


def test_keys_of_the_actor() -> None:
    """Where a wrapper writes under other names, they are read."""

    class Renamed(Scorer):
        log_probs_key, masks_key = "scores", ("own", "masks")

        def forward(self, td: Any) -> Any:
            out = super().forward(td.set("masks", td["own", "masks"]))
            return TensorDict(
                scores=out["log_probs"], own=TensorDict(masks=out["masks"]), batch_size=td.batch_size
            )

    td = batch("left", advantage=ADVANTAGE)
    expected = loss_of(Scorer(), td)
    td["own"] = TensorDict(masks=td.pop("masks"), batch_size=[3])
    assert loss_of(Renamed(), td) == expected
