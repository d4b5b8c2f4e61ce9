"""`OnnxWrapper` on real exports of every supported convention."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import EXPECTED, MODELS, open_model

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, OnnxDecoder, OnnxWrapper, Text, Tokenizer, Tokens

pytest.importorskip("onnxruntime", reason="needs the llm extra")
FOLDERS = sorted(EXPECTED)
MODES = ["history", "text", "tokens"]
TEXTS = ["Hi", "Hello there, how are you?", "12 + 30 ="]


@functools.cache
def parts(folder: str) -> tuple[OnnxDecoder, Tokenizer]:
    return open_model(folder), Tokenizer.from_pretrained(MODELS / folder)


def wrap(folder: str, mode: str, **options: Any) -> OnnxWrapper:
    model, tokenizer = parts(folder)
    if options.get("generate", True):
        options["generate_kwargs"] = {
            "max_new_tokens": 6,
            "do_sample": False,
            **options.get("generate_kwargs", {}),
        }
    return OnnxWrapper(model, tokenizer=tokenizer, input_mode=mode, inplace=False, **options)


def prompts(folder: str, mode: str, texts: list[str]) -> TensorDict:
    size = [len(texts)]
    if mode == "text":
        return TensorDict({"text": Text(prompt=texts, batch_size=size)}, batch_size=size)
    if mode == "tokens":
        ids = parts(folder)[1](texts)["input_ids"]
        return TensorDict(
            {"tokens": lazy_stack([Tokens(prompt=np.array(row)) for row in ids])}, batch_size=size
        )
    history = History.from_chats([[{"role": "user", "content": text}] for text in texts])
    return TensorDict({"history": ChatHistory(prompt=history, batch_size=size)}, batch_size=size)


def rows(td: Any, *key: str) -> list[np.ndarray]:
    return [np.asarray(row) for row in td.get(key, as_list=True)]


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("padded", [True, False])
def test_greedy_tokens_and_log_probs_are_those_expected(name: str, padded: bool) -> None:
    cases = EXPECTED[name]["greedy"]
    atol = EXPECTED[name]["atol_log_prob"]
    longest = max(len(case["tokens"]) for case in cases)
    wrapper = wrap(
        name.split("/")[0],
        "tokens",
        pad_output=padded,
        generate_kwargs={"max_new_tokens": longest, "eos_token_id": []},
    )
    ids = [Tokens(prompt=np.array(case["prompt"])) for case in cases]
    out = wrapper(TensorDict({"tokens": lazy_stack(ids)}, batch_size=[len(ids)]))
    got = zip(cases, rows(out, "tokens", "response"), rows(out, "log_probs", "response"), strict=True)
    for case, tokens, log_probs in got:
        n = len(case["tokens"])
        np.testing.assert_array_equal(tokens[:n], case["tokens"])
        np.testing.assert_allclose(log_probs[:n], case["log_probs"], atol=atol)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
def test_scores_equal_the_log_probs_of_generation(folder: str, mode: str, padded: bool) -> None:
    options = {"temperature": 0.9, "do_sample": True, "top_k": 50, "seed": 1}
    out = wrap(folder, mode, pad_output=padded, generate_kwargs=options)(prompts(folder, mode, TEXTS))
    scored = wrap(folder, "tokens", generate=False, pad_output=padded)(out)
    said = rows(scored, "masks", "all_assistant_mask")
    found = zip(rows(scored, "log_probs", "full"), said, rows(out, "log_probs", "response"), strict=True)
    for full, mask, log_probs in found:
        length = int(mask.sum())
        assert length > 0
        np.testing.assert_allclose(full[mask], log_probs[:length], atol=1e-4)
        assert (log_probs[:length] < 0).all()
        np.testing.assert_array_equal(log_probs[length:], 0)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("mode", MODES)
def test_batched_equals_alone(folder: str, mode: str) -> None:
    td = prompts(folder, mode, TEXTS)
    generate, padded = wrap(folder, mode), wrap(folder, mode, pad_output=True)
    together, dense = generate(td), padded(td)
    for i in range(len(TEXTS)):
        alone = generate(td[i])
        np.testing.assert_array_equal(alone["tokens", "full"], rows(together, "tokens", "full")[i])
        mask = dense["masks", "all_attention_mask"][i]
        np.testing.assert_array_equal(alone["tokens", "full"], dense["tokens", "full"][i][mask])
        np.testing.assert_allclose(
            alone["log_probs", "response"], rows(together, "log_probs", "response")[i], atol=1e-4
        )


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("mode", MODES)
def test_scoring_does_not_depend_on_the_batch(folder: str, mode: str) -> None:
    out = wrap(folder, mode)(prompts(folder, mode, TEXTS))
    ragged = wrap(folder, mode, generate=False)(out)
    dense = wrap(folder, mode, generate=False, pad_output=True)(out)
    for i in range(len(TEXTS)):
        alone = wrap(folder, mode, generate=False)(out[i])["log_probs", "full"]
        np.testing.assert_allclose(alone, rows(ragged, "log_probs", "full")[i], atol=1e-4)
        mask = dense["masks", "all_attention_mask"][i]
        np.testing.assert_allclose(alone, dense["log_probs", "full"][i][mask], atol=1e-4)
        assert not dense["log_probs", "full"][i][~mask].any()
        assert alone[0] == 0
        assert (alone[1:] < 0).all()


@pytest.mark.parametrize("folder", FOLDERS)
def test_samples_share_their_prompt(folder: str) -> None:
    wrapper = wrap(
        folder, "history", num_samples=3, seed=0, generate_kwargs={"temperature": 1.5, "do_sample": True}
    )
    out = wrapper(prompts(folder, "history", TEXTS[:2]))
    assert out.batch_size == (2, 3)
    assert out["history"].full.batch_size == (2, 3, 2)
    texts = out["text", "response"]
    assert len({*texts[0], *texts[1]}) > 3
    for i in range(2):
        assert {turn.content for turn in out["history"].prompt[i].reshape(-1)} == {TEXTS[i]}


def test_too_long_prompts_change_nothing() -> None:
    td = TensorDict({"tokens": Tokens(prompt=np.ones((1, 300), np.int64), batch_size=[1])}, batch_size=[1])
    with pytest.raises(ValueError, match="context"):
        OnnxWrapper(MODELS / "optimum-llama", input_mode="tokens")(td)
    assert set(td["tokens"].keys()) == {"prompt"}
