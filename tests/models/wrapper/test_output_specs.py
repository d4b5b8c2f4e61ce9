"""What a wrapper writes is in the specs of its classes."""

from __future__ import annotations

import pytest
from helpers.models.prompts import HELLO, HI, MODES, Make, chat_td, prompts, text_td, token_td

from lite.data import Composite
from lite.models import ChatHistory, LogProbs, Masks, Text, Tokens

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("samples", [None, 3])
def test_responses_are_in_the_specs(wrap: Make, mode: str, padded: bool, samples: int | None) -> None:
    out = wrap(mode, return_log_probs=True, pad_output=padded, num_samples=samples)(prompts(mode))
    shape = (2,) if samples is None else (2, 3)
    spec = Composite(
        tokens=Tokens.default_spec(shape),
        masks=Masks.default_spec(shape),
        log_probs=LogProbs.default_spec(shape, keys=["response"]),
    )
    if mode != "tokens":
        spec["text"] = Text.default_spec(shape)
    if mode == "history":
        spec["history"] = ChatHistory.default_spec(shape)
    for name in spec:
        assert spec[name].is_in(out[name]), name
    assert spec.is_in(out)
    assert not spec.is_in(out[:1])
    assert not spec.is_in(out.exclude("tokens"))
    for wrong in [(7, *shape[1:]), (*shape[:-1], 7)]:
        assert not Tokens.default_spec(wrong).is_in(out["tokens"])
    assert Tokens.default_spec(()).is_in(out[(0,) * len(shape)]["tokens"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
def test_scores_are_in_the_specs(wrap: Make, mode: str, padded: bool) -> None:
    if mode == "history":
        chats = chat_td("Hi", "Hello")
        history = ChatHistory(full=chats["history"].prompt, batch_size=[2])
        td = chats.set("history", history)
    else:
        td = text_td("Hi", "Hello", field="full") if mode == "text" else token_td(HI, HELLO, field="full")
    out = wrap(mode, generate=False, return_log_probs=True, pad_output=padded)(td)
    assert Tokens.default_spec((2,), keys=["full"]).is_in(out["tokens"])
    assert Masks.default_spec((2,), keys=["all_attention_mask"]).is_in(out["masks"])
    assert LogProbs.default_spec((2,), keys=["full"]).is_in(out["log_probs"])
    assert not LogProbs.default_spec((2,)).is_in(out["log_probs"])  # a response is not known
