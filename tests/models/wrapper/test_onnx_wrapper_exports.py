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
MODES = ["history", "text", "tokens"]
# Every export, in one mode after the other, padded or not.
CASES = [(folder, MODES[i % 3], i % 2 == 0) for i, folder in enumerate(sorted(EXPECTED))]
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


@pytest.mark.parametrize(("folder", "mode", "padded"), CASES)
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


def test_too_long_prompts_change_nothing() -> None:
    td = TensorDict({"tokens": Tokens(prompt=np.ones((1, 300), np.int64), batch_size=[1])}, batch_size=[1])
    with pytest.raises(ValueError, match="context"):
        OnnxWrapper(MODELS / "optimum-llama", input_mode="tokens")(td)
    assert set(td["tokens"].keys()) == {"prompt"}
