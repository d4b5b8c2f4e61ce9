"""What a collector asks of a wrapper: its input, what was cut off, seeds of rows; and a collection."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, MODES, Make, prompts, rows
from helpers.models.real_models import MODELS

import lite
from lite import TensorDict
from lite.data import (
    LazyStackStorage,
    LLMCollector,
    MCAdvantage,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
    row_seeds,
)
from lite.models import ChatHistory, History, OnnxWrapper, RetrieveLogProb, embedded_model_path
from lite.nn.losses import DPOLoss, GRPOLoss, SFTLoss
from lite.optim import SGD

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def given(mode: str) -> list[Any]:
    return [HI, HELLO] if mode == "tokens" else ["Hi", "Hello"]


def test_the_input_is_made_of_prompts(wrap: Make) -> None:
    for mode in MODES:
        wrapper = wrap(mode, **({"chat_template": TEMPLATE} if mode == "history" else {}))
        td = wrapper.input_of(given(mode))
        assert td.batch_size == (2,), mode
        assert rows(wrapper(td), "tokens", "response") == rows(wrapper(prompts(mode)), "tokens", "response")


def test_texts_are_turns_of_users(wrap: Make) -> None:
    td = wrap("history").input_of(
        ["Hi", [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]]
    )
    assert td["history", "prompt"].to_chats()[0] == [{"role": "user", "content": "Hi", "is_complete": True}]


def test_prompts_of_another_kind(wrap: Make) -> None:
    cases: list[tuple[str, Any]] = [("tokens", "Hi"), ("text", [1, 2]), ("text", [{"role": "user"}])]
    for mode, prompt in cases:
        raises(TypeError, f"prompt 0 does not fit input_mode='{mode}', got", wrap(mode).input_of, [prompt])


@pytest.mark.parametrize(("mode", "pad_output"), list(zip(MODES, (False, True, True), strict=True)))
def test_what_was_cut_off(mode: str, pad_output: bool, wrap: Make) -> None:
    """After "Hi" the model says "ab<eos>", after "Hello" it says "abcd" and would go on."""
    options: dict[str, Any] = {"chat_template": TEMPLATE} if mode == "history" else {}
    wrapper = wrap(mode, pad_output=pad_output, **options)
    assert wrapper.cut_off(wrapper(wrapper.input_of(given(mode)))).tolist() == [False, True]
    two = wrapper.get_new_version(
        num_samples=2, inplace=False, generate_kwargs={"max_new_tokens": 2, "top_k": 1}
    )
    assert two.cut_off(two(two.input_of(given(mode)))).tolist() == [[True, True], [True, True]]


def test_stop_sequences_end_a_response(wrap: Make) -> None:
    wrapper = wrap("text", generate_kwargs={"stop_sequences": ["bc"]})
    assert wrapper.cut_off(wrapper(wrapper.input_of(given("text")))).tolist() == [False, False]
    raises(KeyError, "there are no responses", wrapper.cut_off, wrapper.input_of(given("text")))


def test_seeds_of_rows(wrap: Make) -> None:
    wrapper = wrap("tokens", num_samples=3, generate_kwargs={"temperature": 5.0})
    seeds = row_seeds(0, [4, 5], 3)
    both = rows(wrapper(wrapper.input_of([HI, HELLO]), seeds=seeds).reshape(-1), "tokens", "response")
    assert both == rows(wrapper(wrapper.input_of([HI, HELLO]), seeds=seeds).reshape(-1), "tokens", "response")
    alone = rows(wrapper(wrapper.input_of([HELLO]), seeds=seeds[1:]).reshape(-1), "tokens", "response")
    assert alone == both[3:]
    for wrong in (seeds[0], seeds.astype(float), 3):
        with pytest.raises(ValueError, match=r"seeds must be integers of shape \(2, 3\), got"):
            wrapper(wrapper.input_of([HI, HELLO]), seeds=wrong)
    with pytest.raises(ValueError, match=r"row_options\[0\]: seeds must be the same"):
        wrapper(wrapper.input_of([HI]), row_options=[{"seeds": [1]}])


@pytest.mark.parametrize(("mode", "pad_output"), [("history", False), ("tokens", True)])
def test_a_collector_over_a_wrapper(mode: str, pad_output: bool) -> None:
    options = {"max_new_tokens": 5, "temperature": 1.0, "do_sample": True}

    def collect(size: int, samples: int | None, repeats: int | None) -> list[Any]:
        policy = OnnxWrapper(
            MODELS / "optimum-llama", input_mode=mode, generate_kwargs=options, num_samples=samples,
            pad_output=pad_output, num_threads=1,
        )  # fmt: skip
        texts = [{"prompt_ids": [20 + i, 30], "n": i} for i in range(4)]
        if mode != "tokens":
            texts = [{"prompt": f"text {i}", "n": i} for i in range(4)]
        collector = LLMCollector(
            texts, policy=policy, dialog_turns_per_batch=size, total_dialog_turns=12, repeats=repeats,
            reward=lambda td: td["next", "truncated"], seed=1,
        )  # fmt: skip
        batches = list(collector)
        assert policy.collector is collector
        for batch in batches:
            assert batch.batch_size[-1] == 3
            np.testing.assert_array_equal(batch["next", "reward"], batch["next", "truncated"])
            assert np.asarray(batch["n"]).shape == batch.batch_size
        return [rows(row, "tokens", "response") for batch in batches for row in batch.unbind(0)]

    whole = collect(12, 3, None)
    if not pad_output:
        assert collect(6, 3, None) == whole
        assert collect(3, None, 3) == whole


def test_from_prompts_to_a_step() -> None:
    """Generated, rewarded, compared in a buffer, scored: the loss of the model, and steps that lower it."""
    policy = OnnxWrapper(
        embedded_model_path(), input_mode="text", pad_output=True, num_threads=1,
        generate_kwargs={"max_new_tokens": 5, "temperature": 2.0},
    )  # fmt: skip
    buffer = TensorDictReplayBuffer(
        storage=LazyStackStorage(32),
        transform=MCAdvantage(4),
        sampler=SamplerWithoutReplacement(),
        batch_size=8,
    )
    collector = LLMCollector(
        ["Copy: sun", "What is 12 + 30?"], policy=policy, repeats=4, dialog_turns_per_batch=4, seed=0,
        total_dialog_turns=16, replay_buffer=buffer,
        reward=lambda td: [len(text) for text in td.reshape(-1)["text", "response"]],
    )  # fmt: skip
    assert list(collector) == [None] * 4
    assert len(buffer) == 16
    judge = policy.get_new_version(generate=False, input_mode="tokens")
    reference = RetrieveLogProb(judge, assistant_only=False, log_probs_full_key=("ref_log_probs", "full"))
    batch = reference(buffer.sample())
    said = batch.get(("masks", "all_assistant_mask"), as_padded_tensor=True, padding_side="left")
    wanted = -(batch["advantage"].reshape(-1, 1) * said).sum() / said.sum()
    assert abs(wanted) > 1e-3
    for entropy_bonus in (False, True):
        loss = GRPOLoss(judge, entropy_bonus=entropy_bonus, kl_to_ref_coeff=0.1)
        found = loss(batch)
        np.testing.assert_allclose(found.loss_objective, wanted, atol=1e-3)
        np.testing.assert_allclose([found.ESS, found.kl_to_ref], [1, 0], atol=1e-3)
    assert 0 < found.entropy < np.log(1024)

    learner = policy.trainable(input_mode="tokens")
    loss = GRPOLoss(learner, entropy_bonus=False)
    optimiser = SGD([p for p in learner.parameters() if p.requires_grad], lr=1e-4)
    values = []
    for _ in range(2):
        optimiser.zero_grad()
        with lite.enable_grad():
            out = loss(batch).loss_objective
        out.backward()
        optimiser.step()
        values.append(float(out))
    np.testing.assert_allclose(values[0], wanted, atol=1e-3)
    assert values[0] - values[1] > 1e-3
    learner.sync()  # and the model that generates is the one that learnt
    after = GRPOLoss(judge, entropy_bonus=False)(batch).loss_objective
    np.testing.assert_allclose(after, loss(batch).loss_objective, atol=1e-3)
    assert after < values[1]


def test_losses_of_conversations() -> None:
    """Supervised and preferred answers of the embedded model, as an `OnnxWrapper` scores them."""
    judge = OnnxWrapper(embedded_model_path(), generate=False, num_threads=1)
    reference = RetrieveLogProb(judge, log_probs_full_key=("ref_log_probs", "full"))

    def told(*answers: str) -> TensorDict:
        chats = [
            [{"role": "user", "content": "What is 12 + 30?"}, {"role": "assistant", "content": answer}]
            for answer in answers
        ]
        history = ChatHistory(full=History.from_chats(chats), batch_size=[len(chats)])
        return TensorDict({"history": history}, batch_size=[len(chats)])

    right, wrong = told("42", "42"), told("7", "I do not know that.")
    losses_of = [SFTLoss(judge, reduction="none")(td).loss_sft for td in (right, wrong)]
    assert (losses_of[0] < losses_of[1]).all()

    def without_masks(td: Any) -> Any:
        return judge(td).select("log_probs")

    same = SFTLoss(without_masks, judge.tokenizer, {"chat_template": judge.options.chat_template})
    # but for what ends a turn
    np.testing.assert_allclose(same(right).loss_sft, losses_of[0].mean(), atol=0.05)
    pairs = TensorDict(chosen=reference(right), rejected=reference(wrong), batch_size=[2])
    out = DPOLoss(judge, beta=1.0)(pairs)
    np.testing.assert_allclose([out.loss_dpo, out.rewards_margins], [np.log(2), 0], atol=1e-5)
    free = DPOLoss(judge, beta=1.0, reference_free=True)(pairs)
    assert (free.rewards_accuracies, free.logps_chosen > free.logps_rejected) == (1, True)
