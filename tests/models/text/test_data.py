from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import as_lists, nested

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, LogProbs, Masks, Text, Tokenizer, Tokens

Make = Callable[..., Tokenizer]
USER = [{"role": "user", "content": "Hi"}]
CHAT = [*USER, {"role": "assistant", "content": "Yo!"}]
LONG = [{"role": "system", "content": "S"}, *CHAT]


@pytest.mark.parametrize("cls", [Text, Tokens, Masks, LogProbs, ChatHistory])
def test_fields_are_optional(cls: Any) -> None:
    empty = cls()
    for name in cls._fields:
        assert getattr(empty, name) is None
    assert ("x", cls.__name__) not in TensorDict({"x": empty})
    assert list(empty.keys()) == []


def test_ragged_access() -> None:
    tokens = lazy_stack([Tokens(full=np.arange(n), padded=False) for n in (2, 4)])
    assert isinstance(tokens, Tokens)
    assert as_lists(tokens.get("full", as_list=True)) == [[0, 1], [0, 1, 2, 3]]
    padded = tokens.get("full", as_padded_tensor=True, padding_value=9, padding_side="left")
    np.testing.assert_array_equal(padded, [[9, 9, 0, 1], [0, 1, 2, 3]])
    with pytest.raises(RuntimeError, match="as_list"):
        tokens.full  # noqa: B018
    assert tokens.padded is False
    td = TensorDict({"tokens": tokens}, batch_size=[2])
    assert as_lists(td.get(("tokens", "full"), as_list=True)) == [[0, 1], [0, 1, 2, 3]]
    np.testing.assert_array_equal(td[1]["tokens", "full"], [0, 1, 2, 3])
    np.testing.assert_array_equal(td[1]["tokens"].get("full", as_list=True), [0, 1, 2, 3])
    assert ("tokens", "prompt") not in td
    assert td.get("tokens").prompt is None


def test_text_rows() -> None:
    text = Text(prompt=[["a", "b"], ["c", "d"]], batch_size=[2, 2])
    assert text.prompt == [["a", "b"], ["c", "d"]]
    assert text[1, 0].prompt == "c"
    assert text.response is None


def test_chat_history_adds_the_turn_dimension() -> None:
    full = History.from_chats([CHAT, CHAT])
    with pytest.warns(UserWarning, match="prompt has no dimension for turns"):
        chat = ChatHistory(prompt=full[:, 0], batch_size=[2])
    assert chat.prompt.batch_size == (2, 1)
    assert ChatHistory(full=full, batch_size=[2]).full.batch_size == (2, 2)


@pytest.mark.parametrize("padding", [False, True])
def test_text_to_tokens(byte_tokenizer: Make, padding: bool) -> None:
    text = Text(prompt=["Hi", "Hello"], response=["a", ""], batch_size=[2])
    if padding:
        with pytest.raises(ValueError, match="Padding is not yet supported"):
            text.to_tokens(byte_tokenizer(), padding=True)
        return
    tokens = text.to_tokens(byte_tokenizer())
    assert as_lists(tokens.get("prompt", as_list=True)) == [[39, 72], [39, 68, 75, 75, 78]]
    assert as_lists(tokens.get("response", as_list=True)) == [[64], []]
    assert tokens.padded is False
    assert tokens.full is None
    assert tokens.to_text(byte_tokenizer()).prompt == ["Hi", "Hello"]


@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_bijection(byte_tokenizer: Make, shape: tuple[int, ...]) -> None:
    tokenizer = byte_tokenizer(name_or_path="x")
    chat = ChatHistory(
        prompt=History.from_chats(nested(USER, shape)),
        full=History.from_chats(nested(CHAT, shape)),
        batch_size=shape,
    )
    text = chat.to_text(tokenizer)
    tokens = chat.to_tokens(tokenizer)
    assert (text.batch_size, tokens.batch_size) == (shape, shape)
    assert tokens.to_text(tokenizer).to_dict() == text.to_dict()
    one = text[(0,) * len(shape)] if shape else text
    assert one.prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert one.response == "Yo!<|im_end|>\n"
    assert one.prompt + one.response == one.full
    back = Text(full=text.full, batch_size=shape).to_history(tokenizer)
    assert back.full.to_chats() == chat.full.to_chats()
    assert (
        Tokens(full=tokens.full, batch_size=shape).to_history(tokenizer).full.to_chats()
        == chat.full.to_chats()
    )


def test_ragged_conversations(byte_tokenizer: Make) -> None:
    chat = ChatHistory(full=History.from_chats([CHAT, LONG]), batch_size=[2])
    tokens = chat.to_tokens(byte_tokenizer())
    assert (
        byte_tokenizer().batch_decode(tokens.get("full", as_list=True)) == chat.to_text(byte_tokenizer()).full
    )
    assert tokens.to_history(byte_tokenizer()).full.to_chats() == chat.full.to_chats()
    assert ChatHistory(response=History.from_chats([CHAT[1:]]), batch_size=[1]).to_text(
        byte_tokenizer()
    ).response == ["<|im_start|>assistant\nYo!<|im_end|>\n"]


def test_conversion_errors(byte_tokenizer: Make) -> None:
    padded = Tokens(full=np.zeros((2, 3), np.int64), padded=True, batch_size=[2])
    for tokens in (padded, lazy_stack([padded[0], padded[1]])):
        with pytest.raises(ValueError, match="padded tokens"):
            tokens.to_text(byte_tokenizer())
    other = ChatHistory(prompt=History.from_chats(LONG), full=History.from_chats(CHAT))
    for convert in (other.to_text, other.to_tokens):
        with pytest.raises(ValueError, match="Full text does not start with prompt text"):
            convert(byte_tokenizer())
